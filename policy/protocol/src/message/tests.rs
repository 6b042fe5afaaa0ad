use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A message in short: kind, id or `-`, method or what it answers.
fn short(message: &Message<'_>) -> String {
    let raw = |value: Option<&RawValue>| value.map_or("-".to_owned(), |value| value.get().to_owned());
    match &message.kind {
        Kind::Request { id, method, params } => {
            format!("request {} {} {}", id.0, method.as_str(), raw(*params))
        }
        Kind::Notification { method, params } => format!("notification {} {}", method.as_str(), raw(*params)),
        Kind::Response { id, result } => format!("response {} {}", id.0, result.get()),
        Kind::Error { id, code, message, data, .. } => {
            format!("error {} {code} {message} {}", id.0, raw(*data))
        }
        Kind::Invalid => "invalid".to_owned(),
    }
}

#[test]
fn json_rpc_frames_are_parsed() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_call = format!(r#"{{"method":"tools/call","id":1,"params":{deep}}}"#);
    let cases: Vec<(&[u8], &[&str])> = vec![
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &["request 1 ping -"]),
        (br#" {"jsonrpc":"2.0","id":"a","method":"x/y","params":{"a":1}} "#, &[r#"request "a" x/y {"a":1}"#]),
        (br#"{"id":null,"method":"ping"}"#, &["request null ping -"]),
        (br#"{"method":"notifications/initialized"}"#, &["notification notifications/initialized -"]),
        (br#"{"id":1.5,"result":{}}"#, &["response 1.5 {}"]),
        (br#"{"id":1,"result":null}"#, &["response 1 null"]),
        (br#"{"id":1,"result":1,"error":null}"#, &["response 1 1"]),
        (br#"{"id":1,"error":{"code":-32601,"message":"no","data":[1]}}"#, &["error 1 -32601 no [1]"]),
        (br#"{"error":{"code":"x"}}"#, &["error null 0  -"]),
        (br#"{"id":1,"error":"text"}"#, &["error 1 0  -"]),
        (br#"{}"#, &["invalid"]),
        (br#"{"result":1}"#, &["invalid"]),
        (br#"{"id":1,"method":7}"#, &["invalid"]),
        (br#"{"id":1,"id":2,"method":"ping","method":"tools/list"}"#, &["request 2 tools/list -"]),
        (br#"{"id":1,"meth\u006fd":"p\u0069ng"}"#, &["request 1 ping -"]),
        (br#"[{"id":1,"method":"ping"},{"id":1,"result":2},3,[]]"#, {
            &["request 1 ping -", "response 1 2", "invalid", "invalid"]
        }),
        (b"[]", &[]),
        (b"{\"id\":1,\"method\":\"ping\",\"params\":\"\xff\xfe\"}", &["request 1 ping \"\u{fffd}\u{fffd}\""]),
        (b"{\"id\":1,\"method\":\"ping\",\"params\":\"a\0b\"}", &[r#"request 1 ping "a\u0000b""#]),
        (b"{\"id\":1,\"method\":\"ping\",\"params\":\"\0\xff\"}", &["request 1 ping \"\\u0000\u{fffd}\""]),
        (br#"{"id":1,"method":"ping","params":"\ud800"}"#, &[r#"request 1 ping "\ud800""#]),
    ];
    for (frame, expected) in cases {
        let mut scratch = String::new();
        let parsed = parse(frame, &mut scratch).unwrap();
        let messages: Vec<String> = parsed.messages.iter().map(short).collect();
        assert_eq!(messages, expected, "{}", String::from_utf8_lossy(frame));
    }
    let mut scratch = String::new();
    let parsed = parse(deep_call.as_bytes(), &mut scratch).unwrap();
    assert!(matches!(&parsed.messages[0].kind, Kind::Request { method: Method::ToolsCall, .. }));
}

#[test]
fn invalid_json_is_a_parse_error() {
    for frame in ["", "1", "\"a\"", "{", "{} {}", "[1,,]", "{\"a\":}", "[INFO] up"] {
        let mut scratch = String::new();
        assert!(matches!(parse(frame.as_bytes(), &mut scratch), Err(ProtocolError::Json { .. })), "{frame}");
    }
    for (size, fits) in [(MAX_BATCH, true), (MAX_BATCH + 1, false)] {
        let batch = format!("[{}]", vec!["{}"; size].join(","));
        let mut scratch = String::new();
        let parsed = parse(batch.as_bytes(), &mut scratch);
        match parsed {
            Ok(parsed) => assert!(fits && parsed.messages.len() == size),
            Err(error) => assert!(!fits && matches!(error, ProtocolError::TooManyMessages)),
        }
    }
}

#[test]
fn lossy_and_repaired_frames_are_flagged() {
    let cases: [(&[u8], bool, bool, bool); 7] = [
        (br#"{"jsonrpc":"2.0"}"#, false, false, true),
        (b"{\"jsonrpc\":\"2.0\",\"a\":\"\xff\"}", true, false, true),
        (b"{\"jsonrpc\":\"2.0\",\"a\":\"\x01\"}", false, true, true),
        (br#"{"jsonrpc":"2.0","a":[NaN,-Infinity,Infinity,"NaN\" Infinity"]}"#, false, true, true),
        (br#"{"jsonrpc":"2.0","a":"NaN"}"#, false, false, true),
        (br#"{"jsonrpc":"1.0"}"#, false, false, false),
        (br#"{}"#, false, false, false),
    ];
    for (frame, lossy, repaired, versioned) in cases {
        let mut scratch = String::new();
        let parsed = parse(frame, &mut scratch).unwrap();
        assert_eq!(
            (parsed.lossy, parsed.repaired, parsed.messages[0].versioned),
            (lossy, repaired, versioned)
        );
    }
}

#[test]
fn request_ids_are_recorded_as_sent() {
    let cases = [
        ("1", json!(1)),
        ("1.5", json!(1.5)),
        ("-0", json!(-0.0)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("18446744073709551615", json!(u64::MAX)),
        ("18446744073709551616", json!("18446744073709551616")),
        ("1e400", json!("1e400")),
        ("null", json!(null)),
        (r#""\ud800""#, json!("\u{fffd}")),
        (r#"{"a":1}"#, json!({"a": 1})),
    ];
    for (id, expected) in cases {
        assert_eq!(Id(id).value(), expected, "{id}");
    }
}

#[test]
fn request_ids_are_paired_by_value() {
    let groups: [&[&str]; 8] = [
        &["1", "1.0", "1e0", "10E-1"],
        &["-0", "0", "0.0"],
        &["1.5", "15e-1"],
        &["\"1\"", "\"\\u0031\""],
        &["\"\""],
        &["null"],
        &["9007199254740993"],
        &["9007199254740992", "9007199254740992.0"],
    ];
    for (at, group) in groups.iter().enumerate() {
        for id in *group {
            assert_eq!(Id(id).key(), Id(group[0]).key(), "{id}");
            for other in groups.iter().skip(at + 1) {
                assert_ne!(Id(id).key(), Id(other[0]).key(), "{id} {other:?}");
            }
        }
    }
    assert_eq!(Id("\"7\"").key().of_other_type(), Some(IdKey::Integer(7)));
    assert_eq!(Id("7.0").key().of_other_type(), Some(IdKey::Text("7".into())));
    assert_eq!(Id("\"x\"").key().of_other_type(), None);
}

#[test]
fn only_mcp_requests_are_recognized_as_opening() {
    let cases = [
        (r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#, true),
        (r#"{"id":1,"method":"initialize","params":{"processId":1,"capabilities":{}}}"#, false),
        (r#"{"id":1,"method":"initialize","params":{"protocolVersion":1}}"#, false),
        (r#"{"id":1,"method":"initialize"}"#, false),
        (r#"{"id":1,"method":"tools/list"}"#, true),
        (r#"{"id":1,"method":"tools/call","params":{}}"#, true),
        (r#"{"id":1,"method":"ping"}"#, false),
        (r#"{"id":1,"method":"shutdown"}"#, false),
        (r#"{"id":1,"method":"textDocument/hover"}"#, false),
        (r#"{"method":"notifications/initialized"}"#, false),
        (r#"{"id":1,"result":{}}"#, false),
        (r#"{"id":1,"method":"sampling/createMessage"}"#, false),
    ];
    for (frame, expected) in cases {
        let mut scratch = String::new();
        let parsed = parse(frame.as_bytes(), &mut scratch).unwrap();
        assert_eq!(is_mcp_opening(&parsed.messages[0]), expected, "{frame}");
    }
}

#[test]
fn mcp_method_names_round_trip() {
    for name in Method::NAMES {
        let method = Method::from(Cow::Borrowed(*name));
        assert!(method.is_mcp() && method.as_str() == *name);
    }
    let other = Method::from(Cow::Borrowed("x/y"));
    assert!(!other.is_mcp() && other.as_str() == "x/y");
    assert_eq!(Method::NAMES.len(), 36);
}

#[test]
fn values_with_lone_surrogates_are_parsed() {
    let cases = [
        (r#""\ud83d\ude00""#, Some(json!("😀"))),
        (r#""\ud83d""#, Some(json!("\u{fffd}"))),
        (r#""\ude00\ud83d\\ud800é""#, Some(json!("\u{fffd}\u{fffd}\\ud800é"))),
        (r#""\ud83d\ud83d\ude00""#, Some(json!("\u{fffd}😀"))),
        ("1e999", None),
        ("[", None),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
    assert_eq!(value(&format!("{}{}", "[".repeat(200), "]".repeat(200))), None);
    let [a, b] = members(r#"{"a":1,"b":2,"a":3}"#, ["a", "c"]);
    assert_eq!((a.map(RawValue::get), b.map(RawValue::get)), (Some("3"), None));
    assert_eq!(members("[1]", ["a"]).map(|value| value.is_some()), [false]);
}

proptest! {
    #[test]
    fn parsing_random_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut scratch = String::new();
        let _ = parse(&bytes, &mut scratch);
    }

    #[test]
    fn parsing_random_json_text_never_panics(text in "[\\[\\]{}\":,\\\\u0-9a-f \u{0}-\u{1f}é]{0,80}") {
        let mut scratch = String::new();
        let _ = parse(text.as_bytes(), &mut scratch);
        let _ = mend_surrogates(&text);
        let _ = value(&text);
        let _ = decode_str(&text);
    }

    #[test]
    fn request_with_any_id_and_text_is_parsed(id in any::<i64>(), text in any::<String>()) {
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": text}}).to_string();
        let mut scratch = String::new();
        let parsed = parse(frame.as_bytes(), &mut scratch).unwrap();
        let Kind::Request { id: read, params: Some(params), .. } = &parsed.messages[0].kind else { panic!() };
        prop_assert_eq!(read.key(), IdKey::Integer(id.into()));
        let [name] = members(params.get(), ["name"]);
        prop_assert_eq!(value(name.unwrap().get()), Some(Value::String(text)));
    }
}

#[test]
fn members_are_left_out_of_an_object_text() {
    let cases = [
        (r#"{"a":1,"b":[2],"a":3}"#, r#"{"b":[2]}"#),
        (r#"{"b\n":1, "c": {"a":1}}"#, r#"{"b\n":1, "c": {"a":1}}"#),
        (r#"{"b\n":1, "a": 2}"#, r#"{"b\n":1}"#),
        (r#"{"a":1}"#, "{}"),
        ("[1]", "[1]"),
        ("{", "{"),
    ];
    for (json, expected) in cases {
        assert_eq!(without(json, &["a"]), expected, "{json}");
    }
}
