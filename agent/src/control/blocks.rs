//! Blocks, as they are asked for and told: `/v1/blocks`.

use mcpwarden_policy::{Timestamp, config::Period, event::ServerType};
use serde::{Deserialize, Serialize};

/// What is to be blocked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBlock {
    /// An address, the id of a declared server, or whose calls: `server=ID`, `session=ID`.
    pub target: String,
    /// The port, where `target` names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// For how long, as `10m`; without it, until it is unblocked.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Even if that cuts off most of the network, or the loopback.
    #[serde(default)]
    pub yes: bool,
}

/// What is to be unblocked: as it was blocked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OldBlock {
    /// As in [`NewBlock`].
    pub target: String,
    /// As in [`NewBlock`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A block.
#[derive(Debug, Serialize, Deserialize)]
pub struct BlockView {
    /// What is blocked, as `unblock` takes it.
    pub target: String,
    /// How the server is reached, where it is a declared server's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_type: Option<ServerType>,
    /// Since when.
    pub since: Timestamp,
    /// Until when; absent: until it is unblocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// User id of who blocked it.
    pub uid: u32,
    /// That user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What of the network that is now; nothing where the addresses of a name are not known.
    pub addresses: Vec<String>,
    /// Of blocked calls: how many connections they are made on now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
}

/// All blocks.
#[derive(Debug, Serialize, Deserialize)]
pub struct Blocks {
    /// In the order in which they were made.
    pub blocks: Vec<BlockView>,
}
