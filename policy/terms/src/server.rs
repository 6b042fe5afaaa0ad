//! What is known of a server before it says anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerType {
    /// A process that is spoken to over its standard input and output.
    #[default]
    Stdio,
    /// An address that is spoken to over streamable HTTP.
    Http,
    /// An address that is spoken to over HTTP with server-sent events, the older transport.
    Sse,
    /// An address that is spoken to over TCP, in lines as over standard input and output.
    Tcp,
    /// A Unix socket with a name that is spoken to in lines, as over standard input and output.
    Unix,
}

impl ServerType {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Stdio, Self::Http, Self::Sse, Self::Tcp, Self::Unix];

    /// Whether messages are told apart as lines, of which one follows the other over one connection.
    pub fn is_in_lines(self) -> bool {
        matches!(self, Self::Stdio | Self::Tcp | Self::Unix)
    }
}

/// Where a server's id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// From the configuration.
    Declared,
    /// From the command line: as forgeable as that.
    Derived,
}

/// How far a server is trusted: `trust` of its declaration.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Each of its tools needs approval.
    Low,
    /// As any other.
    #[default]
    Medium,
    /// Findings about it are reported and never block.
    High,
}
