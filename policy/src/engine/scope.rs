//! Who an event is about.

use crate::event::ServerType;
use crate::terms::{ConnectionId, ServerId, SessionId};

/// A connection, and whose it is: what every event of it is reported with.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) connection: ConnectionId,
    pub(super) session: SessionId,
    pub(super) server: ServerId,
    pub(super) kind: ServerType,
    pub(super) via: Vec<ServerId>,
    /// The user of the client.
    pub(super) owner: Option<u32>,
}
