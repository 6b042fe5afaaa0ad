use mcpwarden_policy::config;

use super::*;
use crate::{Failure, Mismatch};

/// The ids of those that are listed.
fn listed(file: &str) -> Vec<String> {
    let (config, _) = config::parse(file.as_bytes()).unwrap();
    let numbered = Plan::of(&config).unwrap().numbered(0);
    numbered.iter().map(|server| server.id().to_string()).collect()
}

#[test]
fn only_allowed_remote_servers_are_listed() {
    let both = "servers: [{ id: a, type: http, url: 'http://a/' }, { id: b, type: sse, url: 'https://b/x' }]";
    for (name, file, expected) in [
        ("nothing declared", String::new(), &[][..]),
        ("both kinds", both.to_owned(), &["a", "b"]),
        ("a denied one", format!("{both}\npolicy: {{ denied_servers: [a] }}"), &["b"]),
        (
            "not allowed",
            format!("{both}\npolicy: {{ server_policy: allowlist, allowed_servers: [a] }}"),
            &["a"],
        ),
        ("disabled", "servers: [{ id: a, enabled: false, type: http, url: 'http://a/' }]".into(), &[]),
        ("a program", "servers: [{ id: a, command: a }]".into(), &[]),
    ] {
        assert_eq!(listed(&file), expected, "{name}");
    }
}

/// A conversation's number is never another's: the policy core would take the one server for the other.
#[test]
fn changed_plan_uses_new_connection_numbers() {
    let of = |file: &str| Plan::of(&config::parse(file.as_bytes()).unwrap().0).unwrap();
    let one = of("servers: [{ id: a, type: http, url: 'http://a/' }]");
    let two =
        of("servers: [{ id: b, type: http, url: 'http://b/' }, { id: a, type: http, url: 'http://a/' }]");
    let mut listing = Listing::begin(one, (0, 0), Process::default()).unwrap();
    assert_eq!(listing.numbered, 1);
    let file = "servers: [{ id: a, type: http, url: 'http://a/' }]\npolicy: { fail_closed: false }";
    listing.configure(&config::parse(file.as_bytes()).unwrap().0).unwrap();
    assert_eq!(listing.numbered, 1, "the same is listed");
    listing = Listing::begin(two, (listing.numbered, 0), Process::default()).unwrap();
    assert_eq!(listing.numbered, 3);
}

#[test]
fn excess_servers_are_left_out_and_counted() {
    for (many, expected) in [(0, 0), (MAX_SERVERS, 0), (MAX_SERVERS + 3, 3)] {
        assert_eq!(left_out(many), expected, "{many}");
    }
}

#[test]
fn own_connection_numbers_are_distinct() {
    for (number, own) in [(1, false), (SOCKET | 1, false), (LINK | 1, false), (OWN, true), (OWN | 255, true)]
    {
        assert_eq!(is_own(ConnectionId(number)), own, "{number:x}");
    }
}

#[test]
fn server_state_is_reported_only_on_change() {
    let failure = |why: &str, status| Err(Trouble::Unreachable(Failure { why: why.into(), status }));
    let mismatch =
        |found: &str| Err(Trouble::Mismatch(Mismatch { expected: "sha256:0".into(), found: found.into() }));
    let well = || {
        Ok(Listed {
            address: ([127, 0, 0, 1], 1).into(),
            path: "/".into(),
            kind: ServerType::Http,
            frames: Vec::new(),
        })
    };
    let mut listing = Listing {
        plan: Plan::of(&config::Config::default()).unwrap(),
        numbered: 0,
        requests: 0,
        reports: None,
        wakes: BTreeMap::new(),
        client: Process::default(),
        reported: HashMap::new(),
        counters: ListingCounters::default(),
    };
    for (server, outcome, expected) in [
        ("a", well(), Some("mcp_server_reachable")),
        ("a", well(), None),
        ("a", failure("x", None), Some("mcp_server_unreachable")),
        ("a", failure("x", None), None),
        ("b", failure("x", None), Some("mcp_server_unreachable")),
        ("b", well(), Some("mcp_server_reachable")),
        ("b", well(), None),
        ("a", failure("x", Some(401)), Some("mcp_server_unreachable")),
        ("a", failure("y", Some(401)), Some("mcp_server_unreachable")),
        ("a", mismatch("sha256:1"), Some("mcp_tls_mismatch")),
        ("a", mismatch("sha256:1"), None),
        ("a", mismatch("sha256:2"), Some("mcp_tls_mismatch")),
        ("a", well(), Some("mcp_server_reachable")),
        ("a", mismatch("sha256:2"), Some("mcp_tls_mismatch")),
    ] {
        let report = Report {
            server: ServerId(server.into()),
            kind: ServerType::Http,
            url: "http://a/".into(),
            connection: ConnectionId(OWN),
            request: 0,
            outcome,
        };
        assert_eq!(listing.take_note(&report).map(|body| body.kind()), expected);
    }
    let counters = listing.counters();
    assert_eq!((counters["listing_listed"], counters["listing_failed"]), (5, 9));
}

#[test]
fn listed_servers_alone_can_be_refreshed() {
    let file = "servers: [{ id: a, type: http, url: 'http://127.0.0.1:9/' }, { id: p, command: p }]";
    let config = config::parse(file.as_bytes()).unwrap().0;
    let mut listing = Listing::begin(Plan::of(&config).unwrap(), (0, 7), Process::default()).unwrap();
    for (name, expected) in [("a", Some(8)), ("p", None), ("x", None), ("a", Some(9))] {
        assert_eq!(listing.refresh(&ServerId(name.into())), expected, "{name}");
    }
}
