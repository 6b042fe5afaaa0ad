//! Which processes belong to servers: the one that was started as a server, and all that descend from it.
//!
//! Inherited on fork, so that it holds whatever becomes of the processes between.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, macros::map, maps::HashMap};
use mcpwarden_abi::{ConnectionId, Counter, MEMBERSHIPS, Member, SET_ALL};

use crate::tables;

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
            tables::count(Counter::MembershipsCut, 1);
            let Some(connections) = cut(connection, known) else { return };
            member.connections = connections;
        }
    }
    set(tgid, &member);
}

/// One more than fit: which stay. A process can make as many servers below itself as it likes, and must not shake off
/// the rules of one above by that: what goes is what has none, the nearest that is not known to be a server's first.
/// `None`: all have rules, and the new one is left out.
#[inline(always)]
fn cut(connection: ConnectionId, known: [ConnectionId; MEMBERSHIPS]) -> Option<[ConnectionId; MEMBERSHIPS]> {
    let (first, second, third, fourth) = (rank(known[0]), rank(known[1]), rank(known[2]), rank(known[3]));
    let least = first.min(second).min(third.min(fourth));
    if least == RULED {
        None
    } else if least == first {
        Some([connection, known[1], known[2], known[3]])
    } else if least == second {
        Some([connection, known[0], known[2], known[3]])
    } else if least == third {
        Some([connection, known[0], known[1], known[3]])
    } else {
        Some([connection, known[0], known[1], known[2]])
    }
}

/// Not known to be a server's; a server's without rules of its own; one with.
const STRANGER: u64 = 0;
const FREE: u64 = 1;
const RULED: u64 = 2;

/// How much is lost where a connection is left out.
#[inline(always)]
fn rank(connection: ConnectionId) -> u64 {
    match tables::server_set(connection) {
        None => STRANGER,
        Some(SET_ALL) => FREE,
        Some(_) => RULED,
    }
}

/// A child belongs where its parent does. Of an earlier process of its number nothing stays.
#[inline(always)]
pub fn inherit(parent: u32, child: u32) {
    match of(parent) {
        Some(member) => {
            let member = *member;
            set(child, &member);
        }
        None if of(child).is_some() => leave(child),
        None => {}
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
        tables::count(Counter::MembersRefused, 1);
    }
}
