//! Declared servers that a certain program must serve, at first and later; and what is denied of whom.

use super::*;
use crate::event::Identity;

/// Programs that run one after the other (command line, executable), and what is said: at exec, once it answers, and
/// for which declared server it is not taken.
#[test]
fn other_executable_is_not_the_declared_server() {
    let (node, script) = ("/usr/bin/node", "/srv/acme.js");
    type Case<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, Option<&'a str>)], bool, Identity, u64);
    let cases: [Case<'_>; 9] = [
        ("any program", &[], &[("acme --serve", Some("/tmp/acme"))], true, Identity::Declared, 0),
        ("the executable", &[node], &[("acme --serve", Some(node))], true, Identity::Declared, 0),
        ("another executable", &[node], &[("acme --serve", Some("/tmp/acme"))], false, Identity::Derived, 1),
        ("one that is not known", &[node], &[("acme --serve", None)], false, Identity::Derived, 1),
        (
            "the script",
            &[script],
            &[("acme --serve", Some("/bin/sh")), ("node /srv/acme.js", Some(node))],
            true,
            Identity::Declared,
            0,
        ),
        (
            "another script",
            &[script],
            &[("acme --serve", Some("/bin/sh")), ("node /tmp/acme.js", Some(node))],
            false,
            Identity::Derived,
            1,
        ),
        (
            "the executable, in the end",
            &[node],
            &[("acme --serve", Some("/bin/sh")), ("node /srv/acme.js", Some(node))],
            true,
            Identity::Declared,
            0,
        ),
        (
            "as written or as resolved",
            &["/usr/bin/nodejs", node],
            &[("acme --serve", Some(node))],
            true,
            Identity::Declared,
            0,
        ),
        ("another command line", &[node], &[("other --serve", Some("/tmp/x"))], false, Identity::Derived, 0),
    ];
    for (name, executables, programs, at_exec, identity, mistaken) in cases {
        let mut bench = Bench::with(|config| {
            let executables = executables.iter().map(|path| (*path).to_owned()).collect();
            let (id, args) = (ServerId("ours".into()), vec!["--serve".to_owned()]);
            config.declared =
                vec![Declared { id, command: "acme".into(), args, executables, interpreter: None }];
        });
        for (argv, executable) in programs {
            let argv = argv.split(' ').map(str::to_owned).collect();
            let executable = executable.map(str::to_owned);
            let process = Process { pid: 5, argv, executable, ..Process::default() };
            let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
            bench.input(Input::Exec(Exec {
                connection,
                time,
                adopted: false,
                process,
                client: None,
                session: None,
            }));
        }
        let started = |bench: &mut Bench| {
            let events = bench.events();
            events.into_iter().find(|event| event["type"] == "mcp_server_started")
        };
        let early = started(&mut bench);
        assert_eq!(early.is_some(), at_exec, "{name}");
        bench.c2s(1, HELLO);
        bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        let event = early.or_else(|| started(&mut bench)).unwrap();
        assert_eq!(event["identity"], serde_json::to_value(identity).unwrap(), "{name}: {event}");
        assert_eq!(event["server_id"] == "ours", identity == Identity::Declared, "{name}: {event}");
        assert_eq!(
            event.get("mistaken_for").is_some_and(|id| id == "ours"),
            mistaken == 1,
            "{name}: {event}"
        );
        assert_eq!(bench.engine.counters().servers_mistaken, mistaken, "{name}");
    }
}

/// A server `ours` that `/usr/bin/node` must serve, in process 5, after its first answer.
fn declared_server() -> Bench {
    let mut bench = Bench::with(|config| {
        let (id, args) = (ServerId("ours".into()), vec!["--serve".to_owned()]);
        let executables = vec!["/usr/bin/node".to_owned()];
        config.declared = vec![Declared { id, command: "acme".into(), args, executables, interpreter: None }];
    });
    execute(&mut bench, 5, "acme --serve", "/usr/bin/node");
    bench.c2s(1, HELLO);
    bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.out.clear();
    bench
}

fn execute(bench: &mut Bench, pid: u32, line: &str, executable: &str) {
    let argv = line.split(' ').map(str::to_owned).collect();
    let process = Process { pid, argv, executable: Some(executable.to_owned()), ..Process::default() };
    let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
    bench.input(Input::Exec(Exec { connection, time, adopted: false, process, client: None, session: None }));
}

/// What happens to it later, each with what is reported.
enum Later<'a> {
    Run(u32, &'a str),
    End(u32),
}
use Later::{End, Run};

#[test]
fn later_program_is_checked_against_the_declaration() {
    let node = "/usr/bin/node";
    let (ours, other, no) = (Identity::Declared, Identity::Derived, " no ours");
    type Step<'a> = (Later<'a>, Option<(u32, bool, Identity, &'a str)>);
    let cases: [(&str, &[Step<'_>], Identity); 11] = [
        ("nothing", &[], ours),
        ("itself again", &[(Run(5, node), Some((5, true, ours, "")))], ours),
        ("another program", &[(Run(5, "/tmp/evil"), Some((5, true, other, no)))], other),
        ("one that is not known", &[(Run(5, ""), Some((5, true, other, no)))], other),
        (
            "another program, and itself again",
            &[(Run(5, "/tmp/evil"), Some((5, true, other, no))), (Run(5, node), Some((5, true, ours, "")))],
            ours,
        ),
        (
            "another program, and one more",
            &[(Run(5, "/tmp/a"), Some((5, true, other, no))), (Run(5, "/tmp/b"), Some((5, true, other, no)))],
            other,
        ),
        ("a child beside it", &[(Run(6, "/usr/bin/xdg-open"), Some((6, false, ours, "")))], ours),
        (
            "a child that it leaves",
            &[(Run(6, "/tmp/evil"), Some((6, false, ours, ""))), (End(5), Some((6, true, other, no)))],
            other,
        ),
        (
            "a child of the same program",
            &[(Run(6, node), Some((6, false, ours, ""))), (End(5), Some((6, true, ours, "")))],
            ours,
        ),
        (
            "a child that ends first",
            &[(Run(6, "/bin/sh"), Some((6, false, ours, ""))), (End(6), None), (End(5), None)],
            ours,
        ),
        (
            "a child of the child",
            &[
                (Run(6, node), Some((6, false, ours, ""))),
                (End(5), Some((6, true, ours, ""))),
                (Run(7, "/tmp/evil"), Some((7, false, ours, ""))),
                (Run(6, "/tmp/evil"), Some((6, true, other, no))),
            ],
            other,
        ),
    ];
    for (name, steps, identity) in cases {
        let mut bench = declared_server();
        for (step, expected) in steps {
            match step {
                Run(pid, executable) => execute(&mut bench, *pid, "x", executable),
                End(pid) => bench.exit(1, *pid, 0),
            }
            let said: Vec<String> =
                bench.said().into_iter().filter(|said| said.contains("executed")).collect();
            let expected: Vec<String> = expected
                .iter()
                .map(|(pid, serves, identity, lost)| {
                    let serves = if *serves { " serves" } else { "" };
                    format!("1 ours executed {pid}{serves} {identity:?}{lost}")
                })
                .collect();
            assert_eq!(said, expected, "{name}");
        }
        let found = bench.engine.connections.get(ConnectionId(1)).unwrap();
        assert_eq!((found.identity(), &*found.server_id().0), (identity, "ours"), "{name}");
    }
}

/// What a later program takes from a server: what is allowed to the declared one alone. What is denied of it stays denied.
#[test]
fn replaced_server_keeps_denials_and_loses_permissions() {
    let (allowed, denied) = (Value::Null, |code: &str| Value::from(code));
    for (policy, before, after) in [
        ("fail_closed: true", allowed.clone(), denied("server_undeclared")),
        ("server_policy: allowlist, allowed_servers: [ours]", allowed.clone(), denied("server_not_allowed")),
        ("tool_policy: allowlist, allowed_tools: ['ours:t']", allowed.clone(), denied("tool_not_allowed")),
        ("denied_tools: ['ours:t']", denied("tool_denied"), denied("tool_denied")),
        ("denied_servers: [ours]", denied("server_denied"), denied("server_denied")),
        ("denied_servers: [evil]", allowed.clone(), denied("server_denied")),
        ("denied_tools: ['evil:t']", allowed.clone(), denied("tool_denied")),
    ] {
        let yaml = format!(
            "policy: {{ {policy}, pending_grace: 1h }}\n\
             servers: [{{ id: ours, command: acme, args: [--serve], executable: /usr/bin/node }}]"
        );
        let (config, _) = crate::config::parse(yaml.as_bytes()).unwrap();
        let mut bench = Bench::judged(&config, Vec::new());
        execute(&mut bench, 5, "acme --serve", "/usr/bin/node");
        bench.c2s(1, HELLO);
        bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        let code = |bench: &mut Bench, id: u32| {
            bench.c2s(1, &call(id, "t"));
            let events = bench.events();
            let called = events.into_iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
            called["code"].clone()
        };
        assert_eq!(code(&mut bench, 1), before, "{policy}: before");
        execute(&mut bench, 5, "evil", "/tmp/evil");
        assert_eq!(code(&mut bench, 2), after, "{policy}: after");
    }
}

/// Programs of a server that nobody declared: command lines, one after the other; what is denied of it.
#[test]
fn every_name_of_a_chain_counts_for_denials() {
    let chains: [(&str, &[&str]); 10] = [
        ("it serves itself", &["mcp-server-evil"]),
        ("a copy of another name", &["mcp-server-evil", "/tmp/Ab12Cd"]),
        ("a script", &["mcp-server-evil", "node /tmp/Ab12Cd.js"]),
        ("a package's path", &["mcp-server-evil", "node /tmp/x/node_modules/harmless/cli.js"]),
        ("a module", &["mcp-server-evil", "python -m harmless"]),
        ("behind a launcher", &["npx -y mcp-server-evil", "node /tmp/x/node_modules/harmless/cli.js"]),
        ("behind a shell", &["sh -c mcp-server-evil", "mcp-server-evil", "/tmp/Ab12Cd"]),
        ("behind a container's name", &["mcp-server-evil", "docker run -i harmless/image"]),
        ("three of them", &["mcp-server-evil", "/tmp/a", "node /tmp/b.js"]),
        ("in the end", &["node /srv/harmless.js", "mcp-server-evil"]),
    ];
    for (name, chain) in chains {
        for (policy, expected) in [
            ("denied_servers: [mcp-server-evil]", "server_denied"),
            ("denied_servers: ['mcp-server-e*']", "server_denied"),
            ("denied_tools: ['mcp-server-evil:t']", "tool_denied"),
            ("disabled_tools: ['mcp-server-evil:t']", "tool_disabled"),
        ] {
            let yaml = format!("policy: {{ {policy} }}\nguards: [{{ kind: disabled_tool }}]");
            let (config, _) = crate::config::parse(yaml.as_bytes()).unwrap();
            let mut bench = Bench::judged(&config, Vec::new());
            for (at, line) in (0..).zip(chain) {
                execute(&mut bench, 5 + at, line, line.split(' ').next().unwrap());
            }
            bench.c2s(1, HELLO);
            bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
            bench.c2s(1, &call(1, "t"));
            let events = bench.events();
            let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
            assert_eq!(called["code"], expected, "{name}: {policy}: {called}");
            let subject = bench.engine.gate_subject(ConnectionId(1), Timestamp(bench.now)).unwrap();
            let names = bench.engine.names(ConnectionId(1));
            assert!(names.contains(&ServerId("mcp-server-evil".into())), "{name}: {names:?}");
            assert!(subject.server.0 == "mcp-server-evil".into() || !subject.also.is_empty(), "{name}");
        }
    }
}

/// A child of the server that it hands its streams to after its first answer is called as it is.
#[test]
fn name_of_a_later_child_counts_for_denials() {
    let (config, _) = crate::config::parse(b"policy: { denied_servers: [mcp-server-evil] }").unwrap();
    let mut bench = Bench::judged(&config, Vec::new());
    execute(&mut bench, 5, "mcp-harmless", "/usr/bin/mcp-harmless");
    bench.c2s(1, HELLO);
    bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.out.clear();
    execute(&mut bench, 6, "mcp-server-evil", "/tmp/x");
    bench.c2s(1, &call(1, "t"));
    let events = bench.events();
    let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
    assert_eq!(called["code"], "server_denied", "{called}");
}

/// What an operator blocks by one name is blocked by all.
#[test]
fn block_by_hand_counts_for_every_name() {
    use crate::guards::{CallBlock, Callee};
    let (config, _) = crate::config::parse(b"").unwrap();
    for (blocked, expected) in [("mcp-server-evil", true), ("harmless", true), ("other", false)] {
        let mut bench = Bench::judged(&config, Vec::new());
        execute(&mut bench, 5, "mcp-server-evil", "/usr/bin/x");
        execute(&mut bench, 5, "node /tmp/harmless.js", "/usr/bin/node");
        bench.c2s(1, HELLO);
        bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        let callee = Callee::parse(&format!("server={blocked}")).unwrap();
        let block = CallBlock { callee: callee.clone(), until: None, reason: None };
        bench.input(Input::Operator(OperatorCommand::BlockCalls(vec![block])));
        assert_eq!(bench.engine.gate_block(ConnectionId(1)).is_some(), expected, "{blocked}");
        assert_eq!(bench.engine.connections_of(&callee), usize::from(expected), "{blocked}");
    }
}

/// What a declared server runs in the end, and what is reported: options that load code and are not declared.
#[test]
fn code_in_options_of_a_declared_server_is_reported() {
    for (name, lines, expected) in [
        ("as declared", vec!["/srv/s.js --serve"], None),
        ("with its interpreter", vec!["node /srv/s.js --serve"], None),
        ("an option of the interpreter", vec!["node --import=evil /srv/s.js --serve"], Some("--import")),
        ("of a later program", vec!["/srv/s.js --serve", "python3 -m evil"], Some("-m")),
        ("of an earlier one", vec!["node -r/x /srv/s.js --serve", "python3 s.py"], Some("-r")),
        ("of two", vec!["node -r/x /srv/s.js --serve", "ruby -revil -e1"], Some("-e,-r")),
        ("an option of the server", vec!["/srv/s.js --serve", "node /srv/t.js --require x"], None),
        ("what is declared", vec!["/srv/s.js --serve", "node --require /srv/s.js /srv/t.js"], None),
        ("no code", vec!["/srv/s.js --serve", "node --inspect /srv/t.js"], None),
        ("the loader", vec!["/srv/s.js --serve", "/lib64/ld-linux-x86-64.so.2 --preload /x /bin/s"], {
            Some("--preload")
        }),
        ("of a server that nobody declared", vec!["node -r/x mcp-other.js"], None),
    ] {
        let mut bench = Bench::with(|config| {
            let (id, args) = (ServerId("ours".into()), vec!["--serve".to_owned()]);
            let executables = if lines.len() > 1 { vec!["/srv/none".into()] } else { Vec::new() };
            let command = "/srv/s.js".into();
            config.declared = vec![Declared { id, command, args, executables, interpreter: None }];
        });
        for line in &lines {
            let argv = line.split(' ').map(str::to_owned).collect();
            let process = Process { pid: 5, argv, ..Process::default() };
            let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
            let exec = Exec { connection, time, adopted: false, process, client: None, session: None };
            bench.input(Input::Exec(exec));
        }
        let expected = expected.map(|expected| format!("1 ours preloads {expected}"));
        assert_eq!(reported_preloads(&mut bench), Vec::from_iter(expected), "{name}");
    }
}

/// The variables of each program of a chain, whether it is declared, and what is reported.
#[test]
fn code_in_the_environment_of_a_declared_server_is_reported() {
    type Case<'a> = (&'a str, &'a str, &'a [&'a [&'static str]], Option<&'a str>);
    let cases: [Case<'_>; 5] = [
        ("none", "acme --serve", &[&[]], None),
        ("one", "acme --serve", &[&["LD_PRELOAD"]], Some("LD_PRELOAD")),
        ("of an earlier program", "acme --serve", &[&["PYTHONPATH"], &[]], Some("PYTHONPATH")),
        (
            "of several",
            "acme --serve",
            &[&["RUBYOPT"], &["LD_PRELOAD", "RUBYOPT"]],
            Some("LD_PRELOAD,RUBYOPT"),
        ),
        ("of a server that nobody declared", "mcp-acme", &[&["LD_PRELOAD"]], None),
    ];
    for (name, line, chain, expected) in cases {
        let mut bench = Bench::with(|config| {
            let (id, args) = (ServerId("ours".into()), vec!["--serve".to_owned()]);
            config.declared = vec![Declared {
                id,
                command: "acme".into(),
                args,
                executables: Vec::new(),
                interpreter: None,
            }];
        });
        for (at, variables) in chain.iter().enumerate() {
            let argv = if at == 0 { line } else { "node x.js" };
            let argv = argv.split(' ').map(str::to_owned).collect();
            let code_variables = variables.to_vec();
            let process = Process { pid: 5, argv, code_variables, ..Process::default() };
            let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
            let exec = Exec { connection, time, adopted: false, process, client: None, session: None };
            // A declared server without an `executable` is announced with its first program.
            if chain.len() > 1 && at == 0 {
                bench.engine.config.declared[0].executables = vec!["/srv/x.js".into()];
            }
            bench.input(Input::Exec(exec));
        }
        let expected = expected.map(|expected| format!("1 ours preloads {expected}"));
        assert_eq!(reported_preloads(&mut bench), Vec::from_iter(expected), "{name}");
    }
}

/// The server answers, as the declared one whatever it runs; what is reported of code that was brought into it.
fn reported_preloads(bench: &mut Bench) -> Vec<String> {
    bench.engine.config.declared[0].executables.clear();
    bench.c2s(1, HELLO);
    bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.said().into_iter().filter(|said| said.contains("preloads")).collect()
}
