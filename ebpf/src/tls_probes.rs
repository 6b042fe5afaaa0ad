//! What goes into TLS and comes out of it, as the functions of a TLS library in a client's process are given it and give it.

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_ANY,
    helpers::{bpf_get_attach_cookie, bpf_get_current_pid_tgid},
    macros::map,
    maps::LruHashMap,
    programs::{ProbeContext, RetProbeContext},
};
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Counter, SERVER_TO_CLIENT, TLS_FREE, TLS_HANDSHAKE, TLS_NO_ARGUMENT, TLS_READ,
    TLS_UNBOUND, TLS_WRITE, TlsCall, TlsConnection, TlsCookie, TlsLast,
};

use crate::{
    capture, gate,
    kernel::at_most,
    source::{Coming, Source, read},
    tables,
    tls::{self, BOUND, LAST, socket_over_tls},
};

/// Calls under way, by thread.
#[map(name = "TLS_CALLS")]
static CALLS: LruHashMap<u64, TlsCall> = LruHashMap::with_max_entries(8_192, 0);

/// Most bytes that one call writes or reads: more than a buffer of a client has.
const MOST: u64 = 1 << 30;

/// A function of a library is called.
#[inline(always)]
pub fn called(ctx: &ProbeContext) {
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let thread = bpf_get_current_pid_tgid();
    let arguments = Arguments::of(ctx);
    let address = arguments.at(cookie.connection);
    if address <= TLS_UNBOUND {
        return;
    }
    if cookie.role == TLS_FREE {
        let _ = BOUND.remove(TlsConnection { address, tgid: (thread >> 32) as u32, zero: 0 });
        return;
    }
    let length = arguments.at(cookie.length);
    let bytes = if cookie.role == TLS_WRITE { length } else { 0 };
    let mut last = TlsLast { connection: address, bytes, pending: 0, buffer: 0 };
    if let Some(before) = LAST.get_ptr(thread) {
        // SAFETY: a live map value.
        let before = unsafe { *before };
        if before.pending != 0 && before.connection == address && cookie.role != TLS_WRITE {
            last = before;
        } else {
            tables::count(Counter::TlsUnbound, before.pending);
        }
    }
    let _ = LAST.insert(thread, last, BPF_ANY as u64);
    if cookie.role == TLS_HANDSHAKE {
        return;
    }
    let call = TlsCall {
        connection: address,
        buffer: arguments.at(cookie.buffer),
        length,
        done: if cookie.done == TLS_NO_ARGUMENT { 0 } else { arguments.at(cookie.done) },
    };
    let _ = CALLS.insert(thread, call, BPF_ANY as u64);
}

/// A function of a library is called that takes plaintext: the gate judges that.
#[inline(always)]
pub fn judged(ctx: &ProbeContext) {
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let arguments = Arguments::of(ctx);
    let (address, tgid) = (arguments.at(cookie.connection), (bpf_get_current_pid_tgid() >> 32) as u32);
    let Some(key) = BOUND.get_ptr(TlsConnection { address, tgid, zero: 0 }) else { return };
    // SAFETY: a live map value.
    let key = unsafe { *key };
    let Some(socket) = socket_over_tls(key) else { return };
    // Where it is an `int`, the upper half of its register has anything.
    let length = arguments.at(cookie.length) & u32::MAX as u64;
    let bytes = Coming::at(Source::buffer(arguments.at(cookie.buffer)), length);
    if length != 0 && gate::evaluate_plaintext(key, bytes) != 0 {
        tls::refuse(socket);
    }
}

/// It returns.
#[inline(always)]
pub fn returned(ctx: &RetProbeContext) {
    let thread = bpf_get_current_pid_tgid();
    let Some(call) = CALLS.get_ptr(thread) else { return };
    // SAFETY: a live map value.
    let TlsCall { connection, buffer, length, done } = unsafe { *call };
    let _ = CALLS.remove(thread);
    let result: u64 = ctx.ret();
    // An `int` or an `ssize_t`; what is 0 or less is no success.
    let bytes = if done == 0 {
        let result = result as i64;
        if result as i32 <= 0 || result < 0 { 0 } else { (result as u64) & 0xffff_ffff }
    } else if result as i32 == 1 {
        read::<u64>(done).unwrap_or(0)
    } else {
        0
    };
    if bytes == 0 || bytes > length || bytes > MOST {
        return;
    }
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let direction = match cookie.role {
        TLS_WRITE => CLIENT_TO_SERVER,
        TLS_READ => SERVER_TO_CLIENT,
        _ => return,
    };
    let tgid = (thread >> 32) as u32;
    let Some(key) = BOUND.get_ptr(TlsConnection { address: connection, tgid, zero: 0 }) else {
        if cookie.role == TLS_WRITE
            && let Some(last) = LAST.get_ptr_mut(thread)
        {
            // SAFETY: a live map value, of this thread alone.
            unsafe { ((*last).pending, (*last).buffer) = (bytes, buffer) };
        } else {
            tables::count(Counter::TlsUnbound, bytes);
        }
        return;
    };
    // SAFETY: as above.
    let key = unsafe { *key };
    if let Some(socket) = socket_over_tls(key) {
        let place = at_most(direction.into(), 1) as usize;
        // SAFETY: as above.
        tables::advance(unsafe { &raw mut (*socket).encrypted.calls[place] }, 1);
    }
    capture::plaintext(key, direction, bytes, tgid, buffer);
    if cookie.role == TLS_WRITE {
        let left = (length & u32::MAX as u64).saturating_sub(bytes);
        gate::plaintext_taken(key, bytes, left, buffer);
    }
}

/// What is in the six registers of arguments.
struct Arguments([u64; 6]);

impl Arguments {
    /// All of them are read, each by itself: the verifier lets no number be added to the context.
    #[inline(always)]
    fn of(ctx: &ProbeContext) -> Self {
        let regs = ctx.regs;
        // SAFETY: the context of a uprobe is its registers.
        unsafe {
            Self([
                (&raw const (*regs).rdi).read_volatile(),
                (&raw const (*regs).rsi).read_volatile(),
                (&raw const (*regs).rdx).read_volatile(),
                (&raw const (*regs).rcx).read_volatile(),
                (&raw const (*regs).r8).read_volatile(),
                (&raw const (*regs).r9).read_volatile(),
            ])
        }
    }

    /// One of them; 0 where there is no such register.
    #[inline(always)]
    fn at(&self, register: u8) -> u64 {
        self.0.get(register as usize).copied().unwrap_or(0)
    }
}
