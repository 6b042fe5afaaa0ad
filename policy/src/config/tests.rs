mod alias;
mod hostile;
mod network;
mod warnings;

use super::*;

/// What a file gives: its problems, one a line, as `line:column level path: message`.
fn said(file: &str) -> Vec<String> {
    let problems = match parse(file.as_bytes()) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    let line =
        |problem: &Problem| format!("{}:{} {} {problem}", problem.at.line, problem.at.column, problem.level);
    problems.iter().map(line).collect()
}

/// File, the lines that are said (each a start and a part).
fn table(cases: &[(&str, &[(&str, &str)])]) {
    for (file, expected) in cases {
        let lines = said(file);
        assert_eq!(lines.len(), expected.len(), "{file}\n{lines:#?}");
        for (line, (start, part)) in lines.iter().zip(*expected) {
            assert!(line.starts_with(start), "{file}\n{line}\ndoes not start with {start}");
            assert!(line.contains(part), "{file}\n{line}\ndoes not contain {part}");
        }
    }
}

#[test]
fn nothing_is_a_good_configuration() {
    for file in ["", "# nothing\n", "---\n", "~", "{}", "\u{feff}# a mark in front\n", "servers:\ncapture:\n"]
    {
        assert_eq!(parse(file.as_bytes()), Ok((Config::default(), Vec::new())), "{file:?}");
    }
}

#[test]
fn everything_wrong_is_said_at_once() {
    let file = "\
capture:
  rings: 1
  backend: magic
  ring_bytes: 5000
servers:
  - id: a
    command: x
  - id: a
    type: http
polcy: {}
policy:
  server_policy: allow-list
  denied_tools:
    - tool: \"x[\"
    - server: 5
      tool: y
    - srver: z
guards:
  - kind: tool_poisonin
    timeout_ms: 9
    priority: 101
    runs_on: []
";
    table(&[(
        file,
        &[
            ("2:3 error capture.rings: ", "did you mean `ring_bytes`?"),
            ("3:12 error capture.backend: ", "one of `auto`, `trampolines`, `tracepoints`, found \"magic\""),
            ("4:15 error capture.ring_bytes: ", "power of two"),
            ("8:5 error servers[1].url: ", "needs this key"),
            ("8:9 error servers[1].id: ", "line 6"),
            ("10:1 error polcy: ", "did you mean `policy`?"),
            ("12:18 error policy.server_policy: ", "did you mean `allowlist`?"),
            ("13:3 warning policy.denied_tools: ", "enforcement.stdio"),
            ("14:13 error policy.denied_tools[0].tool: ", "\"x[\" is not a glob"),
            ("15:15 error policy.denied_tools[1].server: ", "quotes"),
            ("17:7 error policy.denied_tools[2]: ", "`tool` is missing"),
            ("17:7 error policy.denied_tools[2].srver: ", "did you mean `server`?"),
            ("19:11 error guards[0].kind: ", "did you mean `tool_poisoning`?"),
            ("20:17 error guards[0].timeout_ms: ", "least is 10"),
            ("21:15 error guards[0].priority: ", "most is 100"),
            ("22:14 error guards[0].runs_on: ", "must not be empty"),
        ],
    )]);
}

#[test]
fn values_have_one_form() {
    table(&[
        ("store: { retention: { bytes: 2GB } }", &[]),
        ("store: { retention: { bytes: 1073741824 } }", &[]),
        (
            "store: { retention: { bytes: 2 gibibytes } }",
            &[("1:30 error store.retention.bytes: ", "a size such as")],
        ),
        ("store: { retention: { bytes: 5KiB } }", &[("1:30 ", "5KiB is too small; the least is 1048576")]),
        ("store: { retention: { bytes: -1 } }", &[("1:30 ", "-1 is too small")]),
        ("store: { retention: { age: 30 } }", &[("1:28 ", "expected a duration such as")]),
        ("store: { retention: { age: 3 fortnights } }", &[("1:28 ", "fortnights")]),
        ("store: { retention: { age: 20y } }", &[("1:28 ", "ten years")]),
        ("store: { path: x.db }", &[("1:16 ", "absolute path")]),
        ("inspection: { custom_patterns: [{ name: n, pattern: \"(?!a)b\" }] }", &[("1:53 ", "look-around")]),
        (
            "inspection: { custom_patterns: [{ name: n, pattern: \"\\\\w{900}{90}\" }] }",
            &[("1:53 ", "too big")],
        ),
        ("inspection: { builtin: { credential_theft: false } }", &[]),
        ("inspection: { similarity_threshold: 0.9 }", &[]),
        ("inspection: { similarity_threshold: 1 }", &[]),
        (
            "inspection: { similarity_threshold: 0.49 }",
            &[("1:37 error inspection.similarity_threshold: ", "0.49 is too small; the least is 0.5")],
        ),
        ("inspection: { similarity_threshold: 85 }", &[("1:37 ", "85 is too large; the most is 1")]),
        ("inspection: { similarity_threshold: 85% }", &[("1:37 ", "expected a number, found \"85%\"")]),
        ("inspection: { similarity_threshold: \"0.9\" }", &[("1:37 ", "expected a number")]),
        (
            "inspection: { builtin: { credential_thft: false } }",
            &[("1:26 error inspection.builtin.credential_thft: ", "did you mean `credential_theft`?")],
        ),
        (
            "inspection: { alert_threshold: 1 }",
            &[("1:32 ", "one of `low`, `medium`, `high`, `critical`, found the number 1")],
        ),
        ("metrics: { listen: localhost }", &[("1:20 ", "127.0.0.1:9464")]),
        ("metrics: { listen: null }", &[]),
        ("metrics: { listen: \"[::1]:9464\" }", &[]),
        ("servers: [{ id: a, type: http, url: \"ftp://x\" }]", &[("1:37 ", "its scheme is ftp")]),
        ("servers: [{ id: a, type: http, url: \"https://u:p@x\" }]", &[("1:37 ", "headers_from")]),
        ("servers: [{ id: a, type: http, url: \"https://x/mcp\" }]", &[]),
        ("servers: [{ id: \"\", command: a }]", &[("1:17 ", "must not be empty")]),
        ("servers: [{ id: a, command: a, tls_fingerprint: \"sha256:abc\" }]", &[("1:49 ", "3 characters")]),
        ("servers: [{ id: a, command: a, args: [8080] }]", &[("1:39 error servers[0].args[0]: ", "quotes")]),
        ("servers: [{ id: a, command: a, max_concurrent: 4294967296 }]", &[("1:48 ", "the most is 100000")]),
        ("sessions: [{ match: { uid: 4294967296 } }]", &[("1:28 ", "the most is 4294967295")]),
        ("sessions: [{ match: { uid: alice } }, { match: { uid: 0 } }]", &[]),
        ("sessions: [{ match: { uid: \"\" } }]", &[("1:28 ", "must not be empty")]),
        (
            "sessions: [{ match: { uid: [1] } }]",
            &[("1:28 ", "expected a whole number, or a text, found a list")],
        ),
        ("sessions: [{ name: a, match: { uid: 1 } }, { name: a }]", &[("1:52 ", "taken")]),
        ("servers: [{ id: a, command: a, egress: nowhere }]", &[("1:40 ", "`any`, `none`")]),
        ("servers: [{ id: a, command: a, egress: { } }]", &[("1:40 ", "or a list")]),
        ("servers: { id: a }", &[("1:10 error servers: ", "expected a list (`[a, b]`), found a mapping")]),
        (
            "policy: { denied_servers: [a, { id: b }], tool_policy: allowlist, allowed_tools: [a, { tool: b }] }",
            &[("1:11 ", "not enforced"), ("1:56 ", "not enforced")],
        ),
        (
            "policy: { denied_servers: [{ server: a }] }",
            &[("1:28 ", "`id` is missing"), ("1:30 ", "no such key")],
        ),
        (
            "policy: { denied_tools: [{ server: a, name: b }] }",
            &[("1:26 ", "`tool` is missing"), ("1:39 ", "no such key")],
        ),
        (
            "policy: { allowed_tools: [5] }",
            &[("1:27 ", "expected a glob: `*`, `?`, `[…]`, `{a,b}`, or a mapping")],
        ),
        ("policy: { version_pinning: { on_change: deny } }", &[("1:41 ", "`block`, `alert`, `allow`")]),
        ("policy: { pending_grace: 30 }", &[("1:26 ", "a duration")]),
        ("guards: [{ kind: wasn }]", &[("1:18 ", "one of `tool_shadowing`")]),
        ("guards: [{ kind: rug_pull, failure_mode: closed }]", &[("1:42 ", "`fail_closed`, `fail_open`")]),
        ("guards: [{ kind: rug_pull, failure_mode: open }]", &[("1:42 ", "did you mean `fail_open`?")]),
        ("guards: [{ kind: rug_pull, failure_mode: clsed }]", &[("1:42 ", "did you mean `fail_closed`?")]),
        ("guards: [{ kind: poisoning }]", &[("1:18 ", "did you mean `tool_poisoning`?")]),
        ("inspection: { builtin: { smuggling: false } }", &[("1:26 ", "did you mean `unicode_smuggling`?")]),
        ("cross_server: { burstt: {} }", &[("1:17 ", "did you mean `burst`?")]),
        ("guards: [{ kind: rug_pull, runs_on: [always] }]", &[("1:38 ", "one of `request`")]),
        ("guards: [{ enabled: true }]", &[("1:10 ", "`kind` is missing")]),
        ("cross_server: { burst: { max_calls: 1001 } }", &[("1:37 ", "the most is 1000")]),
        ("policy: { fail_closed: yes }", &[("1:24 ", "true or false")]),
        (
            "policy: { rate_limits: { per_server: { \"a[\": { calls_per_minute: 1 } } } }",
            &[("1:40 ", "glob")],
        ),
        ("guards: [{ kind: tool_poisoning, config: { min_detections: 0 } }]", &[("1:60 ", "least is 1")]),
    ]);
}

/// Of a guard that is not there yet that is said, and nothing of its keys.
#[test]
fn guards_of_other_kinds_are_not_there_yet() {
    let file = "guards: [{ kind: wasm, config: { module_path: /x } }, { kind: http, url: x, priority: 200 }, \
                { kind: sampling, priority: 101 }]";
    assert_eq!(
        said(file),
        [
            "1:18 error guards[0].kind: guards of kind `wasm` are not in this version",
            "1:63 error guards[1].kind: guards of kind `http` are not in this version",
            "1:122 error guards[2].priority: 101 is too large; the most is 100",
        ]
    );
}

#[test]
fn keys_that_need_or_exclude_each_other() {
    table(&[
        ("servers: [{ id: a }]", &[("1:11 error servers[0].command: ", "needs")]),
        (
            "servers: [{ id: a, type: sse, url: \"http://x\", command: y }]",
            &[("1:57 ", "`type: http or sse` has none")],
        ),
        ("sinks: [{ kind: file }]", &[("1:9 error sinks[0].path: ", "needs")]),
        ("sinks: [{ kind: stdout, path: /x }]", &[("1:31 error sinks[0].path: ", "has none")]),
        ("sinks: [{ kind: stdout, queue_bytes: 1MiB }]", &[("1:38 ", "has none")]),
        ("sinks: [{ kind: journald, queue_bytes: 1MiB, overflow: drop_newest }]", &[]),
        ("sinks: [{ kind: stdout }, { kind: stdout }]", &[("1:35 error sinks[1].kind: ", "there is one")]),
        (
            "sinks: [{ kind: file, path: /x }, { kind: file, path: /y }, { kind: file, path: /x }]",
            &[("1:81 error sinks[2].path: ", "another sink writes to it")],
        ),
        (
            "sinks: [{ kind: webhook, url: 'https://x' }, { kind: webhook, url: 'HTTPS://x:443/' }]",
            &[("1:68 error sinks[1].url: ", "another sink posts to it")],
        ),
        ("cross_server: { burst: { window: 0s } }", &[("1:34 ", "longer than 0")]),
        (
            "guards: [{ kind: sampling, config: { strict_mode: true } }]",
            &[("1:51 ", "`sampling` has none; `tool_poisoning` has")],
        ),
        (
            "guards: [{ kind: rug_pull, config: { tools: [a] } }]",
            &[("1:38 ", "`rug_pull` has none; `disabled_tool` and `admin_token` have")],
        ),
        (
            "classifier: { overrides: [{ tool: x }] }",
            &[("1:27 error classifier.overrides[0]: ", "says nothing")],
        ),
        // Entries that are wrong count in paths, and hide nothing.
        (
            "servers: [{ id: 5, command: x }, { id: b }]",
            &[("1:17 ", "quotes"), ("1:34 error servers[1].command: ", "needs")],
        ),
    ]);
}

/// What `null` says: nothing, but where something is there by default that need not be.
#[test]
fn what_is_there_by_default_can_be_switched_off() {
    let listen = |file: &str| parse(file.as_bytes()).unwrap().0.metrics.listen.map(|at| at.to_string());
    let default = Some("127.0.0.1:9464".to_owned());
    for (file, expected) in [
        ("", default.clone()),
        ("metrics:", default.clone()),
        ("metrics: {}", default),
        ("metrics: { listen: null }", None),
        ("metrics: { listen: }", None),
        ("metrics: { listen: 127.0.0.1:80 }", Some("127.0.0.1:80".to_owned())),
    ] {
        assert_eq!(listen(file), expected, "{file}");
        let effective = parse(file.as_bytes()).unwrap().0.to_yaml().unwrap();
        assert_eq!(listen(&effective), expected, "{effective}");
    }
    assert_eq!(parse(b"store: { path: null }").unwrap().0, Config::default());
}

#[test]
fn aliases_of_yaml_are_values() {
    let file =
        "servers:\n  - { id: a, command: x, args: &args [\"-y\"] }\n  - { id: b, command: x, args: *args }\n";
    let config = parse(file.as_bytes()).unwrap().0;
    assert_eq!(config.servers[1].args, ["-y"]);
}

#[test]
fn the_effective_configuration_is_a_file() {
    let full = "\
servers:
  - { id: a, command: \"x\", args: [\"true\", \"5\", \"~\", \"a: b\", \"\"], env: { A: \"1\" }, egress: [\"[::1]:80\", \"*:25\"] }
  - { id: b, type: http, url: https://x/mcp, timeout_ms: 5, allow_tools: [\"*\"], trust: low, egress: none }
sessions: [{ match: { uid: 0, cgroup: /user.slice/* }, mode: planning, admin_token_file: /t }]
inspection: { builtin: { exfiltration: false }, similarity_threshold: 0.7, on_detection: { timeout: 90s }, custom_patterns: [{ name: n, pattern: '\\.x' }] }
policy: { rate_limits: { per_server: { a.b: { calls_per_minute: 1, burst: 2 } } }, denied_tools: [{ tool: x }] }
classifier: { overrides: [{ tool: a, category: send, risk_level: high, side_effect_tags: [fs.write] }] }
guards: [{ kind: tool_shadowing, priority: 3, runs_on: [tools_list] }]
sinks: [{ kind: webhook, url: https://y/, queue_bytes: 1MiB }]
";
    let validator = jsonschema::validator_for(schema()).unwrap();
    for file in ["", full] {
        let config = parse(file.as_bytes()).unwrap().0;
        validator.validate(&serde_json::to_value(&config).unwrap()).unwrap();
        let effective = config.to_yaml().unwrap();
        let again =
            parse(effective.as_bytes()).unwrap_or_else(|problems| panic!("{effective}\n{problems:#?}"));
        assert_eq!(again.0, config, "{effective}");
    }
}

#[test]
fn when_names_are_alike_is_the_registry_s_to_know() {
    for (file, threshold) in [("", 0.85), ("inspection: { similarity_threshold: 0.7 }", 0.7)] {
        let settings = parse(file.as_bytes()).unwrap().0.registry_settings();
        assert!((settings.similarity_threshold - threshold).abs() < f64::EPSILON, "{file}: {settings:?}");
    }
}

#[test]
fn sizes_and_durations_are_written_as_they_are_read() {
    for (text, bytes) in [("0", 0), ("1", 1), ("16448KiB", 16_842_752), ("1536", 1_536), ("2GiB", 2 << 30)] {
        assert_eq!(text.parse(), Ok(Bytes(bytes)));
        assert_eq!(
            text.parse().map(|bytes: Bytes| bytes.to_string()),
            Ok(if text == "1536" { "1536".into() } else { text.to_owned() })
        );
    }
    for (text, written) in [
        ("0s", "0s"),
        ("90s", "90s"),
        ("120s", "2m"),
        ("30d", "30d"),
        ("1500ms", "1500ms"),
        ("1h 30m", "90m"),
    ] {
        assert_eq!(text.parse::<Period>().unwrap().to_string(), written);
    }
}

/// What a guard looks for itself, the detector looks for in the tools of its servers.
#[test]
fn patterns_of_guards_go_to_the_detector() {
    let file = "guards: [{ kind: tool_poisoning, servers: [a], config: { custom_patterns: ['execute.*as.*root'] } }, \
                { kind: tool_poisoning, servers: [b], enabled: false, config: { custom_patterns: [x] } }, \
                { kind: rug_pull, servers: [d] }, \
                { kind: tool_poisoning, servers: ['c*', b], config: { custom_patterns: [{ pattern: y, severity: low }, { pattern: z }] } }]";
    let whole = parse(file.as_bytes()).unwrap().0;
    let place = |name: &str| whole.place_of_pattern(|known| known == name).map(|path| format!("{path:?}"));
    let expected = r#"[Key("guards"), Index(3), Key("config"), Key("custom_patterns"), Index(1)]"#;
    assert_eq!(place("guards[3].custom_patterns[1]").as_deref(), Some(expected));
    assert_eq!(place("guards[3].custom_patterns[2]"), None);
    let config = whole.detect();
    assert_eq!(config.custom_patterns, []);
    let said = |entry: &crate::detect::ServerPatterns| {
        let own = entry.patterns.iter();
        let own = own.map(|own| format!("{} {} {:?}", own.name, own.pattern, own.severity));
        format!("{}: {}", entry.servers.join(" "), own.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        config.of_servers.iter().map(said).collect::<Vec<_>>(),
        [
            "a: guards[0].custom_patterns[0] execute.*as.*root High",
            "b: ",
            "c* b: guards[3].custom_patterns[0] y Low, guards[3].custom_patterns[1] z High",
        ]
    );
}

/// As tools are named in events and by commands.
#[test]
fn a_rule_on_tools_may_be_written_as_their_id() {
    let cases = [
        ("delete_*", "*", "delete_*"),
        ("files:delete_*", "files", "delete_*"),
        ("mcp:files:delete_*", "files", "delete_*"),
        ("127.0.0.1:8080:*", "127.0.0.1:8080", "*"),
        ("{a:b,c}", "*", "{a:b,c}"),
        ("{a,b}:[c:d]", "{a,b}", "[c:d]"),
        ("files:", "*", "files:"),
    ];
    for (text, server, tool) in cases {
        let file = format!("policy: {{ denied_tools: ['{text}'] }}");
        let (config, _) = parse(file.as_bytes()).unwrap();
        let [rule] = config.policy.denied_tools.as_slice() else { panic!("{text}") };
        assert_eq!((rule.server.as_str(), rule.tool.as_str()), (server, tool), "{text}");
    }
}
