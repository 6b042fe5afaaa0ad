//! Pins across upgrades, restarts and runners: what runs again is the same server, and what only looks alike is not.

use super::*;

/// Programs that run one after the other: command line and executable.
type Chain<'a> = &'a [(&'a str, &'a str)];

const NODE: &str = "/usr/bin/node";
const PYTHON: &str = "/usr/bin/python3.12";

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
            argv: line.split(' ').map(str::to_owned).collect(),
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
    let cases: [Case<'_>; 10] = [
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
