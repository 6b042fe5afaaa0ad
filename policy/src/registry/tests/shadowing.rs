//! Names across the servers of a session: seed 001, rule `shadow_tool`; name similarity.

use super::*;

/// Servers with one tool each, in the order in which they list them; what is found about the last one.
fn last_of(servers: &[(&str, Identity, &str)]) -> (Vec<Change>, World) {
    let mut world = World::new(RegistrySettings::default());
    let mut changes = Vec::new();
    for (number, (server, identity, name)) in servers.iter().enumerate() {
        let id = ConnectionId(number as u64);
        world.registry.connect(id, peer(server, *identity)).unwrap();
        changes = world.list(id, &[tool(name, server)]);
    }
    (changes, world)
}

/// Seed 001, 4: a tool whose name was another server's is found, of the later one, whatever it is spelt like.
#[test]
fn shadowing_tool_is_found_at_later_server() {
    use Identity::{Declared, Derived};
    use Severity::{Critical, High, Low, Medium};
    type Server<'a> = (&'a str, Identity, &'a str);
    type Found<'a> = Option<(&'a str, Severity, Option<&'a str>)>;
    let cases: &[(Server<'_>, Server<'_>, Found<'_>)] = &[
        (("a", Derived, "read_file"), ("b", Derived, "read_file"), Some(("shadow_tool", High, Some("a")))),
        (("a", Declared, "read_file"), ("b", Derived, "read_file"), Some(("shadow_tool", High, Some("a")))),
        (("a", Derived, "read_file"), ("b", Declared, "read_file"), Some(("shadow_tool", High, Some("a")))),
        // Two declared servers that both offer `search`: no attack.
        (("a", Declared, "search"), ("b", Declared, "search"), Some(("shadow_tool", Low, None))),
        (
            ("a", Derived, "read_file"),
            ("b", Derived, "readFile"),
            Some(("shadow_tool_spelling", High, Some("a"))),
        ),
        (
            ("a", Derived, "read_file"),
            ("b", Derived, "re\u{430}d_file"),
            Some(("shadow_tool_confusable", Critical, Some("a"))),
        ),
        (
            ("a", Declared, "read_file"),
            ("b", Declared, "re\u{430}d_file"),
            Some(("shadow_tool_confusable", High, Some("a"))),
        ),
        (("a", Declared, "list_issues"), ("b", Derived, "list_issuse"), Some(("similar_tool", Medium, None))),
        (("a", Derived, "list_issues"), ("b", Derived, "list_issuse"), Some(("similar_tool", Medium, None))),
        (("a", Derived, "read_file"), ("b", Derived, "send_mail"), None),
    ];
    for (first, later, expected) in cases {
        let (changes, world) = last_of(&[*first, *later]);
        let finding = changes[0].finding.as_ref();
        let found = finding.map(|finding| {
            let detection = &finding.detection;
            let shadows = finding.shadows.as_ref().map(|server| &*server.0);
            (detection.pattern.as_str(), detection.severity, shadows)
        });
        assert_eq!(found, *expected, "{first:?} {later:?}");
        let standing = world.registry.tool(ConnectionId(1), later.2).unwrap();
        assert_eq!(standing.detection, finding.map(|finding| &finding.detection));
        assert_eq!(standing.shadows, finding.and_then(|finding| finding.shadows.as_ref()));
        // Never the first one.
        let first = world.registry.tool(ConnectionId(0), first.2).unwrap();
        assert_eq!((first.detection, first.shadows), (None, None));
    }
}

/// A finding is said once, and holds for as long as the tool is listed.
#[test]
fn shadow_finding_is_reported_once_and_persists() {
    let (_, mut world) = last_of(&[("a", Identity::Derived, "x_tool"), ("b", Identity::Derived, "x_tool")]);
    let again = world.list(ConnectionId(1), &[tool("x_tool", "b")]);
    assert_eq!(again[0].finding, None);
    assert!(world.registry.tool(ConnectionId(1), "x_tool").unwrap().shadows.is_some());
}

/// What a server offers in several places, or twice itself, shadows nothing; another session is another matter.
#[test]
fn shadowing_is_limited_to_servers_of_one_session() {
    let mut world = World::with_server();
    world.connect(B, "files");
    let other = Peer { session: SessionId("sess_2".into()), ..peer("other", Identity::Derived) };
    world.registry.connect(ConnectionId(3), other).unwrap();
    for id in [A, B, ConnectionId(3)] {
        let changes = world.list(id, &[tool("read_file", ""), tool("readFile", "")]);
        assert!(changes.iter().all(|change| change.finding.is_none()), "{changes:?}");
    }
}

/// A server that ends and comes back is still the first one.
#[test]
fn reconnected_first_server_keeps_its_names() {
    let servers = [("a", Identity::Derived, "read_file"), ("b", Identity::Derived, "read_file")];
    let (_, mut world) = last_of(&servers);
    world.registry.disconnect(ConnectionId(0)).unwrap();
    world.connect(ConnectionId(7), "a");
    assert_eq!(world.list(ConnectionId(7), &[tool("read_file", "a")])[0].finding, None);
    world.connect(ConnectionId(8), "b");
    assert!(world.list(ConnectionId(8), &[tool("read_file", "b")])[0].finding.is_some());
}

/// Clients start their servers at once: a look-alike that is quicker in a later session is not first for it.
#[test]
fn older_pin_owns_name_in_later_session() {
    let mut world = World::new(RegistrySettings::default());
    world.connect(A, "old");
    world.list(A, &[tool("read_file", "")]);
    world.registry.disconnect(A).unwrap();

    world.connect(B, "new");
    assert_eq!(world.list(B, &[tool("Read_File", "")])[0].finding, None);
    world.connect(A, "old");
    let changes = world.list(A, &[tool("read_file", "")]);
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.connection, word(&change.kind), change.finding.is_some()))
        .collect();
    assert_eq!(told, [(B, "shadowing", true), (A, "seen", false)]);
    let shadows = world.registry.tool(B, "Read_File").unwrap().shadows;
    assert_eq!(shadows, Some(&ServerId("old".into())));
    assert_eq!(world.registry.tool(A, "read_file").unwrap().shadows, None);
}

/// Names of servers: first, later, severity of what is found.
#[test]
fn similar_server_names_are_rated_by_severity() {
    use Identity::{Declared, Derived};
    let cases = [
        (("github", Declared), ("githab", Derived), Some(Severity::High)),
        (("github", Derived), ("githab", Derived), Some(Severity::Medium)),
        (("github", Declared), ("githab", Declared), Some(Severity::Low)),
        (("mcp-server-github", Derived), ("mcp_server_gihtub", Derived), Some(Severity::Medium)),
        (("github", Declared), ("g\u{456}thub", Derived), Some(Severity::High)),
        (("filesystem", Declared), ("mcp-server-filesystem", Derived), Some(Severity::High)),
        (("mcp-server-git", Derived), ("mcp-server-time", Derived), None),
        (("github", Derived), ("gitlab", Derived), None),
        (("github", Derived), ("github", Derived), None),
    ];
    for ((first, first_identity), (later, later_identity), expected) in cases {
        let mut world = World::new(RegistrySettings::default());
        assert_eq!(world.registry.connect(A, peer(first, first_identity)), Ok(None));
        let found = world.registry.connect(B, peer(later, later_identity)).unwrap();
        assert_eq!(found.as_ref().map(|found| found.severity), expected, "{first} {later}");
        assert!(found.is_none_or(|found| found.category == crate::terms::Category::NameSimilarity));
    }
}

#[test]
fn similarity_threshold_is_configurable() {
    for (similarity_threshold, found) in [(0.85, true), (0.95, false), (1.0, false), (0.7, true)] {
        let settings = RegistrySettings { similarity_threshold, ..RegistrySettings::default() };
        let mut world = World::new(settings);
        world.connect(A, "github");
        assert_eq!(world.connect(B, "githab").is_some(), found, "{similarity_threshold}");
    }
}

/// Lists a tool `search` of this program as declared or derived `id`, in a session with `web` that had it second.
fn upgraded(uid: u32, identity: Identity) -> (Vec<&'static str>, Timestamp) {
    let mut world = World::new(RegistrySettings::default());
    let program = |uid, server: &str, program: &str, identity| Peer {
        key: PinKey { uid: Some(uid), server: ServerId(server.into()), program: program.into() },
        ..peer(server, identity)
    };
    let search = [tool("search", "")];
    world.registry.connect(A, program(1000, "docs", "/opt/docs-1", Identity::Declared)).unwrap();
    world.list(A, &search);
    world.registry.connect(B, peer("web", Identity::Derived)).unwrap();
    world.list(B, &search);
    world.restart();
    world.registry.disconnect(A).unwrap();
    // `web` is there first this time.
    world.registry.connect(B, peer("web", Identity::Derived)).unwrap();
    world.list(B, &search);
    let new = program(uid, "docs", "/opt/docs-2", identity);
    world.registry.connect(A, new.clone()).unwrap();
    world.list(A, &search);
    let shadows =
        [A, B].into_iter().filter(|id| world.registry.tool(*id, "search").unwrap().shadows.is_some());
    let shadows = shadows.map(|id| if id == A { "docs" } else { "web" }).collect();
    let first_seen = world.registry.pins(&new.key).unwrap()[&Item::tool("search")].first_seen;
    (shadows, first_seen)
}

/// A declared server that is upgraded is another program, with pins of its own, and had its tools' names before all the
/// same. Nobody else inherits from it: whoever takes its name, and another user's.
#[test]
fn upgraded_declared_server_keeps_its_names() {
    let (first, third) = (Timestamp(2_000_000_000), Timestamp(5_000_000_000));
    for (uid, identity, shadows, first_seen) in [
        (1000, Identity::Declared, "web", first),
        (1000, Identity::Derived, "docs", third),
        (1001, Identity::Declared, "docs", third),
    ] {
        assert_eq!(upgraded(uid, identity), (vec![shadows], first_seen), "{uid} {identity:?}");
    }
}

/// Of so many programs of one server that not all are looked up it is said how many were not.
#[test]
fn programs_per_server_are_bounded_and_counted() {
    let mut world = World::new(RegistrySettings::default());
    let listed_by = |world: &mut World, program: u32| {
        let key = PinKey {
            uid: Some(1000),
            server: ServerId("docs".into()),
            program: format!("/opt/docs-{program}"),
        };
        world.registry.connect(A, Peer { key, ..peer("docs", Identity::Declared) }).unwrap();
        world.list(A, &[tool("search", "")]);
        world.registry.disconnect(A).unwrap();
    };
    for (programs, not_read) in [(33, 0), (34, 1), (35, 3)] {
        for program in programs - if programs == 33 { 33 } else { 1 }..programs {
            listed_by(&mut world, program);
        }
        assert_eq!(world.registry.counters().programs_not_read, not_read, "{programs}");
    }
}
