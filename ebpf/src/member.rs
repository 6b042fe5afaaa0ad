//! Which processes belong to servers: the one that was started as a server, and all that descend from it.
//!
//! Inherited on fork, so that it holds whatever becomes of the processes between.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use mcpwarden_abi::{ConnectionId, Counter, MEMBERSHIPS, Member};

use crate::channel;

/// By process (tgid).
#[map(name = "MEMBERS")]
static MEMBERS: HashMap<u32, Member> = HashMap::with_max_entries(65_536, BPF_F_NO_PREALLOC);

/// The servers that a process belongs to, if there are any.
#[inline(always)]
pub fn of(tgid: u32) -> Option<&'static Member> {
    // SAFETY: a live map value; it is replaced as a whole.
    MEMBERS.get_ptr(tgid).map(|member| unsafe { &*member })
}

/// The process is a server's, as far as this connection goes. What it belongs to already stays: a server's child that
/// is spoken to through pipes of its own is still the server's.
#[inline(always)]
pub fn join(tgid: u32, connection: ConnectionId) {
    let mut member = Member { connections: [connection, 0, 0, 0] };
    if let Some(known) = of(tgid) {
        let known = known.connections;
        for held in known {
            if held == connection {
                return;
            }
        }
        member.connections = [connection, known[0], known[1], known[2]];
        if known[MEMBERSHIPS - 1] != 0 {
            member.connections = cut(connection, known);
            channel::count(Counter::MembershipsCut, 1);
        }
    }
    set(tgid, &member);
}

/// Leaves out the nearest that is not known to be a server's: a process can make as many such as it likes, and must
/// not shake off a server above by that. Where all are, the nearest goes.
#[inline(always)]
fn cut(connection: ConnectionId, known: [ConnectionId; MEMBERSHIPS]) -> [ConnectionId; MEMBERSHIPS] {
    if channel::server_set(known[0]).is_none() {
        [connection, known[1], known[2], known[3]]
    } else if channel::server_set(known[1]).is_none() {
        [connection, known[0], known[2], known[3]]
    } else if channel::server_set(known[2]).is_none() {
        [connection, known[0], known[1], known[3]]
    } else {
        [connection, known[0], known[1], known[2]]
    }
}

/// A child belongs where its parent does.
#[inline(always)]
pub fn inherit(parent: u32, child: u32) {
    if let Some(member) = of(parent) {
        let member = *member;
        set(child, &member);
    }
}

/// The process is gone.
#[inline(always)]
pub fn leave(tgid: u32) {
    let _ = MEMBERS.remove(tgid);
}

#[inline(always)]
fn set(tgid: u32, member: &Member) {
    if MEMBERS.insert(tgid, member, 0).is_err() {
        channel::count(Counter::MembersRefused, 1);
    }
}
