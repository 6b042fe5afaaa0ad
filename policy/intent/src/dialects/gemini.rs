//! generateContent of Gemini: whole answers, and the pieces of streamed ones, which have the same form.

use crate::Dialect;
use crate::calls::{Head, Runs, Sink, State};
use crate::json::{Value, each, is_object, is_true, member, members, number};

/// Reads an answer, or a piece of one.
pub(super) fn read(top: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [candidates, usage, id, model] =
        members(top, ["candidates", "usageMetadata", "responseId", "modelVersion"]);
    state.begin(Dialect::Gemini, id, model, sink);
    let counts = ["promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"];
    state.cost(members(usage, counts).map(number));
    each(candidates, &mut |candidate| {
        let [content, finish] = members(Some(candidate), ["content", "finishReason"]);
        each(member(content, "parts"), &mut |part| {
            let [call, own, response] = members(Some(part), ["functionCall", "toolCall", "toolResponse"]);
            if call.is_some() {
                function_call(call, state, sink);
            } else if own.is_some() {
                let [id, name, args] = members(own, ["id", "toolType", "args"]);
                let head = Head { id, name, namespace: None, runs: Runs::Provider };
                let at = state.next();
                state.whole(at, &head, args.map_or("", |args| args.get()), sink);
            } else if response.is_some() {
                let [id, content] = members(response, ["id", "response"]);
                state.result(id, false, content, sink);
            }
        });
        state.stop(finish);
    });
}

/// A call: whole, or in pieces of which only the first has its name.
fn function_call(call: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [id, name, args, partial, goes_on] =
        members(call, ["id", "name", "args", "partialArgs", "willContinue"]);
    let at = match state.open {
        Some(open) if name.is_none() => open,
        _ => state.next(),
    };
    let head = Head { id, name, namespace: None, runs: Runs::Client };
    if !state.name(at, &head, sink) {
        return;
    }
    if let Some(args) = args.filter(|args| is_object(Some(args))) {
        state.arguments(at, args.get());
    }
    if partial.is_some() {
        state.is_unread(at);
    }
    state.open = is_true(goes_on).then_some(at);
    if state.open.is_none() {
        state.call(at, sink);
    }
}
