//! What is refused, what fails, and what is counted then.

use super::*;

fn limited(change: impl FnOnce(&mut RegistryLimits)) -> World {
    let mut settings = RegistrySettings::default();
    change(&mut settings.limits);
    let mut world = World::new(settings);
    world.connect(A, "files");
    world
}

fn many(range: std::ops::Range<usize>) -> Vec<(String, String)> {
    range.map(|number| tool(&format!("tool_{number}_{}", "x".repeat(number)), "")).collect()
}

#[test]
fn registry_limits_refuse_and_count_excess() {
    // A server keeps its pins, whatever it lists besides.
    let mut world = limited(|limits| limits.items_per_server = 3);
    world.list(A, &many(0..3));
    let outcome = world.page(A, ItemKind::Tool, (true, true), &many(1..6));
    assert_eq!(names(&outcome.changes)[..2], ["seen tool_1_x", "seen tool_2_xx"]);
    assert_eq!((outcome.refused, world.registry.counters().items_refused), (3, 3));
    assert!(world.registry.tool(A, "tool_5_xxxxx").is_none());
    assert_eq!(world.registry.pins(&key("files")).unwrap().len(), 3);

    // What has no room is not taken to be removed.
    let mut world = limited(|limits| limits.entries = 11);
    let outcome = world.page(A, ItemKind::Tool, (true, true), &many(0..12));
    assert_eq!(outcome.refused, 0);
    let kinds: Vec<_> = outcome.changes.iter().map(|change| (&change.kind, change.pin)).collect();
    assert_eq!(kinds, [(&ChangeKind::New, PinState::Pinned); 12], "{outcome:?}");
    assert!(world.registry.kept.all <= 11);
    assert!(world.registry.counters().entries_refused > 0);
    let outcome = world.page(A, ItemKind::Tool, (true, true), &many(0..12));
    assert!(outcome.changes.iter().all(|change| change.kind == ChangeKind::Seen), "{outcome:?}");

    // Pins that do not fit are compared all the same.
    let mut world = limited(|limits| limits.entries = 12);
    world.list(A, &many(0..3));
    world.registry.disconnect(A).unwrap();
    world.registry.settings.limits.entries = 2;
    world.connect(A, "files");
    let outcome = world.page(A, ItemKind::Tool, (true, true), &[tool("tool_0_", "changed")]);
    assert_eq!((outcome.refused, outcome.changes[0].pin), (0, PinState::Changed));
    assert!(world.registry.kept.all <= 2);

    let mut world = limited(|limits| limits.connections = 1);
    let refused = world.registry.connect(B, peer("other", Identity::Derived)).unwrap_err();
    assert_eq!((refused, world.registry.counters().connections_refused), (RegistryError::Connections(1), 1));
    world.connect(A, "again");

    let mut world = limited(|limits| limits.servers_per_session = 1);
    world.connect(B, "other");
    world.list(A, &[tool("x", "")]);
    assert_eq!(world.list(B, &[tool("x", "")])[0].finding, None);
    assert_eq!(world.registry.counters().servers_refused, 1);

    let mut world = limited(|limits| limits.definition_bytes = 10);
    world.see("a");
    let changes = world.list(A, &[tool("t", "b")]);
    assert!(matches!(&changes[0].kind, ChangeKind::Changed { diff, .. } if *diff == Diff::unknown()));
    assert_eq!(world.registry.counters().definitions_not_kept, 2);

    let mut world = limited(|_| {});
    world.page(B, ItemKind::Tool, (true, true), &[]);
    world.page(A, ItemKind::Tool, (false, true), &[]);
    world.registry.list_changed();
    let counters = world.registry.counters().to_map();
    for name in ["unknown_pages", "loose_pages", "list_changes", "pages"] {
        assert_eq!(counters[name], 1, "{name}");
    }
}

/// Nobody can have the servers of others go without pins.
#[test]
fn one_user_cannot_exhaust_registry_capacity() {
    let mut world = limited(|limits| (limits.entries_per_user, limits.items_per_server) = (5, 4));
    assert_eq!(world.page(A, ItemKind::Tool, (true, true), &many(0..6)).refused, 2);
    let mut other = peer("other", Identity::Derived);
    (other.key.uid, other.session) = (Some(0), SessionId("sess_2".into()));
    world.registry.connect(B, other).unwrap();
    assert_eq!(names(&world.list(B, &many(0..1))), ["new tool_0_"]);
}

/// What is open, what a server had pinned before, and what it lists then: name, state of its pin.
#[test]
fn crowded_user_keeps_the_pins_of_other_servers() {
    for (name, per_user, open) in [
        ("room for all", 1_000, 3),
        ("none for pins", 9, 3),
        ("none for anything", 2, 3),
        ("none before it comes", 9, 200),
        ("nearly none", 8, 3),
    ] {
        let mut world = limited(|limits| limits.entries_per_user = per_user);
        let victim = || Peer { session: SessionId("sess_2".into()), ..peer("victim", Identity::Derived) };
        world.registry.connect(B, victim()).unwrap();
        assert_eq!(names(&world.list(B, &[tool("t", "a"), tool("u", "a")])), ["new t", "new u"], "{name}");
        world.registry.disconnect(B).unwrap();
        world.list(A, &many(0..open));
        world.registry.connect(B, victim()).unwrap();
        let outcome =
            world.page(B, ItemKind::Tool, (true, true), &[tool("t", "b"), tool("u", "a"), tool("v", "a")]);
        let stands: Vec<_> =
            outcome.changes.iter().map(|change| (change.item.name.as_str(), change.pin)).collect();
        let expected = [("t", PinState::Changed), ("u", PinState::Pinned), ("v", PinState::Pinned)];
        assert_eq!(stands, expected, "{name}: {outcome:?}");
        assert_eq!((outcome.refused, outcome.error), (0, None), "{name}");
        // Names of servers are bounded by connections.
        assert!(world.registry.kept.all <= per_user + 2, "{name}: {}", world.registry.kept.all);
        // Said once, and remembered as such.
        assert_eq!(
            names(&world.list(B, &[tool("t", "b"), tool("u", "a")])),
            ["seen t", "seen u", "removed v"],
            "{name}"
        );
        world.registry.disconnect(A).unwrap();
        world.registry.disconnect(B).unwrap();
        assert_eq!(world.registry.kept.all, 0, "{name}");
    }
}

/// A decision about a tool of a crowded server holds, in memory or not.
#[test]
fn crowded_server_is_approved_and_denied() {
    let mut world = limited(|limits| limits.entries_per_user = 2);
    world.list(A, &[tool("t", "a"), tool("u", "a")]);
    let changes = world.list(A, &[tool("t", "b"), tool("u", "b")]);
    let (item, hash) = (Item::tool("t"), changes[0].hash.clone());
    world.registry.approve(&key("files"), &item, &hash, "ann", world.now).unwrap();
    world.registry.deny(&key("files"), &Item::tool("u"), &changes[1].hash, "ann", world.now).unwrap();
    let changes = world.list(A, &[tool("t", "b"), tool("u", "b")]);
    let stands: Vec<_> = changes.iter().map(|change| (change.pin, change.approved, change.denied)).collect();
    assert_eq!(stands, [(PinState::Pinned, true, false), (PinState::Changed, false, true)]);
}

/// What even the store has no room for is not compared, and nothing is said to be pinned.
#[test]
fn pins_that_nothing_keeps_are_undecided() {
    let mut world = limited(|limits| limits.entries_per_user = 2);
    world.store.fail(true);
    let outcome = world.page(A, ItemKind::Tool, (true, true), &[tool("t", "a")]);
    assert!(outcome.error.is_some() && outcome.changes[0].is_uncompared, "{outcome:?}");
    assert_eq!(outcome.changes[0].pin, PinState::Unpinned);
    let mut world = limited(|limits| limits.items_per_server = 1);
    let outcome = world.page(A, ItemKind::Tool, (true, true), &[tool("t", "a"), tool("u", "a")]);
    let uncompared: Vec<_> = outcome.changes.iter().map(|change| change.is_uncompared).collect();
    assert_eq!((outcome.refused, uncompared), (1, vec![false, true]));
}

/// No room for names: nothing is compared with the new ones, and that is counted.
#[test]
fn names_beyond_capacity_are_refused_and_counted() {
    let mut world = limited(|limits| limits.entries = 3);
    world.list(A, &[tool("read_file", "")]);
    assert_eq!((world.registry.counters().names_refused, world.registry.kept.all), (1, 3));
}

/// A definition that flickers is remembered so often, and then said again: too often rather than never.
#[test]
fn changes_beyond_memory_are_reported_again() {
    let mut world = World::with_server();
    world.see("pinned");
    let letters: Vec<String> = (0..17).map(|number| format!("v{number}")).collect();
    let said = |world: &mut World| letters.iter().filter(|text| world.see(text).0 == "changed").count();
    assert_eq!((said(&mut world), said(&mut world)), (17, 17));
    let record = &world.registry.pins(&key("files")).unwrap()[&Item::tool("t")];
    assert_eq!(record.said.len(), 16);
}

/// Errors of the store are handed on, and what it did not take is handed in again.
#[test]
fn failing_store_loses_no_change() {
    let mut world = World::with_server();
    world.see("a");
    world.store.fail(true);
    let outcome = world.page(A, ItemKind::Tool, (true, true), &[tool("t", "b")]);
    assert!(matches!(outcome.error, Some(StoreError::Failed { .. })));
    assert_eq!(
        (names(&outcome.changes), outcome.changes[0].pin),
        (vec!["changed t".to_owned()], PinState::Changed)
    );
    let item = Item::tool("t");
    let hash = outcome.changes[0].hash.clone();
    assert!(world.registry.approve(&key("files"), &item, &hash, "ann", world.now).is_err());
    assert_eq!(world.registry.tool(A, "t").unwrap().pin, PinState::Changed);
    assert!(world.registry.reset(&key("files"), &[]).is_err());
    assert!(world.registry.counters().store_errors >= 3);
    world.store.fail(false);
    world.list(A, &[tool("t", "b")]);
    assert_eq!(world.store.load(&key("files")).unwrap()[&item].current, hash);
}

/// While pins cannot be read, none is made over them.
#[test]
fn unreadable_store_creates_no_pins() {
    let mut world = World::with_server();
    world.see("a");
    world.store.fail(true);
    world.restart();
    let outcome = world.page(A, ItemKind::Tool, (true, true), &[tool("t", "b")]);
    assert!(outcome.error.is_some());
    assert_eq!(
        (names(&outcome.changes), outcome.changes[0].pin),
        (vec!["seen t".to_owned()], PinState::Unpinned)
    );
    world.store.fail(false);
    assert_eq!(world.see("b"), ("changed", PinState::Changed));
}

#[test]
fn memory_store_is_bounded() {
    let mut store = MemoryStore::new(4_000);
    let record = PinRecord::new("h", true, None, Timestamp(0));
    let large = vec![("h".to_owned(), "x".repeat(3_000))];
    store.put(&key("a"), &[(Item::tool("t"), record.clone())], &large).unwrap();
    // The definition has no room and is not kept; the pin is.
    assert_eq!(store.definition("h"), Ok(None));
    let small = vec![("h".to_owned(), "x".repeat(100))];
    store.put(&key("a"), &[(Item::tool("t"), record.clone())], &small).unwrap();
    assert!(store.definition("h").unwrap().is_some());
    let many: Vec<_> = (0..100).map(|number| (Item::tool(&number.to_string()), record.clone())).collect();
    let full = store.put(&key("b"), &many, &[]).unwrap_err();
    assert!(matches!(full, StoreError::Full(_)), "{full}");
    assert!(store.load(&key("b")).unwrap().is_empty());
    store.remove(&key("a"), &[Item::tool("t")]).unwrap();
    assert_eq!((store.load(&key("a")).unwrap().len(), store.bytes), (0, 100));
}

/// 100 servers of 100 tools in one session.
#[test]
fn large_session_is_compared_in_near_linear_time() {
    let mut world = World::new(RegistrySettings::default());
    let mut found = 0;
    for server in 0..100 {
        let id = ConnectionId(server);
        world.connect(id, &format!("srv{server}"));
        let tools: Vec<_> = (0..100).map(|number| tool(&format!("do_thing_{number}"), "")).collect();
        found += world.list(id, &tools).iter().filter(|change| change.finding.is_some()).count();
    }
    assert_eq!(found, 99 * 100);
}
