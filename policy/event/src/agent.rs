//! Events about the agent itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Said when every program is attached and running servers were adopted: from here on nothing is missed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStarted {
    /// Version of the agent.
    pub version: String,
    /// Release of the running kernel, as `uname -r` says it.
    pub kernel: String,
    /// How bytes are captured: `tracepoints` or `trampolines`.
    pub backend: String,
    /// Identity of this boot, from `/proc/sys/kernel/random/boot_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Path of the configuration file. Absent with the embedded defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Names of the kernel programs that are attached.
    pub programs: Vec<String>,
    /// What this kernel keeps from being seen, and what follows from it. Absent where there is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blind_spots: Vec<String>,
    /// How many running servers were adopted.
    pub servers_adopted: u64,
    /// What an agent before had left attached (`enforcement.persist`), and this one took the place of. Absent where there was
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over: Option<TakenOver>,
}

/// What captured and judged while no agent ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TakenOver {
    /// Kernel programs that had stayed attached.
    pub programs: u64,
    /// Whether this agent goes on with these programs themselves, and has read what they wrote meanwhile: it is of the same
    /// build and has the same configuration. Else they were let go when it had attached its own.
    #[serde(default)]
    pub resumed: bool,
    /// Records that they made or had no room for, and that nobody read: no event tells of these. What the agent before said to
    /// be lost is counted in it.
    pub unread_records: u64,
    /// Bytes of streams in them.
    #[serde(default)]
    pub unread_bytes: u64,
}

/// Said when another configuration counts from now on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReloaded {
    /// Path of the file.
    pub path: String,
    /// SHA-256 of the effective configuration, 64 hexadecimal digits, as `mcpwarden_config_info` has it.
    pub config_hash: String,
    /// Why it was read: `SIGHUP`, `changed`, or who asked for it at the control socket.
    pub reason: String,
    /// Keys whose new values count only after a restart of the agent. Absent where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
}

/// Said when a configuration that was to be reloaded cannot be used: the one before it still counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigRefused {
    /// Path of the file.
    pub path: String,
    /// Why it was read, as in `agent_config_reloaded`.
    pub reason: String,
    /// What is wrong with it, and where.
    pub error: String,
}

/// Said last, after everything is detached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStopped {
    /// Why it ends: a signal's name, or an error.
    pub reason: String,
    /// Every counter of the agent and of the engine, by name.
    pub counters: BTreeMap<String, u64>,
}

/// Said when something was refused or lost that is no byte of a stream: a full table, a record of an exec for which
/// the ring had no room, runs of programs that the kernel skipped. What can be told of streams is a gap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLoss {
    /// Name of the counter that grew, as in `agent_stopped`.
    pub counter: String,
    /// By how much since this was last said.
    pub count: u64,
    /// Its value now.
    pub total: u64,
    /// What it means and what can be done.
    pub meaning: String,
}
