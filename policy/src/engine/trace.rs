//! The trace that a message belongs to.

use serde_json::value::RawValue;

use super::connections::Connections;
use super::recorder::clip;
use super::seen::Seen;
use crate::event::Trace;
use crate::protocol::{Kind, Message, meta};
use crate::terms::Direction;

/// Longest part of a trace in an event, in bytes: a `tracestate` has 512 at most.
const MAX_BYTES: usize = 512;

/// The trace of a message: of its `_meta`, or, of an answer, that of its request. `None` where that has none.
pub(super) fn of_message(
    connections: &mut Connections,
    seen: Seen<'_>,
    message: &Message<'_>,
) -> Option<Trace> {
    match &message.kind {
        Kind::Request { params, .. } | Kind::Notification { params, .. } => of_meta(*params),
        Kind::Response { id, .. } | Kind::Error { id, .. } => {
            let connection = connections.get_mut(seen.connection)?;
            let trace = connection.requests(seen.direction.reversed()).trace(&id.key());
            trace.traceparent.is_some().then_some(trace)
        }
        Kind::Invalid => None,
    }
}

/// The trace in the head of a client's request. It is that of the messages in it which have none: what a message says itself comes
/// first, since the head may be the one of a proxy.
pub(super) fn of_head(seen: Seen<'_>) -> Option<Trace> {
    let http = seen.reading.http.filter(|_| seen.direction == Direction::ClientToServer)?;
    let text = |text: &Option<Box<str>>| text.as_deref().map(|text| clip(text, MAX_BYTES));
    let traceparent = Some(text(&http.traceparent)?);
    Some(Trace { traceparent, tracestate: text(&http.tracestate) })
}

fn of_meta(params: Option<&RawValue>) -> Option<Trace> {
    let [traceparent, tracestate] = meta::trace(params).map(|text| text.map(|text| clip(&text, MAX_BYTES)));
    traceparent.is_some().then_some(Trace { traceparent, tracestate })
}
