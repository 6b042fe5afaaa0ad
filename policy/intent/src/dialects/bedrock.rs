//! Converse API of Amazon Bedrock: whole answers, and the events of streamed ones.

use crate::Dialect;
use crate::calls::{Head, Runs, Sink, State};
use crate::json::{Value, each, is_object, member, members, number, text};

/// Whether an event of its stream is called so.
pub(super) fn is_event(kind: &str) -> bool {
    matches!(
        kind,
        "messageStart"
            | "contentBlockStart"
            | "contentBlockDelta"
            | "contentBlockStop"
            | "messageStop"
            | "metadata"
    )
}

/// Reads a whole answer, with this output.
pub(super) fn whole(top: Value<'_>, output: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    state.begin(Dialect::Bedrock, None, None, sink);
    let mut index = 0;
    each(member(member(output, "message"), "content"), &mut |part| {
        let tool = member(Some(part), "toolUse");
        if is_object(tool) {
            let input = member(tool, "input").map_or("", |input| input.get());
            state.whole(index, &head(tool), input, sink);
        }
        index += 1;
    });
    let [stop, usage] = members(top, ["stopReason", "usage"]);
    state.stop(stop);
    cost(usage, state);
}

/// Reads an event.
pub(super) fn event(kind: &str, top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    state.begin(Dialect::Bedrock, None, None, sink);
    let [index, start, delta, stop, usage] =
        members(top, ["contentBlockIndex", "start", "delta", "stopReason", "usage"]);
    let index = number(index).unwrap_or_default();
    match kind {
        "contentBlockStart" => {
            let tool = member(start, "toolUse");
            if is_object(tool) {
                state.name(index, &head(tool), sink);
            }
        }
        "contentBlockDelta" => state.extend(index, &text(member(member(delta, "toolUse"), "input"))),
        "contentBlockStop" => state.call(index, sink),
        "messageStop" => state.stop(stop),
        _ => cost(usage, state),
    }
}

fn head(tool: Value<'_>) -> Head<'_> {
    let [id, name, kind] = members(tool, ["toolUseId", "name", "type"]);
    let runs = if text(kind) == "server_tool_use" { Runs::Provider } else { Runs::Client };
    Head { id, name, namespace: None, runs }
}

fn cost(usage: Value<'_>, state: &mut State) {
    state.cost(members(usage, ["inputTokens", "outputTokens", "cacheReadInputTokens"]).map(number));
}
