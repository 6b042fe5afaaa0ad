//! The gate: what a client is about to write to a server is read before the server can, and what the policy denies does
//! not get there.
//!
//! A write is judged where the kernel asks whether it may be ([`evaluate`]), and counts as written once it was
//! ([`returned`]): it may be refused by others, or go only in part. In between its channel has an owner: what was read of a
//! channel is one state ([`Scan`]), and two writes at once would make two of it.

mod history;
mod memory;
mod owner;
mod reading;
mod rewrite;
mod settle;
mod state;

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, generated::bpf_loop};
use core::ffi::c_void;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ConnectionId, Counter, GATE_BECAUSE_CHANGED, GATE_BECAUSE_FORGOTTEN,
    GATE_BECAUSE_LOST, GATE_BECAUSE_RACE, GATE_BECAUSE_UNKNOWN, GATE_HTTP, GATE_LINES, GATE_NEUTRALIZED,
    GATE_NOBODY, GATE_NOT_NEUTRALIZABLE, GATE_OFF, GATE_PASSED, GATE_REFUSED, GATE_UNSEEN, GATE_WINDOW_MOST,
    GateInfo, GateSettings, Positions, RECORD_GATE, RecordHeader, SOCKET,
};
use mcpwarden_gate::{HttpRequests, View};
use memory::{NOT_OVERWRITTEN, may_overwrite, overwrite};
use owner::thread;
use reading::ends_a_line;
pub use settle::{plaintext_taken, returned};
pub use state::is_server;
use state::{
    GATED, Gated, HEADS, NEXT, OVERWRITES, Overwrite, SETTINGS, Walk, Why, begin_after, gated, member,
    subject_of,
};

use crate::{
    kernel, log,
    ring::{self, RING, header},
    source::{Coming, read},
    tables, tls,
};

/// `linux/errno.h`
const EPERM: i32 = 1;

/// A channel is about to be written to: the number that the kernel is to answer, 0 for "it may be".
#[inline(always)]
pub fn evaluate(channel: *const Channel, bytes: Coming) -> i32 {
    // SAFETY: a live map value.
    let id = unsafe { (*channel).write_capture };
    if id == 0 {
        return 0;
    }
    // Whatever has become of the gate since: what was refused is with the library still.
    if id & SOCKET != 0
        && let Some(socket) = tls::socket_over_tls(id)
        && tls::is_refused(socket)
    {
        return -EPERM;
    }
    judge(id, bytes, false)
}

/// Plaintext is about to be given to a TLS library, for a connection: the same. What is refused goes to the library nonetheless; nothing that comes of
/// it is let out of the socket ([`tls::refuse`]).
#[inline(always)]
pub fn evaluate_plaintext(id: ConnectionId, bytes: Coming) -> i32 {
    judge(id, bytes, true)
}

#[inline(always)]
fn judge(id: ConnectionId, bytes: Coming, is_plaintext: bool) -> i32 {
    let Some(settings) = SETTINGS.get_ptr(0) else { return 0 };
    // SAFETY: a live map value.
    let mut settings = unsafe { core::ptr::read_volatile(settings) };
    if settings.mode == GATE_OFF {
        return 0;
    }
    let half = settings.half & 1;
    let Some(number) = tables::number(id) else { return 0 };
    let Some(member) = member(id, number) else { return 0 };
    let (Some(head), Some(next)) = (HEADS.get_ptr(half), NEXT.get_ptr(half)) else { return 0 };
    // A table's number before what a member is in it: user space writes them in the other order, and where it has begun with another
    // table meanwhile, the number shows it below.
    // SAFETY: a live map value.
    let generation = unsafe { core::ptr::read_volatile(&raw const (*head).generation) };
    let now = tables::now();
    let (subject, is_blocked) = subject_of(member, half, now);
    if subject == GATE_NOBODY {
        return 0;
    }
    let is_encrypted = !is_plaintext && id & SOCKET != 0 && tls::socket_over_tls(id).is_some();
    if is_blocked {
        // Whatever it asks for.
        settings.refuse_undecided = 1;
    } else if is_encrypted {
        // What is written says nothing.
        return 0;
    }
    let Some(entry) = tables::positions(id) else { return 0 };
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let Some(gated) = gated(number) else { return no_room(entry, &settings, tgid) };
    let write = Write { entry, gated, settings, tgid };
    // SAFETY: a live map value.
    let view = View { head: unsafe { &*head }, next: unsafe { &*next } };
    if is_encrypted {
        return unreadable(entry, tgid);
    }
    if !write.claim(now) {
        if is_plaintext && settings.refuse_undecided == 0 {
            // A library that was not ready may be called again by another thread.
            return passed_unread(entry, bytes.length);
        }
        return write.refuse(Why::new(0, GATE_BECAUSE_RACE), &bytes);
    }
    if !bytes.is_known {
        return write.undecided(GATE_BECAUSE_UNKNOWN, &bytes);
    }
    // SAFETY: live map values, the first of which this write has claimed.
    let is_lost = unsafe {
        core::ptr::copy_nonoverlapping(member, &raw mut (*gated).member, 1);
        (*gated).lost != 0
    };
    if is_lost && !write.begins_request(&bytes) {
        return write.undecided(GATE_BECAUSE_LOST, &bytes);
    }
    if generation == 0 {
        return write.undecided(GATE_BECAUSE_CHANGED, &bytes);
    }
    // SAFETY: a live map value.
    let member = unsafe { &raw const (*gated).member };
    let walk = Walk { gated, head, next, subject: view.subject(subject), member, now };
    write.read(&walk, &view, bytes);
    // SAFETY: live map values.
    let (complete, because, overwrites, refuse, undecided, position) = unsafe {
        let reading = &raw const (*gated).reading;
        (
            (*reading).complete,
            (*reading).because,
            (*reading).overwrites,
            (*reading).refuse,
            (*reading).undecided,
            (*reading).position,
        )
    };
    // SAFETY: a live map value, in which user space may write a new table at any time.
    if unsafe { core::ptr::read_volatile(&raw const (*head).generation) } != generation {
        return write.undecided(GATE_BECAUSE_CHANGED, &bytes);
    }
    if refuse.is_given != 0 {
        return write.refuse(refuse, &bytes);
    }
    if overwrites != 0 {
        // SAFETY: the callback's signature is the one bpf_loop wants, and `write` outlives the call.
        let refuse = unsafe {
            bpf_loop(overwrites, neutralize as *mut c_void, (&raw const write).cast_mut().cast(), 0);
            (*gated).reading.refuse
        };
        if refuse.is_given != 0 {
            return write.refuse(refuse, &bytes);
        }
    }
    if complete == 0 {
        return write.undecided(because as u8, &bytes);
    }
    // SAFETY: a live map value.
    unsafe {
        (*gated).length = position as u64;
        (*gated).lost_after = 0;
        (*gated).is_read = 1;
    }
    if undecided.is_given != 0 {
        write.report(0, write.info(GATE_PASSED, undecided));
    }
    0
}

/// So many bytes of plaintext pass, and nobody reads them: another write is under way.
#[inline(never)]
fn passed_unread(entry: *mut Positions, bytes: u64) -> i32 {
    // SAFETY: a live map value.
    let (number, offset, uid) =
        unsafe { ((*entry).number, (*entry).streams[CLIENT_TO_SERVER as usize].offset, (*entry).uid) };
    let by = bpf_get_current_pid_tgid() & !(u32::MAX as u64) | uid as u64;
    unseen(number, offset, bytes, by, GATE_BECAUSE_RACE.into());
    0
}

/// What is encrypted is written to a server that is blocked.
#[inline(never)]
fn unreadable(entry: *mut Positions, tgid: u32) -> i32 {
    // SAFETY: a live map value.
    let (number, offset, uid) =
        unsafe { ((*entry).number, (*entry).streams[CLIENT_TO_SERVER as usize].offset, (*entry).uid) };
    report(number, offset, (tgid, uid), unread(0, GATE_REFUSED, GATE_BECAUSE_UNKNOWN));
    -EPERM
}

/// There is no room for what is known of a channel.
#[inline(never)]
fn no_room(entry: *mut Positions, settings: &GateSettings, tgid: u32) -> i32 {
    let refuses = settings.refuse_undecided != 0;
    let (action, because) = (if refuses { GATE_REFUSED } else { GATE_PASSED }, GATE_BECAUSE_FORGOTTEN);
    // SAFETY: a live map value.
    let (number, offset, uid) =
        unsafe { ((*entry).number, (*entry).streams[CLIENT_TO_SERVER as usize].offset, (*entry).uid) };
    report(number, offset, (tgid, uid), unread(0, action, because));
    if refuses { -EPERM } else { 0 }
}

/// A write that is judged.
#[derive(Clone, Copy)]
struct Write {
    entry: *mut Positions,
    gated: *mut Gated,
    settings: GateSettings,
    tgid: u32,
}

impl Write {
    /// Reads the bytes that are about to be written.
    #[inline(always)]
    fn read(&self, walk: &Walk, view: &View<'_>, bytes: Coming) {
        // SAFETY: a live map value, which this write has claimed.
        unsafe {
            begin_after(self.gated);
            (*self.gated).after.begin(view, &*walk.subject);
            let is_http = (*self.gated).member.framing == GATE_HTTP;
            let reading = &mut (*self.gated).reading;
            reading.set(&self.settings);
            reading.begin(bytes.source, bytes.length, self.settings.window, (true, is_http));
        }
        walk.run(self.settings.window);
    }

    /// Whether a write begins a request of HTTP where it is not known what the bytes before were. That is taken for granted of one
    /// that begins with a letter of a method, as it is of lines that a server is spoken to in: no JSON begins so.
    #[inline(always)]
    fn begins_request(&self, bytes: &Coming) -> bool {
        // SAFETY: a live map value, which this write has claimed.
        if unsafe { (*self.gated).member.framing } != GATE_HTTP {
            return false;
        }
        let address = if bytes.source.buffers == 0 {
            bytes.source.address
        } else {
            bytes.source.at(0).map_or(0, |(address, _)| address)
        };
        if !read::<u8>(address).is_some_and(|byte| byte.is_ascii_uppercase()) {
            return false;
        }
        // SAFETY: as above.
        unsafe {
            (*self.gated).before.reset();
            (*self.gated).http_before = HttpRequests::default();
            (*self.gated).lost = 0;
        }
        true
    }

    /// Nobody can tell what this write asks for. It may be let through nonetheless.
    #[inline(always)]
    fn undecided(&self, because: u8, bytes: &Coming) -> i32 {
        if self.settings.refuse_undecided != 0 {
            return self.refuse(Why::new(0, because), bytes);
        }
        self.pass(because, bytes);
        0
    }

    /// It is let through, and nobody reads it.
    #[inline(never)]
    fn pass(&self, because: u8, bytes: &Coming) {
        // SAFETY: a live map value, which this write has claimed.
        let is_in_lines = unsafe { (*self.gated).member.framing } == GATE_LINES;
        let ends = is_in_lines && bytes.is_known && ends_a_line(&bytes.source, bytes.length);
        // SAFETY: as above.
        unsafe {
            begin_after(self.gated);
            (*self.gated).after.reset();
            (*self.gated).lost_after = !ends as u32;
            (*self.gated).length = bytes.length;
        }
        self.report(0, self.info(GATE_PASSED, Why::new(0, because)));
    }

    /// It must not be written. (A call of its own, as the one before: what these have on the stack is not there while bytes are read.)
    #[inline(never)]
    fn refuse(&self, why: Why, bytes: &Coming) -> i32 {
        // SAFETY: live map values.
        let (number, position) = unsafe { ((*self.entry).number, (*self.gated).position) };
        let by = self.by();
        if bytes.is_known {
            let most = GATE_WINDOW_MOST as u64;
            let length = if bytes.length < most { bytes.length } else { most };
            ring::refused(number, position, length, by, bytes.source);
        }
        let mut info = self.info(GATE_REFUSED, why);
        if why.because == GATE_BECAUSE_RACE {
            // What was read is the other's, and so is the channel.
            info.bytes = 0;
            self.report(0, info);
            return -EPERM;
        }
        self.report(0, info);
        // SAFETY: a live map value, which this write has claimed: it will not return, and what comes next is another.
        unsafe {
            (*self.gated).reading.uncharge();
            let owner = (*self.gated).owner.get();
            if owner as u32 == thread() {
                (*self.gated).owner.replace(owner, 0);
            }
        }
        -EPERM
    }

    /// It is to be refused, since it cannot be overwritten.
    #[inline(always)]
    fn refuse_instead(&self, why: Why) {
        let why = Why { because: why.because | GATE_NOT_NEUTRALIZABLE, ..why };
        // SAFETY: a live map value, which this write has claimed.
        unsafe { (*self.gated).reading.refuse = why };
    }

    #[inline(always)]
    fn info(&self, action: u8, why: Why) -> GateInfo {
        // SAFETY: a live map value, which this write has claimed.
        let (bytes, generation) =
            unsafe { ((*self.gated).reading.position as u64, (*self.gated).after.generation) };
        let Why { outcome, because, .. } = why;
        GateInfo { bytes, generation, outcome, action, because, original: 0, is_rewritten: 0, zero: [0; 6] }
    }

    /// Tells user space.
    #[inline(always)]
    fn report(&self, at: u64, info: GateInfo) {
        // SAFETY: live map values.
        let (number, position) = unsafe { ((*self.entry).number, (*self.gated).position) };
        report(number, position + at, self.by(), info);
    }

    /// The process that writes, and the user who answers for the connection.
    #[inline(always)]
    fn by(&self) -> (u32, u32) {
        // SAFETY: a live map value.
        (self.tgid, unsafe { (*self.entry).uid })
    }
}

/// Tells user space of something at `offset` of a stream.
#[inline(always)]
fn report(number: ConnectionId, offset: u64, by: (u32, u32), info: GateInfo) {
    /// The record as it lies in the ring.
    #[repr(C)]
    struct GateRecord {
        header: RecordHeader,
        info: GateInfo,
    }
    log::judged(number, info.action, info.because, info.outcome);
    let Some(mut entry) = RING.reserve::<GateRecord>(0) else {
        tables::count(Counter::GateUntold, 1);
        return;
    };
    let header = header(RECORD_GATE, number, by, size_of::<GateInfo>());
    entry.write(GateRecord { header: RecordHeader { offset, ..header }, info });
    entry.submit(0);
}

/// `bytes` of a connection went by the gate, to `offset` of the stream. `by`: see [`Write::by`], the process in the upper half;
/// `because`: how.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn unseen(number: ConnectionId, offset: u64, bytes: u64, by: u64, because: u32) -> i32 {
    // Nothing is known of a channel that was never judged.
    let Some(gated) = GATED.get_ptr_mut(number) else { return 0 };
    let Some(settings) = SETTINGS.get_ptr(0) else { return 0 };
    // SAFETY: live map values.
    unsafe {
        if (*settings).mode == GATE_OFF {
            return 0;
        }
        (*gated).lost = 1;
    }
    let by = ((by >> 32) as u32, by as u32);
    report(number, offset, by, unread(bytes, GATE_UNSEEN, because as u8));
    0
}

/// What is said of bytes that no table was asked about.
#[inline(always)]
fn unread(bytes: u64, action: u8, because: u8) -> GateInfo {
    GateInfo { bytes, generation: 0, outcome: 0, action, because, original: 0, is_rewritten: 0, zero: [0; 6] }
}

/// Overwrites one of the bytes that are to be. Returns 1 where that cannot be, and says what the write is to be refused for.
unsafe extern "C" fn neutralize(index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `evaluate` gave it.
    let write = unsafe { &*context.cast::<Write>() };
    let index = kernel::at_most(index, OVERWRITES as u64 - 1) as usize;
    // SAFETY: a live map value, which this write has claimed.
    let Overwrite { address, position, why } = unsafe { (*write.gated).reading.overwrite[index] };
    // SAFETY: a live map value.
    let number = unsafe { (*write.entry).number };
    let (pid, uid) = write.by();
    if rewrite::plan_rewrite(number, index as u64) != 0 {
        // SAFETY: as above.
        let (from, to) = unsafe { ((*write.gated).rewriting.from, (*write.gated).rewriting.to) };
        // They may lie on two pages, and in two areas.
        if may_overwrite(from) && may_overwrite(to - 1) {
            let done = rewrite::carry_out(number, (pid as u64) << 32 | uid as u64);
            if done == 0 {
                let at = position as u64 - (address - from);
                write.report(at, GateInfo { is_rewritten: 1, ..write.info(GATE_NEUTRALIZED, why) });
                return 0;
            }
            if done == rewrite::HALF_DONE {
                write.refuse_instead(why);
                return 1;
            }
        }
    }
    let original = overwrite(address);
    if original == NOT_OVERWRITTEN {
        write.refuse_instead(why);
        return 1;
    }
    write.report(position as u64, GateInfo { original: original as u8, ..write.info(GATE_NEUTRALIZED, why) });
    0
}
