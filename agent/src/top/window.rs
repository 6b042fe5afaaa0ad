//! What is counted over the last seconds, and tables that do not grow without end.

use std::{
    borrow::Borrow,
    cell::Cell,
    collections::{BTreeMap, VecDeque},
};

use mcpwarden_policy::Timestamp;

/// Whole seconds over which rates are taken.
pub const WINDOW_SECONDS: u64 = 10;
/// Latencies of which quantiles are taken: the last so many.
const LATENCIES: usize = 128;
/// One more than the window for the second that is not over, and one for events that are late.
const SLOTS: usize = 12;

fn second(time: Timestamp) -> u64 {
    time.0 / 1_000_000_000
}

/// How often something happens.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    /// A second, and how often in it; at its remainder by [`SLOTS`].
    slots: [(u64, u32); SLOTS],
}

impl Rate {
    /// It happened.
    pub fn add(&mut self, at: Timestamp) {
        let second = second(at);
        let slot = usize::try_from(second % SLOTS as u64).unwrap_or_default();
        if let Some(slot) = self.slots.get_mut(slot) {
            // A slot that is far ahead is of a clock that was set back since: it would stand there until that time comes again.
            if second > slot.0 || slot.0 - second > SLOTS as u64 {
                *slot = (second, 0);
            }
            if second == slot.0 {
                slot.1 = slot.1.saturating_add(1);
            }
        }
    }

    /// Times a second, in the last [`WINDOW_SECONDS`] that are over.
    pub fn per_second(&self, now: Timestamp) -> f64 {
        let now = second(now);
        let window = now.saturating_sub(WINDOW_SECONDS)..now;
        let count: u32 =
            self.slots.iter().filter(|(second, _)| window.contains(second)).map(|(_, count)| count).sum();
        f64::from(count) / WINDOW_SECONDS as f64
    }
}

/// How long the last answers took. Nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    recent: VecDeque<u64>,
    /// The quantiles, until there is another answer: they are asked for ten times a second.
    known: Cell<Option<(u64, u64)>>,
}

impl Latencies {
    /// Another answer.
    pub fn add(&mut self, nanoseconds: u64) {
        push(&mut self.recent, nanoseconds, LATENCIES);
        self.known.set(None);
    }

    /// That of every second answer at most, and of 19 in 20; by the nearest rank.
    pub fn quantiles(&self) -> Option<(u64, u64)> {
        if self.known.get().is_none() && !self.recent.is_empty() {
            let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
            sorted.sort_unstable();
            let rank = |percent: usize| {
                let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
                sorted.get(rank).copied().unwrap_or_default()
            };
            self.known.set(Some((rank(50), rank(95))));
        }
        self.known.get()
    }
}

/// Appends to a list of the last so many; whether the oldest had to go.
pub fn push<T>(recent: &mut VecDeque<T>, one: T, most: usize) -> bool {
    let full = recent.len() >= most;
    if full {
        recent.pop_front();
    }
    recent.push_back(one);
    full
}

/// Things by their names, up to a number; how often there was no room for another is counted.
#[derive(Clone, Debug)]
pub struct Few<K, V = ()> {
    entries: BTreeMap<K, V>,
    most: usize,
    refused: u64,
}

impl<K: Ord, V: Default> Few<K, V> {
    /// None of at most so many.
    pub fn new(most: usize) -> Self {
        Self { entries: BTreeMap::new(), most, refused: 0 }
    }

    /// The one of this name, made where there is none; `None` where there is no room.
    pub fn entry<Q: Ord + ?Sized + ToOwned<Owned = O>, O: Into<K>>(&mut self, name: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.entries.contains_key(name) {
            if self.entries.len() >= self.most {
                self.refused += 1;
                return None;
            }
            self.entries.insert(name.to_owned().into(), V::default());
        }
        self.entries.get_mut(name)
    }

    /// The same; where there is no room, in place of the one that can be given up and has the least `rank`, `None` being
    /// one that cannot.
    pub fn entry_for<Q: Ord + ?Sized + ToOwned<Owned = O>, O: Into<K>, R: Ord>(
        &mut self,
        name: &Q,
        rank: impl Fn(&V) -> Option<R>,
    ) -> Option<&mut V>
    where
        K: Borrow<Q> + Clone,
    {
        if self.entries.len() >= self.most && !self.entries.contains_key(name) {
            let ranked = self.entries.iter().filter_map(|(name, one)| Some((rank(one)?, name)));
            if let Some(name) = ranked.min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, name)| name.clone()) {
                self.entries.remove::<Q>(name.borrow());
                self.refused += 1;
            }
        }
        self.entry(name)
    }

    /// The one of this name.
    pub fn get<Q: Ord + ?Sized>(&self, name: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(name)
    }

    /// Takes one out. One that is not there is among those for which there was no room; where none is left, nothing is
    /// said of those either.
    pub fn remove<Q: Ord + ?Sized>(&mut self, name: &Q)
    where
        K: Borrow<Q>,
    {
        if self.entries.remove(name).is_none() {
            self.refused = self.refused.saturating_sub(1);
        }
        if self.entries.is_empty() {
            self.refused = 0;
        }
    }

    /// Takes all out, and forgets that there was no room.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.refused = 0;
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    /// All, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many there are, and `+` where there was no room for more.
    pub fn count(&self) -> String {
        format!("{}{}", self.len(), if self.refused > 0 { "+" } else { "" })
    }

    /// How often there was no room, for others than those that were taken out since.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp(milliseconds * 1_000_000)
    }

    /// When something happened, when it is asked, in milliseconds; how often a second.
    #[test]
    fn rate_covers_the_last_whole_seconds() {
        for (times, now, expected) in [
            (&[][..], 100_000, 0.0),
            (&[99_999], 100_000, 0.1),
            (&[100_000], 100_999, 0.0),
            (&[90_000, 91_500, 99_000], 100_500, 0.3),
            (&[89_999], 100_000, 0.0),
            // Late, and too late to be counted where a newer second is.
            (&[99_000, 95_000], 100_000, 0.2),
            (&[99_000, 87_000], 100_000, 0.1),
            (&[99_000; 20], 100_000, 2.0),
            // The clock was set back by an hour.
            (&[3_699_000, 3_699_500, 99_000, 99_500], 100_000, 0.2),
        ] {
            let mut rate = Rate::default();
            times.iter().for_each(|time| rate.add(at(*time)));
            assert!((rate.per_second(at(now)) - expected).abs() < 1e-9, "{times:?} {now}");
        }
    }

    #[test]
    fn quantiles_cover_the_latest_latencies() {
        for (latencies, expected) in [
            (Vec::new(), None),
            (vec![7], Some((7, 7))),
            ((1..=100).collect(), Some((50, 95))),
            ([vec![1_000_000; 500], vec![3; LATENCIES]].concat(), Some((3, 3))),
        ] {
            let mut window = Latencies::default();
            latencies.into_iter().for_each(|one| window.add(one));
            assert_eq!(window.quantiles(), expected);
            assert_eq!(window.quantiles(), expected);
        }
    }

    #[test]
    fn full_table_admits_no_new_entry() {
        let mut few: Few<String, u64> = Few::new(2);
        for (name, room) in [("a", true), ("b", true), ("c", false), ("a", true)] {
            assert_eq!(few.entry(name).map(|one| *one += 1).is_some(), room, "{name}");
        }
        assert_eq!((few.len(), few.refused(), few.count().as_str()), (2, 1, "2+"));
        // `a` has 2 and `b` 1: that goes, unless it must stay.
        assert!(few.entry_for("d", |_| None::<u64>).is_none());
        assert!(few.entry_for("d", |one| Some(*one)).is_some());
        assert!(few.get("b").is_none() && few.get("a").is_some());
    }

    /// Two find room, and `c` and `d` do not. What is taken out then, and what is said of how many there are.
    #[test]
    fn refused_entry_is_forgotten_after_removal() {
        for (gone, expected) in [
            (&["a"][..], "1+"),
            (&["c"], "2+"),
            (&["c", "d"], "2"),
            (&["d", "a", "c"], "1"),
            (&["a", "b"], "0"),
        ] {
            let mut few: Few<String> = Few::new(2);
            for name in ["a", "b", "c", "d"] {
                few.entry(name);
            }
            gone.iter().for_each(|name| few.remove(*name));
            assert_eq!(few.count(), expected, "{gone:?}");
            few.clear();
            assert_eq!((few.count().as_str(), few.refused()), ("0", 0));
        }
    }
}
