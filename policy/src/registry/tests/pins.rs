//! Pins: first use, changes, approval, removal, restarts.

use proptest::prelude::*;

use super::*;
use PinState::{Changed, Pinned, Unpinned};

fn hash(description: &str) -> String {
    crate::definition::json_hash(&tool("t", description).1)
}

/// Steps of one letter are the definition that is listed; `!x` approves x, `^` restarts, `-` lists nothing.
fn play(world: &mut World, steps: &str) -> Vec<(String, PinState)> {
    let mut seen = Vec::new();
    for step in steps.split_whitespace() {
        match step.strip_prefix('!') {
            Some(letter) => {
                let approved =
                    world.registry.approve(&key("files"), &Item::tool("t"), &hash(letter), "ann", world.now);
                seen.push((if approved.is_ok() { "ok" } else { "refused" }.to_owned(), Unpinned));
            }
            None if step == "^" => world.restart(),
            None if step == "-" => {
                seen.extend(
                    world.list(A, &[]).iter().map(|change| (word(&change.kind).to_owned(), change.pin)),
                );
            }
            None => {
                let (word, pin) = world.see(step);
                seen.push((word.to_owned(), pin));
            }
        }
    }
    seen
}

/// Seed 000, trust model: pin on first use, compare ever after.
#[test]
fn first_use_pin_is_compared_ever_after() {
    type Case<'a> = (&'a str, &'a [(&'a str, PinState)]);
    let cases: &[Case<'_>] = &[
        ("a a", &[("new", Pinned), ("seen", Pinned)]),
        // The pin does not move by itself, and one new hash is said once, not with each list.
        ("a b b b", &[("new", Pinned), ("changed", Changed), ("seen", Changed), ("seen", Changed)]),
        ("a b c", &[("new", Pinned), ("changed", Changed), ("changed", Changed)]),
        // There and back again: once each.
        (
            "a b a b a",
            &[
                ("new", Pinned),
                ("changed", Changed),
                ("restored", Pinned),
                ("seen", Changed),
                ("seen", Pinned),
            ],
        ),
        // Not by a new run either.
        ("a ^ a", &[("new", Pinned), ("seen", Pinned)]),
        ("a b ^ b", &[("new", Pinned), ("changed", Changed), ("seen", Changed)]),
        ("a ^ b ^ b", &[("new", Pinned), ("changed", Changed), ("seen", Changed)]),
        ("a b ^ a", &[("new", Pinned), ("changed", Changed), ("restored", Pinned)]),
        // What is approved is the pin; what was the pin is a change then.
        ("a b !b b", &[("new", Pinned), ("changed", Changed), ("ok", Unpinned), ("seen", Pinned)]),
        (
            "a b !b a b",
            &[
                ("new", Pinned),
                ("changed", Changed),
                ("ok", Unpinned),
                ("changed", Changed),
                ("restored", Pinned),
            ],
        ),
        // What was said and is no longer offered can be approved; what was never seen cannot.
        (
            "a b a !b !c",
            &[
                ("new", Pinned),
                ("changed", Changed),
                ("restored", Pinned),
                ("ok", Unpinned),
                ("refused", Unpinned),
            ],
        ),
        ("!a", &[("refused", Unpinned)]),
        // Removed is said once; what returns is compared with its pin.
        ("a - - a", &[("new", Pinned), ("removed", Pinned), ("seen", Pinned)]),
        ("a - b", &[("new", Pinned), ("removed", Pinned), ("changed", Changed)]),
        ("a ^ - ^ -", &[("new", Pinned), ("removed", Pinned)]),
    ];
    for (steps, expected) in cases {
        let seen = play(&mut World::with_server(), steps);
        let seen: Vec<(&str, PinState)> = seen.iter().map(|(word, pin)| (word.as_str(), *pin)).collect();
        assert_eq!(seen, *expected, "{steps}");
    }
}

/// Seed 000, `pin_on_first_use: false`: compared with the one before, until one is approved.
#[test]
fn unpinned_change_is_reported_and_persists() {
    let settings = RegistrySettings { pin_on_first_use: false, ..RegistrySettings::default() };
    type Case<'a> = (&'a str, &'a [(&'a str, PinState)]);
    let cases: &[Case<'_>] = &[
        ("a b b", &[("new", Unpinned), ("changed", Unpinned), ("seen", Unpinned)]),
        ("a !a b", &[("new", Unpinned), ("ok", Unpinned), ("changed", Changed)]),
        (
            "a b a b a",
            &[
                ("new", Unpinned),
                ("changed", Unpinned),
                ("changed", Unpinned),
                ("seen", Unpinned),
                ("seen", Unpinned),
            ],
        ),
    ];
    for (steps, expected) in cases {
        let mut world = World::new(settings.clone());
        world.connect(A, "files");
        let seen = play(&mut world, steps);
        let seen: Vec<(&str, PinState)> = seen.iter().map(|(word, pin)| (word.as_str(), *pin)).collect();
        assert_eq!(seen, *expected, "{steps}");
    }
}

/// Seed 000, `MCPToolChangedEvent`: previous hash, new hash, changes.
#[test]
fn change_lists_differences_since_pin() {
    let mut world = World::with_server();
    play(&mut world, "a b ^");
    let changes = world.list(A, &[tool("t", "c")]);
    let ChangeKind::Changed { previous_hash, diff } = &changes[0].kind else { panic!("{changes:?}") };
    assert_eq!((previous_hash, &changes[0].hash), (&hash("a"), &hash("c")));
    let change =
        FieldChange { field: "/description".into(), previous: Some("a".into()), new: Some("c".into()) };
    assert_eq!((diff.changes.as_slice(), diff.truncated), ([change].as_slice(), false));
}

/// Seed 000, `RegisteredTool`: what is remembered.
#[test]
fn pin_record_has_times_approver_and_severity() {
    let mut world = World::with_server();
    play(&mut world, "a b");
    world.now = world.now.after(std::time::Duration::from_secs(100));
    let before = world.now;
    play(&mut world, "b !b");
    let pins = world.registry.pins(&key("files")).unwrap();
    let record = &pins[&Item::tool("t")];
    assert!(record.first_seen < before && record.last_seen > before && record.pinned && record.listed);
    assert_eq!(record.approved, Some(Approval { by: "ann".into(), at: world.now }));
    assert_eq!((record.max_severity, &record.hash), (Some(Severity::Low), &hash("b")));
    assert!(world.registry.tool(A, "t").unwrap().approved);
    // Another connection sees the approval at once, and so does another run.
    world.restart();
    assert_eq!(world.see("b"), ("seen", Pinned));
    assert!(world.registry.tool(A, "t").unwrap().approved);
    assert_eq!(world.see("a"), ("changed", Changed));
    assert!(!world.registry.tool(A, "t").unwrap().approved);
}

/// Pins belong to (uid, server, program): a look-alike neither poisons nor flip-flops a pin.
#[test]
fn pins_of_other_keys_are_untouched() {
    type Case<'a> = (&'a str, fn(&mut PinKey));
    let cases: [Case<'_>; 4] = [
        ("another user", |key| key.uid = Some(1001)),
        ("user not known", |key| key.uid = None),
        ("another server", |key| key.server = ServerId("other".into())),
        ("another program", |key| key.program = "/tmp/files".into()),
    ];
    for (case, other) in cases {
        let mut world = World::with_server();
        world.see("a");
        let mut look_alike = peer("files", Identity::Derived);
        other(&mut look_alike.key);
        world.registry.connect(B, look_alike).unwrap();
        assert_eq!(names(&world.list(B, &[tool("t", "evil")])), ["new t"], "{case}");
        assert_eq!(world.see("a"), ("seen", Pinned), "{case}");
    }
    let mut world = World::with_server();
    world.see("a");
    world.connect(B, "files");
    assert_eq!(names(&world.list(B, &[tool("t", "evil")])), ["changed t"]);
}

/// Pins that were kept under a path with a version or a temporary directory in it are those of the same program still, and
/// are kept under its new text from then on. Other programs' pins stay where they are.
#[test]
fn pins_of_former_paths_are_taken_over() {
    let uvx = "/h/.cache/uv/archive-v0/*/bin/files";
    // The program now, the path that it has now, the one of the pin; what listing the same tool is, and how many keys are left.
    let cases = [
        ("the same path", "/opt/files", "/opt/files", "/opt/files", "seen", 1),
        (
            "another cache",
            uvx,
            "/h/.cache/uv/archive-v0/b/bin/files",
            "/h/.cache/uv/archive-v0/a/bin/files",
            "seen",
            1,
        ),
        ("another version", "/opt/files/x", "/opt/files-1.3/x", "/opt/files-1.2/x", "seen", 1),
        ("a runner before", "/h/files.py", "/v/bin/mcp", "/v/bin/mcp", "seen", 1),
        ("another program", "/opt/files", "/opt/files", "/tmp/files", "new", 2),
        (
            "another entry",
            uvx,
            "/h/.cache/uv/archive-v0/b/bin/files",
            "/h/.cache/uv/archive-v0/a/bin/other",
            "new",
            2,
        ),
    ];
    for (case, program, path, before, expected, keys) in cases {
        let mut world = World::new(RegistrySettings::default());
        let peer_of = |program: &str, formerly: &str| Peer {
            key: PinKey { program: program.into(), ..key("files") },
            formerly: vec![formerly.into()],
            ..peer("files", Identity::Derived)
        };
        world.registry.connect(A, peer_of(before, before)).unwrap();
        assert_eq!(world.see("a").0, "new");
        world.registry.disconnect(A).unwrap();
        world.registry.connect(A, peer_of(program, path)).unwrap();
        assert_eq!(names(&world.list(A, &[tool("t", "a")])), [format!("{expected} t")], "{case}");
        world.registry.disconnect(A).unwrap();
        assert_eq!(world.registry.pinned(&key("files").server).unwrap().len(), keys, "{case}");
        // What was taken over is compared, and forgotten when somebody says so.
        world.registry.connect(A, peer_of(program, path)).unwrap();
        assert_eq!(names(&world.list(A, &[tool("t", "b")])), ["changed t"], "{case}");
        world.registry.reset(&peer_of(program, path).key, &[]).unwrap();
        assert_eq!(world.see("b").0, "new", "{case}");
    }
}

/// Pins of a bridge that were kept before its target was part of its program are the first target's that lists them; the next
/// one has none.
#[test]
fn pins_without_a_target_are_the_first_ones() {
    let bridge = |target: &str| Peer {
        key: PinKey { program: format!("/v/bin/tide-proxy{target}"), ..key("files") },
        formerly: vec![format!("/v/bin/tide-proxy{target}"), "/v/bin/tide-proxy".into()],
        ..peer("files", Identity::Derived)
    };
    let mut world = World::new(RegistrySettings::default());
    let (one, two) = (" to https://tide.test/mcp", " to https://moon.test/mcp");
    for (target, description, expected) in
        [("", "a", "new"), (one, "a", "seen"), (two, "b", "new"), (one, "c", "changed"), (two, "b", "seen")]
    {
        world.registry.connect(A, bridge(target)).unwrap();
        let found = names(&world.list(A, &[tool("t", description)]));
        assert_eq!(found, [format!("{expected} t")], "{target} {description}");
        world.registry.disconnect(A).unwrap();
    }
    assert_eq!(world.registry.pinned(&key("files").server).unwrap().len(), 2);
}

/// The pins of a server that runs are not another one's, and what cannot be moved is tried again.
#[test]
fn pins_of_running_or_unreadable_servers_are_not_taken_over() {
    let runner = |program: &str| Peer {
        key: PinKey { program: program.into(), ..key("files") },
        formerly: vec!["/v/bin/mcp".into()],
        ..peer("files", Identity::Derived)
    };
    let mut world = World::new(RegistrySettings::default());
    world.registry.connect(A, runner("/v/bin/mcp")).unwrap();
    assert_eq!(world.see("a").0, "new");
    world.registry.connect(B, runner("/h/b.py")).unwrap();
    assert_eq!(names(&world.list(B, &[tool("t", "b")])), ["new t"]);
    world.registry.disconnect(A).unwrap();
    world.registry.connect(A, runner("/h/a.py")).unwrap();
    world.store.fail(true);
    let outcome = world.page(A, ItemKind::Tool, (true, true), &[tool("t", "a")]);
    assert!(outcome.error.is_some(), "{outcome:?}");
    world.store.fail(false);
    assert_eq!(world.see("a").0, "seen");
}

/// Prompts, resource templates and instructions are pinned as tools are; equal names of two kinds are two items.
#[test]
fn every_item_kind_is_pinned_separately() {
    use ItemKind::{Instructions, Prompt, ResourceTemplate, Tool};
    let mut world = World::with_server();
    let text = |text: &str| vec![(String::new(), format!("\"{text}\""))];
    for (kind, items, expected) in [
        (Tool, vec![tool("x", "1")], "new"),
        (Prompt, vec![tool("x", "2")], "new"),
        (ResourceTemplate, vec![tool("x", "3")], "new"),
        (Instructions, text("be good"), "new"),
        (Instructions, text("be good"), "seen"),
        (Instructions, text("be bad"), "changed"),
        (Prompt, vec![tool("x", "1")], "changed"),
        (Instructions, vec![], "removed"),
        (Tool, vec![tool("x", "1")], "seen"),
    ] {
        let changes = world.page(A, kind, (true, true), &items).changes;
        assert_eq!(
            changes.iter().map(|change| word(&change.kind)).collect::<Vec<_>>(),
            [expected],
            "{kind:?}"
        );
    }
}

/// Pages, as (first, last, tools), and what the last of them shows.
#[test]
fn paged_list_is_registered_as_one() {
    type Pages<'a> = &'a [(bool, bool, &'a [&'a str])];
    let cases: &[(&str, Pages<'_>, &[&str])] = &[
        ("two pages", &[(true, false, &["a"]), (false, true, &["b"])], &["new b"]),
        (
            "tools of earlier pages are there",
            &[(true, true, &["a", "b"]), (true, false, &["a"]), (false, true, &["b"])],
            &["seen b"],
        ),
        (
            "removed with the last page",
            &[(true, true, &["a", "b", "c"]), (true, false, &["a"]), (false, true, &["c"])],
            &["seen c", "removed b"],
        ),
        ("not before it", &[(true, true, &["a", "b"]), (true, false, &["a"])], &["seen a"]),
        (
            "a first page begins anew",
            &[(true, true, &["a", "b"]), (true, false, &["b"]), (true, true, &["a"])],
            &["seen a", "removed b"],
        ),
        ("a page without a beginning removes nothing", &[(true, true, &["a"]), (false, true, &[])], &[]),
    ];
    for (case, pages, expected) in cases {
        let mut world = World::with_server();
        let mut last = Vec::new();
        for (first, end, tools) in *pages {
            let tools: Vec<_> = tools.iter().map(|name| tool(name, "")).collect();
            last = world.page(A, ItemKind::Tool, (*first, *end), &tools).changes;
        }
        assert_eq!(names(&last), *expected, "{case}");
    }
}

#[test]
fn tools_are_listed_once_last_page_arrives() {
    let mut world = World::with_server();
    world.page(A, ItemKind::Prompt, (true, true), &[]);
    world.page(A, ItemKind::Tool, (true, false), &[tool("a", "")]);
    assert!(!world.registry.is_listed(A) && world.registry.tool(A, "a").is_some());
    world.page(A, ItemKind::Tool, (false, true), &[tool("b", "")]);
    assert!(world.registry.is_listed(A));
    assert_eq!(world.registry.tools(A).map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
    world.list(A, &[tool("b", "")]);
    assert!(world.registry.tool(A, "a").is_none());
    assert_eq!(world.registry.tools(B).count(), 0);
}

/// One list with two definitions of a name: whichever the client takes, the changed one counts.
#[test]
fn contradictory_list_marks_tool_changed() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut world = World::with_server();
        world.see("a");
        world.list(A, &order.map(|text| tool("t", text)));
        assert_eq!(world.registry.tool(A, "t").unwrap().pin, Changed, "{order:?}");
        assert_eq!(world.registry.counters().contradictions, 1);
    }
}

#[test]
fn tool_offered_on_other_connection_is_not_removed() {
    let mut world = World::with_server();
    world.connect(B, "files");
    world.list(A, &[tool("t", ""), tool("u", "")]);
    world.list(B, &[tool("t", ""), tool("u", "")]);
    assert_eq!(names(&world.list(A, &[tool("t", "")])), ["seen t"]);
    assert_eq!(names(&world.list(B, &[tool("t", "")])), ["seen t", "removed u"]);
}

/// A server that is started anew while an earlier process of it still has a client.
#[test]
fn tool_of_an_earlier_start_is_removed_with_the_last_page() {
    let mut world = World::with_server();
    world.list(A, &[tool("t", ""), tool("u", ""), tool("v", "")]);
    world.connect(B, "files");
    let page = |world: &mut World, ends, name| {
        names(&world.page(B, ItemKind::Tool, ends, &[tool(name, "")]).changes)
    };
    assert_eq!(page(&mut world, (true, false), "t"), ["seen t"]);
    assert_eq!(page(&mut world, (false, true), "v"), ["seen v", "removed u"]);
    // The earlier one has it all the same, and lists it again.
    assert_eq!(
        names(&world.list(A, &[tool("t", ""), tool("u", ""), tool("v", "")])),
        ["seen t", "seen u", "seen v"]
    );
    assert_eq!(names(&world.list(B, &[tool("t", ""), tool("v", "")])), ["seen t", "seen v"]);
}

#[test]
fn reset_pin_is_treated_as_first_use() {
    let mut world = World::with_server();
    world.list(A, &[tool("t", "a"), tool("u", "a")]);
    assert_eq!(world.registry.reset(&key("files"), &[Item::tool("t")]), Ok(1));
    assert_eq!(world.registry.tool(A, "t").unwrap().pin, Unpinned);
    assert_eq!(names(&world.list(A, &[tool("t", "b"), tool("u", "b")])), ["new t", "changed u"]);
    assert_eq!(world.registry.reset(&key("files"), &[]), Ok(2));
    assert_eq!(world.registry.pins(&key("files")), Ok(BTreeMap::new()));
    assert_eq!(world.registry.reset(&key("nobody"), &[]), Ok(0));
}

/// Approval from the command line, of a server that does not run.
#[test]
fn disconnected_server_can_be_approved() {
    let mut world = World::with_server();
    play(&mut world, "a b");
    world.registry.disconnect(A).unwrap();
    let item = Item::tool("t");
    world.registry.approve(&key("files"), &item, &hash("b"), "ann", world.now).unwrap();
    world.restart();
    assert_eq!(world.see("b"), ("seen", Pinned));
    let refused = world.registry.approve(&key("files"), &item, &hash("z"), "ann", world.now).unwrap_err();
    assert!(refused.to_string().contains("last seen with"), "{refused}");
}

#[test]
fn store_is_complete_after_each_page() {
    let mut world = World::with_server();
    play(&mut world, "a b");
    let kept = world.store.load(&key("files")).unwrap();
    assert_eq!(kept, world.registry.pins(&key("files")).unwrap());
    // A list that shows nothing new is not written.
    world.store.fail(true);
    assert_eq!(world.see("b"), ("seen", Changed));
}

proptest! {
    /// However often a list is sent again, nothing is said of it, and nothing is remembered.
    #[test]
    fn repeated_list_changes_nothing(lists in prop::collection::vec(
        prop::collection::vec(("[a-e]", "[x-z]"), 0..6), 1..6)) {
        let mut world = World::with_server();
        for list in lists {
            let mut list: Vec<_> = list.iter().map(|(name, text)| tool(name, text)).collect();
            list.sort();
            list.dedup_by(|left, right| left.0 == right.0);
            world.list(A, &list);
            let before = world.registry.pins(&key("files")).unwrap();
            let again = world.list(A, &list);
            prop_assert!(again.iter().all(|change| change.kind == ChangeKind::Seen && change.finding.is_none()));
            prop_assert_eq!(before, world.registry.pins(&key("files")).unwrap());
        }
        let listed: usize = world.registry.tools(A).count();
        let names = world.registry.sessions.values().map(Session::names).sum::<usize>();
        prop_assert_eq!(world.registry.kept.all, listed + names + world.registry.pins(&key("files")).unwrap().len());
        world.registry.disconnect(A).unwrap();
        prop_assert_eq!(world.registry.kept.all, 0);
    }
}

/// The name that a server had and the one that it has, what else it is called, whether its pins follow.
#[test]
fn pins_follow_a_server_to_another_name() {
    for (before, now, also, expected) in [
        ("tide-1.2.3", "tide", &[][..], "changed"),
        ("tide-1.2.3", "tide-1.3.0", &[], "changed"),
        ("tide@1.2", "tide", &[], "changed"),
        ("tide@1.2", "tide@2", &[], "changed"),
        ("tide_mcp-1.4.0", "tide_mcp", &[], "changed"),
        ("tide", "calc", &["tide"], "changed"),
        ("tide", "calc", &["x", "tide"], "changed"),
        ("tide", "calc", &["x"], "new"),
        ("tide", "calc", &[], "new"),
        ("tide-1", "tide-2", &[], "new"),
        ("other-1.2", "tide-1.2", &[], "new"),
    ] {
        for same_program in [true, false] {
            let peer_of = |server: &str, program: &str, also: &[&str]| Peer {
                key: PinKey { program: program.into(), ..key(server) },
                also: also.iter().map(|id| ServerId((*id).into())).collect(),
                ..peer(server, Identity::Derived)
            };
            let mut world = World::new(RegistrySettings::default());
            world.registry.connect(A, peer_of(before, "/opt/x", &[])).unwrap();
            assert_eq!(world.see("a").0, "new");
            world.registry.disconnect(A).unwrap();
            let program = if same_program { "/opt/x" } else { "/opt/y" };
            world.registry.connect(A, peer_of(now, program, also)).unwrap();
            let expected = if same_program { expected } else { "new" };
            assert_eq!(world.see("b").0, expected, "{before} {now} {also:?} {same_program}");
            let left = world.registry.pinned(&ServerId(before.into())).unwrap().len();
            assert_eq!(left, usize::from(expected == "new"), "{before} {now}: they move");
        }
    }
}
