//! Files of any kind, as a configuration: what is let through makes guards.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use crate::config::Level;
use crate::detect::{DetectConfig, Detector, RuleSet};
use crate::engine::Judge;
use crate::lint::parse;

/// Lines that are near a configuration.
fn near_miss() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec![
        "discovery",
        "servers",
        "policy",
        "guards",
        "sinks",
        "mcp",
        "inspection",
        "id",
        "command",
        "url",
        "type",
        "kind",
        "config",
        "registry",
        "on_detection",
        "webhook_url",
        "alert_threshold",
        "denied_tools",
        "tool",
        "per_server",
        "rate_limits",
        "egress",
        "builtin",
        "store",
        "retention",
        "sessions",
        "match",
        "uid",
        "cgroup",
        "allowed_servers",
        "overrides",
        "tools",
        "bytes",
        "x",
    ]);
    let values = prop::sample::select(vec![
        "",
        "5",
        "-1",
        "1.5",
        "true",
        "stdio",
        "http",
        "https://x/",
        "[]",
        "{}",
        "[a, 1, ~]",
        "10.0.0.0/8",
        "\"*\"",
        "30s",
        "2GiB",
        "webhook",
        "[a, { tool: \"ü?\" }, { id: b }]",
        "\"{a,b}[c-\"",
        "disabled_tool",
        "tool_poisoning",
        "server_whitelist",
        "high",
        "&a b",
        "*a",
        "0x10",
        "\"\u{202e}\"",
    ]);
    let line = (0usize..5, any::<bool>(), keys, values).prop_map(|(depth, item, key, value)| {
        format!("{}{}{key}: {value}\n", "  ".repeat(depth), if item { "- " } else { "" })
    });
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

static NO_DETECTOR: LazyLock<Arc<Detector>> = LazyLock::new(|| {
    let rules = RuleSet::default();
    Arc::new(Detector::new(rules, &DetectConfig::default()).unwrap())
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever stands in a file, it is read and makes guards, or problems with places in it are said, and none is that
    /// the types refuse what the schema accepts.
    #[test]
    fn any_config_bytes_parse_or_fail_with_position(file in prop_oneof![
        near_miss().prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..200),
        "[\\[\\]{}:,&*!|>'\"%@#\\-? \n\ta-c0-9]{0,80}".prop_map(String::into_bytes),
    ]) {
        let problems = match parse(&file) {
            Ok((config, warnings)) => {
                prop_assert!(Judge::new(&config, Vec::new(), &NO_DETECTOR).is_ok());
                let yaml = config.to_yaml().unwrap();
                prop_assert_eq!(parse(yaml.as_bytes()).unwrap().0, config);
                warnings
            }
            Err(problems) => {
                prop_assert!(problems.iter().any(|problem| problem.level == Level::Error));
                problems
            }
        };
        for problem in problems {
            prop_assert!(!problem.message.contains("cannot be read"), "{problem}");
            prop_assert!(problem.at.line >= 1 && problem.at.column >= 1);
        }
    }
}

/// What may stand in the file, the guards take.
#[test]
fn accepted_config_files_build_guards() {
    let files = [
        "",
        "policy: { rate_limits: { enabled: true, default_burst: 3, per_server: { a.b: { calls_per_minute: 1, burst: 2 } } } }",
        "policy: { server_policy: allowlist, allowed_servers: [{ id: a }], denied_servers: [{ id: 'b*' }], pending_grace: 5s }",
        "policy: { denied_tools: [{ server: a, tool: x }], disabled_tools: [{ tool: y }], version_pinning: { on_change: allow } }",
        "classifier: { overrides: [{ tool: a, category: send, risk_level: high, side_effect_tags: [fs.write] }] }",
        "cross_server: { turn_gap: 1s, burst: { max_calls: 5, window: 2s }, cross_server_flow: { same_turn_only: false } }",
        "guards: [{ kind: tool_poisoning, servers: ['a*'], priority: 3, failure_mode: fail_open, runs_on: [tool_invoke], \
         config: { strict_mode: true, scan_fields: [name, input_schema], min_detections: 2, custom_patterns: ['x+'] } }]",
        "guards: [{ kind: server_whitelist, config: { allowed_servers: [github, gitlab] } }]",
        "guards: [{ kind: sampling, config: { action: block, deny_all: true } }, { kind: admin_token, config: { tools: ['a*'] } }]",
        "inspection: { alert_threshold: low, on_detection: { action: require_approval, timeout: 90s } }",
        "servers: [{ id: a, command: b, allow_tools: ['r*'], deny_side_effect_tags: [payments], trust: low, enabled: false }]",
    ];
    for file in files {
        let (config, _) = parse(file.as_bytes()).unwrap_or_else(|errors| panic!("{file}: {errors:#?}"));
        if let Err(error) = Judge::new(&config, Vec::new(), &NO_DETECTOR) {
            panic!("{file}: {error}");
        }
    }
}
