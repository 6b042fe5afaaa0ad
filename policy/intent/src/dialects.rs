//! Which dialect a value is of, by its form.

mod anthropic;
mod bedrock;
mod chat;
mod gemini;
mod responses;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;

use crate::calls::{Sink, State};
use crate::json::{is_array, is_object, member, members, text};
use crate::{Dialect, Missing};

/// Reads a whole answer, or an event of one; `kind` is what its framing calls it, where that says so.
pub(crate) fn read(value: &RawValue, kind: &str, state: &mut State, sink: &mut Sink<'_>) {
    let top = Some(value);
    if bedrock::is_event(kind) {
        return bedrock::event(kind, top, state, sink);
    }
    if kind == "chunk" {
        // An event of the model's own API, within one of Bedrock.
        let inner = BASE64_STANDARD.decode(text(member(top, "bytes")).as_bytes()).unwrap_or_default();
        match serde_json::from_slice::<&RawValue>(&inner) {
            Ok(inner) => read(inner, "", state, sink),
            Err(_) => state.miss(Missing::Invalid, sink),
        }
        return;
    }
    let names = [
        "type",
        "object",
        "choices",
        "candidates",
        "usageMetadata",
        "output",
        "response",
        "content",
        "error",
    ];
    let [type_, object, choices, candidates, usage, output, response, content, error] = members(top, names);
    let is_gemini = |candidates, usage| is_array(candidates) || is_object(usage);
    match &*text(type_) {
        "message" if is_array(content) => anthropic::whole(top, state, sink),
        "error" if is_object(error) => anthropic::error(error, state, sink),
        event if anthropic::is_event(event) => anthropic::event(event, top, state, sink),
        "error" if state.dialect == Some(Dialect::OpenAiResponses) => responses::error(top, state, sink),
        event if event.starts_with("response.") => responses::event(event, top, state, sink),
        _ if is_array(output) || text(object) == "response" => responses::whole(top, state, sink),
        _ if is_array(choices) => chat::read(top, choices, state, sink),
        _ if is_gemini(candidates, usage) => gemini::read(top, state, sink),
        _ if is_object(member(output, "message")) => bedrock::whole(top, output, state, sink),
        _ if is_object(response) => {
            // As the client of Code Assist gets it.
            let [candidates, usage] = members(response, ["candidates", "usageMetadata"]);
            if is_gemini(candidates, usage) {
                gemini::read(response, state, sink);
            }
        }
        _ => {}
    }
}
