//! Rules that go by the arguments of calls.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::tests::{World, at, entries, guards, policy, tool};
use super::super::{Executor, Question};
use crate::config::Config;
use crate::guard::{Conditions, Operation, ToolFacts};
use crate::terms::{RiskLevel, Timestamp, ToolCategory};

/// 2026-11-26, a Thursday, 21:30 UTC.
const EVENING: Timestamp = Timestamp(1_795_728_600_000_000_000);

fn decide(guards: &mut Executor, world: &World, conditions: Conditions, arguments: &str) -> &'static str {
    let json = (!arguments.is_empty()).then(|| RawValue::from_string(arguments.to_owned()).unwrap());
    let arguments = json.as_deref();
    let operations = [Operation::ToolInvoke { tool_name: "t", arguments }];
    let facts = crate::guard::Facts { conditions, ..world.facts() };
    let verdict = guards.ask(&Question { operations: &operations, facts: &facts, now: EVENING }, None);
    verdict.denied.map_or("allow", |(_, denial)| denial.code.name())
}

/// What is said of a call with these arguments where a rule with this test of `/a` denies, and where it allows.
fn both(test: &Value, arguments: &str) -> (bool, bool) {
    let rule = json!([{"tool": "t", "arguments": {"/a": test}}]);
    of_rules(&rule, arguments)
}

fn of_rules(rule: &Value, arguments: &str) -> (bool, bool) {
    let world = World::server("s").with(tool("t"));
    let mut denying = guards(&policy(json!({"denied_tools": rule})));
    let mut allowing = guards(&policy(json!({"tool_policy": "allowlist", "allowed_tools": rule})));
    let denied = decide(&mut denying, &world, Conditions::OfCall, arguments) != "allow";
    let allowed = decide(&mut allowing, &world, Conditions::OfCall, arguments) == "allow";
    (denied, allowed)
}

/// A rule applies, does not, or nobody can tell: then one that denies does, and one that allows does not.
const YES: (bool, bool) = (true, true);
const NO: (bool, bool) = (false, false);
const UNKNOWN: (bool, bool) = (true, false);

#[test]
fn arguments_are_tested_as_any_server_may_read_them() {
    for (test, arguments, expected) in [
        (json!({"equal": "x"}), r#"{"a":"x"}"#, YES),
        (json!({"equal": "x"}), r#"{"a":"X"}"#, NO),
        (json!({"equal": ["x", 5, true]}), r#"{"a":5.0}"#, YES),
        (json!({"equal": [5]}), r#"{"a":"5"}"#, UNKNOWN),
        (json!({"equal": true}), r#"{"a":true}"#, YES),
        (json!({"equal": true}), r#"{"a":"True"}"#, UNKNOWN),
        (json!({"equal": true}), r#"{"a":false}"#, NO),
        (json!({"equal": {"b": [1]}}), r#"{"a":{"b":[1]}}"#, YES),
        (json!({"equal": "x"}), "{}", NO),
        (json!({"equal": "x"}), r#"{"a":null}"#, NO),
        (json!({"equal": "x"}), "", NO),
        // The first of two keys, the last, another letter case: each is read by somebody.
        (json!({"equal": "x"}), r#"{"a":"x","a":"y"}"#, UNKNOWN),
        (json!({"equal": "x"}), r#"{"a":"y","a":"x"}"#, UNKNOWN),
        (json!({"equal": "x"}), r#"{"a":"y","A":"x"}"#, UNKNOWN),
        (json!({"equal": "x"}), r#"{"A":"x"}"#, YES),
        (json!({"equal": "x"}), r#"{"a":"x","A":"x"}"#, YES),
        (json!({"equal": "x"}), r#"{"\u0061":"\u0078"}"#, YES),
        (json!({"prefix": "/etc/"}), r#"{"a":"/etc/passwd"}"#, YES),
        (json!({"prefix": ["/etc/", "/root/"]}), r#"{"a":"/root/x"}"#, YES),
        (json!({"prefix": "/etc/"}), r#"{"a":"/srv"}"#, NO),
        (json!({"prefix": "/etc/"}), r#"{"a":["/etc/passwd"]}"#, UNKNOWN),
        (json!({"prefix": "1"}), r#"{"a":12}"#, YES),
        (json!({"glob": "*.{pem,key}"}), r#"{"a":"x/id.pem"}"#, YES),
        (json!({"glob": "*.pem"}), r#"{"a":"x.PEM"}"#, NO),
        (json!({"min": 10}), r#"{"a":10}"#, YES),
        (json!({"min": 10}), r#"{"a":9.99}"#, NO),
        (json!({"min": 10, "max": 20}), r#"{"a":20}"#, YES),
        (json!({"min": 10, "max": 20}), r#"{"a":21}"#, NO),
        (json!({"max": 20}), r#"{"a":"1e1"}"#, YES),
        (json!({"max": 20}), r#"{"a":"ten"}"#, UNKNOWN),
        (json!({"max": 20}), r#"{"a":[1]}"#, UNKNOWN),
        (json!({"max": 20}), r#"{"a":"NaN"}"#, UNKNOWN),
        (json!({"max": 20}), r#"{"a":1e400}"#, UNKNOWN),
        (json!({"min": 18446744073709551615_u64}), r#"{"a":18446744073709551615}"#, YES),
        (json!({"host": "*.example.com"}), r#"{"a":"https://x.Example.com/"}"#, YES),
        (json!({"host": "example.com"}), r#"{"a":"https://example.com.evil.test/"}"#, NO),
        (json!({"host": "example.com"}), r#"{"a":"https://example.com@evil.test/"}"#, UNKNOWN),
        (json!({"host": "169.254.0.0/16"}), r#"{"a":"http://169.254.169.254/latest"}"#, YES),
        (json!({"host": "169.254.0.0/16"}), r#"{"a":"http://[::ffff:a9fe:a9fe]/"}"#, YES),
        (json!({"host": "169.254.0.0/16"}), r#"{"a":"http://2852039166/"}"#, UNKNOWN),
        (json!({"host": "169.254.0.0/16"}), r#"{"a":"http://name.test/"}"#, UNKNOWN),
        (json!({"host": ["169.254.0.0/16", "*.test"]}), r#"{"a":"http://name.test/"}"#, YES),
        (json!({"below": "/srv/data"}), r#"{"a":"/srv/data/x"}"#, YES),
        (json!({"below": "/srv/data"}), r#"{"a":"/srv/data/../../etc/passwd"}"#, NO),
        (json!({"below": "/srv/data"}), r#"{"a":"x"}"#, UNKNOWN),
        (json!({"below": ["/srv/data", "."]}), r#"{"a":"x"}"#, YES),
        (json!({"below": ["/srv/data", "."]}), r#"{"a":"/etc/x"}"#, UNKNOWN),
        (json!({"min_length": 2, "max_length": 3}), r#"{"a":"äöü"}"#, YES),
        (json!({"max_length": 3}), r#"{"a":"four"}"#, NO),
        (json!({"max_length": 1}), r#"{"a":[1,2]}"#, NO),
        (json!({"max_length": 1}), r#"{"a":7}"#, UNKNOWN),
        (json!({"exists": true}), r#"{"a":0}"#, YES),
        (json!({"exists": true}), r#"{"a":null}"#, NO),
        (json!({"exists": false}), "{}", YES),
        (json!({"exists": false}), r#"{"A":1}"#, NO),
        (json!({"not": {"below": "/srv"}}), r#"{"a":"/srv/x"}"#, NO),
        (json!({"not": {"below": "/srv"}}), r#"{"a":"/etc/x"}"#, YES),
        (json!({"not": {"below": "/srv"}}), "{}", YES),
        (json!({"not": {"below": "/srv"}}), r#"{"a":"~/x"}"#, UNKNOWN),
        (json!({"not": {"below": "/srv"}}), r#"{"a":"/srv/x","a":"/etc/x"}"#, UNKNOWN),
        (json!({"prefix": "/srv/", "not": {"glob": "*.key"}}), r#"{"a":"/srv/x"}"#, YES),
        (json!({"prefix": "/srv/", "not": {"glob": "*.key"}}), r#"{"a":"/srv/x.key"}"#, NO),
    ] {
        assert_eq!(both(&test, arguments), expected, "{test} {arguments}");
    }
}

#[test]
fn pointers_lead_to_every_value_that_is_meant() {
    for (pointer, arguments, expected) in [
        ("/a/0", r#"{"a":["x","y"]}"#, YES),
        ("/a/1", r#"{"a":["x","y"]}"#, NO),
        ("/a/9", r#"{"a":["x","y"]}"#, NO),
        // A rule that denies asks whether one is so, and a rule that allows whether all are.
        ("/a/*", r#"{"a":["x","y"]}"#, UNKNOWN),
        ("/a/*", r#"{"a":["x","x"]}"#, YES),
        ("/a/*", r#"{"a":[]}"#, NO),
        ("/*", r#"{"a":"x","b":"y"}"#, UNKNOWN),
        ("/a/*/b", r#"{"a":[{"b":"x"},{"B":"x"}]}"#, YES),
        ("/a~1b/~0", r#"{"a/b":{"~":"x"}}"#, YES),
        ("/", r#"{"":"x"}"#, YES),
        ("/a/b", r#"{"a":"x"}"#, NO),
        ("/\u{17f}", r#"{"s":"x"}"#, YES),
        ("", r#"["x"]"#, NO),
    ] {
        let rule = json!([{"tool": "t", "arguments": {pointer: {"equal": "x"}}}]);
        assert_eq!(of_rules(&rule, arguments), expected, "{pointer} {arguments}");
    }
}

#[test]
fn arguments_that_cannot_be_read_count_against_the_call() {
    let rule = json!([{"tool": "t", "arguments": {"/a": {"equal": "x"}}}]);
    let long = format!(r#"{{"a":"y","b":"{}"}}"#, "z".repeat(256 << 10));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let many = format!(r#"{{"a":{{{}}}}}"#, vec![r#""b":1"#; 5_000].join(","));
    assert_eq!(of_rules(&rule, &long), UNKNOWN);
    assert_eq!(of_rules(&rule, r#"{"a":"\ud800"}"#), UNKNOWN);
    // What lies beside them can be.
    for (value, expected) in [("x", YES), ("y", NO)] {
        for other in ["\"\\ud800\"", "1e400", &deep] {
            let arguments = format!(r#"{{"a":"{value}","b":{other}}}"#);
            assert_eq!(of_rules(&rule, &arguments), expected, "{arguments}");
        }
    }
    let beside = json!([{"tool": "t", "when": "call.arguments.a == 'x'"}]);
    assert_eq!(of_rules(&beside, r#"{"a":"y","b":1e400}"#), UNKNOWN);
    let rule = json!([{"tool": "t", "arguments": {"/a/*": {"equal": "x"}}}]);
    assert_eq!(of_rules(&rule, &many), UNKNOWN);
}

#[test]
fn all_conditions_of_a_rule_must_hold() {
    let rule = json!([{
        "tool": "t",
        "arguments": {"/a": {"equal": "x"}, "/b": {"min": 2}},
        "when": "call.arguments.c == 'y'",
    }]);
    for (arguments, expected) in [
        (r#"{"a":"x","b":2,"c":"y"}"#, YES),
        (r#"{"a":"z","b":2,"c":"y"}"#, NO),
        (r#"{"a":"x","b":1,"c":"y"}"#, NO),
        (r#"{"a":"x","b":2,"c":"z"}"#, NO),
        (r#"{"a":"x","b":2}"#, UNKNOWN),
        (r#"{"a":"x","b":"?","c":"y"}"#, UNKNOWN),
        // What does not hold decides, whatever the rest is.
        (r#"{"a":"z","b":"?"}"#, NO),
    ] {
        assert_eq!(of_rules(&rule, arguments), expected, "{arguments}");
    }
}

#[test]
fn expressions_see_the_call_the_tool_the_session_and_the_time() {
    let known = ToolFacts {
        category: ToolCategory::Write,
        risk: RiskLevel::High,
        side_effects: ["fs.write".to_owned()].into(),
        ..tool("t")
    };
    let world = World::server("s").with(known);
    for (when, arguments, expected) in [
        ("call.server == 's' && call.tool == 't'", "{}", "tool_denied"),
        ("call.arguments.amount > 100", r#"{"amount":100.5}"#, "tool_denied"),
        ("call.arguments.amount > 100", r#"{"amount":100}"#, "allow"),
        ("call.arguments.amount > 100.0", r#"{"amount":101}"#, "tool_denied"),
        ("call.arguments.path.startsWith('/etc/')", r#"{"path":"/etc/x"}"#, "tool_denied"),
        ("call.arguments.sql.matches('(?i)drop +table')", r#"{"sql":"DROP  TABLE x"}"#, "tool_denied"),
        ("call.arguments.sql.matches('(?i)drop +table')", r#"{"sql":"select 1"}"#, "allow"),
        ("has(call.arguments.force) && call.arguments.force", r#"{"force":true}"#, "tool_denied"),
        ("has(call.arguments.force) && call.arguments.force", "{}", "allow"),
        (
            "call.arguments.to.exists(one, one.endsWith('@evil.test'))",
            r#"{"to":["a@b","x@evil.test"]}"#,
            "tool_denied",
        ),
        ("call.arguments.to.all(one, one.endsWith('@ours.test'))", r#"{"to":["a@b"]}"#, "allow"),
        ("size(call.arguments) > 1", r#"{"a":1,"b":2}"#, "tool_denied"),
        ("tool.category == 'write' && tool.risk == 'high'", "{}", "tool_denied"),
        ("'fs.write' in tool.side_effects && !tool.approved && tool.listed", "{}", "tool_denied"),
        ("session.uid == 1000 && session.id == 'sess_1' && !session.planning", "{}", "tool_denied"),
        ("session.project_id == null", "{}", "tool_denied"),
        ("time.hour >= 21 && time.minute == 30 && time.weekday == 4", "{}", "tool_denied"),
        ("time.unix == 1795728600", "{}", "tool_denied"),
        ("time.weekday > 5 || time.hour < 6", "{}", "allow"),
        // What cannot be told counts against the call: no such member, other types, no boolean, readers that differ.
        ("call.arguments.path.startsWith('/etc/')", "{}", "tool_denied"),
        ("call.arguments.path.startsWith('/etc/')", r#"{"path":7}"#, "tool_denied"),
        ("call.arguments.path.startsWith('/etc/')", r#"{"path":"/srv","PATH":"/etc/x"}"#, "tool_denied"),
        ("call.arguments.path.startsWith('/etc/')", r#"{"path":"/srv","path":"/etc/x"}"#, "tool_denied"),
        ("call.arguments.path", r#"{"path":"/srv"}"#, "tool_denied"),
        ("call.arguments.n + 1 > 0", r#"{"n":9223372036854775807}"#, "tool_denied"),
        ("1 / call.arguments.n > 0", r#"{"n":0}"#, "tool_denied"),
        ("call.arguments.sql.matches(call.arguments.pattern)", r#"{"sql":"","pattern":"("}"#, "tool_denied"),
    ] {
        let mut guards = guards(&policy(json!({"denied_tools": [{"tool": "t", "when": when}]})));
        assert_eq!(
            decide(&mut guards, &world, Conditions::OfCall, arguments),
            expected,
            "{when} {arguments}"
        );
    }
}

/// What an expression costs is bounded by what it is asked of.
#[test]
fn expressions_with_loops_are_not_asked_of_long_arguments() {
    let list = |length: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; length].join(","));
    for (when, length, expected) in [
        ("size(call.arguments.a) < 0", 60_000, "allow"),
        ("call.arguments.a.exists(x, x > 1)", 2_000, "allow"),
        ("call.arguments.a.exists(x, x > 1)", 3_000, "tool_denied"),
        ("call.arguments.a.exists(x, call.arguments.a.exists(y, x + y > 2))", 100, "allow"),
        ("call.arguments.a.exists(x, call.arguments.a.exists(y, x + y > 2))", 200, "tool_denied"),
    ] {
        let mut guards = guards(&policy(json!({"denied_tools": [{"tool": "t", "when": when}]})));
        let world = World::server("s").with(tool("t"));
        let said = decide(&mut guards, &world, Conditions::OfCall, &list(length));
        assert_eq!(said, expected, "{when} {length}");
    }
}

#[test]
fn every_list_of_tools_takes_conditions() {
    let rule = json!([{"tool": "t", "arguments": {"/a": {"equal": "x"}}}]);
    let world = World::server("s").with(tool("t"));
    for (settings, met, unmet) in [
        (json!({"denied_tools": rule}), "tool_denied", "allow"),
        (json!({"tool_policy": "allowlist", "allowed_tools": rule}), "allow", "tool_not_allowed"),
        // Only a bare `*` yields to what is allowed by name, and only where that applies.
        (json!({"denied_tools": ["*"], "allowed_tools": rule}), "allow", "tool_denied"),
        (
            json!({"denied_tools": [{"tool": "*", "arguments": {"/a": {"equal": "x"}}}], "allowed_tools": ["t"]}),
            "tool_denied",
            "allow",
        ),
    ] {
        let mut guards = guards(&policy(settings.clone()));
        for (arguments, expected) in [(r#"{"a":"x"}"#, met), (r#"{"a":"y"}"#, unmet)] {
            let said = decide(&mut guards, &world, Conditions::OfCall, arguments);
            assert_eq!(said, expected, "{settings} {arguments}");
        }
    }
    for (kind, code) in [("disabled_tool", "tool_disabled"), ("admin_token", "admin_token_required")] {
        let mut guards = guards(&Config {
            guards: entries(json!([{"kind": kind, "config": {"tools": rule}}])),
            ..Config::default()
        });
        assert_eq!(decide(&mut guards, &world, Conditions::OfCall, r#"{"a":"x"}"#), code);
        assert_eq!(decide(&mut guards, &world, Conditions::OfCall, r#"{"a":"y"}"#), "allow");
    }
}

/// The gate asks for the strictest and for the most lenient verdict of all of them.
#[test]
fn verdict_without_arguments_bounds_that_of_any() {
    let rule = json!([{"tool": "t", "arguments": {"/a": {"equal": "x"}}}]);
    let world = World::server("s").with(tool("t"));
    for (settings, strictest, lenient) in [
        (json!({"denied_tools": rule}), "tool_denied", "allow"),
        (json!({"tool_policy": "allowlist", "allowed_tools": rule}), "tool_not_allowed", "allow"),
        (json!({"denied_tools": ["t"], "allowed_tools": rule}), "tool_denied", "tool_denied"),
        (json!({"denied_tools": [{"tool": "other", "when": "true"}]}), "allow", "allow"),
    ] {
        let mut guards = guards(&policy(settings.clone()));
        for (conditions, expected) in [(Conditions::Strictest, strictest), (Conditions::Lenient, lenient)] {
            for arguments in ["", r#"{"a":"x"}"#, r#"{"a":"y"}"#] {
                let said = decide(&mut guards, &world, conditions, arguments);
                assert_eq!(said, expected, "{settings} {conditions:?} {arguments}");
            }
        }
    }
}

#[test]
fn denial_says_which_conditions_held() {
    let rule = json!([{"server": "s", "tool": "t", "arguments": {"/a": {"exists": true}}, "when": "true"}]);
    let world = World::server("s").with(tool("t"));
    let mut guards = guards(&policy(json!({"denied_tools": rule})));
    let json = RawValue::from_string(r#"{"a":"SECRET"}"#.to_owned()).unwrap();
    let operations = [Operation::ToolInvoke { tool_name: "t", arguments: Some(&json) }];
    let question = Question { operations: &operations, facts: &world.facts(), now: at(1.0) };
    let (_, denial) = guards.ask(&question, None).denied.unwrap();
    assert_eq!(denial.message, "tool 't' of server 's' is denied by 's:t by /a, `when`'");
}
