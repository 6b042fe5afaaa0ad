//! What the kernel's table says of connections.

use std::collections::{BTreeMap, BTreeSet};

use mcpwarden_abi::{self as abi, GateMember};
use mcpwarden_policy::{ConnectionId, Timestamp, gate::NO_SUBJECT};

use super::{sessions::Sessions, subjects::Judged};

/// The entries that were written to the kernel's table, and those that found no capacity.
#[derive(Default)]
pub struct Members {
    /// What was written.
    pub known: BTreeMap<u64, GateMember>,
    /// Connections of which an agent before wrote, for as long as they last.
    pub inherited: BTreeSet<ConnectionId>,
    /// Connections for which there was no capacity.
    refused: BTreeSet<u64>,
}

/// What found no capacity, in numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Connections that are not in the table.
    pub connections: u64,
    /// Connections that are there without their session.
    pub sessions: u64,
}

impl Members {
    /// Writes what each connection is in this half of the table, where that differs from what was written. `write`: false
    /// where there is no capacity; that is tried again with the next change. What was refused for the first time.
    pub fn write(
        &mut self,
        members: &BTreeMap<ConnectionId, Judged>,
        half: u32,
        sessions: &mut Sessions,
        now: Timestamp,
        mut write: impl FnMut(u64, GateMember) -> bool,
    ) -> Refused {
        let mut refused = Refused::default();
        for (id, judged) in members {
            let known = self.known.get(&id.0).copied();
            let session = GateMember { framing: judged.framing, ..sessions.member(&judged.caller, now) };
            let fresh = entry((judged.kind, judged.blocked), known, session, half);
            if known == Some(fresh) {
                continue;
            }
            sessions.see(Some(&judged.caller.session));
            if write(id.0, fresh) {
                refused.sessions += u64::from(known.is_none() && fresh.session == 0);
                self.known.insert(id.0, fresh);
            } else {
                refused.connections += u64::from(self.refused.insert(id.0));
            }
        }
        refused
    }

    /// Gives connections the kinds that the table in force has for them, where no new one is made: see [`in_older_table`].
    pub fn keep_kinds(
        &self,
        members: &mut BTreeMap<ConnectionId, Judged>,
        indices: &[Option<u32>],
        half: u32,
    ) {
        for (id, judged) in members {
            let before = self.known.get(&id.0);
            if judged.kind != abi::GATE_NOBODY {
                judged.kind = in_older_table(judged.kind, indices, before.map(|known| known.subjects), half);
            }
            if let Some((kind, _)) = &mut judged.blocked {
                *kind = in_older_table(*kind, indices, before.map(|known| known.blocked), half);
            }
        }
    }

    /// Forgets the connections that are judged no more, and returns their numbers.
    pub fn forget_gone(&mut self, members: &BTreeMap<ConnectionId, Judged>) -> Vec<u64> {
        let is_gone = |id: &u64| !members.contains_key(&ConnectionId(*id));
        let gone: Vec<u64> = self.known.keys().copied().filter(is_gone).collect();
        for id in &gone {
            self.known.remove(id);
            self.refused.remove(id);
        }
        gone
    }
}

/// The entry of a connection: `session` with its kinds in this half, and in the other half those that it has.
pub fn entry(
    (kind, blocked): (u32, Option<(u32, u64)>),
    known: Option<GateMember>,
    session: GateMember,
    half: u32,
) -> GateMember {
    let index = usize::from(half == 1);
    let (subjects, blocked_kinds) =
        known.map_or(([abi::GATE_NOBODY; 2], [NO_SUBJECT; 2]), |known| (known.subjects, known.blocked));
    let mut fresh = GateMember { subjects, blocked: blocked_kinds, ..session };
    fresh.subjects[index] = kind;
    if let Some((kind, until)) = blocked {
        (fresh.blocked[index], fresh.blocked_until_ns) = (kind, until);
    }
    fresh
}

/// Which kind a connection is of in the table in force, where no table is made of the facts of now: `kind` is its kind's number
/// among those that there are, `indices` the number of each of these in that table, and `before` what was written of it.
///
/// What is denied by that table stays denied: a server that lists one tool more is of its kind from before.
pub fn in_older_table(kind: u32, indices: &[Option<u32>], before: Option<[u32; 2]>, half: u32) -> u32 {
    let known = usize::try_from(kind).ok().and_then(|kind| indices.get(kind).copied().flatten());
    let before = before.map(|before| before[usize::from(half == 1)]);
    known.or(before.filter(|kind| *kind != abi::GATE_NOBODY)).unwrap_or(NO_SUBJECT)
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{ServerId, SessionId, gate::GateCaller};

    use super::*;

    #[test]
    fn previous_gate_table_applies_without_a_new_one() {
        const NOBODY: u32 = abi::GATE_NOBODY;
        // Its kind now, what the kinds are in the table in force, what it was in both halves, which half is in force.
        let cases = [
            ("as before", 1, &[None, Some(4)][..], Some([4, NOBODY]), 0, 4),
            ("of another kind that is known", 1, &[None, Some(4)], Some([2, 3]), 0, 4),
            ("of a kind that is not known", 0, &[None, Some(4)], Some([2, 3]), 0, 2),
            ("the same in the other half", 0, &[None, Some(4)], Some([2, 3]), 1, 3),
            ("new, of a kind that is not known", 0, &[None], None, 0, NO_SUBJECT),
            ("written, and not of this half", 0, &[None], Some([NOBODY, 3]), 0, NO_SUBJECT),
            ("more kinds than there is capacity for", NO_SUBJECT, &[Some(1)], None, 0, NO_SUBJECT),
        ];
        for (name, kind, indices, before, half, expected) in cases {
            assert_eq!(in_older_table(kind, indices, before, half), expected, "{name}");
        }
    }

    fn judged(session: &str, kind: u32) -> Judged {
        let caller =
            GateCaller { session: SessionId(session.into()), server: ServerId("files".into()), uid: None };
        Judged { kind, blocked: None, caller, framing: abi::GATE_LINES }
    }

    fn members(all: &[(u64, u32)]) -> BTreeMap<ConnectionId, Judged> {
        all.iter().map(|(id, kind)| (ConnectionId(*id), judged("s", *kind))).collect()
    }

    /// One table of two entries: what is judged, in which half, what is written, what is refused, and what is gone.
    #[test]
    fn member_entries_are_written_when_they_change() {
        type Step = (&'static str, &'static [(u64, u32)], u32, &'static [u64], u64, &'static [u64]);
        let steps: [Step; 6] = [
            ("two", &[(1, 0), (2, 1)], 0, &[1, 2], 0, &[]),
            ("nothing new", &[(1, 0), (2, 1)], 0, &[], 0, &[]),
            ("the other half", &[(1, 0), (2, 1)], 1, &[1, 2], 0, &[]),
            ("one more than fits", &[(1, 0), (2, 1), (3, 0)], 1, &[], 1, &[]),
            ("it is counted once", &[(1, 0), (2, 1), (3, 0)], 1, &[], 0, &[]),
            ("one is gone", &[(1, 0), (3, 0)], 1, &[], 0, &[2]),
        ];
        let (mut known, mut sessions, now) = (Members::default(), Sessions::default(), Timestamp(0));
        for (name, all, half, expected, refused, gone) in steps {
            let all = members(all);
            let mut written = Vec::new();
            let counts = known.write(&all, half, &mut sessions, now, |id, _| {
                let fits = id < 3;
                written.extend(fits.then_some(id));
                fits
            });
            assert_eq!((written.as_slice(), counts.connections), (expected, refused), "{name}");
            assert_eq!(known.forget_gone(&all), gone, "{name}");
        }
        let halves = known.known[&1].subjects;
        assert_eq!(halves, [0, 0], "each half keeps its own kind");
    }
}
