//! What models want to be called, and the calls that clients make then.

use super::*;
use crate::intent::{IntentLimits, Request};

const REQUEST: &str = r#"{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"mcp__files__read_file","input_schema":{}}]}"#;
const STREAMED: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}"#,
    "\n\nevent: content_block_start\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"mcp__files__read_file","input":{}}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\": "}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"/a\"}"}}"#,
    "\n\nevent: content_block_stop\n",
    r#"data: {"type":"content_block_stop","index":0}"#,
    "\n\nevent: message_stop\n",
    r#"data: {"type":"message_stop"}"#,
    "\n\n",
);
/// Several calls in one answer.
const WHOLE: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","model":"g","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[
    {"id":"c1","type":"function","function":{"name":"files-read_file","arguments":"{\"path\":\"/b\"}"}},
    {"id":"c2","type":"function","function":{"name":"files-read_file","arguments":"{\"path\":\"/c\"}"}},
    {"id":"c3","type":"function","function":{"name":"run_shell","arguments":"{\"x\":1}"}}]}}]}"#;

impl Bench {
    /// A part of the first request of a connection with a model, of the process 5.
    fn model(&mut self, stream: u64, part: ModelPart<'_>) {
        let (stream, time) = (ConnectionId(stream), Timestamp(self.now));
        self.input(Input::Model(ModelTraffic { stream, exchange: 1, time, part }));
    }

    fn asks_model(&mut self, stream: u64, client: u32) {
        let request = ModelRequest {
            client: Process { pid: client, ..Process::default() },
            address: ServerAddress::Internet(([10, 0, 0, 1], 443).into()),
            host: Some("api.example".to_owned()),
            model: Request::of(REQUEST.as_bytes(), &IntentLimits::default()).unwrap().model.map(String::from),
        };
        self.model(stream, ModelPart::Request(Box::new(request)));
    }

    /// The model answers so, in pieces.
    fn model_answers(&mut self, stream: u64, text: &str, piece: usize) {
        for bytes in text.as_bytes().chunks(piece) {
            self.model(stream, ModelPart::Answer { request_id: Some("req_1"), bytes });
        }
        self.model(stream, ModelPart::End { is_whole: true });
    }

    fn calls(&mut self, id: u32, arguments: &Value) -> Value {
        let params = json!({"name": "read_file", "arguments": arguments});
        self.c2s(
            1,
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string(),
        );
        self.wait(300);
        let mut events = self.events().into_iter();
        events.find(|event| event["type"] == "mcp_tool_called").unwrap()["intent"].clone()
    }
}

/// A server `files` with one tool, of the process 5.
fn bench() -> Bench {
    let mut bench = Bench::with(|config| {
        let declared = |id: &str| Declared {
            id: ServerId(id.into()),
            command: format!("{id}-server"),
            args: Vec::new(),
            executables: Vec::new(),
            interpreter: None,
        };
        config.declared = ["files", "gitlab"].map(declared).to_vec();
    });
    bench.server(1, 10, "files-server", 5);
    bench.c2s(1, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    bench.s2c(1, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_file","inputSchema":{"type":"object"}}]}}"#);
    bench.wait(300);
    bench.out.clear();
    bench
}

#[test]
fn intent_is_reported_before_its_call_and_with_it() {
    for piece in [1, 7, 10_000] {
        let mut bench = bench();
        bench.asks_model(9, 5);
        bench.model_answers(9, STREAMED, piece);
        let events = bench.events();
        let [intent] = events.as_slice() else { panic!("{piece}: {events:#?}") };
        let found =
            ["type", "dialect", "model", "request_id", "tool_call_id", "tool_name", "tool_id", "name_match"];
        let found = found.map(|name| intent[name].as_str().unwrap_or("-"));
        let expected = [
            "mcp_tool_call_intercepted",
            "anthropic",
            "m-1",
            "req_1",
            "toolu_1",
            "mcp__files__read_file",
            "mcp:files:read_file",
            "exact",
        ];
        assert_eq!(found, expected, "{piece}");
        assert!(intent["tool_hash"].is_string() && intent["server_id"] == "files", "{intent:#}");
        assert_eq!((&intent["input"], &intent["pid"]), (&json!({"path": "/a"}), &json!(5)), "{piece}");
        let reference =
            json!({"dialect": "anthropic", "model": "m-1", "request_id": "req_1", "tool_call_id": "toolu_1"});
        assert_eq!(bench.calls(2, &json!({"path": "/a"})), reference, "{piece}");
        assert_eq!(
            bench.calls(3, &json!({"path": "/a"})),
            Value::Null,
            "{piece}: nobody wanted a second one"
        );
    }
}

#[test]
fn call_takes_the_intent_with_its_arguments() {
    let mut bench = bench();
    bench.asks_model(9, 5);
    bench.model_answers(9, WHOLE, 64);
    let events = bench.events();
    let tools: Vec<&Value> = events.iter().map(|event| &event["tool_id"]).collect();
    assert_eq!(
        tools,
        [&json!("mcp:files:read_file"), &json!("mcp:files:read_file"), &Value::Null],
        "{events:#?}"
    );
    // In another order, with other blanks; and one that no model wanted so.
    assert_eq!(bench.calls(2, &json!({"path": "/c"}))["tool_call_id"], "c2");
    let other = bench.calls(3, &json!({"path": "/etc/shadow"}));
    assert_eq!((&other["tool_call_id"], &other["other_arguments"]), (&json!("c1"), &json!(true)));
    assert_eq!(bench.calls(4, &json!({"path": "/b"})), Value::Null);
    let counters = bench.engine.counters();
    assert_eq!((counters.model_answers, counters.intents, counters.intents_called), (1, 3, 2));
}

#[test]
fn intents_of_other_clients_are_none_of_a_session() {
    let mut bench = bench();
    bench.asks_model(9, 6);
    bench.model_answers(9, STREAMED, 64);
    let events = bench.events();
    assert_eq!((events.len(), &events[0]["tool_id"]), (1, &Value::Null), "{events:#?}");
    assert_eq!(bench.calls(2, &json!({"path": "/a"})), Value::Null);
}

/// Two servers with a tool of one name: the intent is that of the server that the model was told of.
#[test]
fn intent_belongs_to_the_server_that_its_name_means() {
    let mut bench = bench();
    bench.server(2, 11, "gitlab-server", 5);
    bench.c2s(2, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    bench.s2c(2, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_file","inputSchema":{"type":"object"}}]}}"#);
    bench.wait(300);
    bench.out.clear();
    let answer = WHOLE.replace("files-read_file", "mcp__gitlab__read_file").replace("/b", "/a");
    bench.asks_model(9, 5);
    bench.model_answers(9, &answer, 64);
    let events = bench.events();
    assert_eq!(events[0]["tool_id"], "mcp:gitlab:read_file", "{events:#?}");
    assert_eq!(bench.calls(2, &json!({"path": "/a"})), Value::Null, "a call of the other server");
}

#[test]
fn intents_are_forgotten_after_an_hour() {
    let mut bench = bench();
    bench.asks_model(9, 5);
    bench.model_answers(9, STREAMED, 64);
    bench.wait(3_600_001);
    assert_eq!(bench.calls(2, &json!({"path": "/a"})), Value::Null);
}

#[test]
fn answers_of_models_are_bounded() {
    let mut bench = bench();
    for stream in 0..2_000 {
        bench.asks_model(stream, 5);
    }
    // A user has a quarter of them.
    assert_eq!(bench.engine.counters().model_answers_dropped, 1_744);
    // One value that does not end: no more is held of it than a user may have.
    let endless = format!("[\"{}", "x".repeat(1 << 20));
    for stream in 1_900..2_000 {
        bench.model(stream, ModelPart::Answer { request_id: None, bytes: endless.as_bytes() });
    }
    let counters = bench.engine.counters();
    assert!(counters.model_answers_dropped > 1_744 + 50, "{}", counters.model_answers_dropped);
    assert_eq!(bench.events(), Vec::<Value>::new());
}

#[test]
fn what_breaks_off_is_counted() {
    let mut bench = bench();
    bench.asks_model(9, 5);
    bench.model(9, ModelPart::Answer { request_id: None, bytes: &STREAMED.as_bytes()[..400] });
    bench.model(9, ModelPart::End { is_whole: false });
    // Nothing of what was not asked.
    bench.model(8, ModelPart::Answer { request_id: None, bytes: STREAMED.as_bytes() });
    bench.model(8, ModelPart::End { is_whole: true });
    let counters = bench.engine.counters();
    assert_eq!((counters.model_answers, counters.model_answers_broken, counters.intents), (1, 1, 0));
}
