//! What guards say of what goes by.

use std::sync::Arc;

use super::*;
use crate::config;

/// An engine with the guards of this configuration.
pub(super) fn bench(yaml: &str) -> Bench {
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let mut bench = Bench::with(|settings| {
        settings.declared = config.declared();
        settings.registry = config.registry_settings();
        settings.inspection = Some(Inspect {
            detector: Arc::clone(&inspect::DETECTOR),
            alert_threshold: config.inspection.alert_threshold,
        });
    });
    let judge = config.judge(&inspect::DETECTOR).unwrap();
    bench.engine = bench.engine.with_judge(judge);
    for (connection, pid, name) in [(1, 5, "files"), (2, 6, "mail")] {
        bench.server(connection, pid, name, 9);
        let tools = if connection == 1 { r#"{"name":"read_file"}"# } else { r#"{"name":"send_mail"}"# };
        bench.c2s(connection, r#"{"id":3,"method":"tools/list"}"#);
        bench.s2c(connection, &answer(3, &format!(r#"{{"tools":[{tools}]}}"#)));
    }
    bench.out.clear();
    bench
}

/// What was decided of each call: tool, action, guard.
fn decisions(bench: &mut Bench) -> Vec<String> {
    let called = bench.events().into_iter().filter(|event| event["type"] == "mcp_tool_called");
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    called
        .map(|event| {
            assert_eq!(event["enforced"], false, "{event}");
            format!("{} {} {}", text(&event["tool_name"]), text(&event["action"]), text(&event["guard"]))
        })
        .collect()
}

#[test]
fn every_call_gets_a_decision() {
    let cases: [(&str, &str, &[&str]); 9] = [
        ("a read and a send", "", &["read_file allow -", "send_mail block cross_server"]),
        ("no rules across servers", "cross_server: { enabled: false }", {
            &["read_file allow -", "send_mail allow -"]
        }),
        (
            "a tool",
            "{ cross_server: { enabled: false }, policy: { denied_tools: [{ tool: 'send_*' }] } }",
            &["read_file allow -", "send_mail block tool_access"],
        ),
        (
            "a server",
            "{ cross_server: { enabled: false }, policy: { denied_servers: [{ id: files }] } }",
            &["read_file block server_access", "send_mail allow -"],
        ),
        (
            "an allowlist",
            "{ cross_server: { enabled: false }, policy: { tool_policy: allowlist, \
             allowed_tools: [{ tool: read_file }] } }",
            &["read_file allow -", "send_mail block tool_access"],
        ),
        (
            "a declared server's own list",
            "{ cross_server: { enabled: false }, servers: [{ id: mail, command: mail, allow_tools: ['read_*'] }] }",
            &["read_file allow -", "send_mail block tool_access"],
        ),
        (
            "a declared server that is switched off",
            "{ cross_server: { enabled: false }, servers: [{ id: mail, command: mail, enabled: false }] }",
            &["read_file allow -", "send_mail block server_access"],
        ),
        (
            "rates",
            "{ cross_server: { enabled: false }, policy: { rate_limits: { enabled: true, \
             per_server: { mail: { calls_per_minute: 0 } } } } }",
            &["read_file allow -", "send_mail block rate_limit"],
        ),
        (
            "an amended guard",
            "{ cross_server: { enabled: false }, guards: [{ kind: server_whitelist, \
             config: { allowed_servers: [mail] } }] }",
            &["read_file block server_access", "send_mail allow -"],
        ),
    ];
    for (name, yaml, expected) in cases {
        let mut bench = bench(yaml);
        bench.c2s(1, &call(5, "read_file"));
        bench.s2c(1, &answer(5, "{}"));
        bench.c2s(2, &call(6, "send_mail"));
        assert_eq!(decisions(&mut bench), expected, "{name}");
    }
}

#[test]
fn a_broken_rule_across_servers_names_the_calls() {
    let mut bench = bench("");
    bench.c2s(1, &call(5, "read_file"));
    bench.c2s(2, &call(6, "send_mail"));
    let events = bench.events();
    let blocked = events.iter().find(|event| event["type"] == "mcp_cross_server_blocked").unwrap();
    for (field, expected) in
        [("rule", "read_then_send"), ("severity", "critical"), ("blocked_server_id", "mail")]
    {
        assert_eq!(blocked[field], expected, "{blocked}");
    }
    assert_eq!(blocked["related_calls"][0]["tool_name"], "read_file", "{blocked}");
}

#[test]
fn a_changed_tool_is_denied_where_the_policy_says_so() {
    for (yaml, action) in [("", "alert"), ("policy: { version_pinning: { on_change: block } }", "block")] {
        let mut bench = bench(yaml);
        bench.c2s(1, r#"{"id":3,"method":"tools/list"}"#);
        bench.s2c(1, &answer(3, r#"{"tools":[{"name":"read_file","description":"other"}]}"#));
        bench.c2s(1, &call(5, "read_file"));
        let events = bench.events();
        let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
        assert_eq!(called["action"], action, "{called}");
    }
}

#[test]
fn requests_of_a_denied_server_are_said() {
    let mut bench = bench("policy: { denied_servers: [{ id: files }] }");
    bench.c2s(1, r#"{"id":7,"method":"prompts/get","params":{"name":"p"}}"#);
    assert_eq!(bench.said(), ["1 files blocked Request prompts/get ServerAccess"]);
}

#[test]
fn tools_are_classified() {
    let mut bench = bench("");
    bench.c2s(1, r#"{"id":3,"method":"tools/list"}"#);
    bench.s2c(1, &answer(3, r#"{"tools":[{"name":"delete_file","description":"Deletes a file."}]}"#));
    let seen = bench.events().into_iter().find(|event| event["type"] == "mcp_tool_seen").unwrap();
    for (field, expected) in [("category", "write"), ("risk_level", "critical")] {
        assert_eq!(seen[field], expected, "{seen}");
    }
}
