//! Servers at addresses.

use super::address::{At, without_port};
use super::config::EngineConfig;
use super::connection::Connection;
use super::connections::Connections;
use super::context::Context;
use super::io::{Found, Output, Reached, ServerAddress};
use super::reporter::Reporter;
use crate::discovery::Remote;
use crate::event::{Event, Identity, NetworkUninspected, RequestRefused};
use crate::protocol::Id;
use crate::terms::{ConnectionId, Direction, Timestamp};

/// A client speaks with what may be a server at an address: of a connection that is known.
pub(super) fn reached(config: &EngineConfig, connections: &mut Connections, reached: Reached) {
    let (id, time) = (reached.connection, reached.time);
    let declared = declared_at(config, &reached);
    let (declared, tls) =
        (declared.map(|remote| remote.id.clone()), declared.is_some_and(|remote| remote.tls));
    let Some(connection) = connections.get_mut(id) else { return };
    connection.since = connection.since.min(time);
    connection.declared = declared;
    connection.adopted |= reached.adopted;
    connection.client = Some(reached.client.clone());
    connection.conversation.reopen();
    connection.at = Some(At::of(reached, tls));
    // A server may be the client of another: what goes through both is one.
    connections.find_outer(id);
}

/// A server answered. Of one at an address that nobody declared that is reported, now and then: a request alone tells nothing
/// of who is asked, and anybody may send one anywhere.
pub(super) fn has_answered(
    connections: &mut Connections,
    reporter: &mut Reporter<'_>,
    id: ConnectionId,
    time: Timestamp,
) {
    let Some(connection) = connections.get_mut(id) else { return };
    let identity = connection.identity();
    let Connection { at: Some(at), server: Some(server), session, .. } = connection else { return };
    let ServerAddress::Internet(address) = at.address else { return };
    if identity == Identity::Derived && at.is_found(time) {
        reporter.out.push(Output::Found(Found {
            server: server.clone(),
            kind: at.kind,
            session: session.clone(),
            address,
            netns: at.netns,
        }));
    }
}

/// A request of a server was refused. Of what was asked nothing of MCP it says nothing: web pages refuse, too.
pub(super) fn refused(
    cx: &mut Context<'_>,
    id: ConnectionId,
    time: Timestamp,
    status: u16,
    request: Option<&str>,
) {
    cx.reporter.counters.requests_refused += 1;
    let Some(connection) = cx.connections.get_mut(id).filter(|connection| !connection.is_candidate()) else {
        return;
    };
    let requests = connection.requests(Direction::ClientToServer);
    let trace = request.map(|id| requests.trace(&Id(id).key())).unwrap_or_default();
    let jsonrpc_id = request.map(|id| cx.reporter.recorder.id(Id(id)));
    cx.traced(trace, |cx| cx.report(id, time, RequestRefused { status, jsonrpc_id }));
}

/// What is reported with a server is not inspected, which is reported of declared servers and of those that were known before.
pub(super) fn uninspected(cx: &mut Context<'_>, reached: &Reached, reason: String) {
    cx.reporter.counters.uninspected += 1;
    let client = &reached.client;
    let body = NetworkUninspected {
        remote_addr: reached.address.to_string(),
        pid: client.pid,
        executable: client.executable.clone(),
        reason,
    };
    let known = cx.connections.get(reached.connection);
    if known.is_some_and(|connection| !connection.is_candidate()) {
        cx.report(reached.connection, reached.time, body);
    } else if let Some(server) = declared_at(cx.config, reached) {
        let event = Event {
            session_id: Some(cx.connections.session_of_client(client)),
            server_id: Some(server.id.clone()),
            server_type: Some(reached.kind),
            owner: client.uid,
            ..Event::agent(reached.time, body.into())
        };
        cx.reporter.emit(event);
    }
}

/// The declared server that is meant: where several are at one address, what the client calls it and the path tell.
fn declared_at<'a>(config: &'a EngineConfig, reached: &Reached) -> Option<&'a Remote> {
    let here: Vec<&Remote> =
        config.remote.iter().filter(|remote| reached.declared.contains(&remote.id)).collect();
    let name = reached.host.as_deref().map(without_port);
    let is_called =
        |remote: &&Remote| name.is_some_and(|name| name.eq_ignore_ascii_case(without_port(&remote.address)));
    let called: Vec<&Remote> = here.iter().copied().filter(is_called).collect();
    // A client may call it by its address.
    let meant = if called.is_empty() { here } else { called };
    if let [only] = meant.as_slice() {
        return Some(only);
    }
    let path = reached.path.trim_end_matches('/');
    meant.into_iter().find(|remote| remote.path.trim_end_matches('/') == path)
}
