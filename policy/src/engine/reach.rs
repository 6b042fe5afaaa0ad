//! Servers at addresses.

use std::net::SocketAddr;

use super::Engine;
use super::io::{Output, Reached};
use crate::discovery;
use crate::event::ServerType;
use crate::ids::ServerId;

/// A declared server that is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The id it gets.
    pub id: ServerId,
    /// Host and port of its URL, as the configuration has them.
    pub address: String,
    /// Path of its URL, without its query.
    pub path: String,
}

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) struct At {
    address: SocketAddr,
    path: String,
    pub(super) kind: ServerType,
}

impl At {
    /// What its id is if it is not declared: the address that is really spoken to, not the name that the client has
    /// for it, and the path.
    pub(super) fn server_id(&self) -> ServerId {
        discovery::address_id(&format!("{}{}", self.address, self.path))
    }

    /// As a URL.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// Memory that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.path.len()
    }
}

impl Engine {
    pub(super) fn reached(&mut self, reached: Reached, out: &mut Vec<Output>) {
        self.counters.reached += 1;
        let (id, time) = (reached.connection, reached.time);
        if !self.known(id, time, out) || !self.assign(id, reached.client.uid, time, out) {
            return;
        }
        let declared = self.declared_at(&reached).cloned();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.since = connection.since.min(time);
        connection.declared = declared;
        connection.client = Some(reached.client);
        connection.at = Some(At { address: reached.address, path: reached.path, kind: reached.kind });
        // A server may be the client of another: what goes through both is one.
        self.find_outer(id);
    }

    /// The declared server that is meant: where several are at one address, the path tells.
    fn declared_at(&self, reached: &Reached) -> Option<&ServerId> {
        let id = reached.declared.as_ref()?;
        let Some(known) = self.config.remote.iter().find(|remote| remote.id == *id) else { return None };
        let neighbours: Vec<_> =
            self.config.remote.iter().filter(|remote| remote.address == known.address).collect();
        let named =
            |remote: &&&Remote| remote.path.trim_end_matches('/') == reached.path.trim_end_matches('/');
        let meant = neighbours.iter().find(named).copied();
        meant.or((neighbours.len() == 1).then_some(known)).map(|remote| &remote.id)
    }
}
