//! What requests say, dialect by dialect.

use super::*;

/// The hash of `Hello`.
const HELLO: &str = "5 bytes 185f8db32271fe25f561a6fc938b2e264306ec304eda518007d1764826381969";

fn print(request: &Request) -> String {
    let mut text = format!(
        "{} {} {}",
        request.dialect.map_or("-", Dialect::as_str),
        request.model.as_deref().unwrap_or("-"),
        request.previous.as_deref().unwrap_or("-")
    );
    for tool in &request.tools {
        let origin = if tool.origin == ToolOrigin::Provider { "own " } else { "" };
        let namespace = tool.namespace.as_deref().map_or(String::new(), |namespace| format!("{namespace}|"));
        text += &format!("; {origin}{namespace}{}", tool.name);
    }
    for server in &request.servers {
        let part = |part: &Option<Box<str>>| part.as_deref().unwrap_or("-").to_owned();
        let tools = server.allowed_tools.as_ref().map_or("all".to_owned(), |tools| tools.join("+"));
        text +=
            &format!("; server {} {} {} {tools}", server.label, part(&server.url), part(&server.connector));
    }
    for result in &request.results {
        text += &format!("; result {} {:?} {:?}", result.id, result.is_error, result.content);
    }
    text
}

#[test]
fn requests_are_read_in_every_dialect() {
    let hello = |id: &str, error: &str| format!("result {id} {error} {HELLO}");
    let cases: Vec<(&str, &str, String)> = vec![
        (
            "anthropic",
            r#"{"model":"claude-x","max_tokens":9,"stream":true,"system":"SECRET","tools":[{"name":"mcp__files__read","description":"SECRET","input_schema":{}},{"type":"bash_20250124","name":"bash"},{"type":"web_search_20250305","name":"web_search"},{"type":"mcp_toolset","mcp_server_name":"r"}],"mcp_servers":[{"type":"url","url":"https://user:SECRET@x.example/mcp?key=SECRET#SECRET","name":"r","authorization_token":"SECRET","tool_configuration":{"enabled":true,"allowed_tools":["a","b"]}}],"messages":[{"role":"user","content":"SECRET"},{"role":"assistant","content":[{"type":"text","text":"SECRET"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":"SECRET"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"Hello"},{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]}]}]}"#,
            format!(
                "anthropic claude-x -; mcp__files__read; own bash; own web_search; server r https://x.example/mcp - a+b; {}; {}",
                hello("toolu_1", "Some(false)"),
                hello("toolu_2", "Some(true)")
            ),
        ),
        (
            "chat",
            r#"{"model":"gpt-x","messages":[{"role":"system","content":"SECRET"},{"role":"assistant","tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"SECRET"}}]},{"role":"tool","tool_call_id":"call_1","content":"Hello"},{"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"Hello"}]}],"tools":[{"type":"function","function":{"name":"mcp__files__read","parameters":{}}},{"type":"custom","custom":{"name":"patch"}}]}"#,
            format!(
                "openai_chat gpt-x -; mcp__files__read; patch; {}; {}",
                hello("call_1", "None"),
                hello("call_2", "None")
            ),
        ),
        (
            "functions of earlier years",
            r#"{"model":"m","messages":[{"role":"function","name":"f","content":"Hello"}],"functions":[{"name":"f"}]}"#,
            format!("openai_chat m -; f; {}", hello("f", "None")),
        ),
        (
            "responses",
            r#"{"model":"gpt-x","previous_response_id":"resp_0","instructions":"SECRET","input":[{"role":"user","content":"SECRET"},{"type":"function_call_output","call_id":"call_1","output":"Hello"},{"type":"custom_tool_call_output","call_id":"call_2","output":[{"type":"input_text","text":"Hello"}]},{"type":"mcp_call","id":"x","output":"SECRET"}],"tools":[{"type":"function","name":"f","parameters":{}},{"type":"web_search"},{"type":"namespace","name":"mcp__files__","tools":[{"type":"function","name":"read"}]},{"type":"mcp","server_label":"r","server_url":"https://x.example:8443/sse?SECRET","headers":{"Authorization":"SECRET"},"require_approval":"never"},{"type":"mcp","server_label":"d","connector_id":"connector_dropbox","authorization":"SECRET","allowed_tools":{"tool_names":["a"]}}]}"#,
            format!(
                "openai_responses gpt-x resp_0; f; own web_search; mcp__files__|read; server r https://x.example:8443/sse - all; server d - connector_dropbox a; {}; {}",
                hello("call_1", "None"),
                hello("call_2", "None")
            ),
        ),
        (
            "tools in the input, and a server behind a tunnel",
            r#"{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"g"}]}],"tools":[{"type":"mcp","server_label":"t","tunnel_id":"tunnel_1","allowed_tools":["a"]}]}"#,
            "openai_responses m -; g; server t - tunnel_1 a".into(),
        ),
        (
            "a tool in a message",
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"g","input_schema":{}}}}]}]}"#,
            "anthropic m -; g".into(),
        ),
        (
            "a server of Gemini",
            r#"{"contents":[],"tools":[{"mcpServers":[{"name":"r","streamableHttpTransport":{"url":"https://x.example/mcp?SECRET","headers":{"a":"SECRET"}}}]}]}"#,
            "gemini - -; server r https://x.example/mcp - all".into(),
        ),
        ("a text as input", r#"{"model":"m","input":"SECRET"}"#, "openai_responses m -".into()),
        (
            "gemini",
            r#"{"contents":[{"role":"user","parts":[{"text":"SECRET"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"Hello"}}},{"functionResponse":{"id":"c2","name":"f","response":{"result":"Hello"}}}]}],"systemInstruction":{"parts":[{"text":"SECRET"}]},"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]},{"googleSearch":{}}]}"#,
            format!("gemini - -; f; g; {}; {}", hello("f", "None"), hello("c2", "None")),
        ),
        (
            "Code Assist",
            r#"{"model":"gemini-x","project":"p","request":{"contents":[{"parts":[{"text":"SECRET"}]}],"tools":[{"function_declarations":[{"name":"f"}]}]}}"#,
            "gemini gemini-x -; f".into(),
        ),
        (
            "bedrock",
            r#"{"messages":[{"role":"user","content":[{"text":"SECRET"}]},{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_1","status":"error","content":[{"text":"Hello"}]}}]}],"system":[{"text":"SECRET"}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{}}}}]}}"#,
            format!("bedrock - -; f; {}", hello("tooluse_1", "Some(true)")),
        ),
        (
            "several dialects",
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}"#,
            "- m -".into(),
        ),
        (
            "Anthropic without tools",
            r#"{"model":"m","max_tokens":1,"system":"x","messages":[{"role":"user","content":"x"}]}"#,
            "anthropic m -".into(),
        ),
        (
            "chat without a limit",
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
            "openai_chat m -".into(),
        ),
        (
            "Bedrock without tools",
            r#"{"messages":[{"role":"user","content":[{"text":"x"}]}]}"#,
            "bedrock - -".into(),
        ),
    ];
    for (name, body, expected) in cases {
        let request = Request::of(body.as_bytes(), &LIMITS).unwrap();
        assert_eq!(print(&request), expected, "{name}");
        assert!(!format!("{request:?}").contains("SECRET"), "{name}");
    }
}

#[test]
fn what_is_no_request_is_none() {
    for body in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"messages":"x"}"#,
        r#"{"input":"x"}"#,
        r#"{"request":{"contents":1}}"#,
        "\0\u{1}",
    ] {
        assert_eq!(Request::of(body.as_bytes(), &LIMITS), None, "{body}");
    }
}

/// A result of MCP and what the model is given of it have one digest, in whatever dialect.
#[test]
fn content_digests_do_not_depend_on_the_dialect() {
    let text = ContentDigest::of_text("Hello");
    for same in [
        r#""Hello""#,
        r#"[{"type":"text","text":"Hello"}]"#,
        r#"[{"text":"Hel"},{"type":"text","text":"lo"}]"#,
        r#"{"output":"Hello"}"#,
        r#"{"result":[{"type":"text","text":"Hello"}]}"#,
        r#""\u0048ello""#,
    ] {
        assert_eq!(ContentDigest::of_json(same), text, "{same}");
    }
    for other in
        [r#""Hello ""#, r#"{"output":"Hello","b":1}"#, r#"[{"type":"image","data":"Hello"}]"#, "5", ""]
    {
        assert_ne!(ContentDigest::of_json(other), text, "{other}");
    }
}

#[test]
fn requests_are_bounded() {
    let many = |part: &str| vec![part; 20].join(",");
    let body = format!(
        r#"{{"model":"m","messages":[{}],"tools":[{}],"mcp_servers":[{}]}}"#,
        (0..20)
            .map(|id| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"x"}}"#))
            .collect::<Vec<_>>()
            .join(","),
        many(&format!(r#"{{"name":"{}","input_schema":{{}}}}"#, "é".repeat(100))),
        many(r#"{"name":"s","url":"http://a"}"#),
    );
    let request = Request::of(body.as_bytes(), &LIMITS).unwrap();
    assert_eq!((request.tools.len(), request.servers.len(), request.results.len()), (8, 8, 8));
    assert_eq!((request.left_out, request.tools[0].name.len()), (36, 64));
    // Of results the last ones.
    assert_eq!(&*request.results[7].id, "19");
    assert_eq!(Request::of(&[body.as_bytes(), &[b' '; 65536]].concat(), &LIMITS), None);
}
