//! The same bytes cut anywhere give the same; calls come out as they went in; anything at all breaks nothing.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A call: its id, name and arguments.
type Call = (String, String, Value);

fn call() -> impl Strategy<Value = Call> {
    let arguments = prop_oneof![
        Just(json!({})),
        ("[a-z]{1,5}", ".{0,20}").prop_map(|(key, value)| json!({ key: value })),
        any::<i32>().prop_map(|number| json!({ "n": number, "list": [number, { "a": "}]\"" }] })),
    ];
    ("[a-z]{1,8}", "[a-zA-Z_-]{1,20}", arguments)
}

fn cut(text: &str, cuts: &[usize]) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> =
        cuts.iter().map(|at| at % (letters.len() + 1)).chain([0, letters.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| letters[pair[0]..pair[1]].iter().collect()).collect()
}

/// An answer with these calls, streamed in each dialect that streams them.
fn stream(dialect: Dialect, calls: &[Call], cuts: &[usize]) -> String {
    let mut events = Vec::new();
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let pieces = cut(&arguments.to_string(), cuts);
        match dialect {
            Dialect::Anthropic => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
                events.extend(pieces.iter().map(|piece| {
                    let delta = json!({"type": "input_json_delta", "partial_json": piece});
                    json!({"type": "content_block_delta", "index": index, "delta": delta})
                }));
                events.push(json!({"type": "content_block_stop", "index": index}));
            }
            Dialect::OpenAiChat => {
                let chunk = |call: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
                events.push(chunk(
                    json!({"index": index, "id": id, "function": {"name": name, "arguments": ""}}),
                ));
                events.extend(
                    pieces
                        .iter()
                        .map(|piece| chunk(json!({"index": index, "function": {"arguments": piece}}))),
                );
            }
            Dialect::OpenAiResponses => {
                let item = |arguments: &str| json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
                events.push(
                    json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
                );
                events.extend(pieces.iter().map(|piece| {
                    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece})
                }));
                let item = item(&arguments.to_string());
                events
                    .push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
            }
            Dialect::Gemini | Dialect::Bedrock => {
                let call = json!({"id": id, "name": name, "args": arguments});
                events.push(json!({"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}));
            }
        }
    }
    if dialect == Dialect::OpenAiChat {
        events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    }
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    let recordings = [
        &include_bytes!("recordings/anthropic.sse")[..],
        include_bytes!("recordings/chat.sse"),
        include_bytes!("recordings/responses.sse"),
        include_bytes!("recordings/responses.json"),
        include_bytes!("recordings/gemini-array.json"),
        include_bytes!("recordings/bedrock.json"),
    ];
    let changed =
        (0..recordings.len(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6));
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        changed.prop_map(move |(which, changes)| {
            let mut body = recordings[which].to_vec();
            for (at, byte) in changes {
                let at = at.index(body.len());
                body[at] = byte;
            }
            body
        }),
        ("[\\[\\]{},:\"\\\\ a-c0-9]{0,60}").prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn streamed_calls_come_out_as_they_went_in(
        calls in prop::collection::vec(call(), 0..5),
        cuts in prop::collection::vec(0usize..100, 0..4),
        size in 1usize..50,
    ) {
        for dialect in [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Gemini] {
            let body = stream(dialect, &calls, &cuts);
            let (lines, counters) = read(LIMITS, body.as_bytes(), size);
            let called: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("called ")).collect();
            let expected: Vec<String> = calls
                .iter()
                .enumerate()
                .map(|(number, (id, name, arguments))| format!("{number} {id} {name} {arguments}"))
                .collect();
            prop_assert_eq!(called, expected);
            prop_assert_eq!(counters.answers, u64::from(!body.is_empty()));
        }
    }

    #[test]
    fn answers_do_not_depend_on_how_bytes_are_split(body in anything(), size in 1usize..60) {
        prop_assert_eq!(read(LIMITS, &body, size), read(LIMITS, &body, usize::MAX));
    }

    #[test]
    fn random_requests_never_panic(body in anything()) {
        Request::of(&body, &LIMITS);
    }

    #[test]
    fn random_names_never_panic(name in ".{0,80}", namespace in "[a-z_.-]{0,10}") {
        let mut names = crate::names::ToolNames::new();
        names.add(["server", &*namespace], &name, ());
        names.find(Some(&namespace), &name);
        let found = names.find(None, &format!("mcp__server__{name}"));
        prop_assert!(matches!(found, crate::names::Mapping::One((), crate::names::Certainty::Exact)));
    }
}
