//! Connections of sockets beside those over stdio: their records, and how the kernel's tables are held against them.

use std::collections::BTreeMap;

use mcpwarden_abi as abi;
use mcpwarden_policy::Timestamp;

use super::{
    Capture,
    socket::{Connected, Sockets},
};
use crate::{output::Sink, over_tls::TlsCounters, time::BootTime};

impl Capture {
    /// Bytes of a connection of sockets will come, or wait already.
    pub fn open_socket(
        &mut self,
        id: u64,
        connected: Connected,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        if !self.open(id, now) {
            self.sockets.refuse(id, connected.key, sink);
            return;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            self.memory.assign(&mut connection.account, connected.client.uid);
        }
        self.sockets.open(id, connected, sink);
        self.release_early(id, clock, now, sink);
    }

    /// The TCP connections that are known, and the key of each where its record came.
    pub fn socket_ids(&self) -> Vec<(u64, Option<u64>)> {
        let sockets = self.connections.keys().filter(|id| **id & abi::SOCKET != 0);
        sockets.map(|id| (*id, self.sockets.key(*id))).collect()
    }

    /// What was refused or could not be read of TCP connections, by name.
    pub fn http_counters(&self) -> BTreeMap<String, u64> {
        let mut counters = self.sockets.counters().to_map();
        counters.insert("connections_refused".to_owned(), self.sockets.refused());
        counters
    }

    /// What was counted of connections over TLS.
    pub fn tls_counters(&self) -> TlsCounters {
        self.sockets.tls_counters()
    }

    /// The TCP connections.
    pub fn sockets(&mut self) -> &mut Sockets {
        &mut self.sockets
    }

    /// Compares a TCP connection with the kernel's positions, as [`Self::look`] does. `None`: it is not there any more,
    /// and if that is so twice, the record of its end was lost.
    pub fn look_at_socket(
        &mut self,
        id: u64,
        kernel: Option<&abi::SoFar>,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        match kernel {
            Some(closed) => {
                self.missing.remove(&id);
                self.look(id, &closed.streams, now, sink);
                self.sockets.look_at_tls(id, closed, false, now, sink);
            }
            None if self.missing.insert(id) => {}
            None => self.close(id, clock, now, sink),
        }
    }
}
