//! What was read of a write counts once it has returned: by then it is known how much of it was written.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpwarden_abi::{
    CLIENT_TO_SERVER, Channel, ConnectionId, GATE_BECAUSE_MISSED, GATE_HTTP, GATE_LINES, GATE_NOBODY, SOCKET,
};
use mcpwarden_gate::View;

use super::{
    owner::{owned, owned_at, thread},
    reading::ends_a_line,
    state::{GATED, Gated, HEADS, MEMBERS, NEXT, SETTINGS, Walk, begin_after, subject_of, written_whole},
    unseen,
};
use crate::{
    source::{Source, User},
    tables, tls,
};

/// A write to a channel has returned. `left`: how many bytes were not written; `bytes`: where those lay that were.
#[inline(always)]
pub fn returned(
    channel: *const Channel,
    result: i64,
    left: impl FnOnce() -> u64,
    bytes: impl FnOnce(u64) -> Option<Source>,
) {
    // SAFETY: a live map value.
    let id = unsafe { (*channel).write_capture };
    // What is written over TLS says nothing, and was not judged.
    if id == 0 || id & SOCKET != 0 && tls::socket_over_tls(id).is_some() {
        return;
    }
    written(id, result, left, bytes);
}

/// The same of plaintext: a function of a TLS library has taken so many bytes of it, and left so many.
#[inline(always)]
pub fn plaintext_taken(id: ConnectionId, bytes: u64, left: u64, address: User) {
    written(id, bytes as i64, || left, |_| Some(Source::buffer(address)));
}

#[inline(always)]
fn written(
    id: ConnectionId,
    result: i64,
    left: impl FnOnce() -> u64,
    bytes: impl FnOnce(u64) -> Option<Source>,
) {
    let Some(number) = tables::number(id) else { return };
    let Some(gated) = GATED.get_ptr_mut(number) else {
        if id & SOCKET != 0 && result > 0 {
            let ends = left() == 0 && bytes(result as u64).is_some_and(|at| ends_a_line(&at, result as u64));
            if let Some(entry) = tables::positions(id) {
                // SAFETY: a live map value.
                unsafe { (*entry).ended_line = ends as u32 };
            }
        }
        return;
    };
    let me = thread();
    // SAFETY: live map values.
    let (owner, displaced) = unsafe { ((*gated).owner.get(), (*gated).displaced) };
    let is_late = owner == 0 && displaced == me;
    if owner as u32 != me && !is_late {
        // One that has lost its channel was judged.
        if result > 0 && displaced != me {
            missed(id, number, result as u64);
        }
        return;
    }
    // Anew, lest another takes it while this is settled: that write may have begun long ago.
    let anew = owned(owned_at(tables::now()), me);
    // SAFETY: a live map value.
    if unsafe { (*gated).owner.replace(owner, anew) } != owner {
        return;
    }
    if result > 0 {
        let (written, left) = (result as u64, left());
        if is_late {
            settle_unread(gated, written, left, bytes);
        } else {
            settle(number, gated, written, left, bytes);
        }
    }
    // SAFETY: a live map value, which this write has claimed.
    unsafe {
        if is_late || result > 0 {
            (*gated).displaced = 0;
        }
        (*gated).length = 0;
        (*gated).owner.replace(anew, 0);
    }
}

/// So many bytes were written to a channel, and the gate was not asked: the kernel left its program out, or asks about the first of
/// several messages alone (`sendmmsg` with addresses). Nothing where the channel is not judged.
///
/// The verifier goes through it once, by itself: see [`crate::exec::report`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn missed(id: ConnectionId, number: ConnectionId, written: u64) -> i32 {
    let Some(settings) = SETTINGS.get_ptr(0) else { return 0 };
    // SAFETY: a live map value.
    let half = unsafe { (*settings).half } & 1;
    let Some(member) = MEMBERS.get_ptr(number) else { return 0 };
    if subject_of(member, half, tables::now()).0 == GATE_NOBODY {
        return 0;
    }
    let Some(entry) = tables::positions(id) else { return 0 };
    // SAFETY: a live map value.
    let (offset, uid) = unsafe { ((*entry).streams[CLIENT_TO_SERVER as usize].offset, (*entry).uid) };
    let by = bpf_get_current_pid_tgid() & !(u32::MAX as u64) | uid as u64;
    unseen(number, offset, written, by, GATE_BECAUSE_MISSED.into())
}

/// So many bytes of a write that had lost its channel were written: what was read of them is gone, and all that counts is whether
/// they end a line.
#[inline(always)]
fn settle_unread(gated: *mut Gated, written: u64, left: u64, bytes: impl FnOnce(u64) -> Option<Source>) {
    // SAFETY: a live map value, which this write has claimed.
    let is_in_lines = unsafe { (*gated).member.framing } == GATE_LINES;
    let ends = left == 0 && is_in_lines && bytes(written).is_some_and(|source| ends_a_line(&source, written));
    // SAFETY: as above.
    unsafe {
        (*gated).position += written;
        (*gated).before.reset();
        (*gated).lost = !ends as u32;
    }
}

/// So many bytes of a write were written, and `left` were not.
#[inline(always)]
fn settle(
    id: ConnectionId,
    gated: *mut Gated,
    written: u64,
    left: u64,
    bytes: impl FnOnce(u64) -> Option<Source>,
) {
    // SAFETY: a live map value, which this write has claimed.
    unsafe {
        (*gated).position += written;
        if left == 0 {
            // Memory that was not there when it was asked about is there now.
            let is_in_lines = (*gated).member.framing == GATE_LINES;
            if (*gated).lost_after != 0
                && is_in_lines
                && bytes(written).is_some_and(|source| ends_a_line(&source, written))
            {
                (*gated).lost_after = 0;
            }
            written_whole(gated);
            return;
        }
        // Only a part, so it is read again, up to there: whatever is to be said of it has been.
        (*gated).lost = 1;
        if (*gated).is_read == 0 {
            return;
        }
        let Some(settings) = SETTINGS.get_ptr(0) else { return };
        let half = (*settings).half & 1;
        let Some(member) = MEMBERS.get_ptr(id) else { return };
        let (Some(head), Some(next)) = (HEADS.get_ptr(half), NEXT.get_ptr(half)) else { return };
        let Some(source) = bytes(written) else { return };
        if written > (*settings).window as u64 {
            return;
        }
        let view = View { head: &*head, next: &*next };
        let subject = view.subject(subject_of(member, half, tables::now()).0);
        begin_after(gated);
        (*gated).after.begin(&view, subject);
        // A vector may go on behind what was written.
        let is_http = (*gated).member.framing == GATE_HTTP;
        (*gated).reading.begin(source, written, written as u32, (false, is_http));
        let walk = Walk { gated, head, next, subject, member, now: 0 };
        walk.run(written as u32);
        if (*gated).reading.position as u64 == written {
            (*gated).before = (*gated).after;
            (*gated).http_before = (*gated).http_after;
            (*gated).lost = 0;
            (*gated).reading.charge_less();
        }
    }
}
