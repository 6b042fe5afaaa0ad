//! TCP connections in the kernel half: how far they are, and how much of them is captured.

use std::collections::{self, HashSet};

use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData},
};
use mcpwarden_abi as abi;

use super::{KernelError, channels::remove_roles, maps, stats::Walked, table::Table};

/// The tables of TCP connections.
pub struct Sockets {
    known: HashMap<MapData, u64, abi::Socket>,
    /// How many each user has.
    by_user: HashMap<MapData, u32, u64>,
    /// Those without a budget.
    lifted: HashMap<MapData, u64, u32>,
    /// Where servers were found.
    found: HashMap<MapData, abi::Endpoint, u32>,
    /// Which pass over open sockets it is, and who listens where (TCP) meanwhile.
    pass: Array<MapData, u32>,
    listeners: HashMap<MapData, abi::Endpoint, u32>,
    refused: u64,
}

impl Sockets {
    /// Takes the tables out of a loaded object.
    ///
    /// # Errors
    /// One is missing.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        Ok(Self {
            known: maps::take(ebpf, "SOCKETS")?,
            by_user: maps::take(ebpf, "SOCKETS_OF")?,
            lifted: maps::take(ebpf, "LIFTED")?,
            found: maps::take(ebpf, "FOUND")?,
            pass: maps::take(ebpf, "SOCKET_PASS")?,
            listeners: maps::take(ebpf, "LISTENERS")?,
            refused: 0,
        })
    }

    /// A pass over open sockets comes next: the first (0), which finds who listens, or another.
    ///
    /// # Errors
    /// The table refuses.
    pub fn begin_pass(&mut self, pass: u32) -> Result<(), KernelError> {
        self.pass.set(0, pass, 0).map_err(|source| KernelError::Map { name: "SOCKET_PASS", source })
    }

    /// There was the last pass: who listens is not kept.
    pub fn end_passes(&mut self) {
        maps::clear(&mut self.listeners);
    }

    /// Key and number of each.
    pub fn keys(&self) -> Vec<(u64, u64)> {
        let known = self.known.iter().filter_map(Result::ok);
        known.map(|(key, socket)| (key, socket.positions.number)).collect()
    }

    /// No server was found anywhere yet.
    pub fn forget_found(&mut self) {
        maps::clear(&mut self.found);
    }

    /// How often there was no capacity.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What is known of a connection, while it lasts.
    pub fn get(&self, key: u64, number: u64) -> Option<abi::Socket> {
        self.known.get(&key, 0).ok().filter(|socket| socket.positions.number == number)
    }

    /// Lifts the budgets of a TCP connection.
    pub fn lift(&mut self, key: u64) {
        // Full table: what exceeds the budget shows as a gap.
        self.refused += u64::from(self.lifted.insert(key, 1, 0).is_err());
    }

    /// Captures what goes to where a server was found from the first byte on, or (`false`) no more: it is another's now.
    pub fn found(&mut self, endpoint: &abi::Endpoint, is_server: bool) {
        if is_server {
            // Full table: each connection has the budget of a candidate at first, and what exceeds it shows as a gap.
            self.refused += u64::from(self.found.insert(endpoint, 1, 0).is_err());
        } else {
            // What is not there is as good as deleted.
            let _ = self.found.remove(endpoint);
        }
    }

    /// Stops capturing a TCP connection, if it is still this one.
    pub fn remove(&mut self, key: u64, number: u64, channels: &mut Table<abi::ChannelKey, abi::Channel>) {
        if let Ok(socket) = self.known.get(&key, 0)
            && socket.positions.number == number
        {
            remove_roles(channels, &socket.key, key);
            if socket.far.inode != 0 {
                remove_roles(channels, &socket.far, key);
            }
            let _ = self.known.remove(&key);
            let _ = self.lifted.remove(&key);
        }
    }

    /// Forgets TCP connections whose sockets nobody holds (`held`), and that were made before `known_at` (boot time, ns):
    /// the end of some is not recorded.
    pub fn sweep(
        &mut self,
        held: &HashSet<abi::ChannelKey>,
        known_at: u64,
        channels: &mut Table<abi::ChannelKey, abi::Channel>,
        walked: &Walked,
    ) {
        let is_stale =
            |socket: &abi::Socket| socket.positions.since_ns < known_at && !held.contains(&socket.key);
        let all: Vec<(u64, abi::Socket)> = self.known.iter().filter_map(Result::ok).collect();
        walked.saw("SOCKETS", all.len());
        self.count(&all);
        for (key, socket) in all.iter().filter(|(_, socket)| is_stale(socket)) {
            self.remove(*key, socket.positions.number, channels);
        }
    }

    /// Counts anew how many TCP connections each user has: those that were removed from here are not counted any more. What the
    /// kernel half does meanwhile is counted the next time.
    fn count(&mut self, all: &[(u64, abi::Socket)]) {
        let mut counts: collections::HashMap<u32, u64> = collections::HashMap::new();
        all.iter().for_each(|(_, socket)| *counts.entry(socket.info.connect.uid).or_default() += 1);
        let known: Vec<u32> = self.by_user.keys().filter_map(Result::ok).collect();
        for uid in known {
            // What is not there is as good as deleted.
            let _ = match counts.get(&uid) {
                Some(count) => self.by_user.insert(uid, count, 0),
                None => self.by_user.remove(&uid),
            };
        }
    }
}
