//! Tasks that servers have made of requests: whose they are, and which call ends with them.

use std::sync::Arc;

use serde_json::Value;

use super::ledger::{Bounds, Digest, Ledger};
use super::rounds::{Attempt, Owner};
use crate::event::Trace;
use crate::terms::{ConnectionId, Timestamp};

/// A call that ends with its task.
#[derive(Clone, Debug)]
pub(super) struct TaskCall {
    pub(super) tool_name: Arc<str>,
    /// The id of the request, as it is recorded.
    pub(super) id: Value,
    pub(super) time: Timestamp,
    pub(super) attempt: Attempt,
    pub(super) trace: Trace,
}

/// A task.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) owner: Owner,
    pub(super) connection: ConnectionId,
    /// The id of the request of which it was made, as it is recorded.
    pub(super) made_by: Value,
    /// `None` where the request had its answer when the task was made (MCP 2025-11-25).
    pub(super) call: Option<TaskCall>,
    /// How it ended.
    pub(super) end: Option<Digest>,
}

/// How near the connection that made a task is to the one that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    /// The same, or part of one with it, such as one behind a relay.
    Same,
    /// It has ended: a client may go on with its tasks on another one.
    Gone,
    Away,
}

/// Whose the task is that somebody else asks for, the nearest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Foreign {
    Server,
    User,
    Connection,
}

impl Foreign {
    /// In words, as the evidence has it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::User => "a task of another user",
            Self::Server => "a task of another server",
            Self::Connection => "a task of another connection",
        }
    }
}

/// The tasks that are known.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: Ledger<Task>,
}

impl Tasks {
    /// A server made a task. How many were put out for room.
    pub(super) fn add(&mut self, id: Digest, task: Task, bounds: Bounds) -> u64 {
        let same = |known: &&mut Task| known.owner == task.owner && known.connection == task.connection;
        if let Some(known) = self.known.get_mut(id).find(same) {
            // An id that comes again is another task.
            *known = task;
            return 0;
        }
        self.known.insert(task.owner.user, id, task, bounds)
    }

    /// The task of this id: of this connection, or else of the same user and server.
    pub(super) fn of(&mut self, owner: Owner, connection: ConnectionId, id: Digest) -> Option<&mut Task> {
        let rank = |task: &&mut Task| match task {
            task if task.owner == owner && task.connection == connection => 2,
            task if task.owner == owner => 1,
            _ => 0,
        };
        self.known.get_mut(id).max_by_key(rank).filter(|task| task.owner == owner)
    }

    /// Whether the task is another's, and whose, where it is known at all.
    pub(super) fn foreign(
        &self,
        owner: Owner,
        id: Digest,
        nearness: impl Fn(ConnectionId) -> Nearness,
    ) -> Option<Foreign> {
        let mut foreign = None;
        for task in self.known.get(id) {
            let same = (task.owner.server == owner.server, task.owner.user == owner.user);
            let of = match (same, nearness(task.connection)) {
                (_, Nearness::Same) | ((true, true), Nearness::Gone) => return None,
                ((true, true), Nearness::Away) => Foreign::Connection,
                ((true, false), _) => Foreign::User,
                ((false, _), _) => Foreign::Server,
            };
            foreign = foreign.max(Some(of));
        }
        foreign
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}
