//! Events about the agent itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every kernel program is attached, and running servers are adopted. From here on the agent misses nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStarted {
    /// The version of the agent.
    pub version: String,
    /// The release of the running kernel (`uname -r`).
    pub kernel: String,
    /// The capture backend: `tracepoints` or `trampolines`.
    pub backend: String,
    /// The identity of this boot, from `/proc/sys/kernel/random/boot_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The path of the configuration file. Absent with the embedded defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The names of the attached kernel programs.
    pub programs: Vec<String>,
    /// What the agent cannot see on this kernel, and the consequence. Absent without blind spots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blind_spots: Vec<String>,
    /// The number of adopted running servers.
    pub servers_adopted: u64,
    /// The programs that an earlier agent left attached (`enforcement.persist`) and this agent replaced. Absent without
    /// such programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over: Option<TakenOver>,
}

/// The kernel programs that captured and judged while no agent ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TakenOver {
    /// The number of kernel programs that had stayed attached.
    pub programs: u64,
    /// Whether this agent continues with these programs and has read their records: it is of the same build and has the
    /// same configuration. Otherwise they were detached once this agent had attached its own.
    #[serde(default)]
    pub resumed: bool,
    /// The number of records that the programs wrote or had no room for, and that nobody read: no event reports them. It
    /// includes the losses that the earlier agent reported.
    pub unread_records: u64,
    /// The number of stream bytes in these records.
    #[serde(default)]
    pub unread_bytes: u64,
}

/// The agent has loaded another configuration, which is in force from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReloaded {
    /// The path of the file.
    pub path: String,
    /// The SHA-256 hash of the effective configuration, 64 hexadecimal digits, as in `mcpwarden_config_info`.
    pub config_hash: String,
    /// The cause of the reload: `SIGHUP`, `changed`, or the user at the control socket.
    pub reason: String,
    /// Keys with new values that take effect only after a restart of the agent. Absent without such keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
}

/// The agent cannot use a configuration that it was to reload. The previous configuration stays in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRefused {
    /// The path of the file.
    pub path: String,
    /// The cause of the reload, as in `agent_config_reloaded`.
    pub reason: String,
    /// The error, and its position in the file.
    pub error: String,
}

/// The agent ends: the last event, after everything is detached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStopped {
    /// The reason: the name of a signal, or an error.
    pub reason: String,
    /// All counters of the agent and of the engine, by name.
    pub counters: BTreeMap<String, u64>,
}

/// A sink cannot be written to, or its receiver takes nothing. What is sent to the sink waits, up to a bound. The agent reports
/// this once, and continues to store events and to enforce the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkFailing {
    /// The name of the sink: its index in the configuration and its kind, such as `0:file`; `stdout` for standard output.
    pub sink: String,
    /// The reason.
    pub reason: String,
}

/// A sink can be written to again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SinkRecovered {
    /// The name of the sink, as in `agent_sink_failing`.
    pub sink: String,
    /// The number of events that the sink dropped meanwhile.
    pub events_dropped: u64,
}

/// Something was refused or lost other than bytes of a stream: a full table, an exec record without room in the ring
/// buffer, skipped runs of kernel programs. Lost bytes of a stream are a gap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLoss {
    /// The name of the counter that grew, as in `agent_stopped`.
    pub counter: String,
    /// The increase since the previous such event.
    pub count: u64,
    /// The value of the counter.
    pub total: u64,
    /// The meaning of the counter, and the remedy.
    pub meaning: String,
    /// The user (real user id) who caused the loss and whose records were lost; `count` and `total` are of this user. Absent
    /// if the loss is not a single user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}
