//! The denials that stand.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::guard::StandingDenial;
use crate::guard::external::DeniedSubject;
use crate::terms::contract::GuardName;
use crate::terms::{ServerId, SessionId, Timestamp};

/// Most denials that stand at once.
const MOST: usize = 16_384;
/// Most of one guard about one server, in one session or of one user. Beyond, everything of the server is denied there: it has that
/// much against it, and must not displace what is denied of others.
const MOST_OF_SERVER: usize = 256;
/// What such a denial gives as the code.
const TOO_MANY: &str = "too_many_denials";

/// The denials of guards that others wrote, by the server that they are about; each oldest first.
#[derive(Clone, Debug, Default)]
pub struct StandingDenials {
    by_server: BTreeMap<Option<ServerId>, Vec<Arc<StandingDenial>>>,
    count: usize,
    /// How often those about a server became one about all of it.
    folded: u64,
    /// Denials that were given up for newer ones.
    displaced: u64,
}

impl StandingDenials {
    /// Adds one, in place of one of the same guard about the same thing. Those that are given up for it.
    pub fn add(&mut self, denial: StandingDenial) -> Vec<Arc<StandingDenial>> {
        let group = self.by_server.entry(denial.server.clone()).or_default();
        let before = group.len();
        group.retain(|known| !is_same(known, &denial));
        // What is denied to one session, or to one user's, is bounded by itself.
        let is_alike = |known: &StandingDenial| {
            (&known.guard, &known.session, known.owner, known.is_failure)
                == (&denial.guard, &denial.session, denial.owner, denial.is_failure)
        };
        let mut displaced = Vec::new();
        let alike = group.iter().filter(|known| is_alike(known)).count();
        if alike < MOST_OF_SERVER {
            group.push(Arc::new(denial));
        } else if denial.is_failure || denial.server.is_none() {
            let oldest = group.iter().position(|known| is_alike(known));
            displaced.extend(oldest.map(|oldest| group.remove(oldest)));
            self.displaced += 1;
            group.push(Arc::new(denial));
        } else {
            // The end of the last of them, if all end.
            let untils = group.iter().filter(|known| is_alike(known)).map(|known| known.until);
            let until = untils.fold(denial.until, |last, until| last.zip(until).map(|(a, b)| a.max(b)));
            group.retain(|known| !is_alike(known));
            self.folded += 1;
            group.push(Arc::new(StandingDenial {
                subject: DeniedSubject::All,
                until,
                code: TOO_MANY.into(),
                message: format!("it denies more than {MOST_OF_SERVER} things of the server").into(),
                ..denial
            }));
        }
        self.count = self.count + group.len() - before;
        if self.count > MOST {
            displaced.extend(self.displace());
        }
        displaced
    }

    /// Gives up the oldest of those about whom there are most.
    fn displace(&mut self) -> Option<Arc<StandingDenial>> {
        let largest = self.by_server.values_mut().max_by_key(|group| group.len())?;
        let oldest = (!largest.is_empty()).then(|| largest.remove(0))?;
        self.count -= 1;
        self.displaced += 1;
        Some(oldest)
    }

    /// A guard answers again: what was denied since it failed is denied no longer. Whether anything was.
    pub fn lift_failures(&mut self, guard: &GuardName) -> bool {
        self.keep(|denial| !denial.is_failure || *denial.guard != *guard)
    }

    /// Forgets those that no longer stand; whether there were any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        self.keep(|denial| denial.until.is_none_or(|until| until > now))
    }

    /// Forgets those of guards that are configured no more.
    pub fn keep_of(&mut self, is_kept: impl Fn(&GuardName) -> bool) {
        self.keep(|denial| is_kept(&denial.guard));
    }

    fn keep(&mut self, is_kept: impl Fn(&StandingDenial) -> bool) -> bool {
        let before = self.count;
        self.by_server.values_mut().for_each(|group| group.retain(|denial| is_kept(denial)));
        self.by_server.retain(|_, group| !group.is_empty());
        self.count = self.by_server.values().map(Vec::len).sum();
        self.count != before
    }

    /// When the next ends. Takes a walk over all.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_server.values().flatten().filter_map(|denial| denial.until).min()
    }

    /// Those about a server, by any of its names, and a session of a user.
    pub fn of(
        &self,
        server: &ServerId,
        also: &[ServerId],
        whose: (&SessionId, Option<u32>),
    ) -> Vec<Arc<StandingDenial>> {
        if self.count == 0 {
            return Vec::new();
        }
        let names =
            [server].into_iter().chain(also).filter_map(|name| self.by_server.get(&Some(name.clone())));
        let groups = names.chain(self.by_server.get(&None));
        groups.flatten().filter(|denial| denial.is_for(server, also, whose)).cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What happened to them, by name.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [("external_denials_folded", self.folded), ("external_denials_displaced", self.displaced)]
    }
}

/// Whether two denials are of one guard and about the same thing.
fn is_same(one: &StandingDenial, other: &StandingDenial) -> bool {
    (&one.guard, &one.server, &one.session, one.owner, &one.subject)
        == (&other.guard, &other.server, &other.session, other.owner, &other.subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::GuardKind;

    fn denial(server: Option<&str>, tool: usize, until: Option<u64>) -> StandingDenial {
        StandingDenial {
            guard: Arc::new(GuardName { kind: GuardKind::Http, name: "g".into() }),
            server: server.map(|server| ServerId(server.into())),
            session: server.is_none().then(|| SessionId(tool.to_string().into())),
            owner: None,
            is_failure: false,
            subject: DeniedSubject::Tool(tool.to_string().into()),
            until: until.map(Timestamp),
            code: "c".into(),
            message: "m".into(),
        }
    }

    fn of(denials: &StandingDenials, server: &str) -> Vec<DeniedSubject> {
        let denials = denials.of(&ServerId(server.into()), &[], (&SessionId("s".into()), None));
        denials.iter().map(|denial| denial.subject.clone()).collect()
    }

    #[test]
    fn server_with_too_many_denials_is_denied_as_a_whole() {
        for (untils, expected) in [(Some(7), Some(Timestamp(9))), (None, None)] {
            let mut denials = StandingDenials::default();
            denials.add(denial(Some("other"), 1, None));
            for tool in 0..MOST_OF_SERVER {
                denials.add(denial(Some("bad"), tool, if tool == 3 { untils } else { Some(9) }));
            }
            assert_eq!(of(&denials, "bad").len(), MOST_OF_SERVER);
            denials.add(denial(Some("bad"), 9_999, Some(8)));
            assert_eq!(of(&denials, "bad"), [DeniedSubject::All]);
            assert_eq!(
                denials.of(&ServerId("bad".into()), &[], (&SessionId("s".into()), None))[0].until,
                expected
            );
            // Nothing of others is displaced.
            assert_eq!(of(&denials, "other").len(), 1);
            assert_eq!((denials.count(), denials.counters()[0].1, denials.counters()[1].1), (2, 1, 0));
        }
    }

    #[test]
    fn same_thing_is_denied_once_and_ends() {
        let mut denials = StandingDenials::default();
        for until in [5, 9] {
            denials.add(denial(Some("a"), 1, Some(until)));
        }
        assert_eq!((denials.count(), denials.next()), (1, Some(Timestamp(9))));
        assert!(!denials.expire(Timestamp(8)) && denials.expire(Timestamp(9)));
        assert_eq!((denials.count(), of(&denials, "a").len()), (0, 0));
    }

    #[test]
    fn largest_group_gives_up_its_oldest() {
        let mut denials = StandingDenials::default();
        for number in 0..MOST - MOST_OF_SERVER {
            denials.add(denial(Some(&format!("server {}", number / 200)), number, None));
        }
        for number in 0..MOST_OF_SERVER + 10 {
            denials.add(denial(None, number, None));
        }
        let kept = of(&denials, "server 0").len();
        // Those about no server are the most: they lose.
        assert_eq!((denials.count(), denials.counters()[1].1, kept), (MOST, 10, 200));
    }
}
