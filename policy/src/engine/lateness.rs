//! Requests that a server leaves unanswered: for too long, or too many at once.
//!
//! Only what the client asks of the server counts, and not what it has taken back (`notifications/cancelled`): to that no
//! answer need come. A copy that a relay passed on is the relay's request, and counts there.

use std::time::Duration;

use serde_json::value::RawValue;

use super::io::Output;
use super::judge::ServerStanding;
use super::pairing::{Asked, Role};
use super::record::tool_id;
use super::traffic::Seen;
use super::{Due, Engine};
use crate::event::{ConcurrencyExceeded, RequestTimedOut};
use crate::protocol::{Id, members};
use crate::terms::{ConnectionId, Direction, Timestamp};

impl Engine {
    fn standing(&self, id: ConnectionId) -> ServerStanding {
        let server = self.connections.get(&id).and_then(|connection| connection.server.as_ref());
        server.map(|server| self.judge.standing(server)).unwrap_or_default()
    }

    /// A request was opened on this connection.
    pub(super) fn opened(&mut self, id: ConnectionId, time: Timestamp, out: &mut Vec<Output>) {
        let standing = self.standing(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(timeout_ms) = standing.timeout_ms
            && !std::mem::replace(&mut connection.watched, true)
        {
            let timeout = Duration::from_millis(u64::from(timeout_ms));
            self.due.insert((time.after(timeout), Due::Late(id)));
        }
        let open = connection.requests(Direction::ClientToServer).awaited();
        if open > standing.max_concurrent as usize && !std::mem::replace(&mut connection.crowded, true) {
            self.counters.concurrency_exceeded += 1;
            let max_concurrent = standing.max_concurrent;
            self.say_of(id, time, ConcurrencyExceeded { open_requests: open as u64, max_concurrent }, out);
        }
    }

    /// A request of this connection is open no more.
    pub(super) fn closed(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| connection.crowded) else {
            return;
        };
        let open = connection.requests(Direction::ClientToServer).awaited();
        let most = self.standing(id).max_concurrent as usize;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.crowded = open >= most;
        }
    }

    /// The client takes a request back.
    pub(super) fn cancelled(&mut self, seen: Seen, params: Option<&RawValue>) {
        let id = seen.connection;
        let [request] = members(params.map_or("null", RawValue::get), ["requestId"]);
        let Some(key) = request.map(|request| Id(request.get()).key()) else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let asked = connection.requests(seen.direction).cancel(&key).map(|open| open.asked.clone());
        if let (Some(Asked::Call { tool_name }), Some(place)) = (asked, self.place(id)) {
            self.settle_call(&place, &tool_name, seen.time);
        }
        self.closed(id);
    }

    /// Says the requests that are unanswered for too long by now, each once, and looks again when the next one is.
    pub(super) fn say_late(&mut self, id: ConnectionId, now: Timestamp, out: &mut Vec<Output>) {
        let Some(timeout_ms) = self.standing(id).timeout_ms else { return };
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        let (Some(place), Some(connection)) = (self.place(id), self.connections.get_mut(&id)) else { return };
        let requests = connection.requests(Direction::ClientToServer);
        let mut late = Vec::new();
        let next = loop {
            match requests.next_late(|open| open.time.after(timeout) <= now) {
                Some((false, open)) => break Some(open.time.after(timeout)),
                // The relay's own is said.
                Some((true, open)) if open.role == Role::Copy => {}
                Some((true, open)) => {
                    let tool_name = match &open.asked {
                        Asked::Call { tool_name } => Some(tool_name.to_string()),
                        _ => None,
                    };
                    late.push(RequestTimedOut {
                        jsonrpc_id: open.id.clone(),
                        method: open.asked.method().to_owned(),
                        tool_id: tool_name.as_deref().map(|name| tool_id(&place.server, name)),
                        tool_name,
                        age_ns: now.nanos_since(open.time),
                        timeout_ms,
                    });
                }
                None => break None,
            }
        };
        connection.watched = next.is_some();
        if let Some(next) = next {
            self.due.insert((next, Due::Late(id)));
        }
        self.counters.requests_timed_out += late.len() as u64;
        for late in late {
            self.say(place.clone(), now, late, out);
        }
    }
}
