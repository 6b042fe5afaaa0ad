//! Events about guards that others wrote: WebAssembly components and services.

use mcpwarden_terms::contract::DenialScope;
use mcpwarden_terms::{GuardKind, Phase, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A guard that others wrote denied an operation. The operation had passed when the answer came; the denial holds for the operations
/// that follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardDenied {
    /// The kind of the guard: `wasm` or `http`.
    pub guard: GuardKind,
    /// The name of the guard in the configuration.
    pub guard_name: String,
    /// The phase in which it was asked.
    pub phase: Phase,
    /// The code of its answer; `guard_timeout` or `guard_error` if it failed and `failure_mode` denies.
    pub code: String,
    /// The reason of its answer, in words.
    pub reason: String,
    /// What the denial holds for.
    pub scope: DenialScope,
    /// The tools that it is about (bounded). Absent if it is about none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The prompt, or the address of the resource (bounded). Absent from denials of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The JSON-RPC id of the request. Absent from lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// The end of the denial. Absent if it holds as long as the agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Timestamp>,
    /// The time from the operation to the answer, in nanoseconds.
    pub latency_ns: u64,
    /// Whether the operation itself was stopped: never, since the answer comes later.
    pub enforced: bool,
}

/// A guard that others wrote answers that an operation be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardModified {
    /// The kind of the guard: `wasm` or `http`.
    pub guard: GuardKind,
    /// The name of the guard in the configuration.
    pub guard_name: String,
    /// The phase in which it was asked.
    pub phase: Phase,
    /// The change: `replace_tools`, `redact_fields` or `add_warning`.
    pub action: String,
    /// The warning, or the effect of the change, in words.
    pub message: String,
    /// Whether the change has its effect. A message that was reported by then is not redacted.
    pub applied: bool,
    /// The tools that the guard leaves out of a list (bounded): calls of them are denied. Absent if it leaves out none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The JSON-RPC id of the request. Absent from lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonrpc_id: Option<Value>,
    /// The time from the operation to the answer, in nanoseconds.
    pub latency_ns: u64,
}

/// A guard that others wrote is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardLoaded {
    /// The kind of the guard: `wasm` or `http`.
    pub guard: GuardKind,
    /// The name of the guard in the configuration.
    pub guard_name: String,
    /// The SHA-256 hash of the component. Absent from services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_hash: Option<String>,
    /// The version of the contract.
    pub contract: String,
}

/// A guard that others wrote fails: the agent emits this once, until the guard answers again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardFailing {
    /// The kind of the guard: `wasm` or `http`.
    pub guard: GuardKind,
    /// The name of the guard in the configuration.
    pub guard_name: String,
    /// The phase in which it was asked.
    pub phase: Phase,
    /// The reason.
    pub reason: String,
    /// Whether `failure_mode` denies meanwhile.
    pub denies: bool,
}

/// A guard that others wrote answers again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardRecovered {
    /// The kind of the guard: `wasm` or `http`.
    pub guard: GuardKind,
    /// The name of the guard in the configuration.
    pub guard_name: String,
    /// The number of questions without an answer meanwhile.
    pub failures: u64,
}
