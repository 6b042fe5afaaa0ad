//! Where servers' processes connect to.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use super::connection::Connection;
use super::connections::Connections;
use super::context::Context;
use super::io::Connect;
use super::memory::User;
use super::reporter::Reporter;
use super::scope::Scope;
use crate::event::{Action, Connecting, Event, NetworkConnection, Protocol, ServerEgress, Severity, Trace};
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

impl Destinations {
    /// A process connects to something.
    pub(super) fn connect(&mut self, cx: &mut Context<'_>, connect: Connect) {
        cx.reporter.counters.connects += 1;
        let denied = connect.verdict == Verdict::Deny;
        cx.reporter.counters.connects_denied += u64::from(denied);
        // What may become a server is none yet, and no server's rules hold for it: that it is denied is reported at once.
        let of_server = connect.connection.and_then(|id| cx.connections.server_of(id));
        if connect.server.is_some() || denied && of_server.is_none() {
            let (server_id, server_type) = connect.server.clone().unzip();
            let event = Event {
                timestamp: connect.time,
                session_id: match &of_server {
                    Some((scope, _)) => Some(scope.session.clone()),
                    None => session_of(cx.connections, &connect),
                },
                server_id,
                server_type,
                via: Vec::new(),
                connection: None,
                body: NetworkConnection { connecting: connecting(&connect) }.into(),
                trace: Trace::default(),
                repeats: None,
                link: None,
                owner: connect.process.uid,
            };
            cx.reporter.emit(event);
        }
        if let Some((scope, user)) = of_server {
            return self.egress(&mut cx.reporter, scope, user, connect);
        }
        if let Some(candidate) = connect.connection.and_then(|id| cx.connections.get_mut(id)) {
            candidate.keep_connect(connect, &cx.config.limits);
        }
    }

    /// Reports what waited until a candidate became a server.
    pub(super) fn kept_connect(&mut self, cx: &mut Context<'_>, id: ConnectionId, connect: Connect) {
        if let Some((scope, user)) = cx.connections.server_of(id) {
            self.egress(&mut cx.reporter, scope, user, connect);
        }
    }

    /// Reports that a server connects to something.
    fn egress(&mut self, reporter: &mut Reporter<'_>, scope: Scope, user: User, connect: Connect) {
        let Scope { server, .. } = &scope;
        let destination = (connect.address.to_canonical(), connect.port, connect.protocol);
        let (first_seen, known) = self.add((user, server.clone()), destination);
        reporter.counters.destinations_overflow += u64::from(!known);
        reporter.counters.egress += 1;
        let severity = if connect.verdict == Verdict::Deny { Severity::High } else { Severity::Low };
        let egress = ServerEgress {
            connecting: connecting(&connect),
            remote_server_id: connect.server.map(|(server, _)| server),
            first_seen,
            severity,
        };
        reporter.report(scope, connect.time, egress);
    }
}

/// The session that the connect of no server's process belongs to: of the client that the process or the nearest of
/// its parents is; who speaks to a declared server is a client.
fn session_of(connections: &Connections, connect: &Connect) -> Option<SessionId> {
    let process = &connect.process;
    let client = |connection: &Connection| {
        let client = connection.client.as_ref()?;
        let distance =
            std::iter::once(&process.pid).chain(&process.ancestors).position(|pid| *pid == client.pid)?;
        // A number is used again, and of parents no more than that is known.
        (distance > 0 || client.start_ns == process.start_ns).then_some((distance, connection.id))
    };
    // A candidate's client is a shell in front of a pipeline more often than not.
    let servers = connections.values().filter(|connection| !connection.is_candidate());
    let nearest = servers.filter_map(client).min();
    match nearest.and_then(|(_, id)| connections.get(id)) {
        Some(connection) => Some(connections.session(connection)),
        None => connect.server.as_ref().map(|_| connections.session_of_client(process)),
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
        netns: connect.netns,
    }
}
