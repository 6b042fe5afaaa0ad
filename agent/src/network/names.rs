//! Names of hosts and the addresses they have: when each is asked for again, and how long an address stays.
//!
//! Knows neither clock nor network: both are told.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// Addresses of one name that are kept, at most.
const ADDRESSES: usize = 256;

/// How long answers count.
#[derive(Clone, Copy, Debug)]
pub struct Ttl {
    /// At least, whatever the answer says.
    pub min: Duration,
    /// At most.
    pub max: Duration,
}

/// One name.
#[derive(Debug)]
struct Name {
    /// When it is to be asked for again.
    due: Instant,
    /// How long the last answer counts.
    ttl: Duration,
    /// When an answer last held each address.
    seen: BTreeMap<IpAddr, Instant>,
}

/// All names that rules and servers speak of.
#[derive(Debug)]
pub struct Names {
    ttl: Ttl,
    names: BTreeMap<String, Name>,
    /// Questions without an answer.
    failures: u64,
    /// Addresses that were one too many for their name.
    refused: u64,
}

impl Names {
    /// These names, all of which are to be asked for at once.
    pub fn new(names: impl IntoIterator<Item = String>, ttl: Ttl, now: Instant) -> Self {
        let name = |name| (name, Name { due: now, ttl: ttl.min, seen: BTreeMap::new() });
        Self { ttl, names: names.into_iter().map(name).collect(), failures: 0, refused: 0 }
    }

    /// From now on these names: what is not known of them is to be asked for at once, others are forgotten.
    pub fn follow(&mut self, names: impl IntoIterator<Item = String>, now: Instant) {
        let mut known = std::mem::take(&mut self.names);
        let fresh = || Name { due: now, ttl: self.ttl.min, seen: BTreeMap::new() };
        self.names = names
            .into_iter()
            .map(|name| {
                let known = known.remove(&name).unwrap_or_else(fresh);
                (name, known)
            })
            .collect();
    }

    /// Answers count for so long from now on.
    pub fn keep_for(&mut self, ttl: Ttl) {
        self.ttl = ttl;
    }

    /// What a name has now.
    pub fn of(&self, name: &str) -> impl Iterator<Item = IpAddr> {
        self.names.get(name).into_iter().flat_map(|known| known.seen.keys().copied())
    }

    /// Which are to be asked for.
    pub fn due(&self, now: Instant) -> Vec<String> {
        let due = self.names.iter().filter(|(_, name)| name.due <= now);
        due.map(|(name, _)| name.clone()).collect()
    }

    /// A name has these addresses, for so long. Whether any came or left. What was known of families for which nobody
    /// answered (`silent`) stays.
    ///
    /// One that is missing in the answer stays until another one without it has come and its time is over: whoever
    /// asked before may use it still, and servers with many addresses tell some at a time.
    pub fn answered(
        &mut self,
        name: &str,
        addresses: &[IpAddr],
        ttl: Duration,
        silent: impl Fn(IpAddr) -> bool,
        now: Instant,
    ) -> bool {
        let Some(known) = self.names.get_mut(name) else { return false };
        let ttl = ttl.clamp(self.ttl.min, self.ttl.max);
        let stays = known.ttl.max(ttl) * 2;
        known.ttl = ttl;
        known.due = now + ttl;
        let before = known.seen.len();
        let mut unanswered = false;
        known.seen.retain(|address, seen| {
            let kept = silent(*address);
            unanswered |= kept;
            kept || addresses.contains(address) || now.duration_since(*seen) < stays
        });
        self.failures += u64::from(unanswered);
        let mut changed = known.seen.len() != before;
        for address in addresses {
            if known.seen.len() >= ADDRESSES && !known.seen.contains_key(address) {
                self.refused += 1;
                continue;
            }
            changed |= known.seen.insert(*address, now).is_none();
        }
        changed
    }

    /// Another agent heard that a name has this address: it counts until an answer says otherwise.
    pub fn had(&mut self, name: &str, address: IpAddr, now: Instant) {
        let Some(known) = self.names.get_mut(name) else { return };
        if known.seen.len() < ADDRESSES {
            known.seen.insert(address, now);
        } else {
            self.refused += 1;
        }
    }

    /// A name could not be asked for: what was known of it stays.
    pub fn failed(&mut self, name: &str, now: Instant) {
        self.failures += 1;
        if let Some(known) = self.names.get_mut(name) {
            known.due = now + self.ttl.min;
        }
    }

    /// What every name has now.
    pub fn addresses(&self) -> BTreeMap<String, Vec<IpAddr>> {
        let addresses = |name: &Name| name.seen.keys().copied().collect();
        self.names.iter().map(|(name, known)| (name.clone(), addresses(known))).collect()
    }

    /// Questions without an answer so far.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Addresses that were not kept, because their name has too many.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Both families were answered for.
    fn nobody(_: IpAddr) -> bool {
        false
    }

    fn names(start: Instant) -> Names {
        Names::new(["a".to_owned()], Ttl { min: seconds(10), max: seconds(100) }, start)
    }

    fn addresses(names: &Names) -> Vec<IpAddr> {
        names.addresses()["a"].clone()
    }

    #[test]
    fn name_is_queried_again_after_its_ttl() {
        for (name, ttl, due) in
            [("floor", 0, 10), ("as said", 50, 50), ("ceiling", 3600, 100), ("overflow", u64::MAX, 100)]
        {
            let start = Instant::now();
            let mut names = names(start);
            assert_eq!(names.due(start), ["a"]);
            assert!(names.answered("a", &[ip(1)], seconds(ttl), nobody, start), "{name}");
            assert!(names.due(start + seconds(due - 1)).is_empty(), "{name}");
            assert_eq!(names.due(start + seconds(due)), ["a"], "{name}");
        }
    }

    #[test]
    fn new_address_is_added_before_old_expires() {
        let start = Instant::now();
        let mut names = names(start);
        names.answered("a", &[ip(1), ip(2)], seconds(10), nobody, start);
        assert!(names.answered("a", &[ip(2), ip(3)], seconds(10), nobody, start + seconds(10)));
        assert_eq!(addresses(&names), [ip(1), ip(2), ip(3)]);
        assert!(
            !names.answered("a", &[ip(3)], seconds(10), nobody, start + seconds(19)),
            "1 is still in its time"
        );
        assert!(names.answered("a", &[ip(3)], seconds(10), nobody, start + seconds(20)));
        assert_eq!(addresses(&names), [ip(2), ip(3)]);
    }

    #[test]
    fn failed_query_keeps_known_addresses() {
        let start = Instant::now();
        let mut names = names(start);
        names.answered("a", &[ip(1)], seconds(100), nobody, start);
        for failure in 1..4 {
            let now = start + seconds(1000 * failure);
            names.failed("a", now);
            assert_eq!(addresses(&names), [ip(1)]);
            assert!(names.due(now + seconds(9)).is_empty());
            assert_eq!(names.due(now + seconds(10)), ["a"], "soon");
        }
        assert_eq!(names.failures(), 3);
    }

    #[test]
    fn addresses_of_failed_family_are_kept() {
        let start = Instant::now();
        let mut names = names(start);
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        names.answered("a", &[ip(1), six], seconds(10), nobody, start);
        assert!(names.answered("a", &[ip(2)], seconds(10), |ip| ip.is_ipv6(), start + seconds(100)));
        assert_eq!(addresses(&names), [ip(2), six]);
        assert_eq!(names.failures(), 1);
        assert!(names.answered("a", &[ip(2)], seconds(10), nobody, start + seconds(200)));
        assert_eq!((addresses(&names), names.failures()), (vec![ip(2)], 1));
    }

    #[test]
    fn inherited_address_is_kept_until_an_answer() {
        let start = Instant::now();
        let mut names = names(start);
        names.had("a", ip(1), start);
        names.had("b", ip(2), start);
        assert_eq!((addresses(&names), names.due(start)), (vec![ip(1)], vec!["a".to_owned()]));
        names.failed("a", start);
        assert_eq!(addresses(&names), [ip(1)]);
        names.answered("a", &[ip(3)], seconds(10), nobody, start + seconds(10));
        assert_eq!(addresses(&names), [ip(1), ip(3)]);
        names.answered("a", &[ip(3)], seconds(10), nobody, start + seconds(20));
        assert_eq!(addresses(&names), [ip(3)]);
    }

    #[test]
    fn excess_addresses_are_refused_and_counted() {
        let start = Instant::now();
        let mut names = names(start);
        let many: Vec<IpAddr> = (0..300u16).map(|n| IpAddr::from([10, 0, (n >> 8) as u8, n as u8])).collect();
        names.answered("a", &many, seconds(10), nobody, start);
        assert_eq!((addresses(&names).len(), names.refused()), (256, 44));
    }

    #[test]
    fn changed_names_keep_known_addresses() {
        let start = Instant::now();
        let mut names = names(start);
        names.answered("a", &[ip(1)], seconds(100), nobody, start);
        for (followed, due) in [(&["a", "b"][..], &["b"][..]), (&["a"], &[]), (&["b"], &["b"]), (&[], &[])] {
            names.follow(followed.iter().map(|name| (*name).to_owned()), start);
            assert_eq!(names.due(start), due, "{followed:?}");
            assert_eq!(names.of("a").count(), usize::from(followed.contains(&"a")), "{followed:?}");
        }
    }

    #[test]
    fn answers_for_unknown_names_are_ignored() {
        let start = Instant::now();
        let mut names = names(start);
        assert!(!names.answered("b", &[ip(1)], seconds(10), nobody, start));
        names.failed("b", start);
        assert_eq!(names.addresses().len(), 1);
    }
}
