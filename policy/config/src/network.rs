//! The network: where the processes of servers, and others, may connect to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use mcpwarden_terms::{Address, Host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use super::finding::Finding;
use super::values::{AbsolutePath, AllowDeny, Period};

/// Where a server's processes may connect to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Egress {
    /// One word for all.
    All(EgressWord),
    /// Only there.
    Only(#[schemars(length(max = 16_384))] Vec<AddressRule>),
}

impl Default for Egress {
    fn default() -> Self {
        Self::All(EgressWord::Any)
    }
}

impl Egress {
    /// The only destinations; `None`: any.
    pub fn only(&self) -> Option<&[AddressRule]> {
        match self {
            Self::All(EgressWord::Any) => None,
            Self::All(EgressWord::None) => Some(&[]),
            Self::Only(rules) => Some(rules),
        }
    }
}

/// Anywhere or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EgressWord {
    /// Anywhere.
    Any,
    /// Nowhere.
    None,
}

/// Destinations: `ADDRESS`, or `{ host: HOST, port: PORT, reason: TEXT }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "AddressRuleForm", into = "AddressRuleForm")]
pub struct AddressRule {
    /// Where.
    pub address: Address,
    /// Why, in words, for events.
    pub reason: Option<String>,
}

/// How a rule on destinations may be written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum AddressRuleForm {
    Short(Address),
    Long {
        /// A name, an IP address, a CIDR block or `*`. Example: `10.0.0.0/8`.
        host: Host,
        /// Which port; without it, any. Example: `443`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        port: Option<u16>,
        /// Why, in words, for events. Example: `cloud metadata`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(length(min = 1, max = 256))]
        reason: Option<String>,
    },
}

impl From<AddressRuleForm> for AddressRule {
    fn from(form: AddressRuleForm) -> Self {
        match form {
            AddressRuleForm::Short(address) => Self { address, reason: None },
            AddressRuleForm::Long { host, port, reason } => Self { address: Address { host, port }, reason },
        }
    }
}

impl From<AddressRule> for AddressRuleForm {
    fn from(rule: AddressRule) -> Self {
        match rule {
            AddressRule { address, reason: None } => Self::Short(address),
            AddressRule { address: Address { host, port }, reason } => Self::Long { host, port, reason },
        }
    }
}

/// Where loopback rules count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkNamespace {
    /// In the host's network namespace.
    #[default]
    Host,
    /// In every one.
    Any,
}

/// Where processes may connect to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// The cgroup v2 directory that is watched; without it, the root of the hierarchy. Example: `/sys/fs/cgroup/user.slice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_path: Option<AbsolutePath>,
    /// What holds where no rule does: for the process trees of servers, never for clients.
    pub default: AllowDeny,
    /// Addresses that may be connected to: exceptions to what is denied for a larger block, or by default. Example: `["10.0.0.0/8:443"]`.
    #[schemars(length(max = 16_384))]
    pub allow: Vec<AddressRule>,
    /// Addresses that nobody may connect to, server or not. Example: `[{ host: 169.254.169.254, reason: "cloud metadata" }]`.
    #[schemars(length(max = 16_384))]
    pub deny: Vec<AddressRule>,
    /// Where loopback rules count.
    pub netns: NetworkNamespace,
    /// How names in rules and URLs are resolved.
    pub resolver: Resolver,
}

/// How names are resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// Name servers; none listed are the system's. Example: `["9.9.9.9"]`.
    pub servers: Vec<Address>,
    /// Whether answers of name servers to this host's programs are listened to, so that events name destinations. What is
    /// asked over TCP, TLS or HTTPS, or within a container's own network, is not heard.
    pub listen: bool,
    /// An answer is kept at least this long.
    pub min_ttl: Period,
    /// An answer is kept at most this long.
    pub max_ttl: Period,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            listen: true,
            min_ttl: Period(Duration::from_secs(30)),
            max_ttl: Period(Duration::from_secs(3_600)),
        }
    }
}

/// Declared servers are not listed more often.
const MIN_LIST_EVERY: Duration = Duration::from_secs(1);

/// What makes it unusable.
pub(super) fn errors(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut known = HashMap::new();
    for (index, server) in config.servers.iter().enumerate() {
        let Some(url) = &server.url else { continue };
        if let Some(other) = known.insert(url.endpoint(), &server.id) {
            let message = format!("it is the URL of server '{other}', too");
            found.push(Finding::new(vec!["servers".into(), index.into(), "url".into()], message));
        }
    }
    if config.network.resolver.min_ttl > config.network.resolver.max_ttl {
        let path = vec!["network".into(), "resolver".into(), "min_ttl".into()];
        found.push(Finding::new(path, "it is longer than `max_ttl`".into()));
    }
    if config.network.resolver.min_ttl.0.is_zero() {
        let path = vec!["network".into(), "resolver".into(), "min_ttl".into()];
        found.push(Finding::new(path, "names would be asked for all the time; say 1s or more".into()));
    }
    if config.discovery.list_every.0 < MIN_LIST_EVERY {
        let path = vec!["discovery".into(), "list_every".into()];
        found.push(Finding::new(path, "servers would be asked all the time; say 1s or more".into()));
    }
    for (index, server) in config.network.resolver.servers.iter().enumerate() {
        if name_server(server).is_none() {
            let path = vec!["network".into(), "resolver".into(), "servers".into(), index.into()];
            found.push(Finding::new(path, "a name server is one IP address, with or without a port".into()));
        }
    }
    found
}

/// Where a name server is asked.
fn name_server(server: &Address) -> Option<SocketAddr> {
    /// RFC 1035, section 4.2.1.
    const DOMAIN: u16 = 53;
    match &server.host {
        Host::Block(block) => Some((block.only()?, server.port.unwrap_or(DOMAIN)).into()),
        Host::Any | Host::Name(_) => None,
    }
}

impl Resolver {
    /// The name servers of its own; none: the system's are asked.
    pub fn name_servers(&self) -> Vec<SocketAddr> {
        self.servers.iter().filter_map(name_server).collect()
    }
}
