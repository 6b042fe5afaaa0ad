//! What of the network does not do what it seems to.

use crate::config::{AddressRule, AllowDeny, Config, Egress, Finding, Step};
use crate::terms::ServerType;

/// What does not do what it seems to.
pub(super) fn warnings(config: &Config) -> Vec<Finding> {
    let network = &config.network;
    let mut found = Vec::new();
    let mut add = |path: Vec<Step>, message: &str| found.push(Finding::new(path, message.to_owned()));
    for (index, server) in config.servers.iter().enumerate() {
        if server.kind != ServerType::Stdio && server.egress != Egress::default() {
            add(
                vec!["servers".into(), index.into(), "egress".into()],
                "it has no effect: which processes a server on the network has is not known",
            );
        }
        if let Egress::Only(rules) = &server.egress {
            for rule in unspecified(rules) {
                add(vec!["servers".into(), index.into(), "egress".into(), rule.into()], LOOPBACK);
            }
        }
    }
    for (key, rules) in [("allow", &network.allow), ("deny", &network.deny)] {
        for rule in unspecified(rules) {
            add(vec!["network".into(), key.into(), rule.into()], LOOPBACK);
        }
    }
    for (index, rule) in network.allow.iter().enumerate() {
        if network.deny.iter().any(|denied| denied.address == rule.address) {
            add(vec!["network".into(), "allow".into(), index.into()], "it is in `deny`, too, and denied");
        }
    }
    if !network.allow.is_empty() && network.deny.is_empty() && network.default == AllowDeny::Allow {
        add(
            vec!["network".into(), "allow".into()],
            "others are allowed, too, while `default` is `allow` and nothing is denied",
        );
    }
    found
}

const LOOPBACK: &str =
    "it is read as the loopback addresses, which it reaches; all addresses are 0.0.0.0/0, ::/0 or *";

/// The places of rules that are written as 0.0.0.0 or ::.
fn unspecified(rules: &[AddressRule]) -> impl Iterator<Item = usize> {
    let rules = rules.iter().enumerate().filter(|(_, rule)| rule.address.host.is_unspecified());
    rules.map(|(index, _)| index)
}
