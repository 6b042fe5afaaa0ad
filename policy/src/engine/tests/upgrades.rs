//! Pins across upgrades, restarts and runners: what runs again is the same server, and what only looks alike is not.

use super::*;
use crate::discovery::Declared;

mod caches;
mod targets;

/// Programs that run one after the other: command line and executable.
type Chain<'a> = &'a [(&'a str, &'a str)];

const NODE: &str = "/usr/bin/node";
const PYTHON: &str = "/usr/bin/python3.12";

/// The arguments of a line, with `·` for a blank in one.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace('·', " ")).collect()
}

/// A server that lists a tool with this description; what is reported of the tool: `new`, `unchanged` or `changed`.
fn listed(
    bench: &mut Bench,
    connection: u64,
    chain: Chain<'_>,
    name: Option<&str>,
    description: &str,
) -> (String, String) {
    let (id, time) = (ConnectionId(connection), Timestamp(bench.now));
    for (at, (line, executable)) in chain.iter().enumerate() {
        let process = Process {
            pid: connection as u32 * 10 + at as u32,
            uid: Some(1000),
            argv: words(line),
            executable: Some((*executable).to_owned()),
            ..Process::default()
        };
        bench.input(Input::Exec(Exec {
            connection: id,
            time,
            adopted: false,
            process,
            client: None,
            session: None,
        }));
    }
    if let Some(name) = name {
        let session = SessionId(format!("s{connection}").as_str().into());
        bench.input(Input::Open { connection: id, time, session, server: ServerId(name.into()) });
    }
    bench.c2s(connection, HELLO);
    bench.s2c(connection, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.c2s(connection, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let tools =
        json!({"tools": [{"name": "t", "description": description, "inputSchema": {"type": "object"}}]});
    bench.s2c(connection, &json!({"jsonrpc": "2.0", "id": 1, "result": tools}).to_string());
    let events = bench.events();
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind);
    let server = of("mcp_server_started").unwrap()["server_id"].as_str().unwrap().to_owned();
    let status = match of("mcp_tool_changed") {
        Some(_) => "changed".to_owned(),
        None => of("mcp_tool_seen").unwrap()["status"].as_str().unwrap().to_owned(),
    };
    (server, status)
}

/// The chain of one run and of the next, the names that a recording gives them, the id, and whether the second is the same
/// server.
#[test]
fn server_keeps_its_pins_and_shares_none() {
    let uv = |id: &str, entry: &str| format!("python /h/.cache/uv/archive-v0/{id}/bin/{entry}");
    let temporary = |id: &str| format!("python /h/.cache/uv/builds-v0/{id}/bin/mcp run /h/tide/server.py");
    let npx = |hash: &str| format!("node /h/.npm/_npx/{hash}/node_modules/.bin/tide-mcp");
    let (a, b, c, d) =
        (uv("Ab1", "tide-mcp"), uv("Cd2", "tide-mcp"), temporary(".tmpAb12Cd"), temporary(".tmpEf34Gh"));
    let (e, f) = (npx("ab"), npx("cd"));
    let uv_run = "uv run --with mcp[cli] mcp run /h/tide/server.py";
    type Case<'a> = (&'a str, Chain<'a>, Chain<'a>, [Option<&'a str>; 2], &'a str, bool);
    let cases: [Case<'_>; 15] = [
        (
            "a child of a random name",
            &[("mcp-tide", "/opt/mcp-tide"), ("/tmp/Ab12Cd", "/tmp/Ab12Cd")],
            &[("mcp-tide", "/opt/mcp-tide"), ("/tmp/Ef34Gh", "/tmp/Ef34Gh")],
            [None; 2],
            "mcp-tide",
            true,
        ),
        (
            "a copy of itself somewhere",
            &[("mcp-tide", "/opt/mcp-tide"), ("mcp-tide", "/home/u/one")],
            &[("mcp-tide", "/opt/mcp-tide"), ("mcp-tide", "/home/u/two")],
            [None; 2],
            "mcp-tide",
            true,
        ),
        (
            "one wrapper of two servers",
            &[("sh /h/tide-mcp.sh a", "/bin/dash"), ("node /h/a.js", NODE)],
            &[("sh /h/tide-mcp.sh b", "/bin/dash"), ("node /h/b.js", NODE)],
            [None; 2],
            "tide-mcp",
            false,
        ),
        (
            "a wrapper",
            &[("sh /h/tide-mcp.sh a", "/bin/dash"), ("node /h/a.js", NODE)],
            &[("sh /h/tide-mcp.sh a", "/bin/dash"), ("node /h/a2.js", NODE)],
            [None; 2],
            "tide-mcp",
            true,
        ),
        (
            "another program of its name",
            &[("mcp-tide", "/opt/mcp-tide"), ("/tmp/a", "/tmp/a")],
            &[("mcp-tide", "/home/u/mcp-tide"), ("/tmp/a", "/tmp/a")],
            [None; 2],
            "mcp-tide",
            false,
        ),
        (
            "uvx",
            &[("uvx tide-mcp@latest", "/usr/bin/uvx"), (&a, PYTHON)],
            &[("uvx tide-mcp@1.2", "/usr/bin/uvx"), (&b, PYTHON)],
            [None; 2],
            "tide-mcp",
            true,
        ),
        (
            "uv run",
            &[(uv_run, "/usr/bin/uv"), (&c, PYTHON)],
            &[(uv_run, "/usr/bin/uv"), (&d, PYTHON)],
            [None; 2],
            "tide",
            true,
        ),
        ("uv run, seen late", &[(&c, PYTHON)], &[(&d, PYTHON)], [None; 2], "tide", true),
        (
            "temporary names",
            &[(uv_run, "/x/.tmpAb12Cd/bin/mcp")],
            &[(uv_run, "/x/.tmpEf34Gh/bin/mcp")],
            [Some(".tmpAb12Cd"), Some(".tmpEf34Gh")],
            "tide",
            true,
        ),
        (
            "npx",
            &[("npx -y tide-mcp@1", NODE), ("sh -c tide-mcp", "/bin/dash"), (&e, NODE)],
            &[("npx -y tide-mcp@2", NODE), ("sh -c tide-mcp", "/bin/dash"), (&f, NODE)],
            [None; 2],
            "tide-mcp",
            true,
        ),
        (
            "npx, another scope",
            &[("npx -y @a/tide-mcp", NODE), (&e, NODE)],
            &[("npx -y @b/tide-mcp", NODE), (&f, NODE)],
            [None; 2],
            "tide-mcp",
            false,
        ),
        (
            "image",
            &[("docker run -i a/tide:1", "/usr/bin/docker")],
            &[("docker run -i a/tide:2", "/usr/bin/docker")],
            [None; 2],
            "tide",
            true,
        ),
        (
            "another image",
            &[("docker run -i a/tide:1", "/usr/bin/docker")],
            &[("docker run -i b/tide:1", "/usr/bin/docker")],
            [None; 2],
            "tide",
            false,
        ),
        (
            "mcp run",
            &[("python /v/bin/mcp run /h/a/tide/server.py", PYTHON)],
            &[("python /v/bin/mcp run /h/b/tide/server.py", PYTHON)],
            [None; 2],
            "tide",
            false,
        ),
        (
            "one name for two",
            &[("npx tsx /h/a/index.ts", NODE)],
            &[("npx tsx /h/b/index.ts", NODE)],
            [Some("tsx"), Some("tsx")],
            "tsx",
            false,
        ),
    ];
    for (case, first, second, [first_name, second_name], id, is_same) in cases {
        for (description, status) in [("a", "unchanged"), ("b", "changed")] {
            let mut bench = Bench::new();
            assert_eq!(listed(&mut bench, 1, first, first_name, "a"), (id.into(), "new".into()), "{case}");
            let expected = if is_same { status } else { "new" };
            assert_eq!(
                listed(&mut bench, 2, second, second_name, description),
                (id.into(), expected.into()),
                "{case}"
            );
        }
    }
}

/// The launch of one run and of the next; the versions that are reported of each, and whether a change of it is.
#[test]
fn change_of_version_is_reported_beside_definitions() {
    type Case<'a> = (&'a str, &'a str, [Option<&'a str>; 2], Option<&'a str>);
    let cases: [Case<'_>; 10] = [
        ("uvx tide-mcp@1.2", "uvx tide-mcp@1.3", [Some("1.2"), Some("1.3")], Some("1.2 to 1.3")),
        ("uvx tide-mcp==1.2", "uvx tide-mcp==1.3", [Some("1.2"), Some("1.3")], Some("1.2 to 1.3")),
        ("uvx tide-mcp@1.2", "uvx tide-mcp@1.2", [Some("1.2"), Some("1.2")], None),
        ("uvx tide-mcp", "uvx tide-mcp@1.3", [None, Some("1.3")], None),
        ("uvx tide-mcp@1.2", "uvx tide-mcp", [Some("1.2"), None], None),
        ("npx -y @a/tide-mcp@1", "npx -y @a/tide-mcp@2", [Some("1"), Some("2")], Some("1 to 2")),
        (
            "npx -y tide-mcp@latest",
            "npx -y tide-mcp@next",
            [Some("latest"), Some("next")],
            Some("latest to next"),
        ),
        ("docker run -i a/tide:1", "docker run -i a/tide:2", [Some("1"), Some("2")], Some("1 to 2")),
        (
            "java -jar /o/tide-mcp-1.2.jar",
            "java -jar /o/tide-mcp-1.3.jar",
            [Some("1.2"), Some("1.3")],
            Some("1.2 to 1.3"),
        ),
        ("/n/mcp-tide", "/n/mcp-tide", [None, None], None),
    ];
    for (first, second, versions, change) in cases {
        for (description, changed) in [("a", 0), ("b", 1)] {
            let mut bench = Bench::new();
            for (connection, line, version, text) in
                [(1, first, versions[0], "a"), (2, second, versions[1], description)]
            {
                bench.out.clear();
                listed_events(&mut bench, connection, &[(line, "/usr/bin/launcher")], text);
                let events = bench.events();
                let started = events.iter().find(|event| event["type"] == "mcp_server_started").unwrap();
                assert_eq!(started["version"].as_str(), version, "{line}");
                let said = events.iter().find(|event| event["type"] == "mcp_server_version_changed");
                let said = said.map(|event| {
                    let text = |name: &str| event[name].as_str().unwrap().to_owned();
                    (
                        format!("{} to {}", text("previous_version"), text("version")),
                        event["definitions_changed"].clone(),
                    )
                });
                let expected =
                    change.filter(|_| connection == 2).map(|change| (change.to_owned(), json!(changed)));
                assert_eq!(said, expected, "{first} {second} {description}");
            }
        }
    }
}

fn listed_events(bench: &mut Bench, connection: u64, chain: Chain<'_>, description: &str) {
    let id = ConnectionId(connection);
    for (at, (line, executable)) in chain.iter().enumerate() {
        let process = Process {
            pid: connection as u32 * 10 + at as u32,
            uid: Some(1000),
            argv: words(line),
            executable: Some((*executable).to_owned()),
            ..Process::default()
        };
        let (time, adopted) = (Timestamp(bench.now), false);
        bench.input(Input::Exec(Exec {
            connection: id,
            time,
            adopted,
            process,
            client: None,
            session: None,
        }));
    }
    bench.c2s(connection, HELLO);
    bench.s2c(connection, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.c2s(connection, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let tools =
        json!({"tools": [{"name": "t", "description": description, "inputSchema": {"type": "object"}}]});
    bench.s2c(connection, &json!({"jsonrpc": "2.0", "id": 1, "result": tools}).to_string());
}

/// A server that is declared by now keeps the pins that it had before, and the other way round.
#[test]
fn declared_server_keeps_its_earlier_pins() {
    for is_declared_first in [false, true] {
        let mut bench = Bench::new();
        let declared = vec![Declared {
            id: ServerId("ours".into()),
            command: "/opt/mcp-tide".into(),
            args: Vec::new(),
            executables: Vec::new(),
            interpreter: None,
        }];
        let chain: Chain<'_> = &[("/opt/mcp-tide", "/opt/mcp-tide")];
        for (connection, is_declared, status) in
            [(1, is_declared_first, "new"), (2, !is_declared_first, "unchanged")]
        {
            bench.engine.config.declared = if is_declared { declared.clone() } else { Vec::new() };
            let id = if is_declared { "ours" } else { "mcp-tide" };
            let found = listed(&mut bench, connection, chain, None, "a");
            bench.close(connection);
            bench.out.clear();
            if is_declared_first && connection == 2 {
                // The declared name is nobody's that the server has now.
                assert_eq!(found.0, id);
                continue;
            }
            assert_eq!(found, (id.to_owned(), status.to_owned()), "{is_declared_first}");
        }
    }
}

/// A program that has a script of another name serve each time is the same all the same: its id follows the script, its pins do
/// not.
#[test]
fn pins_stay_with_a_program_that_hands_over() {
    for (first, second, is_same) in [
        ("mcp-tide 4711", "mcp-tide 4712", true),
        ("mcp-tide", "mcp-tide", true),
        ("mcp-tide a", "mcp-tide b", false),
    ] {
        let mut bench = Bench::new();
        let chain = |line, script| [(line, "/opt/mcp-tide"), (script, NODE)];
        let found = listed(&mut bench, 1, &chain(first, "node /tmp/one.js"), None, "a");
        assert_eq!(found, ("one".into(), "new".into()), "{first}");
        bench.close(1);
        bench.out.clear();
        let found = listed(&mut bench, 2, &chain(second, "node /tmp/two.js"), None, "b");
        let expected = if is_same { "changed" } else { "new" };
        assert_eq!(found, ("two".into(), expected.into()), "{first} {second}");
    }
}
