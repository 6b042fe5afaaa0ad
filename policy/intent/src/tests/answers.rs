//! Recordings of our own making, one of each dialect and framing, that say the same things.

use base64::Engine as _;

use super::*;
use crate::eventstream::crc32;

const READ: &str = r#"{"path":"/etc/hosts"}"#;

#[test]
fn anthropic_messages_give_their_calls() {
    let expected = [
        "begun anthropic msg_01 claude-x",
        "named 1 toolu_1 mcp__files__read",
        r#"called 1 toolu_1 mcp__files__read {"path":"/etc/hosts","n":[1,{"a":"}"}]}"#,
        "named 2 toolu_2 Bash",
        "called 2 toolu_2 Bash {}",
        "named 3 srvtoolu_3 web_search by provider",
        r#"called 3 srvtoolu_3 web_search by provider {"query":"q"}"#,
        "named 4 mcptoolu_4 echo by remote",
        r#"called 4 mcptoolu_4 echo by remote {"a":1}"#,
        "result mcptoolu_4 false 6",
        "ended tool_use 10 20 7",
    ];
    let moved: Vec<String> = expected.iter().map(|line| shift(line)).collect();
    let moved: Vec<&str> = moved.iter().map(String::as_str).collect();
    // The whole message has one part more before the calls.
    check("whole", include_bytes!("recordings/anthropic.json"), &moved);
    check("streamed", include_bytes!("recordings/anthropic.sse"), &expected);
    // Over Bedrock: the same events, each within another.
    let events =
        include_str!("recordings/anthropic.sse").lines().filter_map(|line| line.strip_prefix("data: "));
    let chunk = |event: &str| {
        let bytes = base64::prelude::BASE64_STANDARD.encode(event);
        message("chunk", &format!(r#"{{"bytes":"{bytes}","p":"abc"}}"#))
    };
    check("event stream", &events.map(chunk).collect::<Vec<_>>().concat(), &expected);
}

/// With the numbers of calls one higher.
fn shift(line: &str) -> String {
    let parts: Vec<&str> = line.splitn(3, ' ').collect();
    match (parts.as_slice(), parts.get(1).and_then(|number| number.parse::<u64>().ok())) {
        ([kind @ ("named" | "called"), _, rest], Some(number)) => format!("{kind} {} {rest}", number + 1),
        _ => line.to_owned(),
    }
}

#[test]
fn chat_completions_give_their_calls() {
    let named = ["named 0 call_1 mcp__files__read", "named 1 call_2 now", "named 2 call_3 patch"];
    let read = format!("called 0 call_1 mcp__files__read {READ}");
    let called = [&*read, "called 1 call_2 now {}", "called 2 call_3 patch text *** Begin"];
    let (begun, ended) = (["begun openai_chat chatcmpl-1 gpt-x"], ["ended tool_calls 10 20 7"]);
    let expected = [&begun[..], &named, &called, &ended].concat();
    check("whole", include_bytes!("recordings/chat.json"), &expected);
    check("streamed", include_bytes!("recordings/chat.sse"), &expected);
}

#[test]
fn responses_give_their_calls() {
    let read = format!("called 3 call_1 mcp__files__|read {READ}");
    let whole = [
        "begun openai_responses resp_1 gpt-x",
        "tool remote echo 98",
        "tool remote add 32",
        "named 2 mcp_1 echo by remote",
        r#"called 2 mcp_1 echo by remote {"a":1}"#,
        "result mcp_1 false 6",
        "named 3 call_1 mcp__files__|read",
        &read,
        "named 4 call_2 patch",
        "called 4 call_2 patch text *** Begin",
        "named 5 ws_1 web_search by provider",
        r#"called 5 ws_1 web_search by provider {"type":"search","query":"q"}"#,
        "named 6 call_3 local_shell",
        r#"called 6 call_3 local_shell {"type":"exec","command":["ls"]}"#,
        "ended completed 10 20 7",
    ];
    check("whole", include_bytes!("recordings/responses.json"), &whole);
    check("streamed", include_bytes!("recordings/responses.sse"), &whole);
}

#[test]
fn gemini_answers_give_their_calls() {
    let read = format!("called 0 - mcp__files__read {READ}");
    let expected = [
        "begun gemini r1 gemini-x",
        "named 0 - mcp__files__read",
        &read,
        "named 1 c2 now",
        "called 1 c2 now {}",
        "ended STOP 10 20 7",
    ];
    check("whole", include_bytes!("recordings/gemini.json"), &expected);
    check("events", include_bytes!("recordings/gemini.sse"), &expected);
    check("an array", include_bytes!("recordings/gemini-array.json"), &expected);
    check("Code Assist", include_bytes!("recordings/code-assist.sse"), &expected);
}

/// A message of an event stream.
fn message(kind: &str, payload: &str) -> Vec<u8> {
    let header = |name: &str, value: &str| {
        let length = (value.len() as u16).to_be_bytes();
        [&[name.len() as u8], name.as_bytes(), &[7], &length, value.as_bytes()].concat()
    };
    let name = if kind.ends_with("Exception") { ":exception-type" } else { ":event-type" };
    let headers =
        [header(name, kind), header(":content-type", "application/json"), [2, b'x', b'y', 0, 1][..].into()];
    let headers = headers.concat();
    // The last one is a flag that says yes.
    let headers = [&headers[..headers.len() - 5], &[1, b'x', 0]].concat();
    let length = (12 + headers.len() + payload.len() + 4) as u32;
    let prelude = [length.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
    let message = [&prelude, &crc32(&prelude).to_be_bytes()[..], &headers, payload.as_bytes()].concat();
    [&message, &crc32(&message).to_be_bytes()[..]].concat()
}

fn converse() -> Vec<Vec<u8>> {
    vec![
        message("messageStart", r#"{"role":"assistant"}"#),
        message("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"SECRET"}}"#),
        message("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        message(
            "contentBlockStart",
            r#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"tooluse_1","name":"mcp__files__read"}}}"#,
        ),
        message("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"path\":"}}}"#),
        message(
            "contentBlockDelta",
            r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"\"/etc/hosts\"}"}}}"#,
        ),
        message("contentBlockStop", r#"{"contentBlockIndex":1}"#),
        message(
            "contentBlockStart",
            r#"{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"tooluse_2","name":"now"}}}"#,
        ),
        message("contentBlockStop", r#"{"contentBlockIndex":2}"#),
        message("messageStop", r#"{"stopReason":"tool_use"}"#),
        message("metadata", r#"{"usage":{"inputTokens":10,"outputTokens":20,"cacheReadInputTokens":7}}"#),
    ]
}

#[test]
fn bedrock_answers_give_their_calls() {
    let read = format!("called 1 tooluse_1 mcp__files__read {READ}");
    let expected = [
        "begun bedrock - -",
        "named 1 tooluse_1 mcp__files__read",
        &read,
        "named 2 tooluse_2 now",
        "called 2 tooluse_2 now {}",
        "ended tool_use 10 20 7",
    ];
    check("whole", include_bytes!("recordings/bedrock.json"), &expected);
    check("event stream", &converse().concat(), &expected);
    let mut throttled = converse();
    throttled.splice(5.., [message("throttlingException", "{}")]);
    check(
        "an exception",
        &throttled.concat(),
        &[
            "begun bedrock - -",
            "named 1 tooluse_1 mcp__files__read",
            "failed throttlingException",
            "ended - - - -",
        ],
    );
    for (name, broken) in [("a checksum", 5), ("a length", 2), ("the last byte", usize::MAX)] {
        let mut stream = converse()[..3].concat();
        let at = broken.min(stream.len() - 1);
        stream[at] ^= 1;
        let (lines, counters) = read_pieces(LIMITS, [&stream[..]].into_iter());
        assert_eq!(counters.invalid, 1, "{name}: {lines:?}");
    }
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}

/// A name as soon as it comes.
#[test]
fn tools_are_named_before_their_arguments_come() {
    for (name, body, until) in [
        ("anthropic", &include_bytes!("recordings/anthropic.sse")[..], &b"\"input\":{}}}\n\n"[..]),
        (
            "chat",
            include_bytes!("recordings/chat.sse"),
            b"\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n",
        ),
        ("responses", include_bytes!("recordings/responses.sse"), b"\"status\":\"in_progress\"}}\n\n"),
        ("bedrock", &converse().concat(), b"mcp__files__read\"}}}"),
    ] {
        let at = body.windows(until.len()).position(|window| window == until).unwrap() + until.len();
        // The checksum of a message.
        let at = if name == "bedrock" { at + 4 } else { at };
        let (mut answer, mut lines) = (Answer::new(LIMITS), Vec::new());
        answer.push(&body[..at], &mut |output| lines.push(line(output)));
        let last = lines.pop().unwrap();
        assert!(last.starts_with("named") && last.ends_with("read"), "{name}: {last}");
    }
}

/// Forms that are allowed, or that some who speak a dialect write.
#[test]
fn odd_answers_are_read() {
    let chat = |calls: &str| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{calls}]}}}}]}}"#);
    let stream =
        |chunks: &[String]| chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>();
    let cases: Vec<(&str, String, Vec<&str>)> = vec![
        ("not of a model", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into(), vec![]),
        ("a page", "<html>no</html>".into(), vec![]),
        ("nothing", " \n".into(), vec![]),
        (
            "a name in two pieces",
            stream(&[
                chat(r#"{"index":0,"id":"a","function":{"name":"re"}}"#),
                chat(r#"{"index":0,"function":{"name":"ad"}}"#),
                chat(r#"{"index":0,"function":{"arguments":"{}"}}"#),
            ]),
            vec!["begun openai_chat - -", "named 0 a re", "named 0 a read", "called 0 a read {}", "ended - - - -"],
        ),
        (
            "a name that is repeated, and an object as arguments",
            stream(&[
                chat(r#"{"id":"a","function":{"name":"read"}}"#),
                chat(r#"{"id":"a","function":{"name":"read","arguments":{"a":1}}}"#),
                chat(r#"{"id":"a","function":{"name":"read","arguments":""}}"#),
            ]),
            vec!["begun openai_chat - -", "named 0 a read", r#"called 0 a read {"a":1}"#, "ended - - - -"],
        ),
        (
            "the one call of earlier years",
            r#"{"choices":[{"message":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}"#
                .into(),
            vec!["begun openai_chat - -", "named 4294967295 - f", "called 4294967295 - f {}",
                "ended function_call - - -"],
        ),
        (
            "two choices",
            r#"{"choices":[{"index":0,"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"},{"index":1,"message":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#
                .into(),
            vec!["begun openai_chat - -", "named 0 a f", "called 0 a f {}", "named 4294967296 b g",
                "called 4294967296 b g {}", "ended tool_calls - - -"],
        ),
        (
            "arguments that are no JSON",
            stream(&[
                chat(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}}"#),
                r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#.into(),
            ]),
            vec!["begun openai_chat - -", "named 0 a f", r#"called 0 a f text {"a":"#, "ended length - - -"],
        ),
        (
            "a stream that breaks off within arguments",
            stream(&[chat(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\":"}}"#)]),
            vec!["begun openai_chat - -", "named 0 a f", "ended - - - -"],
        ),
        (
            "an event that is no JSON",
            stream(&[chat(r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#), "{".into()]),
            vec!["begun openai_chat - -", "named 0 a f", "missing Invalid", "called 0 a f {}", "ended - - - -"],
        ),
        (
            "an error",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"SECRET"},"request_id":"r"}"#.into(),
            vec!["begun anthropic - -", "failed overloaded_error", "ended - - - -"],
        ),
        (
            "a response that failed",
            r#"{"object":"response","id":"r","status":"failed","error":{"code":"server_error"},"output":[]}"#.into(),
            vec!["begun openai_responses r -", "failed server_error", "ended failed - - -"],
        ),
        (
            "an approval of a server that the provider asks for, and a tool whose action is not there",
            r#"{"object":"response","output":[{"type":"mcp_approval_request","id":"a","server_label":"s","name":"f","arguments":"{}"},{"type":"computer_call","call_id":"c"}]}"#.into(),
            vec!["begun openai_responses - -", "named 0 a f by s", "called 0 a f by s {}", "named 1 c computer",
                "called 1 c computer unread", "ended - - - -"],
        ),
        (
            "what a server of the provider lists",
            r#"{"type":"message","content":[{"type":"mcp_tool_listing","mcp_server_name":"s","tools":[{"name":"f"},{"name":"g"}]}]}"#.into(),
            vec!["begun anthropic - -", "tool s f 12", "tool s g 12", "ended - - - -"],
        ),
        (
            "shells here and there",
            r#"{"object":"response","output":[{"type":"shell_call","call_id":"a","action":{"commands":["ls"]},"environment":{"type":"local"}},{"type":"shell_call","call_id":"b","action":{},"environment":{"type":"container_reference"}}]}"#.into(),
            vec!["begun openai_responses - -", "named 0 a shell", r#"called 0 a shell {"commands":["ls"]}"#,
                "named 1 b shell by provider", "called 1 b shell by provider {}", "ended - - - -"],
        ),
        (
            "a call that the provider could not make",
            r#"{"object":"response","output":[{"type":"mcp_call","id":"a","server_label":"s","name":"f","arguments":"{}","error":"SECRET"}]}"#.into(),
            vec!["begun openai_responses - -", "named 0 a f by s", "called 0 a f by s {}", "result a true 6",
                "ended - - - -"],
        ),
        (
            "a Gemini call in pieces",
            stream(&[
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}"#.into(),
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"SECRET"}],"willContinue":true}}]}}]}"#.into(),
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}"#.into(),
            ]),
            vec!["begun gemini - -", "named 0 - f", "called 0 - f unread", "ended - - - -"],
        ),
        (
            "a tool that Gemini runs itself",
            stream(&[r#"{"candidates":[{"content":{"parts":[{"toolCall":{"id":"a","toolType":"URL_CONTEXT","args":{"u":1}}},{"toolResponse":{"id":"a","toolType":"URL_CONTEXT","response":{"output":"SECRET"}}}]}}]}"#.into()]),
            vec!["begun gemini - -", "named 0 a URL_CONTEXT by provider",
                r#"called 0 a URL_CONTEXT by provider {"u":1}"#, "result a false 6", "ended - - - -"],
        ),
        (
            "a stream that was joined late",
            stream(&[r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"a":1}}}"#.into(),
                r#"{"type":"content_block_stop","index":1}"#.into()]),
            vec!["begun anthropic - -", "named 1 a f", r#"called 1 a f {"a":1}"#, "ended - - - -"],
        ),
        (
            "the last of keys that are there twice",
            r#"{"type":"message","type":"message","content":[{"type":"text","type":"tool_use","id":"x","id":"a","name":"g","name":"f","input":{}}]}"#.into(),
            vec!["begun anthropic - -", "named 0 a f", "called 0 a f {}", "ended - - - -"],
        ),
    ];
    for (name, body, expected) in cases {
        check(name, body.as_bytes(), &expected);
    }
}

/// No text of an answer is in what comes out or is kept, and no arguments in what is printed of it.
#[test]
fn answers_say_nothing_of_their_texts() {
    for body in [
        &include_bytes!("recordings/anthropic.json")[..],
        include_bytes!("recordings/anthropic.sse"),
        include_bytes!("recordings/chat.json"),
        include_bytes!("recordings/chat.sse"),
        include_bytes!("recordings/responses.json"),
        include_bytes!("recordings/responses.sse"),
        include_bytes!("recordings/gemini.json"),
        include_bytes!("recordings/gemini-array.json"),
        include_bytes!("recordings/bedrock.json"),
        &converse().concat(),
    ] {
        let (mut answer, mut printed) = (Answer::new(LIMITS), String::new());
        answer.push(body, &mut |output| printed += &format!("{output:?}\n"));
        answer.end(&mut |output| printed += &format!("{output:?}\n"));
        assert!(printed.contains("Called") && !printed.contains("SECRET"), "{printed}");
        assert!(!printed.contains("/etc/hosts"), "{printed}");
    }
}
