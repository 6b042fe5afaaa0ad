//! Servers that have ended. Processes that they started may live on, and are theirs.

use std::collections::BTreeMap;

use super::{Connections, Scope, User};
use crate::terms::ConnectionId;

/// Servers whose connections were forgotten, each with its user.
#[derive(Debug, Default)]
pub(super) struct Departed(BTreeMap<ConnectionId, (Scope, User)>);

impl Departed {
    /// Remembers a server, of at most `limit`. Whether another one had to go.
    fn add(&mut self, id: ConnectionId, server: (Scope, User), limit: usize) -> bool {
        self.0.insert(id, server);
        // The oldest: numbers of connections only grow.
        self.0.len() > limit && self.0.pop_first().is_some()
    }
}

impl Connections {
    /// Remembers the server of a connection that is about to be forgotten. Whether another one had to go.
    pub(in crate::engine) fn depart(&mut self, id: ConnectionId, limit: usize) -> bool {
        let server = self.get(id).filter(|known| !known.is_candidate()).map(|known| known.account.user);
        let server = server.and_then(|user| Some((self.scope(id)?, user)));
        server.is_some_and(|server| self.departed.add(id, server, limit))
    }

    /// The server of a connection, whether or not it has ended, and its user. `None` of a candidate.
    pub(in crate::engine) fn server_of(&self, id: ConnectionId) -> Option<(Scope, User)> {
        match self.get(id) {
            Some(connection) if connection.is_candidate() => None,
            Some(connection) => Some((self.scope(id)?, connection.account.user)),
            None => self.departed.0.get(&id).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ServerType;
    use crate::terms::{ServerId, SessionId};

    #[test]
    fn oldest_departed_server_is_evicted_at_capacity() {
        let scope = |id| Scope {
            connection: ConnectionId(id),
            session: SessionId("s".into()),
            server: ServerId("a".into()),
            kind: ServerType::Stdio,
            via: Vec::new(),
            owner: None,
        };
        let mut departed = Departed::default();
        for (id, evicts, oldest) in [(5, false, 5), (3, false, 3), (9, true, 5), (9, false, 5)] {
            assert_eq!(departed.add(ConnectionId(id), (scope(id), None), 2), evicts, "{id}");
            assert_eq!(departed.0.keys().next(), Some(&ConnectionId(oldest)), "{id}");
        }
    }
}
