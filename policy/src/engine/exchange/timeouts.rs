//! Requests that a server leaves unanswered: for too long, or too many at once. Either it does not answer, or its client reads what
//! nobody else takes for an answer.
//!
//! Only what the client asks of the server counts, and not what it has taken back (`notifications/cancelled`): to that no
//! answer need come. Neither does a subscription (`subscriptions/listen`), whose answer is its end. A copy that a relay passed on is
//! the relay's request, and counts there.

use std::time::Duration;

use serde_json::value::RawValue;

use super::{Connections, Context, Due, Evaluator, Seen};
use crate::engine::asked::Asked;
use crate::engine::pairing::Role;
use crate::engine::recorder::tool_id;
use crate::event::{ConcurrencyExceeded, RequestTimedOut};
use crate::protocol::{Id, members};
use crate::terms::{ConnectionId, Direction, Timestamp};

/// How many times as long a request may take while the server waits for an answer of its client.
const WAITING: u32 = 10;

/// A request was opened on this connection.
pub(super) fn opened(ev: &Evaluator, cx: &mut Context<'_>, id: ConnectionId, time: Timestamp) {
    let standing = ev.standing(cx.connections, id);
    let Some(connection) = cx.connections.get_mut(id) else { return };
    if !std::mem::replace(&mut connection.watched, true) {
        let timeout = Duration::from_millis(u64::from(standing.timeout_ms));
        cx.timers.set(time.after(timeout), Due::Late(id));
    }
    let open = connection.requests(Direction::ClientToServer).awaited();
    if open > standing.max_concurrent as usize && !std::mem::replace(&mut connection.crowded, true) {
        cx.reporter.counters.concurrency_exceeded += 1;
        let max_concurrent = standing.max_concurrent;
        cx.report(id, time, ConcurrencyExceeded { open_requests: open as u64, max_concurrent });
    }
}

/// A request of this connection is open no more.
pub(super) fn closed(ev: &Evaluator, connections: &mut Connections, id: ConnectionId) {
    let Some(connection) = connections.get_mut(id).filter(|connection| connection.crowded) else {
        return;
    };
    let open = connection.requests(Direction::ClientToServer).awaited();
    let most = ev.standing(connections, id).max_concurrent as usize;
    if let Some(connection) = connections.get_mut(id) {
        connection.crowded = open >= most;
    }
}

/// The client takes a request back.
pub(super) fn cancelled(ev: &mut Evaluator, cx: &mut Context<'_>, seen: Seen<'_>, params: Option<&RawValue>) {
    let id = seen.connection;
    let [request] = members(params.map_or("null", RawValue::get), ["requestId"]);
    let Some(key) = request.map(|request| Id(request.get()).key()) else { return };
    let Some(connection) = cx.connections.get_mut(id) else { return };
    // A server ends subscriptions of its client this way.
    if seen.direction == Direction::ServerToClient {
        connection.requests(Direction::ClientToServer).end_standing(&key);
    }
    let asked = connection.requests(seen.direction).cancel(&key).map(|open| open.asked.clone());
    if let (Some(Asked::Call { tool_name }), Some(scope)) = (asked, cx.connections.scope(id)) {
        ev.settle_call(cx, &scope, seen, &tool_name);
    }
    closed(ev, cx.connections, id);
}

/// Reports the requests that are unanswered for too long by now, each once, and looks again when the next one is.
pub(in crate::engine) fn report_late(ev: &Evaluator, cx: &mut Context<'_>, id: ConnectionId, now: Timestamp) {
    let timeout_ms = ev.standing(cx.connections, id).timeout_ms;
    let timeout = Duration::from_millis(u64::from(timeout_ms));
    let (Some(scope), Some(connection)) = (cx.connections.scope(id), cx.connections.get_mut(id)) else {
        return;
    };
    // A person may be asked (elicitation), or a model (sampling): that takes longer, and not for ever.
    let waits = connection.requests(Direction::ServerToClient).awaited() > 0;
    let look_again = now.after(timeout);
    let timeout = if waits { timeout * WAITING } else { timeout };
    let requests = connection.requests(Direction::ClientToServer);
    let mut late = Vec::new();
    let next = loop {
        match requests.next_late(|open| open.time.after(timeout) <= now) {
            // Whether the server waits may be otherwise by then.
            Some((false, open)) => break Some(open.time.after(timeout).min(look_again)),
            // The relay's own is reported.
            Some((true, open)) if open.role == Role::Copy => {}
            Some((true, open)) => {
                let tool_name = match &open.asked {
                    Asked::Call { tool_name } => Some(tool_name.to_string()),
                    _ => None,
                };
                let timed_out = RequestTimedOut {
                    jsonrpc_id: open.id.clone(),
                    method: open.asked.method().to_owned(),
                    tool_id: tool_name.as_deref().map(|name| tool_id(&scope.server, name)),
                    tool_name,
                    age_ns: now.nanos_since(open.time),
                    timeout_ms,
                };
                late.push((open.trace.clone(), timed_out));
            }
            None => break None,
        }
    };
    connection.watched = next.is_some();
    if let Some(next) = next {
        cx.timers.set(next, Due::Late(id));
    }
    cx.reporter.counters.requests_timed_out += late.len() as u64;
    for (trace, late) in late {
        cx.traced(trace, |cx| cx.reporter.report(scope.clone(), now, late));
    }
}
