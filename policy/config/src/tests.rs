mod hostile;
mod network;

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
fn empty_configuration_is_valid() {
    for file in ["", "# nothing\n", "---\n", "~", "{}", "\u{feff}# a mark in front\n", "servers:\ncapture:\n"]
    {
        assert_eq!(parse(file.as_bytes()), Ok((Config::default(), Vec::new())), "{file:?}");
    }
}

#[test]
fn conditions_of_rules_are_checked() {
    let rule = |rest: &str| format!("policy: {{ denied_tools: [{{ tool: x, {rest} }}] }}");
    let deep = format!("when: '{}true{}'", "(".repeat(60), ")".repeat(60));
    let row = format!("when: '1{} > 0'", " + 1".repeat(500));
    let long = format!("when: \"'{}' == ''\"", "a".repeat(5_000));
    for (rest, expected) in [
        (
            "arguments: { /a/*/b: { equal: [1, x, true], prefix: a, glob: ['*.x', '*.y'], host: 10.0.0.0/8 } }",
            "",
        ),
        (
            "arguments: { '': { min_length: 2 }, /a: { not: { below: [/srv, .] } }, /b: { min: 0.5, max: 1 } }",
            "",
        ),
        ("arguments: { /a: { equal: { b: { c: [1] } } } }", ""),
        ("when: 'call.arguments.list.all(x, x < 3) && time.hour < 6'", ""),
        ("when: 'call.arguments.list.exists(x, x.exists(y, y > 1))'", ""),
        ("arguments: { a: { equal: 1 } }", "it does not begin with /"),
        ("arguments: { /a~2: { equal: 1 } }", "`~` is written `~0`"),
        ("arguments: { /a: {} }", "it must not be empty"),
        ("arguments: { /a: { not: {} } }", "it must not be empty"),
        ("arguments: { /a: { min: 2, max: 1 } }", "`min` is above `max`"),
        ("arguments: { /a: { min_length: 2, max_length: 1 } }", "`min_length` is above `max_length`"),
        ("arguments: { /a: { below: srv } }", "it does not begin with /, and is not `.`"),
        ("arguments: { /a: { below: /srv/../etc } }", "it has `..` in it"),
        ("arguments: { /a: { below: [] } }", "must not be empty"),
        ("arguments: { /a: { host: 'https://x.example/' } }", "only the host is written"),
        ("arguments: { /a: { host: 10.0.0.1/8 } }", "has bits set"),
        ("arguments: { /a: { glob: 'x[' } }", "is not a glob"),
        ("arguments: { /a: { equals: 1 } }", "did you mean `equal`?"),
        ("when: 'call.arguments.'", "is not a CEL expression"),
        ("when: 'calls.tool == 1'", "`calls` is no variable; these are call, tool, session, time"),
        ("when: 'call.arguments.a.exists(x, x == y)'", "`y` is no variable"),
        ("when: 'call[\"arguments\"].path.startsWith(\"/a\") || !has(tool.hash)'", ""),
        ("when: 'tool.side_effects.exists(call, call.kind == \"x\")'", ""),
        ("when: 'session.uid == 1000 && session.project_id != null'", ""),
        ("when: 'call.arguments.path.matches(\"^/[a-z]+$\")'", ""),
        ("when: 'size(call.arguments) > 3 && int(call.arguments.n) < 5'", ""),
        ("when: 'call.arguments.confirmed'", ""),
        ("when: 'true'", ""),
        (
            "when: 'call.args.amount > 5'",
            "`call` has no member `args`; its members are server, tool, arguments",
        ),
        ("when: 'time.hours > 5'", "(did you mean `hour`?)"),
        ("when: 'session.user == 1000'", "its members are id, uid, planning"),
        ("when: 'has(tool.sideEffects)'", "(did you mean `side_effects`?)"),
        ("when: 'call[\"serve\"] == \"a\"'", "(did you mean `server`?)"),
        ("when: 'session.id.name == \"a\"'", "there is no member `name` of a text"),
        (
            "when: 'call.tool.startswith(\"a\")'",
            "there is no function `startswith` behind a value (did you mean `startsWith`?)",
        ),
        ("when: 'lower(call.tool) == \"a\"'", "there is no function `lower`"),
        ("when: 'call.arguments.path.matches(\"(\")'", "`(` is no regular expression: unclosed group"),
        ("when: 'matches(call.tool, \"[\")'", "is no regular expression"),
        ("when: 'time.hour.startsWith(\"1\")'", "`startsWith` is asked of a text, and this is a number"),
        ("when: 'time.hour > \"6\"'", "a number and a text are no operands of one operator"),
        ("when: 'call.arguments.a.filter(x, x == 1)'", "it is a list, and neither true nor false"),
        ("when: 'call.arguments.a.map(x, x.n).exists_one(n, n == 3)'", ""),
        ("when: 'call.tool'", "it is a text, and neither true nor false"),
        ("when: '5'", "it is a number, and neither true nor false"),
        ("when: 'call.tool + \"a\"'", "it is a text"),
        ("when: 'call.arguments.a ? \"x\" : \"y\"'", "it is a text"),
        ("when: 'call.arguments.a.all(x, x.all(y, y.all(z, z)))'", "its loops are nested deeper than 2"),
        (&deep, "it is nested deeper than 32"),
        (&row, "in a row"),
        (&long, "the most is 4096"),
    ] {
        let expected: &[(&str, &str)] = if expected.is_empty() { &[] } else { &[("", expected)] };
        table(&[(&*rule(rest), expected)]);
    }
}

/// Expressions at the bounds are read on a thread with little stack.
#[test]
fn expressions_at_the_bounds_need_little_stack() {
    for text in [
        format!("{}true{}", "(".repeat(31), ")".repeat(31)),
        format!("{}true", "!".repeat(31)),
        format!("call.arguments{}", ".a".repeat(119)),
        format!("true{}", " && true".repeat(120)),
        format!("true{}", " || (true && !false)".repeat(60)),
        format!("1{} > 0", " + 1".repeat(120)),
        format!("{}true{}", "true ? (".repeat(15), ") : true".repeat(15)),
        format!("{}1{} != [2]", "[".repeat(31), "]".repeat(31)),
    ] {
        let read = move || text.parse::<Expression>().map(|_| ()).map_err(|error| format!("{text}: {error}"));
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(read).unwrap();
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn guards_that_others_wrote_need_their_keys() {
    let url = "config: { url: 'https://x.example/' }";
    table(&[
        ("guards: [{ kind: wasm }]", &[("1:10 error guards[0].config: ", "needs `config.module_path`")]),
        ("guards: [{ kind: http }]", &[("1:10 error guards[0].config: ", "needs `config.url`")]),
        (
            "guards: [{ kind: http, config: { url: 'https://x.example/', module_path: /x } }]",
            &[("1:", "`wasm` has")],
        ),
        (
            &format!("guards: [{{ kind: http, {url} }}, {{ kind: http, {url} }}]"),
            &[("", "another guard is called `x.example`")],
        ),
        (&format!("guards: [{{ kind: http, name: a, {url} }}, {{ kind: http, {url} }}]"), &[]),
        ("guards: [{ kind: rate_limit, name: a }]", &[("", "is built in")]),
        (
            &format!("guards: [{{ kind: http, runs_on: [response], {url} }}]"),
            &[("", "not asked in the phase `response`")],
        ),
        (
            "guards: [{ kind: http, config: { url: 'https://x.example/', token_file: /a, hmac_file: /b } }]",
            &[("", "there is a `token_file`")],
        ),
        (
            "guards: [{ kind: http, runs_on: [tool_invoke], config: { url: 'https://x.example/', hold_until_judged: true } }]",
            &[("", "without `tools_list` in `runs_on`")],
        ),
        (
            "guards: [{ kind: http, config: { url: 'https://x.example/', client_key_file: /a } }]",
            &[("", "need each other")],
        ),
        (
            "guards: [{ kind: wasm, config: { module_path: /x.wasm, wasm_config: { a: 1, b: [x], c: { d: null } } } }]",
            &[],
        ),
        ("guards: [{ kind: wasm, name: 'a b', config: { module_path: /x.wasm } }]", &[("1:", "")]),
    ]);
}

#[test]
fn dependent_and_exclusive_keys_are_checked() {
    table(&[
        ("servers: [{ id: a }]", &[("1:11 error servers[0].command: ", "needs")]),
        (
            "servers: [{ id: a, type: sse, url: \"http://x\", command: y }]",
            &[("1:57 ", "`type: http or sse` has none")],
        ),
        (
            "servers: [{ id: a, type: tcp, url: \"http://x\" }]",
            &[("1:26 error servers[0].type: ", "cannot be declared")],
        ),
        (
            "servers: [{ id: a, type: unix, command: y }]",
            &[("1:26 error servers[0].type: ", "cannot be declared")],
        ),
        ("sinks: [{ kind: file }]", &[("1:9 error sinks[0].path: ", "needs")]),
        ("sinks: [{ kind: stdout, path: /x }]", &[("1:31 error sinks[0].path: ", "has none")]),
        ("sinks: [{ kind: stdout, queue_bytes: 1MiB, overflow: drop_newest }]", &[]),
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
fn null_disables_a_default_value() {
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
fn yaml_aliases_are_resolved_to_values() {
    let file =
        "servers:\n  - { id: a, command: x, args: &args [\"-y\"] }\n  - { id: b, command: x, args: *args }\n";
    let config = parse(file.as_bytes()).unwrap().0;
    assert_eq!(config.servers[1].args, ["-y"]);
}

#[test]
fn effective_configuration_parses_as_a_file() {
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
fn sizes_and_durations_round_trip() {
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

/// As tools are named in events and by commands.
#[test]
fn tool_rule_accepts_a_tool_id() {
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
