//! What is said of connections that processes open.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use super::connection::Connection;
use super::io::{Connect, Output, Process};
use super::memory::User;
use super::{Engine, Place};
use crate::event::{Action, Connecting, Event, NetworkConnection, Protocol, ServerEgress, Severity};
use crate::network::Verdict;
use crate::terms::{ConnectionId, ServerId, SessionId};

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

/// Servers that have ended. Processes that they started may live on, and are theirs.
#[derive(Debug, Default)]
pub(super) struct Departed(BTreeMap<ConnectionId, (Place, User)>);

impl Engine {
    /// Remembers a server whose connection is about to be forgotten.
    pub(super) fn depart(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id).filter(|known| !known.is_candidate()) else {
            return;
        };
        let user = connection.account.user;
        if let Some(place) = self.place(id) {
            self.departed.0.insert(id, (place, user));
        }
        if self.departed.0.len() > self.config.limits.departed {
            // The oldest: numbers of connections only grow.
            self.departed.0.pop_first();
            self.counters.departed_evicted += 1;
        }
    }

    /// The server of a connection, whether or not it has ended, and its user. `None` of a candidate.
    fn server_of(&self, id: ConnectionId) -> Option<(Place, User)> {
        match self.connections.get(&id) {
            Some(connection) if connection.is_candidate() => None,
            Some(connection) => Some((self.place(id)?, connection.account.user)),
            None => self.departed.0.get(&id).cloned(),
        }
    }

    pub(super) fn connect(&mut self, connect: Connect, out: &mut Vec<Output>) {
        self.counters.connects += 1;
        let denied = connect.verdict == Verdict::Deny;
        self.counters.connects_denied += u64::from(denied);
        // What may become a server is none yet, and no server's rules hold for it: that it is denied is said at once.
        let of_server = connect.connection.and_then(|id| self.server_of(id));
        if connect.server.is_some() || denied && of_server.is_none() {
            let (server_id, server_type) = connect.server.clone().unzip();
            out.push(Output::Event(Event {
                timestamp: connect.time,
                session_id: match &of_server {
                    Some((place, _)) => Some(place.session.clone()),
                    None => self.session_of(&connect),
                },
                server_id,
                server_type,
                via: Vec::new(),
                connection: None,
                body: NetworkConnection { connecting: connecting(&connect) }.into(),
                link: None,
            }));
        }
        if let Some((place, user)) = of_server {
            return self.egress(place, user, connect, out);
        }
        if let Some(candidate) = connect.connection.and_then(|id| self.connections.get_mut(&id)) {
            candidate.keep_connect(connect, &self.config.limits);
        }
    }

    /// Says what waited until a candidate became a server.
    pub(super) fn kept_connect(&mut self, id: ConnectionId, connect: Connect, out: &mut Vec<Output>) {
        if let Some((place, user)) = self.server_of(id) {
            self.egress(place, user, connect, out);
        }
    }

    /// Says that a server connects to something.
    fn egress(&mut self, place: Place, user: User, connect: Connect, out: &mut Vec<Output>) {
        let Place { server, .. } = &place;
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

    /// The session that the connect of no server's process belongs to: of the client that the process or the nearest of
    /// its parents is; who speaks to a declared server is a client.
    fn session_of(&self, connect: &Connect) -> Option<SessionId> {
        let process = &connect.process;
        let client = |connection: &Connection| {
            let client = connection.client.as_ref()?;
            let distance =
                std::iter::once(&process.pid).chain(&process.ancestors).position(|pid| *pid == client.pid)?;
            // A number is used again, and of parents no more than that is known.
            (distance > 0 || client.start_ns == process.start_ns).then_some((distance, connection.id))
        };
        // A candidate's client is a shell in front of a pipeline more often than not.
        let servers = self.connections.values().filter(|connection| !connection.is_candidate());
        let nearest = servers.filter_map(client).min();
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
        adopted: connect.adopted,
    }
}
