//! Files that are made to break the reader, and files of any kind.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

#[test]
fn no_yaml() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_block = (0..10_000).map(|level| format!("{}a:\n", " ".repeat(level % 500))).collect::<String>();
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{},", level - 1).repeat(10);
        laughs += &format!("a{level}: &a{level} [{below}]\n");
    }
    let anchors = (0..60).map(|level| format!("&a{level} [")).collect::<String>() + &"]".repeat(60);
    let nested = (1..60).fold(format!("- &a0 {}1{}\n", "[".repeat(40), "]".repeat(40)), |text, level| {
        format!("{text}- &a{level} [*a{}]\n", level - 1)
    });
    let (lists, mappings) = ("[".repeat(MAX_BYTES), "{a: ".repeat(MAX_BYTES / 4));
    let dashes = "- ".repeat(MAX_BYTES / 2);
    let twice = "capture: {}\n".repeat(MAX_BYTES / 12);
    let quadratic = format!("a: &a [{}]\nb: [{}]\n", "x,".repeat(1_000), "*a,".repeat(1_000));
    let wide = "- 1\n".repeat(200_000);
    let long = "#".repeat(MAX_BYTES + 1);
    for (name, file, start, part) in [
        ("unfinished", "capture: [", "", "no YAML"),
        ("a tabulator", "a:\n\tb: 1", "2:", "no YAML"),
        ("deep", &deep, "1:65", "no YAML"),
        ("deep blocks", &deep_block, "", ""),
        ("billion laughs", &laughs, "", "more than 100000 values"),
        ("anchors in anchors", &anchors, "1:", "expected a mapping"),
        ("1 MiB of lists", &lists, "1:65", "no YAML"),
        ("1 MiB of mappings", &mappings, "1:", "no YAML"),
        ("1 MiB of dashes", &dashes, "1:", "no YAML"),
        ("1 MiB of the same key", &twice, "2:1", "a second time"),
        ("one large alias often", &quadratic, "2:", "more than 100000 values"),
        ("deep by aliases", &nested, "", "more than 64 deep"),
        ("an alias of itself", "a: &a [*a]", "1:8", "inside of what it repeats"),
        ("an alias of nothing", "a: *b", "1:4", "no YAML"),
        ("many", &wide, "", "more than 100000"),
        ("long", &long, "1:1", "longer than 1048576"),
        ("NUL", "a: b\nc: \0", "2:4", "NUL"),
        ("two documents", "capture: {}\n---\ncapture: {}\n", "2:1", "second document"),
        ("a tag", "capture: !x {}", "1:", "tags"),
        ("a key that is a list", "[a]: b", "1:1", "a key must be a word"),
        ("a merge key", "a: &a {}\n<<: *a\ncapture: {}", "", "no such key"),
        ("a list", "- a", "1:1", "expected a mapping"),
        ("a word", "capture", "1:1", "expected a mapping"),
    ] {
        let problems = parse(file.as_bytes()).unwrap_err();
        let line = format!("{}:{} {}", problems[0].at.line, problems[0].at.column, problems[0]);
        assert!(line.starts_with(start), "{name}: {line}");
        assert!(line.contains(part), "{name}: {line}");
        assert!(problems.len() <= 2, "{name}: {problems:?}");
    }
    let problems = parse(b"capture:\n  payloads: \xff").unwrap_err();
    assert_eq!((problems.len(), problems[0].at.line, problems[0].at.column), (1, 2, 13));
}

#[test]
fn keys_that_stand_there_twice() {
    table(&[
        (
            "capture: {}\nservers: []\ncapture: { payloads: ful, rings: 2 }",
            &[("3:1 error capture: ", "a second time")],
        ),
        ("capture: {}\ncapture: {}\ncapture: {}\n", &[("2:1 error capture: ", "a second time")]),
        ("capture: { payloads: full, payloads: redacted }", &[("1:28 error payloads: ", "a second time")]),
    ]);
}

#[test]
fn problems_are_bounded() {
    let file = (0..5_000).map(|number| format!("unknown{number}: 1\n")).collect::<String>();
    let problems = parse(file.as_bytes()).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert_eq!(problems.last().unwrap().message, "4900 more problems are not listed");
}

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

static NO_DETECTOR: LazyLock<Arc<detect::Detector>> = LazyLock::new(|| {
    let rules = detect::RuleSet::default();
    Arc::new(detect::Detector::new(rules, &DetectConfig::default()).unwrap())
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever stands in a file, it is read and makes guards, or problems with places in it are said, and none is that
    /// the types refuse what the schema accepts.
    #[test]
    fn any_bytes_are_read_or_refused_with_a_place(file in prop_oneof![
        near_miss().prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..200),
        "[\\[\\]{}:,&*!|>'\"%@#\\-? \n\ta-c0-9]{0,80}".prop_map(String::into_bytes),
    ]) {
        let problems = match parse(&file) {
            Ok((config, warnings)) => {
                prop_assert!(crate::engine::Judge::new(&config, Vec::new(), &NO_DETECTOR).is_ok());
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
fn what_is_let_through_makes_guards() {
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
        if let Err(error) = crate::engine::Judge::new(&config, Vec::new(), &NO_DETECTOR) {
            panic!("{file}: {error}");
        }
    }
}
