use super::*;

#[test]
fn structures_that_are_arrays_become_objects() {
    let cases = [
        // Answers, in the order of several libraries.
        (r#"["2.0",4,{"tools":[]}]"#, Some(r#"{"jsonrpc":"2.0","id":4,"result":{"tools":[]}}"#)),
        (r#"["2.0",{"tools":[]},"a"]"#, Some(r#"{"jsonrpc":"2.0","id":"a","result":{"tools":[]}}"#)),
        (r#" [null, 4,"2.0", {"x":1}]"#, Some(r#"{"jsonrpc":"2.0","id":4,"result":{"x":1}}"#)),
        (
            r#"["2.0",4,{"code":-32000,"message":"no"}]"#,
            Some(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"no"}}"#),
        ),
        (
            r#"["2.0",4,[-32000,"no",[1]]]"#,
            Some(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"no","data":[1]}}"#),
        ),
        (
            r#"["2.0","tools/call",{"name":"wipe"},4]"#,
            Some(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"wipe"}}"#),
        ),
        // Results.
        (
            r#"{"id":4,"result":[null,"c",[{"name":"ping","inputSchema":{}}]]}"#,
            Some(
                r#"{"id":4,"result":{"0":null,"nextCursor":"c","tools":[{"name":"ping","inputSchema":{}}]}}"#,
            ),
        ),
        (
            r#"{"id":4,"result":["2025-06-18",{"tools":{}},["srv","1.2"],"Be kind."]}"#,
            Some(
                r#"{"id":4,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"srv","version":"1.2"},"instructions":"Be kind."}}"#,
            ),
        ),
        // Entries, in the order of declaration and in that of the alphabet.
        (
            r#"{"result":{"tools":[["ping",null,"Pings a host.",{"type":"object"},true]]}}"#,
            Some(
                r#"{"result":{"tools":[{"name":"ping","1":null,"description":"Pings a host.","inputSchema":{"type":"object"},"4":true}]}}"#,
            ),
        ),
        (
            r#"{"result":{"tools":[[null,"Pings a host.",{"type":"object"},"ping"],{"name":"pong"}]}}"#,
            Some(
                r#"{"result":{"tools":[{"0":null,"description":"Pings a host.","inputSchema":{"type":"object"},"name":"ping"},{"name":"pong"}]}}"#,
            ),
        ),
        (
            r#"{"result":{"prompts":[["ask","Ask"]]}}"#,
            Some(
                r#"{"result":{"prompts":[{"name":"ask","description":"Ask"},{"description":"ask","name":"Ask"}]}}"#,
            ),
        ),
        (
            r#"{"result":{"resourceTemplates":[["file:///{path}","logs"]]}}"#,
            Some(
                r#"{"result":{"resourceTemplates":[{"name":"file:///{path}","description":"logs"},{"uriTemplate":"file:///{path}","name":"logs"}]}}"#,
            ),
        ),
        // What nobody takes for a structure.
        (r#"[{"id":1,"method":"ping"}]"#, None),
        (r#"["a","b"]"#, None),
        (r#"[1,2,3,4,5,6,{}]"#, None),
        (r#"{"id":4,"result":[1,2,3]}"#, None),
        (r#"{"id":4,"result":["2026-01-02",{"tide":3}]}"#, None),
        (r#"{"id":4,"result":["2026-01-02",[1,2],[3]]}"#, None),
        (r#"{"id":4,"result":[{"name":"a"},["b"]]}"#, None),
        (r#"{"id":4,"result":{"tools":[{"name":"a","inputSchema":{"enum":[["a"]]}}]}}"#, None),
        (r#"{"id":4,"result":{"structuredContent":{"tools":[["a","b"]]}}}"#, None),
        (r#"{"id":4,"method":"x","params":["a"]}"#, None),
        ("[", None),
    ];
    for (json, expected) in cases {
        assert_eq!(as_objects(json).as_deref(), expected, "{json}");
    }
}

#[test]
fn many_fields_cost_no_more_than_they_are_long() {
    let fields = vec![r#""a""#; 50_000].join(",");
    let entry = format!("[{fields}]");
    for json in [
        format!(r#"{{"result":{{"tools":[{entry}]}}}}"#),
        format!(r#"{{"result":[[{entry}],{fields}]}}"#),
        format!(r#"{{"result":{{"tools":[{}]}}}}"#, vec![r#"["a","b","c"]"#; 20_000].join(",")),
    ] {
        let objects = as_objects(&json).unwrap();
        assert!(objects.len() < 5 * json.len(), "{} {}", json.len(), objects.len());
    }
}

#[test]
fn a_name_may_be_any_scalar() {
    for (json, expected) in [
        (r#""ping""#, Some("ping")),
        ("911", Some("911")),
        ("7.0", Some("7.0")),
        ("true", Some("true")),
        ("null", None),
        ("[1]", None),
        ("{}", None),
    ] {
        let json = RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(name_text(&json).as_deref(), expected, "{json}");
    }
}
