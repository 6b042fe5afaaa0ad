//! What goes into TLS and comes out of it, as the functions of a TLS library in a client's process are given it and give it.

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_ANY,
    helpers::bpf_get_attach_cookie,
    macros::map,
    maps::LruHashMap,
    programs::{ProbeContext, RetProbeContext},
};
use mcpwarden_abi::{
    CLIENT_TO_SERVER, ConnectionId, Counter, SERVER_TO_CLIENT, TLS_FREE, TLS_HANDSHAKE, TLS_NO_ARGUMENT,
    TLS_RAX, TLS_READ, TLS_UNBOUND, TLS_WRITE, TlsCall, TlsCookie, TlsLast,
};

use crate::{
    capture, gate,
    kernel::at_most,
    source::{Coming, Source, read},
    tables,
    tls::{self, Caller, LAST, socket_over_tls},
};

/// Calls under way.
#[map(name = "TLS_CALLS")]
static CALLS: LruHashMap<Caller, TlsCall> = LruHashMap::with_max_entries(16_384, 0);

/// Most bytes that one call moves: more than a buffer of a client has.
const MOST: u64 = 1 << 30;

/// A function of a library is called.
#[inline(always)]
pub fn called(ctx: &ProbeContext) {
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let arguments = Arguments::of(ctx);
    let caller = arguments.caller(cookie);
    let address = arguments.at(cookie.connection);
    if address <= TLS_UNBOUND {
        return;
    }
    if cookie.role == TLS_FREE {
        tls::freed(&tls::connection(address));
        return;
    }
    let length = arguments.at(cookie.length);
    let mut last = TlsLast {
        connection: address,
        bytes: if cookie.role == TLS_WRITE { length & u32::MAX as u64 } else { 0 },
        pending: 0,
        buffer: 0,
        started: tls::started(),
        role: cookie.role,
        is_under_way: (cookie.role != TLS_HANDSHAKE) as u8,
        shows_handshakes: cookie.shows_handshakes as u8,
        zero: 0,
    };
    if let Some(before) = LAST.get_ptr(caller) {
        // SAFETY: a live map value.
        let before = unsafe { *before };
        if before.pending != 0 && before.connection == address && cookie.role != TLS_WRITE {
            last = before;
        } else {
            tables::count(Counter::TlsUnbound, before.pending);
        }
    }
    let _ = LAST.insert(caller, last, BPF_ANY as u64);
    if cookie.role == TLS_HANDSHAKE {
        return;
    }
    let call = TlsCall {
        connection: address,
        buffer: arguments.at(cookie.buffer),
        length,
        done: if cookie.done == TLS_NO_ARGUMENT { 0 } else { arguments.at(cookie.done) },
    };
    let _ = CALLS.insert(caller, call, BPF_ANY as u64);
}

/// A function of a library is called that takes plaintext: the gate judges that.
#[inline(always)]
pub fn judged(ctx: &ProbeContext) {
    let mut text = Text { key: 0, address: 0, length: 0 };
    text_of(ctx, &mut text);
    if text.length == 0 {
        return;
    }
    let bytes = Coming::at(Source::buffer(text.address), text.length);
    if gate::evaluate_plaintext(text.key, bytes) != 0
        && let Some(socket) = socket_over_tls(text.key)
    {
        tls::refuse(socket);
    }
}

/// Plaintext that is about to be written.
struct Text {
    key: ConnectionId,
    address: u64,
    /// 0: it is not known which connection it is for, or nothing is written to that any more.
    length: u64,
}

/// What a function is called with. (A call of its own: what it has on the stack is not there while the gate reads.)
#[inline(never)]
fn text_of(ctx: &ProbeContext, text: &mut Text) {
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let arguments = Arguments::of(ctx);
    let connection = tls::connection(arguments.at(cookie.connection));
    let Some(key) = tls::socket_of(&connection) else { return };
    if socket_over_tls(key).is_none_or(tls::is_refused) {
        return;
    }
    text.key = key;
    text.address = arguments.at(cookie.buffer);
    // Where it is an `int`, the upper half of its register has anything.
    text.length = arguments.at(cookie.length) & u32::MAX as u64;
}

/// It has returned.
#[inline(always)]
pub fn returned(ctx: &RetProbeContext) {
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    over(tls::thread(), ctx.ret(), cookie);
}

/// It is about to return.
#[inline(always)]
pub fn returns(ctx: &ProbeContext) {
    // SAFETY: a helper on the hook's own context.
    let cookie = TlsCookie::of(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let arguments = Arguments::of(ctx);
    over(arguments.caller(cookie), arguments.at(TLS_RAX), cookie);
}

/// The call of a function that reads or writes is over, with this result.
#[inline(always)]
fn over(caller: Caller, result: u64, cookie: TlsCookie) {
    let Some(call) = CALLS.get_ptr(caller) else {
        tables::count(Counter::TlsUntold, 1);
        return;
    };
    // SAFETY: a live map value.
    let TlsCall { connection: address, buffer, length, done } = unsafe { *call };
    let _ = CALLS.remove(caller);
    let bytes = moved(result, done, length);
    let connection = tls::connection(address);
    let socket = tls::socket_of(&connection);
    if let Some(last) = LAST.get_ptr_mut(caller)
        // SAFETY: a live map value, of this caller alone.
        && unsafe { (*last).connection } == address
    {
        // SAFETY: as above.
        unsafe {
            (*last).is_under_way = 0;
            // Go writes to the socket within the call.
            if socket.is_none() && cookie.role == TLS_WRITE && bytes != 0 && !cookie.is_go {
                ((*last).pending, (*last).buffer) = (bytes, buffer);
            }
        }
    }
    let Some(key) = socket else {
        if bytes != 0 {
            tls::is_anothers(&connection);
            if cookie.role == TLS_READ {
                tables::count(Counter::TlsUnbound, bytes);
            }
        }
        return;
    };
    let Some(socket) = socket_over_tls(key) else { return };
    // What a library takes of a connection that was refused goes nowhere.
    if cookie.role == TLS_WRITE && tls::is_refused(socket) {
        return;
    }
    if bytes != 0 {
        let direction = if cookie.role == TLS_WRITE { CLIENT_TO_SERVER } else { SERVER_TO_CLIENT };
        let place = at_most(direction.into(), 1) as usize;
        // SAFETY: as above.
        tables::advance(unsafe { &raw mut (*socket).encrypted.calls[place] }, 1);
        capture::plaintext(key, direction, bytes, connection.tgid, buffer);
    }
    if cookie.role == TLS_WRITE {
        let left = (length & u32::MAX as u64).saturating_sub(bytes);
        gate::plaintext_taken(key, bytes, left, buffer);
    }
}

/// How many bytes a function has moved, of which the result is this: an `int` or an `ssize_t`, or 1 where the number is at `done`. What is 0 or
/// less is no success.
#[inline(always)]
fn moved(result: u64, done: u64, length: u64) -> u64 {
    let bytes = if done == 0 {
        let is_success = (result as i64) > 0 && (result as i32) > 0;
        if is_success { result & u32::MAX as u64 } else { 0 }
    } else if result as i32 == 1 {
        read::<u64>(done).unwrap_or(0)
    } else {
        0
    };
    if bytes > length || bytes > MOST {
        tables::count(Counter::TlsUntold, 1);
        return 0;
    }
    bytes
}

/// What is in the registers of arguments: [`TlsCookie`] has them in this order.
struct Arguments {
    all: [u64; 8],
    /// r14: Go keeps the address of its goroutine there.
    goroutine: u64,
}

impl Arguments {
    /// All of them are read, each by itself: the verifier lets no number be added to the context.
    #[inline(always)]
    fn of(ctx: &ProbeContext) -> Self {
        let regs = ctx.regs;
        // SAFETY: the context of a uprobe is its registers.
        unsafe {
            Self {
                all: [
                    (&raw const (*regs).rdi).read_volatile(),
                    (&raw const (*regs).rsi).read_volatile(),
                    (&raw const (*regs).rdx).read_volatile(),
                    (&raw const (*regs).rcx).read_volatile(),
                    (&raw const (*regs).r8).read_volatile(),
                    (&raw const (*regs).r9).read_volatile(),
                    (&raw const (*regs).rax).read_volatile(),
                    (&raw const (*regs).rbx).read_volatile(),
                ],
                goroutine: (&raw const (*regs).r14).read_volatile(),
            }
        }
    }

    /// One of them; 0 where there is no such register.
    #[inline(always)]
    fn at(&self, register: u8) -> u64 {
        self.all.get(register as usize).copied().unwrap_or(0)
    }

    /// Who calls.
    #[inline(always)]
    fn caller(&self, cookie: TlsCookie) -> Caller {
        if cookie.is_go { tls::goroutine(self.goroutine) } else { tls::thread() }
    }
}
