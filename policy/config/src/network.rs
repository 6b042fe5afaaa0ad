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

/// The destinations that a server's processes may connect to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Egress {
    /// One word for all destinations.
    All(EgressWord),
    /// The only destinations.
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

/// All destinations, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EgressWord {
    /// All destinations.
    Any,
    /// No destination.
    None,
}

/// Destinations: `ADDRESS`, or `{ host: HOST, port: PORT, reason: TEXT }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "AddressRuleForm", into = "AddressRuleForm")]
pub struct AddressRule {
    /// The destination.
    pub address: Address,
    /// The reason, in words, for events.
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
        /// The port. Without this key, all ports. Example: `443`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        port: Option<u16>,
        /// The reason, in words, for events. Example: `cloud metadata`.
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

/// The network namespaces in which loopback rules apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkNamespace {
    /// Only the network namespace of the host.
    #[default]
    Host,
    /// Every network namespace.
    Any,
}

/// The destinations that processes may connect to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// The cgroup v2 directory that the agent watches. Without this key, the root of the hierarchy. Example:
    /// `/sys/fs/cgroup/user.slice`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_path: Option<AbsolutePath>,
    /// The verdict on destinations without a rule, for the process trees of servers. It never applies to clients.
    pub default: AllowDeny,
    /// Destinations that processes may connect to: exceptions to the denial of a larger block, or to `default: deny`.
    /// Example: `["10.0.0.0/8:443"]`.
    #[schemars(length(max = 16_384))]
    pub allow: Vec<AddressRule>,
    /// Destinations that no process may connect to, whether it is a server or not. Example: `[{ host: 169.254.169.254,
    /// reason: "cloud metadata" }]`.
    #[schemars(length(max = 16_384))]
    pub deny: Vec<AddressRule>,
    /// The network namespaces in which loopback rules apply.
    pub netns: NetworkNamespace,
    /// The resolution of names in rules and URLs.
    pub resolver: Resolver,
}

/// The resolution of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// Name servers: IP addresses, with or without a port (default: 53). With an empty list, the agent uses the name
    /// servers of the system. Example: `["9.9.9.9"]`.
    pub servers: Vec<Address>,
    /// Whether the agent reads the DNS answers that programs of this host receive, so that events name destinations. The
    /// agent does not see DNS over TCP, TLS or HTTPS, nor DNS within a container's own network.
    pub listen: bool,
    /// The shortest time for which the agent keeps an answer. More than 0.
    pub min_ttl: Period,
    /// The longest time for which the agent keeps an answer.
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
