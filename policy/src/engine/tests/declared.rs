//! Declared servers that a certain program must serve.

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
            config.declared = vec![Declared { id, command: "acme".into(), args, executables }];
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
