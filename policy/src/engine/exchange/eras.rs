//! What is reported of the era of a conversation: that it began, and what in it belongs to the other one.

use serde_json::value::RawValue;

use crate::definition::bounded_name;
use crate::engine::asked::Asked;
use crate::engine::connection::Connection;
use crate::engine::context::Context;
use crate::engine::conversation::{Breach, Change};
use crate::engine::evaluator::Evaluator;
use crate::engine::heads::Posted;
use crate::engine::pairing::Open;
use crate::engine::recorder;
use crate::engine::seen::Seen;
use crate::event::Era;
use crate::http::Mirrored;
use crate::protocol::{Kind, Message, Method, members, name_text};
use crate::terms::{ConnectionId, Direction};

/// A message goes by: reports what in it does not belong there.
pub(in crate::engine) fn sent(cx: &mut Context<'_>, seen: Seen<'_>, message: &Message<'_>) {
    let Some(connection) = cx.connections.get_mut(seen.connection) else { return };
    let mut breaches = connection.conversation.sent(seen.direction, message);
    if let Some(http) = seen.reading.http {
        breaches.extend(posted(connection, seen.direction, message, &http.mirrored));
    }
    for breach in breaches {
        report(cx, seen, Some(message), None, breach);
    }
}

/// What of the head of a message over HTTP does not belong there.
fn posted(
    connection: &Connection,
    direction: Direction,
    message: &Message<'_>,
    head: &Mirrored,
) -> Vec<Breach> {
    let mut breaches: Vec<Breach> =
        head.has_session.then(|| connection.conversation.session()).flatten().into_iter().collect();
    let (method, params, is_request) = match (&message.kind, direction) {
        (Kind::Request { method, params, .. }, Direction::ClientToServer) => (method, *params, true),
        (Kind::Notification { method, params }, Direction::ClientToServer) => (method, *params, false),
        _ => return breaches,
    };
    let (era, revision) = connection.conversation.held_in();
    let [name] = members(params.map_or("", RawValue::get), ["name"]);
    let name = bounded_name(&name.and_then(name_text).unwrap_or_default());
    let known = connection.repeated.get(&*name).filter(|_| *method == Method::ToolsCall);
    let repeated = known.map_or(&[][..], Vec::as_slice);
    breaches.extend(Posted { head, method, params, is_request, era, revision, repeated }.breaches());
    breaches
}

/// A frame has several messages.
pub(in crate::engine) fn batch(cx: &mut Context<'_>, seen: Seen<'_>) {
    let connection = cx.connections.get(seen.connection);
    if let Some(breach) = connection.and_then(|connection| connection.conversation.batch(seen.direction)) {
        report(cx, seen, None, None, breach);
    }
}

/// A request of the client has a result.
pub(super) fn answered(
    ev: &mut Evaluator,
    cx: &mut Context<'_>,
    seen: Seen<'_>,
    (message, result): (&Message<'_>, &RawValue),
    open: &Open,
) {
    let id = seen.connection;
    if let Asked::Initialize(client) = &open.asked {
        // Of a relay and of what is behind it alike: each has a name of its own.
        cx.report(id, seen.time, recorder::initialized(Era::Handshake, client, result));
    }
    // As those take it who do not regard the case of keys, where others do not take it at all.
    let is_taken = members(result.get(), ["supportedVersions"])[0].is_some();
    let respelled = seen.reading.respelled.filter(|_| matches!(open.asked, Asked::Discover(_)) && !is_taken);
    let result = respelled.unwrap_or(result);
    let Some(connection) = cx.connections.get_mut(id) else { return };
    let Change { breaches, opened, server } =
        connection.conversation.answered(&open.asked, &open.spoken, result);
    if let Some((era, client)) = opened {
        let initialized = recorder::initialized(era, &client, result);
        // Clients discover again when what they know is stale.
        if !cx.is_reported(id, "server/discover", &format!("{initialized:?}")) {
            cx.report(id, seen.time, initialized);
        }
    }
    let session =
        seen.reading.http.filter(|http| http.mirrored.has_session).and_then(|_| connection_session(cx, id));
    for breach in breaches.into_iter().chain(session) {
        report(cx, seen, Some(message), Some(open.asked.method()), breach);
    }
    if let (Some(server), Some(scope)) = (server, cx.connections.scope(id)) {
        ev.report_server_info(cx, &scope, seen, server);
    }
}

/// That a conversation which has no session is given one.
fn connection_session(cx: &Context<'_>, id: ConnectionId) -> Option<Breach> {
    cx.connections.get(id)?.conversation.session()
}

/// Reports a breach of a message; `answers`: the method of its request.
fn report(
    cx: &mut Context<'_>,
    seen: Seen<'_>,
    message: Option<&Message<'_>>,
    answers: Option<&str>,
    breach: Breach,
) {
    let about = match message.map(|message| &message.kind) {
        Some(Kind::Request { id, method, .. }) => (Some(method.as_str()), Some(*id)),
        Some(Kind::Notification { method, .. }) => (Some(method.as_str()), None),
        Some(Kind::Response { id, .. } | Kind::Error { id, .. }) => (answers, Some(*id)),
        Some(Kind::Invalid) | None => (None, None),
    };
    cx.report_breach(seen, about, breach);
}
