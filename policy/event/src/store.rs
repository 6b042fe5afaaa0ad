//! The audit trail: the place of an event in it, and events about where it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The place of an event in the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Number of the event, from 1 on for the life of the store.
    pub seq: u64,
    /// `sha256:` and the hash of the event before it, as 64 hexadecimal digits: of its line of JSON, without the line feed.
    /// The first event has zeros.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub previous: String,
}

/// Said once when events cannot be stored. They go wherever else they go, and their hashes go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreFailing {
    /// Path of the database.
    pub path: String,
    /// What was tried, and why it failed.
    pub reason: String,
}

/// Said each minute in which there were other events, and sent to every sink, whatever its filter: `previous` is the hash of
/// all events before it. Who keeps a copy elsewhere can tell whether what is stored was changed since.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditHead {
    /// How many events there were since this was last said, or since the agent started.
    pub events: u64,
}

/// Said when events are stored again; it is the first that is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreRecovered {
    /// Path of the database.
    pub path: String,
    /// How many events of this agent the database lacks.
    pub events_lost: u64,
    /// Number of the first event that the database lacks; the one before this event is the last. Absent where none is
    /// missing between two that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_missing: Option<u64>,
}

/// Said when a damaged database was set aside and another begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreReplaced {
    /// Path of the database.
    pub path: String,
    /// Where the damaged one is now.
    pub set_aside: String,
    /// How it is damaged.
    pub reason: String,
    /// How many pins were restored from their last export, where it was the database of pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pins_restored: Option<u64>,
}
