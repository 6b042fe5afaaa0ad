//! Who has a channel: one write at a time, since what was read of it is one state.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpwarden_abi::{CLIENT_TO_SERVER, SOCKET};

use super::{Write, state::written_whole};

/// The unit of an owner's time: 2^20 ns, about a millisecond.
const OWNED_SHIFT: u32 = 20;
/// How long a write has its channel for itself, where it does not return. In that unit: a second. One that others refused
/// never returns here, and a full pipe can hold one up for as long as it likes.
const OWNED_FOR: u32 = (1_000_000_000_u64 >> OWNED_SHIFT) as u32;

impl Write {
    /// Takes the channel. False where another write is on its way: which of them comes first is not known.
    #[inline(always)]
    pub fn claim(&self, now: u64) -> bool {
        let (me, at, gated) = (thread(), owned_at(now), self.gated);
        // SAFETY: live map values. Whoever is the owner has the entry until its write returns.
        unsafe {
            let owner = (*gated).owner.get();
            let (is_mine, since) = (owner as u32 == me, (owner >> 32) as u32);
            let captured = (*self.entry).streams[CLIENT_TO_SERVER as usize].offset;
            let passed = captured.wrapping_sub((*gated).position);
            // Capture's program at its exit was run, and the gate's not yet, or not at all.
            let has_returned = owner != 0 && passed != 0 && passed == (*gated).length;
            let is_anothers = owner != 0 && !is_mine && !has_returned;
            if is_anothers && at.wrapping_sub(since) <= OWNED_FOR {
                return false;
            }
            if (*gated).owner.replace(owner, owned(at, me)) != owner {
                return false;
            }
            if is_anothers {
                // It may still be written.
                (*gated).lost = 1;
                (*gated).displaced = owner as u32;
            }
            if (*gated).last == 0 {
                (*gated).position = captured;
                // Nobody knows whether what was written before ended a message. (Over stdio that is taken for granted.)
                let is_socket = (*self.entry).number & SOCKET != 0;
                if is_socket && captured != 0 && (*self.entry).ended_line == 0 {
                    (*gated).lost = 1;
                }
            } else if has_returned {
                written_whole(gated);
                (*gated).position = captured;
            } else if passed != 0 && (passed as i64 > 0 || (*gated).last == me) {
                // Bytes that nobody was asked about, unless it is capture that has missed some.
                if passed as i64 > 0 {
                    (*gated).lost = 1;
                }
                (*gated).position = captured;
            }
            (*gated).last = me;
            (*gated).length = 0;
            (*gated).is_read = 0;
            (*gated).reading.position = 0;
        }
        true
    }
}

/// The thread that runs.
#[inline(always)]
pub fn thread() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

/// An owner's time.
#[inline(always)]
pub fn owned_at(now: u64) -> u32 {
    (now >> OWNED_SHIFT) as u32
}

/// The word of an owner.
#[inline(always)]
pub fn owned(at: u32, thread: u32) -> u64 {
    (at as u64) << 32 | thread as u64
}
