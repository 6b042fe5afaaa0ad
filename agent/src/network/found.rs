//! Servers that nobody declared, where they answered. Those that `server_access` denies are denied there.
//!
//! A denial of addresses hits everything that is at them, and who asks chooses what he calls a server: the path. So it takes
//! an answer of MCP's, holds for a time only, and spares an address where a server is, too, that is not denied.

use std::{net::SocketAddr, time::Duration};

use mcpwarden_abi as abi;
use mcpwarden_policy::{
    Found, ServerId, Timestamp,
    event::ServerDenied,
    network::{Address, Host, NetworkRules, Prefix, Rule, reached},
};

use super::Network;
use crate::{clock::Clock, clock::boot_ns, kernel::addresses::Addresses};

/// Servers that are remembered, at most.
const MOST: usize = 1_024;
/// For how long an answer tells what is at an address. Nobody says when something else is there.
const EVIDENCE: Duration = Duration::from_hours(1);

/// Where a server is, and which.
pub(super) type Place = (SocketAddr, ServerId);

/// What is known of one.
#[derive(Clone, Debug)]
pub(super) struct Known {
    found: Found,
    /// Why it is denied, where it is.
    reason: Option<String>,
    /// Whether its address is denied for it.
    denied: bool,
    /// When what is known is too old; nanoseconds since boot.
    ends_ns: u64,
}

impl Network {
    /// A server that nobody declared answered. Where that denies it for the first time, what came of that.
    pub fn found(&mut self, found: &Found, addresses: &mut Addresses, clock: &Clock) -> Option<ServerDenied> {
        let address = SocketAddr::new(reached(found.address.ip()), found.address.port());
        let place = (address, found.server.clone());
        let ends_ns = boot_ns().saturating_add(u64::try_from(EVIDENCE.as_nanos()).unwrap_or(u64::MAX));
        let reason = self.denials.undeclared(&found.server);
        let before = self.found.get(&place).map(|known| (known.reason.clone(), known.denied));
        if before.is_none() && self.found.len() >= MOST {
            self.counters.found_refused += 1;
            return None;
        }
        let (said, denied) = before.map_or((None, false), |(reason, denied)| (Some(reason), denied));
        let known = Known { found: found.clone(), reason: reason.clone(), denied, ends_ns };
        self.found.insert(place.clone(), known);
        if said.as_ref() == Some(&reason) {
            return None;
        }
        let reason = reason?;
        let mut obstacle = self.obstacle(&place, found.netns);
        if obstacle.is_none() {
            self.deny(&place, true);
            match self.install(addresses, clock) {
                Ok(()) => self.close(clock),
                Err(error) => {
                    self.deny(&place, false);
                    obstacle = Some(error.to_string());
                }
            }
        }
        Some(ServerDenied {
            remote_addr: address.to_string(),
            reason,
            enforced: self.rules.enforced && obstacle.is_none(),
            until: obstacle.is_none().then(|| clock.wall(ends_ns)),
            obstacle,
        })
    }

    /// Denies those that are denied since the rules are others, and says which.
    pub fn judge_found(&mut self, addresses: &mut Addresses, clock: &Clock) -> Vec<(Found, ServerDenied)> {
        let all: Vec<Found> = self.found.values().map(|known| known.found.clone()).collect();
        let judged = all.into_iter().filter_map(|found| {
            let denied = self.found(&found, addresses, clock)?;
            Some((found, denied))
        });
        judged.collect()
    }

    /// Lifts what the guards do not say any more.
    pub(super) fn lift_found(&mut self) {
        for known in self.found.values_mut() {
            known.denied &= self.denials.undeclared(&known.found.server).is_some();
        }
    }

    /// Forgets those that answered too long ago. Whether addresses were denied for them.
    pub(super) fn forget_found(&mut self) -> bool {
        let now = boot_ns();
        let old = self.found.extract_if(.., |_, known| known.ends_ns <= now);
        old.filter(|(_, known)| known.denied).count() > 0
    }

    /// When the next is forgotten.
    pub(super) fn next_forgotten(&self, clock: &Clock) -> Option<Timestamp> {
        self.found.values().map(|known| known.ends_ns).min().map(|ends| clock.wall(ends))
    }

    /// The rules of the configuration, and those on servers that were found.
    pub(super) fn all_rules(&self) -> NetworkRules {
        let denied = self.found.iter().filter(|(_, known)| known.denied);
        let found = denied.map(|((address, _), known)| Rule {
            origin: "server_access".to_owned(),
            address: Address { host: Host::Block(Prefix::host(address.ip())), port: Some(address.port()) },
            reason: known.reason.clone(),
        });
        let mut rules = self.rules.clone();
        rules.deny.extend(found);
        rules
    }

    fn deny(&mut self, place: &Place, denied: bool) {
        if let Some(known) = self.found.get_mut(place) {
            known.denied = denied;
        }
    }

    /// What speaks against denying an address for a server.
    fn obstacle(&self, (address, server): &Place, netns: Option<u64>) -> Option<String> {
        if netns.is_some() && self.flags & abi::NETWORK_ANY_NETNS == 0 {
            return Some(
                "it is on the loopback of another network namespace, and rules are about the host's: network.netns is \
                 host"
                    .to_owned(),
            );
        }
        let names = self.names.addresses();
        let declared = self.rules.servers.iter().filter(|other| other.denied.is_none());
        let declared =
            declared.filter(|other| other.is_at(*address, &names)).map(|other| other.id.to_string());
        let beside = self.found.iter().filter(|((at, other), known)| {
            at == address && other != server && known.reason.is_none() && known.found.netns == netns
        });
        let beside = beside.map(|((_, other), _)| other.to_string());
        let other = declared.chain(beside).next()?;
        Some(format!("server '{other}' is at the same address, and is not denied"))
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::event::ServerType;

    use super::*;
    use crate::network::blocks::tests::network;

    fn at(address: &str) -> (Place, Known) {
        let place: Place = (address.parse().unwrap(), ServerId(format!("{address}/mcp").into()));
        let found = Found {
            server: place.1.clone(),
            kind: ServerType::Http,
            session: None,
            address: place.0,
            netns: None,
        };
        (place, Known { found, reason: Some("why".into()), denied: true, ends_ns: u64::MAX })
    }

    #[test]
    fn what_answered_long_ago_is_forgotten() {
        let mut network = network();
        let rules = network.all_rules().deny.len();
        let (place, known) = at("127.0.0.1:8000");
        network.found.insert(place, Known { ends_ns: 0, ..known });
        let (place, known) = at("127.0.0.1:8001");
        network.found.insert(place, known);
        assert_eq!(network.all_rules().deny.len(), rules + 2);
        assert!(network.forget_found());
        assert!(!network.forget_found());
        let last = network.all_rules().deny.pop().unwrap();
        assert_eq!(last.to_string(), "server_access (127.0.0.1:8001): why");
        assert_eq!(network.all_rules().deny.len(), rules + 1);
        // What no rule says any more is lifted, and not forgotten.
        network.lift_found();
        assert_eq!((network.all_rules().deny.len(), network.found.len()), (rules, 1));
    }

    #[test]
    fn an_address_with_somebody_else_is_spared() {
        let mut network = network();
        let (place, known) = at("127.0.0.1:8000");
        network.found.insert(place.clone(), known.clone());
        assert_eq!(network.obstacle(&place, None), None);
        assert!(
            network.obstacle(&place, Some(7)).is_some_and(|why| why.contains("another network namespace"))
        );
        let other = ServerId("127.0.0.1:8000/other".into());
        for (reason, spared) in [(None, true), (Some("why".to_owned()), false)] {
            network.found.insert((place.0, other.clone()), Known { reason, ..known.clone() });
            assert_eq!(network.obstacle(&place, None).is_some(), spared);
        }
    }
}
