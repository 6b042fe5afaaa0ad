//! The rules of a configuration, made those of the kernel half.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Instant,
};

use mcpwarden_abi::{self as abi, Address, SET_ALL};
use mcpwarden_kernel::addresses::{Addresses, Rule};
use mcpwarden_policy::{
    ServerId,
    config::{AllowDeny, Config, NetworkNamespace, TlsCapture},
    event::ServerType,
    guards::ServerDenials,
    network::{Entry, Host, NetworkRules, NetworkServer, Table, Verdict, names_of},
};

use super::{GENERATIONS, Network, NetworkError, index, names::Ttl};
use crate::host::clock::Clock;

/// Places of declared servers, those of servers that are declared no more among them. With more, all are numbered anew.
const MOST_PLACES: usize = 32_768;

impl Network {
    /// Goes on with what an agent of the same configuration installed, if one did: names have the addresses that they had for it,
    /// and what was judged by its table can be told.
    ///
    /// # Errors
    /// The configuration makes no table.
    pub fn resume(&mut self, addresses: &Addresses) -> Result<(), NetworkError> {
        let generation = addresses.generation();
        if generation == 0 {
            return Ok(());
        }
        // What is configured has the same numbers in each, whatever addresses names have.
        let table = Table::compile(&self.rules, &self.names.addresses(), &[])?;
        let now = Instant::now();
        for (key, entry) in addresses.whole() {
            let ip = IpAddr::V6(Ipv6Addr::from(key.address)).to_canonical();
            let rule = index(entry.rule).and_then(|place| table.rules().get(place)).map(|rule| &rule.address);
            let server = index(entry.server).and_then(|place| table.servers().get(place));
            for address in rule.into_iter().chain(server.and_then(|server| server.address.as_ref())) {
                if let Host::Name(name) = &address.host {
                    self.names.had(name, ip, now);
                }
            }
        }
        self.tables.push_back((generation, Arc::new(table)));
        Ok(())
    }

    /// Goes by another configuration from now on. What is blocked by hand stays so.
    ///
    /// # Errors
    /// Its table cannot be installed: the one before still counts, with all that belongs to it.
    pub fn configure(
        &mut self,
        config: &Config,
        mut rules: NetworkRules,
        addresses: &mut Addresses,
        clock: &Clock,
    ) -> Result<(), NetworkError> {
        rules.servers = in_their_places(&self.rules.servers, rules.servers);
        let blocks = self.compiled(clock);
        let mut names = names_of(&self.rules, &blocks);
        names.extend(names_of(&rules, &blocks));
        self.names.follow(names, Instant::now());
        let denials = std::mem::replace(&mut self.denials, ServerDenials::new(config)?);
        let before = (self.flags, std::mem::replace(&mut self.rules, rules), denials, self.found.clone());
        self.flags = flags(config, &self.rules);
        let reads_tls = std::mem::replace(&mut self.over_tls, over_tls(config));
        self.follow_found();
        let mut installed = self.install(addresses, clock);
        // What an operator writes must fit, whatever was found: that is tried again by itself.
        if installed.is_err() && self.give_way() {
            installed = self.install(addresses, clock);
        }
        if installed.is_err() {
            (self.flags, self.rules, self.denials, self.found) = before;
            self.over_tls = reads_tls;
        }
        self.follow(clock);
        installed?;
        self.names.keep_for(ttl(config));
        self.servers = config.network.resolver.name_servers();
        self.resolve();
        self.close(clock);
        Ok(())
    }

    /// Whether there are servers to which connections over TLS are read.
    pub fn reads_over_tls(&self) -> bool {
        self.over_tls && self.rules.servers.iter().any(is_over_tls)
    }

    /// Compiles the table and makes it count. On an error the one before still does.
    pub fn install(&mut self, addresses: &mut Addresses, clock: &Clock) -> Result<(), NetworkError> {
        let result = Table::compile(&self.all_rules(), &self.names.addresses(), &self.compiled(clock))
            .map_err(NetworkError::from)
            .and_then(|table| {
                let rules: Vec<Rule> = table
                    .entries()
                    .iter()
                    .map(|entry| rule(entry, table.servers(), self.over_tls, clock))
                    .collect();
                Ok((addresses.install(&rules, self.netns_cookie, self.flags)?, table))
            });
        match result {
            Ok((generation, table)) => {
                self.warn_anew(table.notes());
                if self.tables.len() >= GENERATIONS {
                    self.tables.pop_front();
                }
                self.tables.push_back((generation, Arc::new(table)));
                Ok(())
            }
            Err(error) => {
                self.counters.tables_refused += 1;
                Err(error)
            }
        }
    }
}

/// What the kernel half is told beside the table.
pub(super) fn flags(config: &Config, rules: &NetworkRules) -> u32 {
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    flag(rules.enforced, abi::NETWORK_ENFORCE)
        | flag(config.discovery.loopback, abi::NETWORK_DISCOVER)
        | flag(config.network.default == AllowDeny::Deny, abi::NETWORK_DEFAULT_DENY)
        | flag(config.network.netns == NetworkNamespace::Any, abi::NETWORK_ANY_NETNS)
}

/// Whether connections over TLS to declared servers are read.
pub(super) fn over_tls(config: &Config) -> bool {
    config.capture.tls != TlsCapture::Off
}

/// Whether a server is spoken to over TLS.
fn is_over_tls(server: &NetworkServer) -> bool {
    !server.plain && server.kind != ServerType::Stdio
}

/// How long answers for names count.
pub(super) fn ttl(config: &Config) -> Ttl {
    let resolver = &config.network.resolver;
    Ttl { min: resolver.min_ttl.0, max: resolver.max_ttl.0 }
}

/// Declared servers, each in the place that it had before: processes of servers that run are known by its number, and must
/// not go by another's rules while a table changes. In the place of one that is declared no more is nobody.
fn in_their_places(before: &[NetworkServer], mut servers: Vec<NetworkServer>) -> Vec<NetworkServer> {
    if before.len() + servers.len() > MOST_PLACES {
        return servers;
    }
    let nobody = || NetworkServer {
        id: ServerId("".into()),
        kind: ServerType::Stdio,
        address: None,
        plain: false,
        denied: None,
        egress: None,
        is_model: false,
    };
    let take = |old: &NetworkServer| {
        let place = servers.iter().position(|server| server.id == old.id);
        place.map_or_else(nobody, |place| servers.remove(place))
    };
    let mut placed: Vec<NetworkServer> = before.iter().map(take).collect();
    placed.append(&mut servers);
    placed
}

/// An entry as the kernel half wants it.
fn rule(entry: &Entry, servers: &[NetworkServer], over_tls: bool, clock: &Clock) -> Rule {
    let server = index(entry.server).and_then(|index| servers.get(index));
    Rule {
        set: u16::try_from(entry.set).unwrap_or(SET_ALL),
        netns: entry.netns.unwrap_or(0),
        port: entry.port,
        address: entry.prefix.address(),
        bits: entry.prefix.bits(),
        entry: Address {
            blocked_until_ns: entry.blocked_until.map_or(0, |until| clock.boot(until)),
            server: entry.server,
            rule: entry.rule,
            blocked_by: entry.blocked_by,
            verdict: match entry.verdict {
                None => abi::VERDICT_NONE,
                Some(Verdict::Allow) => abi::VERDICT_ALLOW,
                Some(Verdict::Deny) => abi::VERDICT_DENY,
            },
            verdict_bits: entry.verdict_bits,
            enforced: u8::from(entry.enforced),
            read: match server {
                Some(server) if server.plain => abi::READ_PLAIN,
                Some(server) if over_tls && is_over_tls(server) => abi::READ_TLS,
                _ => abi::READ_NOT,
            },
        },
    }
}
