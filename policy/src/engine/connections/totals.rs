//! What is watched now, and how much went by, by how servers are reached.

use std::collections::HashSet;

use super::{Connection, Connections, Stage};
use crate::event::{PerDirection, ServerType};
use crate::terms::ConnectionId;

/// What there is of servers of one type, and what was reported to them and by them. All but the first two only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Servers that run.
    pub servers: u64,
    /// Tools that these offer.
    pub tools: u64,
    /// Frames.
    pub frames: PerDirection,
    /// Bytes in them.
    pub bytes: PerDirection,
    /// Bytes that were no frame.
    pub junk_bytes: u64,
    /// Bytes that were not seen.
    pub gap_bytes: u64,
}

impl Traffic {
    fn add(&mut self, connection: &Connection) {
        let is_running = match connection.stage {
            Stage::Candidate { .. } => return,
            Stage::Server => true,
            Stage::Exited => false,
        };
        if is_running {
            self.servers += 1;
            self.tools += connection.listed_tools() as u64;
        }
        let totals = &connection.totals;
        self.frames.c2s += totals.frames.c2s;
        self.frames.s2c += totals.frames.s2c;
        self.bytes.c2s += totals.bytes.c2s;
        self.bytes.s2c += totals.bytes.s2c;
        self.junk_bytes = self.junk_bytes.saturating_add(totals.junk_bytes);
        self.gap_bytes = self.gap_bytes.saturating_add(totals.gap_bytes);
    }
}

/// What went by on connections that are forgotten.
#[derive(Debug, Default)]
pub(super) struct Gone([Traffic; ServerType::ALL.len()]);

impl Gone {
    /// A connection is forgotten.
    pub(super) fn add(&mut self, connection: &Connection) {
        let Traffic { servers, tools, .. } = self.0[connection.kind() as usize];
        let of_kind = &mut self.0[connection.kind() as usize];
        of_kind.add(connection);
        (of_kind.servers, of_kind.tools) = (servers, tools);
    }
}

impl Connections {
    /// What there is, and what went by so far, of servers of a type. Takes a walk over all connections.
    pub(in crate::engine) fn traffic(&self, kind: ServerType) -> Traffic {
        let mut traffic = self.gone.0[kind as usize];
        for connection in self.values().filter(|connection| connection.kind() == kind) {
            traffic.add(connection);
        }
        traffic
    }

    /// How many clients have a server now: sessions. Takes a walk over all connections.
    pub(in crate::engine) fn sessions(&self) -> usize {
        let outermost = self.servers().map(|one| self.outers(one.id).last().unwrap_or(one));
        let client = |one: &Connection| match &one.client {
            Some(client) => (ConnectionId(0), client.pid, client.start_ns),
            None => (one.id, 0, 0),
        };
        outermost.map(client).collect::<HashSet<_>>().len()
    }
}
