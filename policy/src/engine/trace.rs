//! The trace that a message belongs to.

use serde_json::value::RawValue;

use super::recorder::clip;
use crate::event::Trace;
use crate::http::HttpMeta;
use crate::protocol::meta;

/// Longest part of a trace in an event, in bytes: a `tracestate` has 512 at most.
const MAX_BYTES: usize = 512;

/// The trace of a request with these params, which came with this head: what the message says itself comes first, since the head
/// may be the one of a proxy.
pub(super) fn trace_of(params: Option<&RawValue>, http: Option<&HttpMeta>) -> Trace {
    let [traceparent, tracestate] = meta::trace(params).map(|text| text.map(|text| clip(&text, MAX_BYTES)));
    if traceparent.is_some() {
        return Trace { traceparent, tracestate };
    }
    let text = |text: &Option<Box<str>>| text.as_deref().map(|text| clip(text, MAX_BYTES));
    Trace {
        traceparent: http.and_then(|http| text(&http.traceparent)),
        tracestate: http.and_then(|http| text(&http.tracestate)),
    }
}
