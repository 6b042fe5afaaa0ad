//! Chat Completions API of OpenAI, as many others speak it: whole completions, and the chunks of streamed ones.

use crate::Dialect;
use crate::calls::{Head, Runs, Sink, State};
use crate::json::{Value, each, member, members, number, text};

/// Calls of one choice are numbered from here times its number.
const CHOICE: u64 = 1 << 32;
/// The number within its choice of the one call that answers of the first years have.
const FUNCTION_CALL: u64 = CHOICE - 1;

/// Reads a completion or a chunk, with these choices.
pub(super) fn read(top: Value<'_>, choices: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [id, model, usage] = members(top, ["id", "model", "usage"]);
    state.begin(Dialect::OpenAiChat, id, model, sink);
    let [input, output, details] =
        members(usage, ["prompt_tokens", "completion_tokens", "prompt_tokens_details"]);
    state.cost([input, output, member(details, "cached_tokens")].map(number));
    each(choices, &mut |choice| {
        let [index, delta, message, finish] =
            members(Some(choice), ["index", "delta", "message", "finish_reason"]);
        // Half of the numbers that fit: what comes behind the last one is a number, too.
        let first = (number(index).unwrap_or_default() & (CHOICE / 2 - 1)) * CHOICE;
        calls(first, delta.or(message), state, sink);
        if finish.is_some() {
            state.stop(finish);
            state.call_all(first..first + CHOICE, sink);
        }
    });
}

fn calls(first: u64, message: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [tool_calls, function_call] = members(message, ["tool_calls", "function_call"]);
    let mut position = 0;
    each(tool_calls, &mut |call| {
        let [index, id, function, custom] = members(Some(call), ["index", "id", "function", "custom"]);
        // Some who speak it leave the index out.
        let at = first + number(index).unwrap_or(position).min(FUNCTION_CALL - 1);
        position += 1;
        piece(at, id, function.or(custom), state, sink);
        if custom.is_some() {
            state.is_text(at);
        }
    });
    if function_call.is_some() {
        piece(first + FUNCTION_CALL, None, function_call, state, sink);
    }
}

fn piece(at: u64, id: Value<'_>, function: Value<'_>, state: &mut State, sink: &mut Sink<'_>) {
    let [name, arguments, input] = members(function, ["name", "arguments", "input"]);
    let head = Head { id, name, namespace: None, runs: Runs::Client };
    if state.name(at, &head, sink)
        && let Some(arguments) = arguments.or(input)
    {
        // Some who speak it write an object, at once.
        match arguments.get().starts_with('"') {
            true => state.extend(at, &text(Some(arguments))),
            false => state.arguments(at, arguments.get()),
        }
    }
}
