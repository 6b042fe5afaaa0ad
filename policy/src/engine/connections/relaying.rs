//! Which connections are inner to which: see `exchange::relays`.

use std::time::Duration;

use super::{Connection, Connections, Stage};
use crate::terms::{ConnectionId, Timestamp};

/// Most relays one behind the other.
const MAX_RELAYS: usize = 8;
/// Within which a server that a relay starts is asked something.
const FIRST_WORDS: Duration = Duration::from_secs(1);

impl Connections {
    /// The server that a connection is directly inner to.
    pub(in crate::engine) fn direct_outer(&self, id: ConnectionId) -> Option<&Connection> {
        let outer = self.get(id)?.outer?;
        self.get(outer).filter(|outer| matches!(outer.stage, Stage::Server))
    }

    /// The servers that this connection is inner to, nearest first.
    pub(in crate::engine) fn outers(&self, id: ConnectionId) -> impl Iterator<Item = &Connection> {
        std::iter::successors(self.direct_outer(id), |outer| self.direct_outer(outer.id)).take(MAX_RELAYS)
    }

    /// The connection of the outermost client, that of `id` where it is inner to none.
    pub(in crate::engine) fn outermost(&self, id: ConnectionId) -> Option<&Connection> {
        self.outers(id).last().or_else(|| self.get(id))
    }

    /// The relay that a connection is inner to, if that waits for its first answer to be announced.
    pub(in crate::engine) fn pending_outer(&self, id: ConnectionId) -> Option<ConnectionId> {
        self.get(id)?.outer.filter(|outer| self.is_pending(*outer))
    }

    /// Finds the relay that a connection is inner to: its client, or the nearest of the parents, is one of the
    /// relay's processes.
    pub(in crate::engine) fn find_outer(&mut self, id: ConnectionId) {
        let Some(connection) = self.get(id).filter(|connection| connection.outer.is_none()) else { return };
        let client = connection
            .client
            .iter()
            .flat_map(|client| std::iter::once(client.pid).chain(client.ancestors.iter().copied()));
        let parents = connection.chain.iter().flat_map(|process| process.ancestors.iter().copied());
        let outer = client
            .chain(parents)
            .find_map(|pid| self.processes.get(&pid).copied().filter(|outer| *outer != id));
        let Some(outer) = outer else { return };
        let mut above = Some(outer);
        for _ in 0..MAX_RELAYS {
            if above == Some(id) {
                return;
            }
            above = above.and_then(|above| self.get(above)).and_then(|above| above.outer);
        }
        if above.is_none() {
            self.link(id, outer);
        }
    }

    /// The same for all whose relay is not known.
    pub(in crate::engine) fn find_outers(&mut self) {
        let others = self.values().filter(|other| other.outer.is_none()).map(|other| other.id);
        others.collect::<Vec<_>>().into_iter().for_each(|other| self.find_outer(other));
    }

    /// Finds the relay of a server that runs in a container: no process of the one is a child of the other's, since
    /// the container engine's daemon is between them. It is a command that has a container engine run something, has
    /// nothing behind it yet, and was asked the same a moment ago; of several, the first.
    pub(in crate::engine) fn find_container_relay(
        &mut self,
        id: ConnectionId,
        asked_the_same: impl Fn(&mut Connection) -> bool,
    ) {
        let inner = self.get(id);
        if !inner.is_some_and(|inner| inner.outer.is_none() && inner.is_in_container()) {
            return;
        }
        let relay = self
            .all
            .values_mut()
            .filter(|relay| relay.runs_container && relay.inners.is_empty() && relay.id != id)
            .filter_map(|relay| asked_the_same(relay).then_some((relay.since, relay.id)))
            .min();
        if let Some((_, relay)) = relay {
            self.link(id, relay);
        }
    }

    fn link(&mut self, inner: ConnectionId, outer: ConnectionId) {
        if let Some(outer) = self.get_mut(outer) {
            outer.inners.push(inner);
        }
        if let Some(inner) = self.get_mut(inner) {
            inner.outer = Some(outer);
        }
    }

    /// A connection was forgotten: what was inner to it is inner to what it was inner to.
    pub(super) fn unlink(&mut self, connection: &Connection) {
        if let Some(outer) = connection.outer.and_then(|outer| self.get_mut(outer)) {
            outer.inners.retain(|inner| *inner != connection.id);
        }
        for inner in &connection.inners {
            if let Some(inner) = self.get_mut(*inner) {
                inner.outer = connection.outer;
            }
            if let Some(outer) = connection.outer.and_then(|outer| self.get_mut(outer)) {
                outer.inners.push(*inner);
            }
        }
    }

    /// Whether something behind this connection may get what is passed on. What is no server by name and was asked
    /// nothing for a while is some other child of the server's (`git cat-file --batch`), and nobody waits for it.
    pub(in crate::engine) fn has_inners(&self, id: ConnectionId, time: Timestamp) -> bool {
        let inners = self.get(id).map_or(&[][..], |connection| &connection.inners);
        inners.iter().filter_map(|inner| self.get(*inner)).any(|inner| match inner.stage {
            Stage::Candidate { .. } => {
                inner.is_pending() || !inner.is_unnamed() || inner.since.after(FIRST_WORDS) > time
            }
            Stage::Server => true,
            Stage::Exited => false,
        })
    }
}
