//! Everything that decides about connections, before it is a table.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use crate::terms::{Address, Callee, Host, Names, ServerId, ServerType, Timestamp};

/// What may be, and what not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It must not.
    Deny,
}

/// A rule on destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it stands, such as `network.deny[3]`.
    pub origin: String,
    /// What it is about.
    pub address: Address,
    /// Why, in words of who wrote it.
    pub reason: Option<String>,
}

impl fmt::Display for Rule {
    /// `origin (address): reason`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.origin, self.address)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(formatter, ": {reason}"))
    }
}

/// A declared server, as far as connections are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkServer {
    /// Its id.
    pub id: ServerId,
    /// How it is reached.
    pub kind: ServerType,
    /// Where, of `http` and `sse`.
    pub address: Option<Address>,
    /// Whether what is said there goes over the wire as it is.
    pub plain: bool,
    /// Why it may not be used at all, where that is so.
    pub denied: Option<String>,
    /// Whether it is no MCP server, but the API of a model: nothing is denied or reported of it by that.
    pub is_model: bool,
    /// The only destinations of its processes; `None`: any, as far as other rules let them.
    pub egress: Option<Vec<Rule>>,
}

impl NetworkServer {
    /// Whether it is at this address, as its name is resolved. Loopback is one, whichever way it is written.
    pub fn is_at(&self, address: SocketAddr, names: &Names) -> bool {
        self.address.as_ref().is_some_and(|own| own.is_at(address, names))
    }
}

/// Everything of the configuration that decides about connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkRules {
    /// Whether denials are carried out, or only said.
    pub enforced: bool,
    /// Whether the processes of servers may connect only to what is allowed.
    pub deny_by_default: bool,
    /// What nobody may connect to.
    pub deny: Vec<Rule>,
    /// What may be connected to: exceptions to what is denied by a less specific rule, or by default.
    pub allow: Vec<Rule>,
    /// The declared servers, in their order.
    pub servers: Vec<NetworkServer>,
    /// Where servers answered that nobody declared and that are denied, and why.
    pub found: Vec<FoundDenial>,
}

/// An address that is denied since an undeclared server answered there: it alone, and no other of loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDenial {
    /// Address and port.
    pub address: SocketAddr,
    /// The network namespace (cookie) in which it is denied; `None`: in every one.
    pub netns: Option<u64>,
    /// Why.
    pub reason: String,
}

/// What is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A destination.
    Address(Address),
    /// Where a declared server of type `http` or `sse` is.
    Server(ServerId),
    /// No destination: calls, of which the gate lets none through.
    Calls(Callee),
}

/// A block: a denial that is always enforced, by an operator or by a guard, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What is blocked.
    pub target: Target,
    /// Until when; `None`: until it is lifted.
    pub until: Option<Timestamp>,
    /// By whom or why, in words.
    pub reason: Option<String>,
}

impl Block {
    /// The end of a block that has none.
    pub const FOREVER: Timestamp = Timestamp(u64::MAX);
}

/// The names whose addresses `Table::compile` needs.
pub fn names_of(rules: &NetworkRules, blocks: &[Block]) -> BTreeSet<String> {
    let egress = rules.servers.iter().flat_map(|server| server.egress.iter().flatten());
    let of_rules = rules.deny.iter().chain(&rules.allow).chain(egress).map(|rule| &rule.address);
    let of_servers = rules.servers.iter().filter_map(|server| server.address.as_ref());
    let of_blocks = blocks.iter().filter_map(|block| match &block.target {
        Target::Address(address) => Some(address),
        Target::Server(_) | Target::Calls(_) => None,
    });
    let hosts = of_rules.chain(of_servers).chain(of_blocks).map(|address| &address.host);
    let name = |host: &Host| match host {
        Host::Name(name) if !host.is_loopback() => Some(name.clone()),
        _ => None,
    };
    hosts.filter_map(name).collect()
}
