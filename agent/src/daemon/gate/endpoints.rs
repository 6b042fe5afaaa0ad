//! Where servers are that are spoken to over sockets: the first message of a new connection to one of them is judged
//! before the agent has heard of the connection.
//!
//! What a connection will be is told by those to the same endpoint: of one kind, it will be of that kind. If their clients
//! may do different things, what it may do is undecidable until the agent knows its client. Its session is not known either:
//! rules across servers do not count for these first messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpwarden_abi::{self as abi, Endpoint, GateMember};
use mcpwarden_policy::{
    ConnectionId, ServerId, Timestamp,
    gate::{GateSubject, NO_SUBJECT},
    guards::{CallBlock, Callee},
};

use super::{
    members::entry,
    subjects::{Judged, Subjects},
};
use crate::host::clock::Clock;

/// Most endpoints that the clients of one user have, of those that the kernel's table holds: nobody displaces those of others.
const MOST_OF_USER: usize = 256;
/// How long a server is remembered that nobody is connected to.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// Endpoints of servers.
#[derive(Default)]
pub struct Endpoints {
    /// Where each connection leads.
    of: BTreeMap<ConnectionId, Endpoint>,
    known: BTreeMap<Endpoint, Known>,
    /// What was written to the kernel's table.
    written: BTreeMap<Endpoint, GateMember>,
    /// Endpoints for which a user had no capacity, while connections lead there.
    crowded: BTreeSet<Endpoint>,
    /// How often there was no capacity.
    refused: u64,
}

/// A server that connections led to.
#[derive(Clone, Debug)]
struct Known {
    /// What they were; `None`: of different kinds.
    subject: Option<GateSubject>,
    server: ServerId,
    /// Whose tokens calls take; 0 where that differs.
    bucket: u64,
    /// The user of the client that it was first seen with.
    uid: Option<u32>,
    /// How it is spoken to: [`abi::GATE_LINES`] or [`abi::GATE_HTTP`].
    framing: u32,
    /// When the last connection was there.
    seen: Timestamp,
}

/// What is written of an endpoint: the kind of connections to it, and what it is while its server is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    kind: u32,
    blocked: Option<(u32, u64)>,
    bucket: u64,
    framing: u32,
}

impl Endpoints {
    /// Takes in the connections of now, and adds the kinds of those to come. `endpoint`: where a connection leads.
    pub fn expect(
        &mut self,
        subjects: &mut Subjects,
        blocks: &[CallBlock],
        (is_enforcing, clock): (bool, &Clock),
        endpoint: impl Fn(ConnectionId) -> Option<Endpoint>,
    ) -> BTreeMap<Endpoint, Expected> {
        self.follow(subjects, endpoint);
        if !is_enforcing {
            self.known.clear();
            return self.blocked(subjects);
        }
        let now = clock.now();
        self.remember(self.live(subjects, now));
        self.known.retain(|_, known| now <= known.seen.after(KEPT));
        self.make_room();
        let mut expected = BTreeMap::new();
        for (at, known) in &self.known {
            let block = blocks.iter().find(|block| block.callee == Callee::Server(known.server.clone()));
            let blocked = match (&known.subject, block) {
                (Some(subject), Some(block)) => {
                    let until = block.until.map_or(u64::MAX, |until| clock.boot(until));
                    Some((subjects.number_of(subject.blocked(block)), until))
                }
                _ => None,
            };
            let kind = known.subject.clone().map_or(NO_SUBJECT, |subject| subjects.number_of(subject));
            expected.insert(*at, Expected { kind, blocked, bucket: known.bucket, framing: known.framing });
        }
        expected
    }

    /// Takes in where the connections of now lead.
    fn follow(&mut self, subjects: &Subjects, endpoint: impl Fn(ConnectionId) -> Option<Endpoint>) {
        self.of.retain(|id, _| subjects.members.contains_key(id));
        let sockets = subjects.members.keys().filter(|id| id.0 & abi::SOCKET != 0);
        let new: Vec<ConnectionId> = sockets.filter(|id| !self.of.contains_key(id)).copied().collect();
        self.of.extend(new.into_iter().filter_map(|id| Some((id, endpoint(id)?))));
    }

    /// Where nothing but blocks by hand is enforced: calls to the servers that these are of alone are judged.
    fn blocked(&self, subjects: &Subjects) -> BTreeMap<Endpoint, Expected> {
        let judged = self.of.iter().filter_map(|(id, at)| Some((*at, subjects.members.get(id)?)));
        let expected = |judged: &Judged| Expected {
            kind: abi::GATE_NOBODY,
            blocked: judged.blocked,
            bucket: judged.caller.bucket(),
            framing: judged.framing,
        };
        judged.map(|(at, judged)| (at, expected(judged))).collect()
    }

    /// What the connections of now say of the next ones to the same endpoints.
    fn live(&self, subjects: &Subjects, now: Timestamp) -> BTreeMap<Endpoint, Known> {
        let mut live: BTreeMap<Endpoint, Known> = BTreeMap::new();
        for (id, at) in &self.of {
            let Some(judged) = subjects.members.get(id) else { continue };
            let subject =
                usize::try_from(judged.kind).ok().and_then(|kind| subjects.kinds.get(kind)).cloned();
            let bucket = judged.caller.bucket();
            match live.get_mut(at) {
                Some(known) => {
                    if known.subject != subject {
                        known.subject = None;
                    }
                    if known.bucket != bucket {
                        known.bucket = 0;
                    }
                }
                None => {
                    let (server, uid) = (judged.caller.server.clone(), judged.caller.uid);
                    let uid = self.known.get(at).map_or(uid, |known| known.uid);
                    let framing = judged.framing;
                    live.insert(*at, Known { subject, server, bucket, uid, framing, seen: now });
                }
            }
        }
        live
    }

    /// Takes in what is live, as far as each user has room.
    fn remember(&mut self, live: BTreeMap<Endpoint, Known>) {
        let mut of_users: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        self.known.values().for_each(|known| *of_users.entry(known.uid).or_default() += 1);
        self.crowded.retain(|at| live.contains_key(at));
        for (at, known) in live {
            let of_user = of_users.entry(known.uid).or_default();
            let is_new = !self.known.contains_key(&at);
            if is_new && *of_user >= MOST_OF_USER {
                self.refused += u64::from(self.crowded.insert(at));
                continue;
            }
            *of_user += usize::from(is_new);
            self.known.insert(at, known);
        }
    }

    /// Forgets the endpoints that have been without a connection for longest, beyond what the kernel's table holds.
    fn make_room(&mut self) {
        let most = usize::try_from(abi::GATE_ENDPOINTS_MOST).unwrap_or(usize::MAX);
        while self.known.len() > most {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.seen).map(|(at, _)| *at);
            let Some(oldest) = oldest else { return };
            self.known.remove(&oldest);
            self.refused += 1;
        }
    }

    /// Forgets the servers that nobody is connected to: what they may do is another thing now.
    pub fn forget_idle(&mut self) {
        let live: BTreeSet<&Endpoint> = self.of.values().collect();
        self.known.retain(|at, _| live.contains(at));
    }

    /// No server in lines is there, after all. (Over HTTP one can be there beside other things, and what is none of its passes.)
    pub fn forget(&mut self, at: &Endpoint) {
        if self.known.get(at).is_some_and(|known| known.framing == abi::GATE_LINES) {
            self.known.remove(at);
        }
    }

    /// How many there was no room for.
    pub fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// An agent before wrote these: what they are is not known.
    pub fn inherit(&mut self, endpoints: impl Iterator<Item = Endpoint>) {
        self.written.extend(endpoints.map(|at| (at, GateMember::default())));
    }

    /// Gives endpoints the kinds that the table in force has for them, where no new one is made: see [`super::members::in_older_table`].
    pub fn keep_kinds(
        &self,
        expected: &mut BTreeMap<Endpoint, Expected>,
        of: impl Fn(u32, Option<[u32; 2]>) -> u32,
    ) {
        for (at, one) in expected {
            let before = self.written.get(at);
            one.kind = of(one.kind, before.map(|known| known.subjects));
            if let Some((kind, _)) = &mut one.blocked {
                *kind = of(*kind, before.map(|known| known.blocked));
            }
        }
    }

    /// Writes what connections to each endpoint are in this half of the table, where that differs from what was written, and
    /// removes those that are not expected.
    pub fn write(
        &mut self,
        expected: &BTreeMap<Endpoint, Expected>,
        half: u32,
        mut write: impl FnMut(&Endpoint, Option<GateMember>) -> bool,
    ) {
        for (at, one) in expected {
            let known = self.written.get(at).copied();
            let base = GateMember { bucket: one.bucket, framing: one.framing, ..GateMember::default() };
            let fresh = entry((one.kind, one.blocked), known, base, half);
            if known == Some(fresh) {
                continue;
            }
            if write(at, Some(fresh)) {
                self.written.insert(*at, fresh);
            } else {
                self.refused += 1;
            }
        }
        let gone: Vec<Endpoint> =
            self.written.keys().filter(|at| !expected.contains_key(at)).copied().collect();
        for at in gone {
            write(&at, None);
            self.written.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{SessionId, gate::GateCaller};

    use super::*;

    const ONE: Endpoint = Endpoint { netns_cookie: 1, address: [1; 16], port: 1, zero: [0; 3] };
    const OTHER: Endpoint = Endpoint { port: 2, ..ONE };

    fn subject(server: &str) -> GateSubject {
        let (config, _) = mcpwarden_policy::config::parse(b"").unwrap();
        let mut subject = GateSubject::of(&config).pop().unwrap();
        subject.server = ServerId(server.into());
        subject
    }

    /// Connections: the number, the server, the user, and the number of the endpoint.
    fn subjects(all: &[(u64, &str, u32)]) -> Subjects {
        let mut subjects = Subjects { kinds: Vec::new(), members: BTreeMap::new() };
        for (id, server, uid) in all {
            let kind = subjects.number_of(subject(server));
            let caller = GateCaller {
                session: SessionId("s".into()),
                server: ServerId((*server).into()),
                uid: Some(*uid),
            };
            let framing = abi::GATE_LINES;
            subjects.members.insert(ConnectionId(*id), Judged { kind, blocked: None, caller, framing });
        }
        subjects
    }

    fn endpoint(id: ConnectionId) -> Option<Endpoint> {
        Some(if id.0 & 0xFF < 10 { ONE } else { OTHER })
    }

    #[test]
    fn endpoint_is_of_the_kind_of_its_connections() {
        const A: u64 = abi::SOCKET | 1;
        const B: u64 = abi::SOCKET | 2;
        const C: u64 = abi::SOCKET | 11;
        let clock = Clock::new();
        type Case = (
            &'static str,
            &'static [(u64, &'static str, u32)],
            &'static [(Endpoint, Option<&'static str>, bool)],
        );
        let cases: &[Case] = &[
            ("over stdio", &[(1, "a", 1)], &[]),
            ("one", &[(A, "a", 1)], &[(ONE, Some("a"), true)]),
            ("two of one kind", &[(A, "a", 1), (B, "a", 1)], &[(ONE, Some("a"), true)]),
            ("two users", &[(A, "a", 1), (B, "a", 2)], &[(ONE, Some("a"), false)]),
            ("two kinds", &[(A, "a", 1), (B, "b", 1)], &[(ONE, None, false)]),
            (
                "two endpoints",
                &[(A, "a", 1), (C, "b", 1)],
                &[(ONE, Some("a"), true), (OTHER, Some("b"), true)],
            ),
        ];
        for (name, connections, wanted) in cases {
            let mut endpoints = Endpoints::default();
            let mut now = subjects(connections);
            let expected = endpoints.expect(&mut now, &[], (true, &clock), endpoint);
            let found: Vec<_> = expected
                .iter()
                .map(|(at, one)| {
                    let kind = now.kinds.get(one.kind as usize).map(|kind| &*kind.server.0);
                    (*at, kind, one.bucket != 0)
                })
                .collect();
            assert_eq!(found, *wanted, "{name}");
            // Nobody is connected any more: it is remembered, with its kind, until that may be another.
            let mut none = subjects(&[]);
            let later = endpoints.expect(&mut none, &[], (true, &clock), endpoint);
            assert_eq!(later.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
            endpoints.forget_idle();
            assert_eq!(endpoints.expect(&mut none, &[], (true, &clock), endpoint).len(), 0, "{name}");
        }
    }

    #[test]
    fn endpoints_are_blocked_with_their_server() {
        let clock = Clock::new();
        let mut endpoints = Endpoints::default();
        let mut now = subjects(&[(abi::SOCKET | 1, "a", 1)]);
        endpoints.expect(&mut now, &[], (true, &clock), endpoint);
        let block =
            |id: &str| CallBlock { callee: Callee::Server(ServerId(id.into())), until: None, reason: None };
        for (id, is_blocked) in [("a", true), ("b", false)] {
            let mut none = subjects(&[]);
            let expected = endpoints.expect(&mut none, &[block(id)], (true, &clock), endpoint);
            assert_eq!(expected[&ONE].blocked.is_some(), is_blocked, "{id}");
        }
        // Where nothing else is enforced, only what is blocked is judged.
        let mut blocked = subjects(&[(abi::SOCKET | 1, "a", 1)]);
        blocked.members.values_mut().for_each(|judged| {
            judged.kind = abi::GATE_NOBODY;
            judged.blocked = Some((0, 9));
        });
        let expected = endpoints.expect(&mut blocked, &[], (false, &clock), endpoint);
        assert_eq!((expected[&ONE].kind, expected[&ONE].blocked), (abi::GATE_NOBODY, Some((0, 9))));
    }

    #[test]
    fn endpoint_entries_are_written_when_they_change() {
        let (mut endpoints, mut table) = (Endpoints::default(), BTreeMap::new());
        let expected =
            |kind| BTreeMap::from([(ONE, Expected { kind, blocked: None, bucket: 7, framing: 0 })]);
        for (expected, half, writes, entry) in [
            (expected(3), 0, 1, Some([3, abi::GATE_NOBODY])),
            (expected(3), 0, 0, Some([3, abi::GATE_NOBODY])),
            (expected(5), 1, 1, Some([3, 5])),
            (BTreeMap::new(), 1, 1, None),
        ] {
            let mut written = 0;
            endpoints.write(&expected, half, |at, member| {
                written += 1;
                match member {
                    Some(member) => drop(table.insert(*at, member)),
                    None => drop(table.remove(at)),
                }
                true
            });
            let found = table.get(&ONE).map(|member: &GateMember| member.subjects);
            assert_eq!((written, found), (writes, entry));
        }
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let clock = Clock::new();
        let mut endpoints = Endpoints::default();
        let own = |id: u64| (abi::SOCKET | id, "a", 1);
        let mut all: Vec<(u64, &str, u32)> = (0..MOST_OF_USER as u64 + 3).map(own).collect();
        all.push((abi::SOCKET | 9_999, "b", 2));
        let at = |id: ConnectionId| Some(Endpoint { port: (id.0 & 0xFFFF) as u16, ..ONE });
        for _ in 0..2 {
            let expected = endpoints.expect(&mut subjects(&all), &[], (true, &clock), at);
            assert_eq!(expected.len(), MOST_OF_USER + 1);
            assert!(expected.contains_key(&Endpoint { port: 9_999, ..ONE }));
        }
        assert_eq!(endpoints.take_refused(), 3, "each is counted once");
    }

    #[test]
    fn endpoints_beyond_the_table_are_forgotten_and_counted() {
        let mut endpoints = Endpoints::default();
        for port in 0..u16::try_from(abi::GATE_ENDPOINTS_MOST).unwrap() + 3 {
            let seen = Timestamp(u64::from(port));
            let server = ServerId("a".into());
            let known = Known { subject: None, server, bucket: 0, uid: None, framing: 0, seen };
            endpoints.known.insert(Endpoint { port, ..ONE }, known);
        }
        endpoints.make_room();
        assert_eq!((endpoints.known.len(), endpoints.take_refused()), (abi::GATE_ENDPOINTS_MOST as usize, 3));
        assert!(!endpoints.known.contains_key(&Endpoint { port: 2, ..ONE }));
    }
}
