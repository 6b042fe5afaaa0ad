//! Responses API of OpenAI: whole responses, and the events of streamed ones.

use crate::Dialect;
use crate::calls::{Head, Runs, Sink, State};
use crate::json::{Value, each, is_object, member, members, number, some_text, text};

/// The tools of a provider's own that it runs itself; others of its own are run by the client.
const OF_PROVIDER: [&str; 4] = ["web_search", "file_search", "code_interpreter", "image_generation"];

/// Reads a whole response.
pub(super) fn whole(top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [id, model, usage, output, status, details, error] =
        members(top, ["id", "model", "usage", "output", "status", "incomplete_details", "error"]);
    state.begin(Dialect::OpenAiResponses, id, model, sink);
    let mut index = 0;
    each(output, &mut |part| {
        item(index, Some(part), true, state, sink);
        index += 1;
    });
    let [input, output, cached] = members(usage, ["input_tokens", "output_tokens", "input_tokens_details"]);
    state.cost([input, output, member(cached, "cached_tokens")].map(number));
    state.stop(member(details, "reason").or(status));
    if error.is_some() {
        state.fail(&text(member(error, "code")), sink);
    }
}

/// Reads an event.
pub(super) fn event(kind: &str, top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [response, index, part, delta, arguments, input] =
        members(top, ["response", "output_index", "item", "delta", "arguments", "input"]);
    if is_object(response) {
        return whole(response, state, sink);
    }
    state.begin(Dialect::OpenAiResponses, None, None, sink);
    let index = number(index).unwrap_or_default();
    match kind {
        "response.output_item.added" => item(index, part, false, state, sink),
        "response.output_item.done" => item(index, part, true, state, sink),
        _ if !kind.contains("arguments") && !kind.contains("tool_call_input") => {}
        _ if kind.ends_with("delta") => state.extend(index, &text(delta)),
        _ if kind.ends_with("done") && state.is_named(index) => {
            state.arguments(index, &text(arguments.or(input)));
            state.call(index, sink);
        }
        _ => {}
    }
}

/// An item of the output, which may be to come but for its head.
fn item(index: u64, part: Value<'_>, is_whole: bool, state: &mut State, sink: &mut Sink<'_>) {
    let names = ["type", "id", "call_id", "name", "namespace", "server_label", "arguments", "input"];
    let [kind, id, call_id, name, namespace, server, arguments, input] = members(part, names);
    let kind = text(kind);
    match &*kind {
        "mcp_list_tools" if is_whole && state.is_first(index, sink) => {
            state.provider_tools(server, member(part, "tools"), sink);
        }
        "function_call" | "custom_tool_call" | "mcp_call" | "mcp_approval_request" => {
            let runs = match kind.starts_with("mcp_") {
                true => Runs::ProviderMcp(state.cut(&text(server)).into()),
                false => Runs::Client,
            };
            let head = Head { id: call_id.or(id), name, namespace, runs };
            if !state.name(index, &head, sink) {
                return;
            }
            if kind == "custom_tool_call" {
                state.is_text(index);
            }
            if is_whole {
                state.arguments(index, &text(arguments.or(input)));
                state.call(index, sink);
            }
            let [output, error] = members(part, ["output", "error"]);
            if kind == "mcp_call" && is_whole && output.or(error).is_some() && state.is_first(index, sink) {
                state.result(id, error.is_some(), output.or(error), sink);
            }
        }
        _ => {
            if let Some(tool) = kind.strip_suffix("_call") {
                own_tool(index, tool, call_id.or(id), part, is_whole, state, sink);
            }
        }
    }
}

/// A tool of the provider's own, which is called by its type.
fn own_tool(
    index: u64,
    tool: &str,
    id: Value<'_>,
    part: Value<'_>,
    is_whole: bool,
    state: &mut State,
    sink: &mut Sink<'_>,
) {
    // A shell is the client's, or one of a container at the provider.
    let is_there = text(member(member(part, "environment"), "type")) == "container_reference";
    let runs = if OF_PROVIDER.contains(&tool) || is_there { Runs::Provider } else { Runs::Client };
    let Ok(name) = serde_json::value::to_raw_value(tool) else { return };
    let head = Head { id, name: Some(&*name), namespace: None, runs };
    if !state.name(index, &head, sink) || !is_whole {
        return;
    }
    let [action, operation, arguments] = members(part, ["action", "operation", "arguments"]);
    match action.or(operation).or(arguments) {
        Some(value) if is_object(Some(value)) => state.arguments(index, value.get()),
        value => match some_text(value) {
            Some(text) => state.arguments(index, &text),
            None => state.is_unread(index),
        },
    }
    state.call(index, sink);
}

/// The stream ends with an error.
pub(super) fn error(top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    state.fail(&text(member(top, "code")), sink);
}
