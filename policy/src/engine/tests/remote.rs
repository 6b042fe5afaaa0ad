//! Servers at addresses.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::discovery::Remote;
use crate::engine::{Reached, ServerAddress};
use crate::event::ServerType;

fn remote(id: &str, address: &str, path: &str) -> Remote {
    Remote { id: ServerId(id.into()), address: address.to_owned(), path: path.to_owned(), tls: false }
}

/// Three that are declared: two of them at one address.
fn bench() -> Bench {
    Bench::with(|config| {
        config.remote = vec![
            remote("alone", "alone.example:80", "/mcp"),
            remote("files", "both.example:80", "/files"),
            remote("mail", "both.example:80", "/mail/"),
        ];
    })
}

fn reached(connection: u64, declared: &[&str], path: &str) -> Reached {
    Reached {
        connection: ConnectionId(connection),
        time: Timestamp(0),
        client: Process { pid: 5, uid: Some(1000), ..Process::default() },
        address: "10.0.0.1:80".parse::<SocketAddr>().unwrap().into(),
        server: None,
        netns: None,
        host: None,
        path: path.to_owned(),
        kind: ServerType::Http,
        declared: declared.iter().map(|id| ServerId((*id).into())).collect(),
        adopted: false,
        read_in_client: false,
    }
}

impl Bench {
    fn reach(&mut self, connection: u64, declared: &[&str], path: &str) {
        let time = Timestamp(self.now);
        self.input(Input::Reached(Reached { time, ..reached(connection, declared, path) }));
    }
}

/// Which declared servers are at the address, what the client calls it, the path that is asked for, and the id that the
/// server gets.
#[test]
fn host_and_path_distinguish_servers_at_one_address() {
    let both = &["files", "mail"][..];
    for (declared, host, path, expected) in [
        (&[][..], None, "/mcp", "10.0.0.1:80/mcp"),
        (&["alone"], None, "/mcp", "alone"),
        (&["alone"], None, "/other", "alone"),
        (both, None, "/files", "files"),
        (both, None, "/files/", "files"),
        (both, Some("both.example"), "/mail", "mail"),
        (both, Some("10.0.0.1:80"), "/files", "files"),
        (both, None, "/third", "10.0.0.1:80/third"),
        // Behind one address of a proxy.
        (&["alone", "files"], Some("alone.example"), "/mcp", "alone"),
        (&["alone", "files"], Some("ALONE.example:80"), "/files", "alone"),
        (&["alone", "files"], Some("both.example"), "/mcp", "files"),
        // Of a configuration that counted before.
        (&["gone"], None, "/mcp", "10.0.0.1:80/mcp"),
    ] {
        let mut bench = bench();
        let time = Timestamp(bench.now);
        let host = host.map(str::to_owned);
        bench.input(Input::Reached(Reached { time, host, ..reached(1, declared, path) }));
        assert_eq!(bench.said(), [""; 0], "{declared:?} {path}: nothing was said yet");
        bench.c2s(1, HELLO);
        let events = bench.events();
        let started = &events[0];
        assert_eq!(started["type"], "mcp_server_started", "{declared:?} {path}");
        assert_eq!(started["server_id"], expected, "{declared:?} {path}");
        assert_eq!(started["server_type"], "http");
        assert_eq!(started["url"], format!("http://10.0.0.1:80{path}"));
        assert_eq!(started["client"]["pid"], 5);
        let matched = if expected.contains(':') { "behaviour" } else { "declared" };
        assert_eq!(started["matched_by"], matched, "{declared:?} {path}");
    }
}

#[test]
fn non_mcp_traffic_is_dropped_unless_declared() {
    let other = r#"{"jsonrpc":"2.0","id":1,"method":"eth_call"}"#;
    for (declared, dropped) in [(&[][..], true), (&["alone"], false)] {
        let mut bench = bench();
        bench.reach(1, declared, "/mcp");
        for _ in 0..40 {
            bench.c2s(1, other);
        }
        let said = bench.said();
        assert_eq!(said.contains(&"drop 1".to_owned()), dropped, "{declared:?}: {said:?}");
    }
}

/// A program that is a server and speaks with another over HTTP is that one's client: its session is that of its own.
#[test]
fn server_acting_as_http_client_keeps_its_session() {
    let mut bench = bench();
    bench.server(1, 5, "mcp-server-gateway", 9);
    let outer = {
        bench.c2s(1, r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}"#);
        bench.events()[0]["session_id"].clone()
    };
    bench.reach(2, &["alone"], "/mcp");
    bench.c2s(2, HELLO);
    let events = bench.events();
    let started = events.iter().find(|event| event["type"] == "mcp_server_started").unwrap();
    assert_eq!((&started["session_id"], &started["via"][0]), (&outer, &"mcp-server-gateway".into()));
}

/// Whether a server is declared, what it is asked, how it answers, and how often it is said that there is one.
#[test]
fn remote_server_is_reported_found_once_it_answers() {
    let list = r#"{"jsonrpc":"2.0","id":0,"method":"tools/list"}"#;
    let other = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    let (result, error) = (
        r#"{"jsonrpc":"2.0","id":0,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}"#,
    );
    for (declared, asked, answer, found) in [
        (&[][..], HELLO, result, 1),
        (&[], list, result, 1),
        (&[], HELLO, error, 0),
        (&[], other, result, 0),
        // What it says by itself answers nothing.
        (&[], HELLO, list, 0),
        (&["alone"], HELLO, result, 0),
    ] {
        let mut bench = bench();
        bench.reach(1, declared, "/mcp");
        bench.c2s(1, HELLO);
        bench.s2c(1, error);
        bench.out.clear();
        for _ in 0..2 {
            bench.c2s(1, asked);
            bench.s2c(1, answer);
        }
        let said = bench.said();
        let of_it = said.iter().filter(|line| *line == "found 10.0.0.1:80/mcp at 10.0.0.1:80").count();
        assert_eq!(of_it, found, "{declared:?} {asked} {answer}: {said:?}");
    }
}

/// What is known of a connection, what is found of it, and what is said.
#[test]
fn uninspectable_server_traffic_is_reported() {
    let why = "it is a tunnel";
    for (known, declared, uninspected, refused) in [
        (false, &[][..], vec![], vec![]),
        (false, &["alone"], vec![format!("0 alone uninspected 5 10.0.0.1:80: {why}")], vec![]),
        (
            true,
            &[],
            vec![format!("1 10.0.0.1:80/mcp uninspected 5 10.0.0.1:80: {why}")],
            vec!["1 10.0.0.1:80/mcp refused 3 401".to_owned()],
        ),
    ] {
        let mut bench = bench();
        if known {
            bench.reach(1, declared, "/mcp");
            bench.c2s(1, HELLO);
            bench.out.clear();
        }
        let reached = Reached { time: Timestamp(bench.now), ..reached(1, declared, "/mcp") };
        bench.input(Input::Uninspected { reached, reason: why.to_owned() });
        assert_eq!(bench.said(), uninspected, "{known} {declared:?}");
        let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
        bench.input(Input::Refused { connection, time, status: 401, id: Some("3") });
        assert_eq!(bench.said(), refused, "{known} {declared:?}");
    }
}

/// The first request is refused: the server was never announced, since that waits for its answer.
#[test]
fn refused_first_request_announces_mcp_server() {
    let of_mcp = |last| vec!["confirm 1", "started Behaviour", last];
    // Web pages refuse, too.
    let other = r#"{"jsonrpc":"2.0","id":0,"method":"eth_call"}"#;
    for (asked, refused, uninspected) in
        [(HELLO, of_mcp("refused 0 401"), of_mcp("uninspected 5 10.0.0.1:80: why")), (other, vec![], vec![])]
    {
        let reached = reached(1, &[], "/mcp");
        let refusal =
            Input::Refused { connection: ConnectionId(1), time: Timestamp(0), status: 401, id: Some("0") };
        let unread = Input::Uninspected { reached: reached.clone(), reason: "why".to_owned() };
        for (input, expected) in [(refusal, refused), (unread, uninspected)] {
            let mut bench = Bench::with(|config| config.limits.start_wait = Duration::from_secs(2));
            bench.input(Input::Reached(reached.clone()));
            bench.c2s(1, asked);
            bench.input(input);
            let said = bench.said().join("\n").replace("1 10.0.0.1:80/mcp ", "");
            assert_eq!(said, expected.join("\n"), "{asked}");
        }
    }
}

#[test]
fn closed_http_connection_reports_server_exit() {
    let mut bench = bench();
    bench.reach(1, &[], "/mcp");
    bench.c2s(1, HELLO);
    bench.out.clear();
    bench.close(1);
    let events = bench.events();
    assert_eq!(events.last().unwrap()["type"], "mcp_server_exited");
    assert_eq!(events.last().unwrap()["server_type"], "http");
    assert_eq!(bench.booked(), 0);
}

/// A container's loopback is not the host's.
#[test]
fn loopback_servers_differ_by_network_namespace() {
    for (address, netns, id) in [
        ("127.0.0.1:80", None, "127.0.0.1:80/mcp"),
        ("127.0.0.1:80", Some(7), "127.0.0.1:80/mcp@netns-7"),
        ("127.8.8.8:80", Some(7), "127.8.8.8:80/mcp@netns-7"),
        ("0.0.0.0:80", None, "127.0.0.1:80/mcp"),
        ("0.0.0.0:80", Some(7), "127.0.0.1:80/mcp@netns-7"),
        ("[::ffff:127.0.0.1]:80", Some(7), "127.0.0.1:80/mcp@netns-7"),
        ("[::ffff:0.0.0.0]:80", Some(7), "127.0.0.1:80/mcp@netns-7"),
        ("[::1]:80", Some(7), "[::1]:80/mcp@netns-7"),
        ("[::]:80", None, "[::1]:80/mcp"),
        ("[::]:80", Some(7), "[::1]:80/mcp@netns-7"),
        // Containers reach the server that the host reaches there.
        ("10.0.0.1:80", Some(7), "10.0.0.1:80/mcp"),
        ("[::ffff:10.0.0.1]:80", Some(7), "10.0.0.1:80/mcp"),
        ("[2001:db8::1]:80", Some(7), "[2001:db8::1]:80/mcp"),
    ] {
        let mut bench = bench();
        let (time, address) = (Timestamp(bench.now), address.parse::<SocketAddr>().unwrap().into());
        bench.input(Input::Reached(Reached { time, address, netns, ..reached(1, &[], "/mcp") }));
        bench.c2s(1, HELLO);
        assert_eq!(bench.events()[0]["server_id"], id, "{netns:?}");
    }
}

/// A client of a user reaches a server that lists one tool: whether that counts as changed.
fn is_told_of_a_change(bench: &mut Bench, uid: u32, reached: Reached, description: &str) -> bool {
    let connection = reached.connection.0;
    let time = Timestamp(bench.now);
    let client = Process { pid: 5 + uid, uid: Some(uid), ..Process::default() };
    bench.input(Input::Reached(Reached { time, client, ..reached }));
    bench.c2s(connection, HELLO);
    bench.s2c(connection, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.c2s(connection, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let tool = format!(r#"{{"name":"a","description":"{description}"}}"#);
    bench.s2c(connection, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#));
    bench.events().iter().any(|event| event["type"] == "mcp_tool_changed")
}

/// Whose clients list a server one after the other, and whether the second is told of a change.
#[test]
fn declared_url_pins_are_shared_across_users() {
    let list = |bench: &mut Bench, connection: u64, uid: u32, declared: &[&str], description: &str| {
        is_told_of_a_change(bench, uid, reached(connection, declared, "/mcp"), description)
    };
    for (declared, uids, changed) in [
        (&["alone"][..], [0, 1000], true),
        (&["alone"], [1000, 1000], true),
        (&[], [0, 1000], false),
        (&[], [1000, 1000], true),
    ] {
        let mut bench = bench();
        assert!(!list(&mut bench, 1, uids[0], declared, "one"), "{declared:?} {uids:?}");
        assert_eq!(list(&mut bench, 2, uids[1], declared, "two"), changed, "{declared:?} {uids:?}");
    }
}

/// What is read in the memory of a client is its user's word: whose clients list a server one after the other, over TLS or as others are
/// read, and whether the second is told of a change.
#[test]
fn pins_of_what_a_client_tells_are_its_users() {
    let list = |bench: &mut Bench, connection: u64, (uid, read_in_client): (u32, bool), description: &str| {
        let reached = Reached { read_in_client, ..reached(connection, &["alone"], "/mcp") };
        is_told_of_a_change(bench, uid, reached, description)
    };
    for (first, second, changed) in [
        ((1000, true), (1000, true), true),
        ((1000, true), (1001, true), false),
        ((1000, true), (1001, false), false),
        ((1000, false), (1001, true), false),
        ((1000, false), (1001, false), true),
    ] {
        let mut bench = bench();
        assert!(!list(&mut bench, 1, first, "one"), "{first:?} {second:?}");
        assert_eq!(list(&mut bench, 2, second, "two"), changed, "{first:?} {second:?}");
    }
}

/// Where a client has connected that speaks in lines, what it says first, and the id of
/// the server if that is one.
#[test]
fn servers_in_lines_are_told_from_other_protocols() {
    const LOG: &str = r#"{"level":"info","message":"tools/list"}"#;
    const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    const EDITOR: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":1,"rootUri":null}}"#;
    const OTHER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_call"}"#;
    let tcp = |text: &str| ServerAddress::Internet(text.parse().unwrap());
    let unix = |name: &str| ServerAddress::Unix(name.to_owned());
    for (address, netns, first, expected) in [
        (tcp("127.0.0.1:7000"), None, HELLO, Some(("127.0.0.1:7000", "tcp://127.0.0.1:7000"))),
        (tcp("0.0.0.0:7000"), None, HELLO, Some(("127.0.0.1:7000", "tcp://127.0.0.1:7000"))),
        (tcp("127.0.0.1:7000"), Some(7), HELLO, Some(("127.0.0.1:7000@netns-7", "tcp://127.0.0.1:7000"))),
        (tcp("[::1]:7000"), None, LIST, Some(("[::1]:7000", "tcp://[::1]:7000"))),
        (unix("/run/mcp.sock"), None, HELLO, Some(("unix:/run/mcp.sock", "unix:/run/mcp.sock"))),
        // A path is the file system's, an abstract name the network namespace's.
        (unix("/run/mcp.sock"), Some(7), HELLO, Some(("unix:/run/mcp.sock", "unix:/run/mcp.sock"))),
        (unix("@mcp"), None, HELLO, Some(("unix:@mcp", "unix:@mcp"))),
        (unix("@mcp"), Some(7), HELLO, Some(("unix:@mcp@netns-7", "unix:@mcp"))),
        (unix("/run/a b"), None, HELLO, Some(("unix:/run/a-b", "unix:/run/a b"))),
        (unix("/run/mcp.sock"), None, LOG, None),
        (tcp("127.0.0.1:7000"), None, LOG, None),
        (tcp("127.0.0.1:7000"), None, EDITOR, None),
        (unix("@editor"), None, EDITOR, None),
        (unix("@chain"), None, OTHER, None),
    ] {
        let mut bench = bench();
        let what = format!("{address} {netns:?} {first}");
        let kind = if matches!(address, ServerAddress::Unix(_)) { ServerType::Unix } else { ServerType::Tcp };
        let server = Some(Process { pid: 77, uid: Some(3), ..Process::default() });
        let about = Reached { address, netns, server, kind, ..reached(1, &[], "") };
        bench.input(Input::Reached(Reached { time: Timestamp(bench.now), ..about }));
        bench.c2s(1, first);
        let events = bench.events();
        let started = events.iter().find(|event| event["type"] == "mcp_server_started");
        let Some((id, url)) = expected else {
            assert_eq!(started, None, "{what}");
            continue;
        };
        let started = started.unwrap_or_else(|| panic!("{what}: {events:?}"));
        assert_eq!((&started["server_id"], &started["url"]), (&id.into(), &url.into()), "{what}");
        let word = if kind == ServerType::Tcp { "tcp" } else { "unix" };
        assert_eq!(started["server_type"], word, "{what}");
        assert_eq!((&started["pid"], &started["client"]["pid"]), (&77.into(), &5.into()), "{what}");
    }
}

#[test]
fn gate_judges_servers_that_were_asked_something() {
    let at = |kind: ServerType| match kind {
        ServerType::Unix => ServerAddress::Unix("/run/mcp.sock".into()),
        _ => ServerAddress::Internet("127.0.0.1:7000".parse().unwrap()),
    };
    for kind in [ServerType::Tcp, ServerType::Unix, ServerType::Http, ServerType::Sse] {
        let mut bench = bench();
        let about = Reached { address: at(kind), kind, ..reached(1, &[], "/mcp") };
        bench.input(Input::Reached(Reached { time: Timestamp(bench.now), ..about }));
        assert_eq!(bench.engine.gated().count(), 0, "{kind:?}: nothing was requested");
        bench.c2s(1, HELLO);
        assert_eq!(bench.engine.gated().count(), 1, "{kind:?}");
        assert!(bench.engine.gate_subject(ConnectionId(1), Timestamp(bench.now)).is_some(), "{kind:?}");
    }
}

/// The next messages of a connection that was open before the agent started, in either direction: whether it is a server.
#[test]
fn adopted_connection_is_known_by_next_message() {
    const CALL: &str =
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}"#;
    const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    const TOOLS: &str =
        r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}"#;
    const RESULT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a"}]}}"#;
    const MESSAGE: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    const SAMPLE: &str =
        r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"messages":[]}}"#;
    const EMPTY: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
    const HOVER: &str = r#"{"jsonrpc":"2.0","id":7,"method":"textDocument/hover"}"#;
    const SHOW: &str = r#"{"jsonrpc":"2.0","method":"window/logMessage"}"#;
    const EDITOR: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":1}}"#;
    const LOG: &str = r#"{"level":"info","message":"tools/list"}"#;
    use Direction::{ClientToServer as Asks, ServerToClient as Says};
    type Case<'a> = (&'a str, &'a [(Direction, &'a str)], bool);
    let cases: [Case<'_>; 14] = [
        ("a call", &[(Asks, CALL)], true),
        ("a notification of the client", &[(Asks, READY)], true),
        ("a ping, and a call", &[(Asks, PING), (Says, EMPTY), (Asks, CALL)], true),
        ("a list of tools", &[(Says, TOOLS)], true),
        ("the result of a call", &[(Says, RESULT)], true),
        ("a notification of the server", &[(Says, MESSAGE)], true),
        ("a request of the server", &[(Says, SAMPLE)], true),
        ("an answer that proves nothing, and a call", &[(Says, EMPTY), (Asks, CALL)], true),
        ("an answer that proves nothing", &[(Says, EMPTY)], false),
        ("a ping", &[(Asks, PING), (Says, EMPTY)], false),
        ("a language server's editor", &[(Asks, HOVER), (Says, EMPTY)], false),
        ("a language server", &[(Says, SHOW)], false),
        ("an editor that begins", &[(Asks, EDITOR), (Asks, CALL)], false),
        ("a log", &[(Asks, LOG), (Asks, CALL)], false),
    ];
    for (name, said, expected) in cases {
        for adopted in [true, false] {
            let mut bench = bench();
            let about = Reached { kind: ServerType::Tcp, adopted, ..reached(1, &[], "") };
            bench.input(Input::Reached(Reached { time: Timestamp(bench.now), ..about }));
            for (direction, text) in said {
                match direction {
                    Asks => bench.c2s(1, text),
                    Says => bench.s2c(1, text),
                }
            }
            let events = bench.events();
            let started = events.iter().find(|event| event["type"] == "mcp_server_started");
            // What a server says decides nothing where its client could have been seen to ask.
            let expected = expected && (adopted || said.iter().any(|(_, text)| *text == CALL));
            assert_eq!(started.is_some(), expected, "{name}, {adopted}: {events:?}");
            if let Some(started) = started {
                assert_eq!(started["adopted"], adopted, "{name}");
            }
        }
    }
}
