//! Servers that nobody declared, where they answered. Those that `server_access` denies are denied there.
//!
//! A denial of an address hits everything that is at it, anybody can have a server answer, and who asks chooses what he calls
//! it: the path. So it takes an answer of MCP's, is about that one address and port, holds for a time only, and spares an
//! address that somebody has other plans with. Anybody can have a network namespace, too, and any address in it: what answered
//! there is denied there, and nowhere else.

use std::collections::BTreeMap;

use mcpwarden_kernel::addresses::Addresses;
use mcpwarden_policy::{
    Found, ServerId, Timestamp,
    event::ServerDenied,
    network::{Endpoint, FoundDenial, Host, NetworkRules},
};
use mcpwarden_system::boot::boot_ns;

use super::{Network, NetworkError};
use crate::host::clock::Clock;

const SECOND: u64 = 1_000_000_000;
/// Servers that are remembered, at most; and those of one address.
const MOST: usize = 1_024;
const MOST_AT_ONE: usize = 16;
/// Of those that are remembered: in other network namespaces than the host's, of which anybody can make as many as he likes.
const MOST_ELSEWHERE: usize = MOST / 2;
/// For how long an answer tells what is at an address. Nobody says when something else is there.
const EVIDENCE_NS: u64 = 3_600 * SECOND;
/// The least time between two changes of the table: anybody can have servers answer, and each change costs milliseconds.
const PAUSE_NS: u64 = SECOND;
/// When a table is tried again that could not be installed.
const AGAIN_NS: u64 = 60 * SECOND;

/// Where a server is, and which.
type ServerEndpoint = (Endpoint, ServerId);

/// Those that are denied: why, and what speaks against denying the address.
type Judged = BTreeMap<ServerEndpoint, (String, Option<String>)>;

/// What is known of one.
#[derive(Clone, Debug)]
struct Known {
    found: Found,
    /// When what is known is too old; nanoseconds since boot, as all times here.
    ends_ns: u64,
    /// What was said of it: why it is denied, and what speaks against denying its address.
    reported: Option<(String, Option<String>)>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundServers {
    known: BTreeMap<ServerEndpoint, Known>,
    /// The addresses that are denied for them, and why.
    denied: BTreeMap<Endpoint, String>,
    /// When they are to be judged, and when they were.
    due_ns: Option<u64>,
    judged_ns: u64,
}

impl FoundServers {
    /// Takes in that one answered. Whether there was room.
    fn answered(&mut self, found: &Found, now: u64) -> bool {
        let at = Endpoint { address: found.address, netns: found.netns };
        let place = (at, found.server.clone());
        let ends_ns = now.saturating_add(EVIDENCE_NS);
        if let Some(known) = self.known.get_mut(&place) {
            known.ends_ns = ends_ns;
            // What spoke against it may do so no more.
            if known.reported.as_ref().is_some_and(|(_, obstacle)| obstacle.is_some()) {
                self.judge_at(now);
            }
            return true;
        }
        if self.at(at).count() >= MOST_AT_ONE || !self.make_room(at.netns.is_some()) {
            return false;
        }
        self.known.insert(place, Known { found: found.clone(), ends_ns, reported: None });
        self.judge_at(now);
        true
    }

    /// Whether there is room for one more, in another network namespace than the host's (`elsewhere`) or in that: where there
    /// is none, the server that answered longest ago of those that are not denied makes it.
    fn make_room(&mut self, elsewhere: bool) -> bool {
        let is_there = |((at, _), _): &(&ServerEndpoint, &Known)| at.netns.is_some();
        let is_crowded = elsewhere && self.known.iter().filter(is_there).count() >= MOST_ELSEWHERE;
        if !is_crowded && self.known.len() < MOST {
            return true;
        }
        let allowed = self.known.iter().filter(|(_, known)| known.reported.is_none());
        let allowed = allowed.filter(|one| !is_crowded || is_there(one));
        let oldest = allowed.min_by_key(|(_, known)| known.ends_ns).map(|(place, _)| place.clone());
        oldest.and_then(|place| self.known.remove(&place)).is_some()
    }

    fn at(&self, endpoint: Endpoint) -> impl Iterator<Item = (&ServerEndpoint, &Known)> {
        self.known.iter().filter(move |((at, _), _)| *at == endpoint)
    }

    /// They are to be judged, soon.
    fn judge_at(&mut self, now: u64) {
        let at = now.max(self.judged_ns.saturating_add(PAUSE_NS));
        self.due_ns = Some(self.due_ns.map_or(at, |due| due.min(at)));
    }

    /// When there is something to do.
    fn next(&self) -> Option<u64> {
        self.known.values().map(|known| known.ends_ns).chain(self.due_ns).min()
    }

    /// Begins to judge them, if it is time: forgets what is too old.
    fn begin(&mut self, now: u64) -> bool {
        if self.next().is_none_or(|next| next > now) {
            return false;
        }
        self.known.retain(|_, known| known.ends_ns > now);
        (self.due_ns, self.judged_ns) = (None, now);
        true
    }
}

/// The addresses that are to be denied, and why.
fn wanted(judged: &Judged) -> BTreeMap<Endpoint, String> {
    let denied = judged.iter().filter(|(_, (_, obstacle))| obstacle.is_none());
    denied.map(|((at, _), (reason, _))| (*at, reason.clone())).collect()
}

impl Network {
    /// A server that nobody declared answered. What follows from it, [`Network::judge_found`] says.
    pub fn found(&mut self, found: &Found) {
        self.counters.found_refused += u64::from(!self.found.answered(found, boot_ns()));
    }

    /// Denies the addresses of those that are denied, where it is time for that. Those of which there is something to say.
    pub fn judge_found(&mut self, addresses: &mut Addresses, clock: &Clock) -> Vec<(Found, ServerDenied)> {
        let now = boot_ns();
        if !self.found.begin(now) {
            return Vec::new();
        }
        let judged = self.judged();
        let (mut failed, wanted) = (None, wanted(&judged));
        if wanted != self.found.denied {
            let before = std::mem::replace(&mut self.found.denied, wanted);
            match self.install(addresses, clock) {
                Ok(()) => self.close(clock),
                Err(error) => {
                    self.found.denied = before;
                    self.found.due_ns = Some(now.saturating_add(AGAIN_NS));
                    failed = Some(error);
                }
            }
        }
        self.unreported(&judged, failed.as_ref(), clock)
    }

    /// What is to be said of them that was not said yet.
    fn unreported(
        &mut self,
        judged: &Judged,
        failed: Option<&NetworkError>,
        clock: &Clock,
    ) -> Vec<(Found, ServerDenied)> {
        let mut due = Vec::new();
        for (place, known) in &mut self.found.known {
            let outcome = judged.get(place).cloned().map(|(reason, obstacle)| {
                let missing = || failed.map(|error| format!("the table could not be changed: {error}"));
                let denied = self.found.denied.contains_key(&place.0);
                (reason, obstacle.or_else(|| if denied { None } else { missing() }))
            });
            if known.reported == outcome {
                continue;
            }
            known.reported.clone_from(&outcome);
            let Some((reason, obstacle)) = outcome else { continue };
            let denied = ServerDenied {
                remote_addr: place.0.address.to_string(),
                netns: place.0.netns,
                reason,
                enforced: self.rules.enforced && obstacle.is_none(),
                until: obstacle.is_none().then(|| clock.wall(known.ends_ns)),
                obstacle,
            };
            due.push((known.found.clone(), denied));
        }
        due
    }

    /// Has the next table deny no more than the rules of now do, and all of it be judged.
    pub(super) fn follow_found(&mut self) {
        let wanted = wanted(&self.judged());
        self.found.denied.retain(|address, _| wanted.contains_key(address));
        self.found.due_ns = Some(boot_ns());
    }

    /// Denies nothing for them in the next table. Whether anything was.
    pub(super) fn give_way(&mut self) -> bool {
        !std::mem::take(&mut self.found.denied).is_empty()
    }

    /// When there is something to judge or to forget.
    pub(super) fn next_found(&self, clock: &Clock) -> Option<Timestamp> {
        self.found.next().map(|next| clock.wall(next))
    }

    /// The rules of the configuration, and those on servers that were found.
    pub(super) fn all_rules(&self) -> NetworkRules {
        let denied = self.found.denied.iter();
        let found = denied.map(|(at, reason)| {
            // Where others reach the host at an address that is not its loopback, they reach the same server.
            let netns = at.netns.or(at.address.ip().is_loopback().then_some(self.netns_cookie));
            FoundDenial { address: at.address, netns, reason: reason.clone() }
        });
        NetworkRules { found: found.collect(), ..self.rules.clone() }
    }

    /// Those that are denied: why, and what speaks against denying the address.
    fn judged(&self) -> Judged {
        let mut allowed: BTreeMap<Endpoint, &ServerId> = BTreeMap::new();
        let mut denied = BTreeMap::new();
        for place in self.found.known.keys() {
            match self.denials.undeclared(&place.1) {
                Some(reason) => {
                    denied.insert(place.clone(), reason);
                }
                None => {
                    allowed.entry(place.0).or_insert(&place.1);
                }
            }
        }
        let names = if denied.is_empty() { BTreeMap::new() } else { self.names.addresses() };
        let judge = |(place, reason): (ServerEndpoint, String)| {
            let Endpoint { address, netns } = place.0;
            // What is configured of the host's loopback says nothing of another's.
            let is_meant = netns.is_none() || !address.ip().is_loopback() || self.loopback().is_none();
            let mut servers = self.rules.servers.iter().filter(|_| is_meant);
            let declared = servers
                .find(|other| !other.is_model && other.denied.is_none() && other.is_at(address, &names));
            let mut rules = self.rules.allow.iter().filter(|_| is_meant);
            let named = rules.find(|rule| {
                let one = match &rule.address.host {
                    Host::Any => false,
                    Host::Name(_) => true,
                    Host::Block(block) => block.only().is_some(),
                };
                one && rule.address.is_at(address, &names)
            });
            let beside = |id: &ServerId| format!("server '{id}' is at the same address, and is not denied");
            let obstacle = if let Some(server) = declared {
                Some(beside(&server.id))
            } else if let Some(rule) = named {
                Some(format!("{rule} allows it"))
            } else {
                allowed.get(&place.0).map(|id| beside(id))
            };
            (place, (reason, obstacle))
        };
        denied.into_iter().map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{config::parse, event::ServerType};

    use super::*;

    fn found(address: &str, path: &str) -> Found {
        Found {
            server: ServerId(format!("{address}{path}").into()),
            kind: ServerType::Http,
            session: None,
            address: address.parse().unwrap(),
            netns: None,
        }
    }

    fn network(yaml: &str) -> Network {
        let (config, _) = parse(yaml.as_bytes()).unwrap();
        Network::new(&config, crate::config::network_rules(&config).unwrap()).unwrap()
    }

    /// A configuration, who answered, in which namespace, and what is denied of it or why not.
    #[test]
    fn found_server_is_denied_unless_address_is_shared() {
        const ALL: &str = "policy: { denied_servers: ['*/mcp'] }\n";
        const LISTED: &str = "policy: { denied_servers: ['*/mcp'] }\nservers: ";
        let cases = [
            ("", vec![("127.0.0.1:80", "/mcp", None)], Ok(vec![])),
            (ALL, vec![("127.0.0.1:80", "/mcp", None)], Ok(vec!["127.0.0.1:80"])),
            // One address of loopback is not the other: whoever has the one need not have the other.
            (ALL, vec![("[::1]:80", "/mcp", None)], Ok(vec!["[::1]:80"])),
            (ALL, vec![("127.0.0.1:80", "/mcp", None), ("[::1]:80", "/ok", None)], Ok(vec!["127.0.0.1:80"])),
            (
                ALL,
                vec![("127.0.0.1:80", "/mcp", None), ("127.0.0.1:80", "/ok", None)],
                Err("80/ok' is at the same"),
            ),
            // Who answered in another network namespace is denied there, whatever the address.
            (ALL, vec![("127.0.0.1:80", "/mcp", Some(7))], Ok(vec!["127.0.0.1:80@netns-7"])),
            (ALL, vec![("[::1]:80", "/mcp", Some(7))], Ok(vec!["[::1]:80@netns-7"])),
            (ALL, vec![("10.0.0.1:80", "/mcp", Some(7))], Ok(vec!["10.0.0.1:80@netns-7"])),
            (
                ALL,
                vec![("127.0.0.1:80", "/mcp", Some(7)), ("127.0.0.1:80", "/ok", None)],
                Ok(vec!["127.0.0.1:80@netns-7"]),
            ),
            (
                ALL,
                vec![("127.0.0.1:80", "/ok", Some(7)), ("127.0.0.1:80", "/mcp", None)],
                Ok(vec!["127.0.0.1:80"]),
            ),
            (
                ALL,
                vec![("127.0.0.1:80", "/ok", Some(7)), ("127.0.0.1:80", "/mcp", Some(7))],
                Err("80/ok' is at the same"),
            ),
            (
                ALL,
                vec![("127.0.0.1:80", "/mcp", Some(8)), ("127.0.0.1:80", "/mcp", Some(7))],
                Ok(vec!["127.0.0.1:80@netns-7", "127.0.0.1:80@netns-8"]),
            ),
            (
                "policy: { denied_servers: ['*/mcp'] }\nnetwork: { netns: any }",
                vec![("127.0.0.1:80", "/mcp", Some(7))],
                Ok(vec!["127.0.0.1:80@netns-7"]),
            ),
            (
                "policy: { denied_servers: ['*/mcp'] }\nnetwork: { allow: ['127.0.0.1:80'] }",
                vec![("127.0.0.1:80", "/mcp", Some(7))],
                Ok(vec!["127.0.0.1:80@netns-7"]),
            ),
            (
                "policy: { denied_servers: ['*/mcp'] }\nnetwork: { netns: any, allow: ['127.0.0.1:80'] }",
                vec![("127.0.0.1:80", "/mcp", Some(7))],
                Err("network.allow[0] (127.0.0.1:80) allows it"),
            ),
            (
                "policy: { denied_servers: ['*/mcp'] }\nnetwork: { allow: ['10.0.0.1:80'] }",
                vec![("10.0.0.1:80", "/mcp", Some(7))],
                Err("network.allow[0] (10.0.0.1:80) allows it"),
            ),
            (
                "policy: { denied_servers: ['*/mcp'] }\nnetwork: { allow: ['127.0.0.1:80'] }",
                vec![("127.0.0.1:80", "/mcp", None)],
                Err("network.allow[0] (127.0.0.1:80) allows it"),
            ),
            (
                "policy: { denied_servers: ['*/mcp'] }\nnetwork: { allow: ['127.0.0.0/8', '*', '127.0.0.1:81'] }",
                vec![("127.0.0.1:80", "/mcp", None)],
                Ok(vec!["127.0.0.1:80"]),
            ),
            (
                &format!("{LISTED}[{{ id: known, type: http, url: 'http://localhost:80/x' }}]"),
                vec![("127.0.0.1:80", "/mcp", None)],
                Err("server 'known' is at the same address"),
            ),
            (
                &format!(
                    "{LISTED}[{{ id: known, type: http, url: 'http://localhost:80/x', enabled: false }}]"
                ),
                vec![("127.0.0.1:80", "/mcp", None)],
                Ok(vec!["127.0.0.1:80"]),
            ),
        ];
        for (yaml, servers, expected) in cases {
            let mut network = network(yaml);
            for (address, path, netns) in servers {
                network.found(&Found { netns, ..found(address, path) });
            }
            network.found.denied = wanted(&network.judged());
            let own = network.netns_cookie;
            let place = |FoundDenial { address, netns, .. }| {
                let netns = netns.filter(|netns| *netns != own);
                Endpoint { address, netns }.to_string()
            };
            let denied: Vec<_> = network.all_rules().found.into_iter().map(place).collect();
            let obstacle = network.judged().into_values().find_map(|(_, obstacle)| obstacle);
            match expected {
                Ok(addresses) => assert_eq!(
                    (denied, obstacle),
                    (addresses.iter().map(|at| (*at).to_owned()).collect(), None),
                    "{yaml}"
                ),
                Err(part) => {
                    assert_eq!(denied, [""; 0], "{yaml}");
                    assert!(obstacle.as_ref().is_some_and(|why| why.contains(part)), "{yaml}: {obstacle:?}");
                }
            }
        }
    }

    /// Seconds at which it answers, is judged, and when there is something to do next.
    #[test]
    fn found_servers_are_judged_by_rate_and_expire() {
        let mut all = FoundServers::default();
        let first = found("127.0.0.1:80", "/a");
        assert!(all.answered(&first, 10 * SECOND) && all.begin(10 * SECOND));
        assert_eq!((all.begin(11 * SECOND), all.next()), (false, Some(3_610 * SECOND)));
        assert!(all.answered(&found("127.0.0.1:81", "/a"), 10 * SECOND + 1));
        assert_eq!(all.next(), Some(11 * SECOND));
        assert!(!all.begin(11 * SECOND - 1) && all.begin(11 * SECOND));
        // Heard of again: known for longer, and no news, unless something spoke against denying it.
        assert!(all.answered(&first, 100 * SECOND) && !all.begin(100 * SECOND));
        all.known.values_mut().for_each(|known| known.reported = Some((String::new(), Some(String::new()))));
        assert!(all.answered(&first, 200 * SECOND) && all.begin(200 * SECOND));
        assert!(all.begin(3_611 * SECOND));
        assert_eq!(all.known.len(), 1);
        assert!(all.begin(3_800 * SECOND) && all.known.is_empty() && all.next().is_none());
    }

    #[test]
    fn found_servers_are_bounded() {
        let mut all = FoundServers::default();
        for path in 0..MOST_AT_ONE {
            assert!(all.answered(&found("127.0.0.1:80", &format!("/{path}")), 0));
        }
        assert!(!all.answered(&found("127.0.0.1:80", "/more"), 0));
        all.known.values_mut().for_each(|known| known.reported = Some((String::new(), None)));
        for port in 1..=MOST - MOST_AT_ONE {
            assert!(all.answered(&found(&format!("127.0.0.2:{port}"), "/"), port as u64));
        }
        // Those that are not denied make room, the first of them first.
        assert!(all.answered(&found("127.0.0.3:1", "/"), 5));
        assert_eq!(all.known.len(), MOST);
        assert!(all.at(Endpoint::here("127.0.0.2:1".parse().unwrap())).next().is_none());
        all.known.values_mut().for_each(|known| known.reported = Some((String::new(), None)));
        assert!(!all.answered(&found("127.0.0.3:2", "/"), 5));
    }

    /// Anybody can make network namespaces: what answers in them takes no room from what answers on the host.
    #[test]
    fn servers_found_in_other_namespaces_are_bounded() {
        let mut all = FoundServers::default();
        let elsewhere = |netns| Found { netns: Some(netns), ..found("127.0.0.1:80", "/") };
        for netns in 0..MOST_ELSEWHERE as u64 {
            assert!(all.answered(&elsewhere(netns), netns));
        }
        // Those that are not denied make room, the first of them first, and never one on the host.
        assert!(all.answered(&found("127.0.0.1:80", "/"), 0));
        assert!(all.answered(&elsewhere(1 << 40), 0));
        assert_eq!(all.known.len(), MOST_ELSEWHERE + 1);
        assert_eq!(all.at(Endpoint::here("127.0.0.1:80".parse().unwrap())).count(), 1);
        all.known.values_mut().for_each(|known| known.reported = Some((String::new(), None)));
        assert!(!all.answered(&elsewhere(1 << 41), 0));
        assert!(all.answered(&found("127.0.0.2:80", "/"), 0), "on the host");
    }
}
