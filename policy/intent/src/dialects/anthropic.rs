//! Messages API of Anthropic: whole messages, and the events of streamed ones.

use crate::Dialect;
use crate::calls::{Head, Runs, Sink, State};
use crate::json::{Value, each, is_object, is_true, member, members, number, text};

/// Whether an event has such a type.
pub(super) fn is_event(kind: &str) -> bool {
    matches!(
        kind,
        "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
    )
}

/// Reads a whole message.
pub(super) fn whole(top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    message(top, state, sink);
    let mut index = 0;
    each(member(top, "content"), &mut |part| {
        block(index, Some(part), state, sink);
        state.call(index, sink);
        index += 1;
    });
    state.stop(member(top, "stop_reason"));
}

/// What the beginning of a stream says, and a whole message.
fn message(message: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [id, model, usage] = members(message, ["id", "model", "usage"]);
    state.begin(Dialect::Anthropic, id, model, sink);
    cost(usage, state);
}

fn cost(usage: Value<'_>, state: &mut State) {
    let counts = members(usage, ["input_tokens", "output_tokens", "cache_read_input_tokens"]);
    state.cost(counts.map(number));
}

/// Reads an event.
pub(super) fn event(kind: &str, top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    if kind == "message_start" {
        return message(member(top, "message"), state, sink);
    }
    state.begin(Dialect::Anthropic, None, None, sink);
    let [index, part, delta, usage] = members(top, ["index", "content_block", "delta", "usage"]);
    let index = number(index).unwrap_or_default();
    match kind {
        "content_block_start" => block(index, part, state, sink),
        "content_block_delta" => state.extend(index, &text(member(delta, "partial_json"))),
        "content_block_stop" => state.call(index, sink),
        "message_delta" => {
            state.stop(member(delta, "stop_reason"));
            cost(usage, state);
        }
        _ => {}
    }
}

/// A part of the content, the input of which may be to come.
fn block(index: u64, part: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let names = ["type", "id", "name", "input", "server_name", "tool_use_id", "is_error", "content"];
    let [kind, id, name, input, server, use_id, is_error, content] = members(part, names);
    let kind = text(kind);
    if kind.ends_with("tool_use") {
        let runs = match &*kind {
            "tool_use" => Runs::Client,
            "mcp_tool_use" => Runs::ProviderMcp(state.cut(&text(server)).into()),
            _ => Runs::Provider,
        };
        // In a stream it is empty here, mostly.
        let input = input.filter(|input| is_object(Some(input)) && input.get().len() > 2);
        if state.name(index, &Head { id, name, namespace: None, runs }, sink)
            && let Some(input) = input
        {
            state.arguments(index, input.get());
        }
    } else if kind == "mcp_tool_listing" && state.is_first(index, sink) {
        let [server, tools] = members(part, ["mcp_server_name", "tools"]);
        state.provider_tools(server, tools, sink);
    } else if kind.ends_with("tool_result") && state.is_first(index, sink) {
        state.result(use_id, is_true(is_error), content, sink);
    }
}

/// The answer is an error, or ends with one.
pub(super) fn error(error: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    state.begin(Dialect::Anthropic, None, None, sink);
    state.fail(&text(member(error, "type")), sink);
}
