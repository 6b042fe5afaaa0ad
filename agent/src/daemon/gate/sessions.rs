//! Sessions as the gate knows them: by numbers, and with what only user space sees of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcpwarden_abi::GateMember;
use mcpwarden_gate::{SERVERS, SEVERAL, Turn};
use mcpwarden_kernel::Gate;
use mcpwarden_policy::{ServerId, SessionId, Timestamp, gate::GateCaller, guard::TurnState};

use crate::host::clock::Clock;

/// Most sessions at once: the capacity of the kernel's table.
const MAX_SESSIONS: usize = 4_096;

/// The sessions of connections that are judged, and of some that were.
#[derive(Default)]
pub struct Sessions {
    known: BTreeMap<SessionId, Known>,
    /// The number that was given last.
    last: u32,
    /// The last one that an agent before gave.
    before: Option<u32>,
    /// The turns of these may have changed.
    seen: BTreeSet<SessionId>,
}

struct Known {
    number: u32,
    /// By number.
    servers: Vec<ServerId>,
    /// When it last had a connection.
    used: Timestamp,
}

impl Known {
    /// The number of a server, from 1; 0 is none. One that has no number is another than all that have.
    fn number_of(&self, server: Option<&Arc<str>>) -> u32 {
        let Some(name) = server else { return 0 };
        let index = self.servers.iter().position(|server| server.0 == *name);
        index.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(SEVERAL)
    }

    /// What is known of its turn, as the kernel's table has it.
    fn turn(&self, state: &TurnState, clock: &Clock) -> Turn {
        let reader = state.newest_read.as_ref();
        Turn {
            newest: clock.boot(state.newest_call),
            last: clock.boot(state.last),
            open: u32::try_from(state.open).unwrap_or(u32::MAX),
            first: if state.has_several { SEVERAL } else { self.number_of(state.first.as_ref()) },
            newest_read: reader.map_or(0, |(_, time)| clock.boot(*time)),
            other_read: state.other_read.map_or(0, |time| clock.boot(time)),
            read_server: self.number_of(reader.map(|(server, _)| server)),
            unused: 0,
        }
    }
}

impl Sessions {
    /// Numbers up to this one are those of another agent.
    pub fn begin_behind(&mut self, last: u32) {
        (self.last, self.before) = (last, Some(last));
    }

    /// The last number of that agent's, once no connection has any of them.
    pub fn take_before(&mut self) -> Option<u32> {
        self.before.take()
    }

    /// The turn of a session may have changed.
    pub fn see(&mut self, session: Option<&SessionId>) {
        if let Some(session) = session.filter(|session| self.known.contains_key(session)) {
            self.seen.insert(session.clone());
        }
    }

    /// What a connection of this caller is. Where there is no capacity for its session, or for its server in it, its session is 0:
    /// the cross-server rules are undecidable for it.
    pub fn member(&mut self, caller: &GateCaller, now: Timestamp) -> GateMember {
        let (session, server) = self.number(caller, now).unwrap_or((0, 0));
        GateMember { session, server, bucket: caller.bucket(), ..GateMember::default() }
    }

    fn number(&mut self, caller: &GateCaller, now: Timestamp) -> Option<(u32, u32)> {
        if !self.known.contains_key(&caller.session) {
            if self.known.len() >= MAX_SESSIONS {
                return None;
            }
            // 0 is none.
            self.last = self.last.wrapping_add(1).max(1);
            let known = Known { number: self.last, servers: Vec::new(), used: now };
            self.known.insert(caller.session.clone(), known);
        }
        let known = self.known.get_mut(&caller.session)?;
        let server = known.servers.iter().position(|server| *server == caller.server);
        let server = match server {
            Some(server) => server,
            None if known.servers.len() >= SERVERS => return None,
            None => {
                known.servers.push(caller.server.clone());
                known.servers.len() - 1
            }
        };
        Some((known.number, u32::try_from(server).ok()?))
    }

    /// Writes the turns of sessions that may have changed to the kernel's table.
    pub fn send_turns(
        &mut self,
        turn: impl Fn(&SessionId) -> Option<TurnState>,
        clock: &Clock,
        gate: &mut Gate,
    ) {
        for session in std::mem::take(&mut self.seen) {
            if let (Some(known), Some(state)) = (self.known.get(&session), turn(&session)) {
                // Where there is no capacity for it, the kernel takes its calls for open ones.
                gate.set_turn(known.number, known.turn(&state, clock));
            }
        }
    }

    /// Forgets those without a connection for longer than `idle`. `current`: those with one.
    pub fn forget_idle(
        &mut self,
        current: &BTreeSet<&SessionId>,
        idle: std::time::Duration,
        now: Timestamp,
        gate: &mut Gate,
    ) {
        self.known.retain(|session, known| {
            if current.contains(session) {
                known.used = now;
            }
            let stays = now <= known.used.after(idle);
            if !stays {
                gate.forget_session(known.number, known.servers.len());
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(session: &str, server: &str, uid: Option<u32>) -> GateCaller {
        GateCaller { session: SessionId(session.into()), server: ServerId(server.into()), uid }
    }

    /// Who calls, and which session, server and bucket that is: equal letters for equal ones.
    #[test]
    fn callers_are_numbered_by_session_and_server() {
        let mut sessions = Sessions::default();
        let mut buckets = Vec::new();
        for (session, server, uid, expected) in [
            ("a", "files", Some(1), (1, 0, 0)),
            ("a", "mail", Some(1), (1, 1, 1)),
            ("b", "mail", Some(1), (2, 0, 1)),
            ("b", "mail", Some(2), (2, 0, 2)),
            ("a", "files", None, (1, 0, 3)),
            ("a", "files", Some(1), (1, 0, 0)),
        ] {
            let member = sessions.member(&caller(session, server, uid), Timestamp(0));
            let place = buckets.iter().position(|known| *known == member.bucket).unwrap_or_else(|| {
                buckets.push(member.bucket);
                buckets.len() - 1
            });
            assert_eq!((member.session, member.server, place), expected, "{session} {server} {uid:?}");
        }
    }

    #[test]
    fn session_over_capacity_has_no_number() {
        let mut sessions = Sessions::default();
        for server in 0..SERVERS {
            let member = sessions.member(&caller("a", &server.to_string(), None), Timestamp(0));
            assert_eq!(member.session, 1);
        }
        assert_eq!(sessions.member(&caller("a", "one more", None), Timestamp(0)).session, 0);
        assert_eq!(sessions.member(&caller("b", "one more", None), Timestamp(0)).session, 2);
    }
}
