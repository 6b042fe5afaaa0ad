//! The audit trail: the place of an event in it, and events about where it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The position of an event in the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The number of the event, from 1 on for the life of the store.
    pub seq: u64,
    /// `sha256:` and the hash of the previous event, 64 hexadecimal digits: of its line of JSON, without the line feed.
    /// For the first event, zeros.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub previous: String,
}

/// The agent cannot store events. It still sends them to sinks, and continues the hash chain. The agent reports this
/// once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreFailing {
    /// The path of the database.
    pub path: String,
    /// The failed operation, and the reason.
    pub reason: String,
}

/// The head of the hash chain: `previous` is the hash of all events before this one. The agent emits this event each
/// minute in which there were other events, and sends it to every sink, whatever its filter. A copy elsewhere proves
/// whether stored events were changed since.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditHead {
    /// The number of events since the previous head, or since the start of the agent.
    pub events: u64,
}

/// The agent can store events again. This event is the first that it stores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreRecovered {
    /// The path of the database.
    pub path: String,
    /// The number of events of this agent that are missing in the database.
    pub events_lost: u64,
    /// The number of the first missing event; the one before this event is the last. Absent if no event is missing
    /// between two stored ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_missing: Option<u64>,
}

/// The agent set a damaged database aside and began another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreReplaced {
    /// The path of the database.
    pub path: String,
    /// The new path of the damaged database.
    pub set_aside: String,
    /// The damage.
    pub reason: String,
    /// The number of pins that were restored from their last export, for the database of pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pins_restored: Option<u64>,
}

/// The reason for which the agent cut the readers of the database off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutReason {
    /// A reader held a lock that only a writer needs, so that no event could be stored.
    #[default]
    Locked,
    /// A reader kept a transaction open, so that the log of the database (`-wal`) grew beyond its limit.
    LogTooLarge,
}

/// A reader of the database kept the agent from its work, and the agent cut all readers off: open queries fail or see an
/// inconsistent database. No event is lost by that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreReadersCut {
    /// The path of the database.
    pub path: String,
    /// What the reader did.
    pub reason: CutReason,
    /// The size of the log of the database. Bytes.
    pub log_bytes: u64,
    /// The process that held the lock, as far as the kernel names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The user id of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The time for which only root can open the database. 0 if readers can open it again at once. Seconds.
    pub closed_seconds: u64,
}

/// The oldest events of one user were removed, since this user has the most stored events and the database is full, or since
/// the user exceeds `store.retention.per_user`. Events of others were kept. At most one such event per user and minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreTrimmed {
    /// The user whose clients and servers the events are about. Absent for events about the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The number of removed events since the previous such event.
    pub events: u64,
    /// Their size. Bytes.
    pub bytes: u64,
    /// The size of the events of this user that are left. Bytes.
    pub left_bytes: u64,
}
