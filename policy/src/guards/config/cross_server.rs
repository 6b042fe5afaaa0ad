//! The rules across servers.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::span;

/// `cross_server:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossServerConfig {
    /// Whether any of the rules counts. Default: true.
    pub enabled: bool,
    /// The longest pause between a result and the next call of one turn, where nothing else tells turns. Default: 2s.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub turn_gap: Duration,
    /// After how long without a call a session is forgotten. Default: 1h.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub session_idle: Duration,
    /// One server was read, another is to send.
    pub read_then_send: ReadThenSend,
    /// One server is called very often.
    pub burst: Burst,
    /// One server was read, another is to write or send, in one turn.
    pub cross_server_flow: CrossServerFlow,
    /// A tool's name was taken over by another server.
    pub shadow_tool: ShadowTool,
}

impl Default for CrossServerConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            turn_gap: Duration::from_secs(2),
            session_idle: Duration::from_secs(3_600),
            read_then_send: ReadThenSend::default(),
            burst: Burst::default(),
            cross_server_flow: CrossServerFlow::default(),
            shadow_tool: ShadowTool::default(),
        }
    }
}

/// `cross_server.read_then_send:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadThenSend {
    /// Default: true.
    pub enabled: bool,
    /// For how long a read counts, its last moment included. Default: 30s.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub window: Duration,
}

impl Default for ReadThenSend {
    fn default() -> Self {
        Self { enabled: true, window: Duration::from_secs(30) }
    }
}

/// `cross_server.burst:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Burst {
    /// Default: true.
    pub enabled: bool,
    /// Calls of one server within the window; the next is one too many. 1 to 1,000. Default: 10.
    pub max_calls: usize,
    /// For how long a call counts, its last moment included. Default: 5s.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub window: Duration,
}

impl Default for Burst {
    fn default() -> Self {
        Self { enabled: true, max_calls: 10, window: Duration::from_secs(5) }
    }
}

/// `cross_server.cross_server_flow:`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CrossServerFlow {
    /// Default: true.
    pub enabled: bool,
    /// Whether both must be in one turn. Default: true.
    pub same_turn_only: bool,
    /// For how long a read counts where they need not. Default: 30s.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub window: Duration,
}

impl Default for CrossServerFlow {
    fn default() -> Self {
        Self { enabled: true, same_turn_only: true, window: Duration::from_secs(30) }
    }
}

/// `cross_server.shadow_tool:`, and `config` of a `tool_shadowing` under `guards:`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShadowTool {
    /// Default: true.
    pub enabled: bool,
}

impl Default for ShadowTool {
    fn default() -> Self {
        Self { enabled: true }
    }
}
