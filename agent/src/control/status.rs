//! How the agent is, as it is told: `/v1/status`.

use std::collections::BTreeMap;

use mcpwarden_policy::Timestamp;
use serde::{Deserialize, Serialize};

/// How the agent is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// Version of the agent.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Since when it watches.
    pub since: Timestamp,
    /// Release of the kernel.
    pub kernel: String,
    /// What is wrong, in words; nothing where all is well.
    pub troubles: Vec<String>,
    /// The configuration that counts.
    pub config: ConfigStatus,
    /// How the gate stops calls on this kernel.
    pub gate: GateStatus,
    /// Denials that nothing enforces as it is configured.
    pub not_enforced: Vec<String>,
    /// MCP servers that run.
    pub servers: u64,
    /// Clients that have a server.
    pub sessions: u64,
    /// Tools that wait for approval.
    pub approvals: u64,
    /// Blocks by hand.
    pub blocks: u64,
    /// Mutes of detections that are in force: of operators, and of the configuration.
    #[serde(default)]
    pub mutes: u64,
    /// Where events are stored.
    pub store: StoreStatus,
    /// Where events are sent.
    pub sinks: Vec<SinkStatus>,
    /// Names of the kernel programs that are attached.
    pub programs: Vec<String>,
    /// What this kernel keeps from being seen.
    pub blind_spots: Vec<String>,
    /// All that is counted, by name.
    pub counters: BTreeMap<String, u64>,
}

/// The configuration that counts.
#[derive(Debug, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// Its file. Absent where the defaults hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// SHA-256, defaults included.
    pub hash: String,
    /// Since when it counts.
    pub since: Timestamp,
    /// Whether the file was usable when it was read last.
    pub usable: bool,
    /// Whether denials of calls are carried out: `observe`, `deny` or `neutralize`.
    pub stdio: String,
    /// Whether denials of connections are: `observe` or `deny`.
    pub network: String,
}

/// How the gate stops calls on this kernel: `lsm`, `fmod_ret` or `none`.
#[derive(Debug, Serialize, Deserialize)]
pub struct GateStatus {
    /// How it neutralizes them.
    pub neutralize: String,
    /// How it refuses them.
    pub deny: String,
}

/// Where events are stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoreStatus {
    /// The database.
    pub path: String,
    /// Why nothing can be stored now, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// Number of the last event that is stored.
    pub last: u64,
    /// Events stored, and given up, since the agent runs.
    pub stored: u64,
    /// See `stored`.
    pub lost: u64,
}

/// Where events are sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct SinkStatus {
    /// Its place in the configuration and its kind.
    pub name: String,
    /// Events written.
    pub written: u64,
    /// Events given up.
    pub dropped: u64,
    /// Times that it could not be written to.
    pub failures: u64,
    /// Why nothing can be written now, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// Bytes that wait.
    pub waiting_bytes: u64,
}
