//! What is said of connections that processes open.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use super::connection::Connection;
use super::io::{Connect, Output, Process};
use super::memory::User;
use super::{Engine, Place};
use crate::event::{Action, Connecting, Event, NetworkConnection, Protocol, ServerEgress, Severity};
use crate::ids::{ConnectionId, ServerId, SessionId};
use crate::network::Verdict;

/// Where one server connected to: address, port, protocol.
type Destination = (IpAddr, u16, Protocol);

/// Where servers have connected to so far.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    of_servers: HashMap<(User, ServerId), HashSet<Destination>>,
    count: usize,
}

impl Destinations {
    /// Most for all servers.
    pub(super) const MOST: usize = 16_384;
    /// Most for one.
    pub(super) const MOST_OF_ONE: usize = 1_024;

    /// Whether this was not known; and whether it is now.
    fn add(&mut self, server: (User, ServerId), destination: Destination) -> (bool, bool) {
        let known = self.of_servers.get(&server);
        if known.is_some_and(|known| known.contains(&destination)) {
            return (false, true);
        }
        let full = self.count >= Self::MOST || known.is_some_and(|known| known.len() >= Self::MOST_OF_ONE);
        if !full {
            self.of_servers.entry(server).or_default().insert(destination);
            self.count += 1;
        }
        (true, !full)
    }
}

impl Engine {
    pub(super) fn connect(&mut self, connect: Connect, out: &mut Vec<Output>) {
        self.counters.connects += 1;
        let denied = connect.verdict == Verdict::Deny;
        self.counters.connects_denied += u64::from(denied);
        let of_server = connect.connection.filter(|id| self.connections.contains_key(id));
        // What may become a server is none yet, and no server's rules hold for it: that it is denied is said at once.
        let server = of_server.and_then(|id| self.connections.get(&id)).filter(|known| !known.is_candidate());
        if connect.server.is_some() || denied && server.is_none() {
            let (server_id, server_type) = connect.server.clone().unzip();
            out.push(Output::Event(Event {
                timestamp: connect.time,
                session_id: self.session_of(of_server, &connect),
                server_id,
                server_type,
                via: Vec::new(),
                connection: None,
                body: NetworkConnection { connecting: connecting(&connect) }.into(),
            }));
        }
        let Some(id) = of_server else { return };
        match self.connections.get_mut(&id) {
            Some(connection) if connection.is_candidate() => {
                if !connection.keep_connect(connect, &self.config.limits) {
                    self.counters.candidate_overflow += 1;
                }
            }
            _ => self.egress(id, connect, out),
        }
    }

    /// Says that a server connects to something.
    pub(super) fn egress(&mut self, id: ConnectionId, connect: Connect, out: &mut Vec<Output>) {
        let Some(place) = self.place(id) else { return };
        let Place { server, .. } = &place;
        let user = self.connections.get(&id).and_then(|connection| connection.account.user);
        let destination = (connect.address.to_canonical(), connect.port, connect.protocol);
        let (first_seen, known) = self.destinations.add((user, server.clone()), destination);
        self.counters.destinations_overflow += u64::from(!known);
        self.counters.egress += 1;
        let severity = if connect.verdict == Verdict::Deny { Severity::High } else { Severity::Low };
        let egress = ServerEgress {
            connecting: connecting(&connect),
            remote_server_id: connect.server.map(|(server, _)| server),
            first_seen,
            severity,
        };
        self.say(place, connect.time, egress, out);
    }

    /// The session that a connect belongs to: of the server whose process it is, else of the client that the process or
    /// the nearest of its parents is; who speaks to a declared server is a client.
    fn session_of(&self, server: Option<ConnectionId>, connect: &Connect) -> Option<SessionId> {
        if let Some(connection) = server.and_then(|id| self.connections.get(&id)) {
            return Some(self.session(connection));
        }
        let process = &connect.process;
        let client = |connection: &Connection| {
            let client = connection.client.as_ref()?;
            let distance =
                std::iter::once(&process.pid).chain(&process.ancestors).position(|pid| *pid == client.pid)?;
            // A number is used again, and of parents no more than that is known.
            (distance > 0 || client.start_ns == process.start_ns).then_some((distance, connection.id))
        };
        let nearest = self.connections.values().filter_map(client).min();
        match nearest.and_then(|(_, id)| self.connections.get(&id)) {
            Some(connection) => Some(self.session(connection)),
            None => connect.server.as_ref().map(|_| self.session_of_client(process)),
        }
    }

    /// The session of a client that is nobody's server.
    pub(super) fn session_of_client(&self, client: &Process) -> SessionId {
        self.session_id(&format!("{} {}", client.pid, client.start_ns))
    }
}

fn connecting(connect: &Connect) -> Connecting {
    let process = &connect.process;
    Connecting {
        remote_addr: SocketAddr::new(connect.address.to_canonical(), connect.port).to_string(),
        remote_name: connect.name.clone(),
        protocol: connect.protocol,
        family: connect.family,
        pid: process.pid,
        uid: process.uid,
        cgroup_id: process.cgroup_id,
        cgroup: process.cgroup.clone(),
        executable: process.executable.clone(),
        action: if connect.verdict == Verdict::Deny { Action::Block } else { Action::Allow },
        enforced: connect.enforced && connect.verdict == Verdict::Deny,
        reason: connect.reason.clone(),
    }
}
