//! Lists of which a server says that they are the same for all users (`cacheScope: public`): caches between it and its clients give
//! one user the list of another.

use std::collections::BTreeMap;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::registry::ItemKind;
use crate::terms::Timestamp;

/// Most lists that are remembered.
const MAX_LISTS: usize = 1_024;
/// For how long a list is remembered at most, whatever its server says.
const MAX_AGE: Duration = Duration::from_secs(3_600);

/// Which list: of what is at this URL, and of which kind.
type Key = (String, ItemKind);

/// The lists that were given last.
#[derive(Debug, Default)]
pub(super) struct PublicLists(BTreeMap<Key, Given>);

#[derive(Debug)]
struct Given {
    user: u32,
    digest: [u8; 32],
    /// Until then it is said to be fresh.
    until: Timestamp,
}

impl PublicLists {
    /// A user was given a list of definitions with these hashes. Whether another user was given another one, which is still fresh;
    /// and how many lists were forgotten for it.
    pub(super) fn differs(
        &mut self,
        key: Key,
        user: u32,
        hashes: impl IntoIterator<Item = [u8; 32]>,
        (now, fresh): (Timestamp, Duration),
    ) -> (bool, u64) {
        let mut hashes: Vec<[u8; 32]> = hashes.into_iter().collect();
        hashes.sort_unstable();
        let digest = Sha256::digest(hashes.concat()).into();
        let before = self.0.get(&key);
        let differs =
            before.is_some_and(|before| before.user != user && before.digest != digest && now < before.until);
        let mut forgotten = 0;
        if before.is_none() && self.0.len() >= MAX_LISTS {
            let oldest = self.0.iter().min_by_key(|(_, given)| given.until).map(|(key, _)| key.clone());
            forgotten = u64::from(oldest.is_some_and(|oldest| self.0.remove(&oldest).is_some()));
        }
        self.0.insert(key, Given { user, digest, until: now.after(fresh.min(MAX_AGE)) });
        (differs, forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 32] = [1; 32];
    const B: [u8; 32] = [2; 32];

    /// Who is given what, when (s) and for how long (s); and whether that differs from what somebody else was given.
    #[test]
    fn public_list_is_compared_between_users() {
        type Step<'a> = (&'a str, u32, &'a [[u8; 32]], u64, u64, bool);
        let cases: &[(&str, &[Step<'_>])] = &[
            ("one user", &[("x", 1, &[A], 0, 60, false), ("x", 1, &[B], 1, 60, false)]),
            ("the same list", &[("x", 1, &[A], 0, 60, false), ("x", 2, &[A], 1, 60, false)]),
            ("another list", &[("x", 1, &[A], 0, 60, false), ("x", 2, &[B], 1, 60, true)]),
            ("a longer list", &[("x", 1, &[A], 0, 60, false), ("x", 2, &[A, B], 1, 60, true)]),
            ("another order", &[("x", 1, &[B, A], 0, 60, false), ("x", 2, &[A, B], 1, 60, false)]),
            ("no list", &[("x", 1, &[A], 0, 60, false), ("x", 2, &[], 1, 60, true)]),
            ("later", &[("x", 1, &[A], 0, 60, false), ("x", 2, &[B], 60, 60, false)]),
            ("stale at once", &[("x", 1, &[A], 0, 0, false), ("x", 2, &[B], 0, 60, false)]),
            (
                "fresh for ever",
                &[("x", 1, &[A], 0, u64::MAX / 2_000_000_000, false), ("x", 2, &[B], 3_600, 60, false)],
            ),
            ("another server", &[("x", 1, &[A], 0, 60, false), ("y", 2, &[B], 1, 60, false)]),
            (
                "and back",
                &[("x", 1, &[A], 0, 60, false), ("x", 2, &[B], 1, 60, true), ("x", 1, &[A], 2, 60, true)],
            ),
        ];
        for (name, steps) in cases {
            let mut lists = PublicLists::default();
            for (server, user, hashes, now, fresh, expected) in *steps {
                let times = (Timestamp(now * 1_000_000_000), Duration::from_secs(*fresh));
                let key = ((*server).to_owned(), ItemKind::Tool);
                let (differs, _) = lists.differs(key, *user, hashes.iter().copied(), times);
                assert_eq!(differs, *expected, "{name}: {user} at {now}");
            }
        }
    }

    #[test]
    fn public_lists_are_bounded() {
        let mut lists = PublicLists::default();
        let times = (Timestamp(1), Duration::from_secs(1));
        let forgotten: u64 = (0..3_000)
            .map(|number| lists.differs((number.to_string(), ItemKind::Tool), 1, [A], times).1)
            .sum();
        assert_eq!((lists.0.len(), forgotten), (MAX_LISTS, 3_000 - 1_024));
    }
}
