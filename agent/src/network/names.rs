//! Names of hosts and the addresses they have: when each is asked for again, and how long an address stays.
//!
//! Knows neither clock nor network: both are told.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

/// Addresses of one name that are kept, at most.
const ADDRESSES: usize = 256;

/// At least so long after an answer a name is asked for again because others were told another address of it.
const AGAIN: Duration = Duration::from_secs(1);

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
    /// When it was answered for last, or could not be asked for.
    asked: Option<Instant>,
    /// How long the last answer counts.
    ttl: Duration,
    /// When an answer last held each address.
    seen: BTreeMap<IpAddr, Instant>,
}

impl Name {
    /// One that is to be asked for.
    fn new(ttl: Ttl, now: Instant) -> Self {
        Self { due: now, asked: None, ttl: ttl.min, seen: BTreeMap::new() }
    }
}

/// One address of each family.
const FAMILIES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

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
        let name = |name| (name, Name::new(ttl, now));
        Self { ttl, names: names.into_iter().map(name).collect(), failures: 0, refused: 0 }
    }

    /// From now on these names: what is not known of them is to be asked for at once, others are forgotten.
    pub fn follow(&mut self, names: impl IntoIterator<Item = String>, now: Instant) {
        let mut known = std::mem::take(&mut self.names);
        let fresh = || Name::new(self.ttl, now);
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
    /// asked before may use it still, and servers with many addresses tell some at a time. Where nobody answered for a family, that
    /// is asked for again soon.
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
        known.asked = Some(now);
        let is_whole = !FAMILIES.into_iter().any(&silent);
        known.due = now + if is_whole { ttl } else { self.ttl.min };
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
            (known.asked, known.due) = (Some(now), now + self.ttl.min);
        }
    }

    /// A name server told somebody else that a name has this address. Where that is news, the name is asked for again: what others
    /// are told may be made up, and is never used itself.
    pub fn heard(&mut self, name: &str, address: IpAddr, now: Instant) {
        let Some(known) = self.names.get_mut(name).filter(|known| !known.seen.contains_key(&address)) else {
            return;
        };
        let soonest = known.asked.map_or(now, |asked| now.max(asked + AGAIN));
        known.due = known.due.min(soonest);
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

    /// What of a name was answered, failed or heard at which second, and when it is asked for next.
    #[test]
    fn name_is_queried_again_when_others_are_told_more() {
        enum Step {
            Answered(&'static [u8], [bool; 2]),
            Failed,
            Heard(&'static str, IpAddr),
        }
        use Step::{Answered, Failed, Heard};
        const BOTH: [bool; 2] = [false; 2];
        let six: IpAddr = "2001:db8::1".parse().unwrap();
        type Case<'a> = (&'a str, Vec<(u64, Step)>, u64);
        let cases: Vec<Case<'_>> = vec![
            ("not asked", vec![], 0),
            ("answered", vec![(0, Answered(&[1], BOTH))], 50),
            ("the same heard", vec![(0, Answered(&[1], BOTH)), (5, Heard("a", ip(1)))], 50),
            ("another heard", vec![(0, Answered(&[1], BOTH)), (5, Heard("a", ip(2)))], 5),
            ("another family heard", vec![(0, Answered(&[1], BOTH)), (5, Heard("a", six))], 5),
            ("of another name", vec![(0, Answered(&[1], BOTH)), (5, Heard("b", ip(2)))], 50),
            ("at once", vec![(0, Answered(&[1], BOTH)), (0, Heard("a", ip(2)))], 1),
            (
                "again and again",
                vec![
                    (0, Answered(&[1], BOTH)),
                    (5, Heard("a", ip(2))),
                    (5, Answered(&[1], BOTH)),
                    (5, Heard("a", ip(2))),
                ],
                6,
            ),
            (
                "and known by now",
                vec![
                    (0, Answered(&[1], BOTH)),
                    (5, Heard("a", ip(2))),
                    (5, Answered(&[2], BOTH)),
                    (9, Heard("a", ip(2))),
                ],
                55,
            ),
            (
                "that is told in turn",
                vec![(0, Answered(&[1], BOTH)), (5, Answered(&[2], BOTH)), (9, Heard("a", ip(1)))],
                55,
            ),
            ("failed", vec![(0, Failed)], 10),
            ("failed, and heard", vec![(0, Failed), (5, Heard("a", ip(1)))], 5),
            ("heard before the first answer", vec![(5, Heard("a", ip(1)))], 0),
            ("nobody answers for IPv6", vec![(0, Answered(&[1], [false, true]))], 10),
            ("nobody answers for IPv4", vec![(0, Answered(&[1], [true, false]))], 10),
            (
                "and then somebody does",
                vec![(0, Answered(&[1], [true, false])), (10, Answered(&[1], BOTH))],
                60,
            ),
        ];
        for (name, steps, due) in cases {
            let start = Instant::now();
            let mut names = names(start);
            for (at, step) in steps {
                let now = start + seconds(at);
                match step {
                    Answered(addresses, [four, six]) => {
                        let addresses: Vec<IpAddr> = addresses.iter().map(|last| ip(*last)).collect();
                        let silent = |ip: IpAddr| if ip.is_ipv4() { four } else { six };
                        names.answered("a", &addresses, seconds(50), silent, now);
                    }
                    Failed => names.failed("a", now),
                    Heard(name, address) => names.heard(name, address, now),
                }
            }
            assert_eq!(names.names["a"].due, start + seconds(due), "{name}");
        }
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
