//! Connections that processes open: whose they are, and what is said of them.

use super::*;
use crate::engine::egress::Destinations;
use crate::event::{Family, Protocol, ServerType};
use crate::network::Verdict;

/// A connect of process `pid`, whose parents are these.
fn connect(destination: &str, verdict: Verdict, pid: u32, parents: &[u32]) -> Connect {
    let (address, port) = destination.rsplit_once(' ').unwrap();
    Connect {
        time: Timestamp(0),
        connection: None,
        process: Process {
            pid,
            start_ns: u64::from(pid),
            uid: Some(1000),
            cgroup_id: Some(9),
            cgroup: Some("/user.slice".into()),
            executable: Some("/usr/bin/curl".into()),
            ancestors: parents.to_vec(),
            ..Process::default()
        },
        address: address.parse().unwrap(),
        port: port.parse().unwrap(),
        protocol: Protocol::Tcp,
        family: Family::Ipv4,
        name: None,
        server: None,
        verdict,
        enforced: verdict == Verdict::Deny,
        reason: (verdict == Verdict::Deny).then(|| "network.deny[0] (1.2.3.4)".to_owned()),
        adopted: false,
        netns: None,
    }
}

const REMOTE: (&str, ServerType) = ("remote", ServerType::Http);

fn remote() -> Option<(ServerId, ServerType)> {
    Some((ServerId(REMOTE.0.into()), REMOTE.1))
}

impl Bench {
    /// One by a process of this connection's server, or of none's.
    fn connect(&mut self, of: Option<u64>, connect: Connect) -> Vec<String> {
        let (time, connection) = (Timestamp(self.now), of.map(ConnectionId));
        self.input(Input::Connect(Connect { time, connection, ..connect }));
        self.said()
    }
}

/// Whose process; who is declared there; verdict; what is said.
#[test]
fn connect_is_reported_by_owner_and_verdict() {
    use Verdict::{Allow, Deny};
    for (of, server, verdict, expected) in [
        (None, None, Allow, &[][..]),
        (None, None, Deny, &["0 - connects to 1.2.3.4:443 Block"]),
        (None, remote(), Allow, &["0 remote connects to 1.2.3.4:443 Allow"]),
        (None, remote(), Deny, &["0 remote connects to 1.2.3.4:443 Block"]),
        (Some(1), None, Allow, &["1 mcp-server-git egress 1.2.3.4:443 Allow Low first"]),
        (Some(1), None, Deny, &["1 mcp-server-git egress 1.2.3.4:443 Block High first"]),
        (
            Some(1),
            remote(),
            Allow,
            &[
                "0 remote connects to 1.2.3.4:443 Allow",
                "1 mcp-server-git egress 1.2.3.4:443 Allow Low first",
            ],
        ),
        // Of a server that is not known any more: denials are said all the same.
        (Some(7), None, Deny, &["0 - connects to 1.2.3.4:443 Block"]),
        (Some(7), None, Allow, &[]),
    ] {
        let mut bench = Bench::new();
        bench.server(1, 10, "mcp-server-git", 5);
        let said =
            bench.connect(of, Connect { server: server.clone(), ..connect("1.2.3.4 443", verdict, 20, &[]) });
        assert_eq!(said, expected, "{of:?} {server:?} {verdict:?}");
        let counters = bench.engine.counters();
        assert_eq!((counters.connects, counters.connects_denied), (1, u64::from(verdict == Deny)));
    }
}

#[test]
fn connect_events_carry_server_and_severity() {
    let mut bench = Bench::new();
    bench.server(1, 10, "mcp-server-git", 5);
    let denied = Connect {
        name: Some("evil.example".into()),
        server: remote(),
        protocol: Protocol::Udp,
        family: Family::Ipv6,
        ..connect("::ffff:1.2.3.4 443", Verdict::Deny, 20, &[])
    };
    bench.input(Input::Connect(Connect { connection: Some(ConnectionId(1)), ..denied }));
    let events = bench.events();
    for (index, key, expected) in [
        (0, "server_id", serde_json::json!("remote")),
        (0, "server_type", "http".into()),
        (1, "server_id", "mcp-server-git".into()),
        (1, "server_type", "stdio".into()),
        (1, "remote_server_id", "remote".into()),
        (1, "first_seen", true.into()),
        (1, "severity", "high".into()),
    ] {
        assert_eq!(events[index][key], expected, "{key}");
    }
    assert_eq!(events[0]["session_id"], events[1]["session_id"]);
    for event in events {
        for (key, expected) in [
            ("remote_addr", serde_json::json!("1.2.3.4:443")),
            ("remote_name", "evil.example".into()),
            ("protocol", "udp".into()),
            ("family", "ipv6".into()),
            ("pid", 20.into()),
            ("uid", 1000.into()),
            ("cgroup_id", 9.into()),
            ("cgroup", "/user.slice".into()),
            ("executable", "/usr/bin/curl".into()),
            ("action", "block".into()),
            ("enforced", true.into()),
            ("reason", "network.deny[0] (1.2.3.4)".into()),
        ] {
            assert_eq!(event[key], expected, "{key}");
        }
    }
}

/// Process and its parents; whose session it is: that of the client with process 5, one of its own, or none.
#[test]
fn connect_joins_session_of_its_process_tree() {
    let mut bench = Bench::new();
    bench.exec(1, 10, "mcp-server-git", 5);
    bench.c2s(1, HELLO);
    let of_client = bench.events()[0]["session_id"].clone();
    let mut session = |pid: u32, start_ns: u64, parents: &[u32], server: Option<(ServerId, ServerType)>| {
        let mut asked = Connect { server, ..connect("1.2.3.4 443", Verdict::Deny, pid, parents) };
        asked.process.start_ns = start_ns;
        bench.input(Input::Connect(asked));
        bench.events()[0]["session_id"].clone()
    };
    assert!(of_client.is_string());
    assert_eq!(session(5, 0, &[1], None), of_client, "the client itself");
    assert_eq!(session(30, 30, &[29, 5, 1], None), of_client, "below the client");
    assert_eq!(session(5, 77, &[1], None), Value::Null, "another process of that number");
    assert_eq!(session(30, 30, &[1], None), Value::Null, "a stranger");
    let own = session(30, 30, &[1], remote());
    assert!(own.is_string() && own != of_client, "a stranger who speaks to a declared server is a client");
    assert_eq!(session(30, 30, &[1], remote()), own);
    assert_ne!(session(30, 31, &[1], remote()), own, "another process of that number");
}

/// What a candidate connects to is said when it is a server, in order, and never when it is none.
#[test]
fn candidate_connects_are_deferred_until_confirmed() {
    let mut bench = Bench::new();
    bench.exec(1, 10, "npx mcp-server-git", 5);
    assert_eq!(
        bench.connect(Some(1), connect("1.2.3.4 443", Verdict::Allow, 10, &[5])),
        Vec::<String>::new()
    );
    bench.c2s(1, HELLO);
    let said = bench.said();
    let egress = said.iter().position(|line| line == "1 mcp-server-git egress 1.2.3.4:443 Allow Low first");
    let started = said.iter().position(|line| line.contains("started"));
    assert!(started.is_some() && started < egress, "{said:#?}");

    bench.exec(2, 11, "cat", 5);
    bench.connect(Some(2), connect("1.2.3.4 443", Verdict::Allow, 11, &[5]));
    bench.c2s(2, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}");
    assert_eq!(bench.said(), ["drop 2"]);
    assert_eq!(bench.engine.counters().egress, 1);

    // What is denied to everybody is said at once: it may never be a server.
    bench.exec(4, 13, "npx mcp-server-fetch", 5);
    let denied = bench.connect(Some(4), connect("1.2.3.4 443", Verdict::Deny, 13, &[5]));
    assert_eq!(denied.len(), 1, "{denied:?}");

    // As many as are kept.
    bench.exec(3, 12, "npx mcp-server-time", 5);
    for port in 1..=70 {
        bench.connect(Some(3), connect(&format!("1.2.3.4 {port}"), Verdict::Allow, 12, &[5]));
    }
    // Programs that are no servers connect as often as they like.
    assert_eq!(bench.engine.counters().candidate_overflow, 0);
    assert_eq!(bench.booked(), bench.engine.connections.memory().bytes());
    bench.c2s(3, HELLO);
    assert_eq!(bench.said().iter().filter(|line| line.contains("egress")).count(), 64);
    assert_eq!(bench.engine.counters().candidate_overflow, 6);
}

/// A process that a server left behind is the server's still.
#[test]
fn orphaned_process_is_attributed_to_its_server() {
    let mut bench = Bench::new();
    bench.exec(1, 10, "npx mcp-server-git", 5);
    bench.c2s(1, HELLO);
    bench.said();
    let expected = ["1 mcp-server-git egress 1.2.3.4:443 Block High first"];
    bench.close(1);
    bench.said();
    assert_eq!(bench.connect(Some(1), connect("1.2.3.4 443", Verdict::Deny, 12, &[1])), expected);

    // As many servers as are remembered.
    for id in 2..2 + EngineLimits::default().departed as u64 {
        let (connection, time) = (ConnectionId(id), Timestamp(bench.now));
        let (session, server) = (SessionId("s".into()), ServerId("server".into()));
        bench.input(Input::Open { connection, time, session, server });
        bench.close(id);
    }
    bench.said();
    let expected = ["0 - connects to 1.2.3.4:443 Block"];
    assert_eq!(bench.connect(Some(1), connect("1.2.3.4 443", Verdict::Deny, 12, &[1])), expected);
    assert_eq!(bench.engine.counters().departed_evicted, 1);
}

#[test]
fn destination_is_first_seen_once_per_server() {
    let mut bench = Bench::new();
    bench.server(1, 10, "mcp-server-git", 5);
    bench.server(2, 11, "mcp-server-time", 5);
    for (of, destination, protocol, first) in [
        (1, "1.2.3.4 443", Protocol::Tcp, true),
        (1, "1.2.3.4 443", Protocol::Tcp, false),
        (1, "::ffff:1.2.3.4 443", Protocol::Tcp, false),
        (1, "1.2.3.4 443", Protocol::Udp, true),
        (1, "1.2.3.4 80", Protocol::Tcp, true),
        (1, "::1 80", Protocol::Tcp, true),
        (2, "1.2.3.4 443", Protocol::Tcp, true),
        (2, "1.2.3.4 443", Protocol::Tcp, false),
    ] {
        let said =
            bench.connect(Some(of), Connect { protocol, ..connect(destination, Verdict::Allow, 20, &[]) });
        assert_eq!(said[0].ends_with("first"), first, "{of} {destination} {protocol:?}");
    }
    // The same server, started anew.
    bench.close(1);
    bench.server(3, 12, "mcp-server-git", 5);
    assert!(!bench.connect(Some(3), connect("1.2.3.4 443", Verdict::Allow, 20, &[]))[0].ends_with("first"));
}

#[test]
fn remembered_destinations_are_bounded() {
    let mut bench = Bench::new();
    bench.server(1, 10, "mcp-server-git", 5);
    bench.server(2, 11, "mcp-server-time", 5);
    let to = |number: usize| connect(&format!("1.2.3.4 {}", number + 1), Verdict::Allow, 20, &[]);
    let most = Destinations::MOST_OF_ONE;
    for number in 0..most {
        bench.connect(Some(1), to(number));
    }
    assert_eq!(bench.engine.counters().destinations_overflow, 0);
    for (of, number, first, overflow) in
        [(1, most, true, 1), (1, most, true, 2), (1, 0, false, 2), (2, most, true, 2), (2, most, false, 2)]
    {
        assert_eq!(bench.connect(Some(of), to(number))[0].ends_with("first"), first, "{of} {number}");
        assert_eq!(bench.engine.counters().destinations_overflow, overflow, "{of} {number}");
    }
}
