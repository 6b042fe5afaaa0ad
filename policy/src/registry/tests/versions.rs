//! Pins of earlier versions of this program, whose hashes leave `_meta` out.

use super::*;
use crate::definition::{bare_digest, hex, json_hash};
use PinState::{Changed, Pinned, Unpinned};

/// A definition by a short name: its description, and what `_meta` has behind `+`.
fn definition(short: &str) -> (String, String) {
    let (description, meta) = short.split_once('+').map_or((short, None), |(text, meta)| (text, Some(meta)));
    let mut tool = serde_json::json!({"name": "t", "description": description});
    if let Some(meta) = meta {
        tool["_meta"] = match meta {
            "trace" => serde_json::json!({"traceparent": "00-1-2-01", "progressToken": 1}),
            meta => serde_json::json!({"ui": {"resourceUri": meta}}),
        };
    }
    ("t".to_owned(), tool.to_string())
}

/// Pins as an earlier version has left them.
fn made_former(world: &World) {
    let mut store = world.store.inner.lock().unwrap();
    let former: BTreeMap<String, String> =
        store.definitions.iter().map(|(hash, json)| (hash.clone(), hex(&bare_digest(json)))).collect();
    for record in store.pins.values_mut().flat_map(BTreeMap::values_mut) {
        let old = |hash: &mut String| *hash = former.get(hash).unwrap_or(hash).clone();
        old(&mut record.hash);
        old(&mut record.current);
        record.said.iter_mut().for_each(|said| old(&mut said.hash));
        record.denied.iter_mut().for_each(|denied| old(&mut denied.hash));
        (record.hash_version, record.bare) = (0, None);
    }
    store.definitions =
        store.definitions.iter().map(|(hash, json)| (former[hash].clone(), json.clone())).collect();
}

/// Steps are definitions that are listed; `!x` approves x and `~x` denies it, `^` restarts, `v` is another version of this
/// program.
fn play(world: &mut World, steps: &str) -> Vec<(&'static str, PinState)> {
    let mut seen = Vec::new();
    for step in steps.split_whitespace() {
        let (item, now) = (Item::tool("t"), world.now);
        match (step, step.split_at(1)) {
            ("^", _) => world.restart(),
            ("v", _) => {
                made_former(world);
                world.restart();
            }
            (_, ("!", short)) => {
                let hash = json_hash(&definition(short).1);
                world.registry.approve(&key("files"), &item, &hash, "ann", now).unwrap();
            }
            (_, ("~", short)) => {
                let hash = json_hash(&definition(short).1);
                world.registry.deny(&key("files"), &item, &hash, "ann", now).unwrap();
            }
            (short, _) => {
                let changes = world.list(A, &[definition(short)]);
                seen.push((word(&changes[0].kind), changes[0].pin));
            }
        }
    }
    seen
}

#[test]
fn former_pin_is_no_change_and_a_new_one_has_meta() {
    type Case<'a> = (&'a str, &'a [(&'a str, PinState)]);
    let cases: &[Case<'_>] = &[
        ("a v a", &[("new", Pinned), ("seen", Pinned)]),
        ("a+x v a+x", &[("new", Pinned), ("seen", Pinned)]),
        ("a+x v ^ a+x ^ a+x", &[("new", Pinned), ("seen", Pinned), ("seen", Pinned)]),
        // What did not count is taken as it is first seen, and counts from then on.
        ("a+x v a+y a+y a+x", &[("new", Pinned), ("seen", Pinned), ("seen", Pinned), ("changed", Changed)]),
        ("a v a+x a", &[("new", Pinned), ("seen", Pinned), ("changed", Changed)]),
        ("a+x v a a+x", &[("new", Pinned), ("seen", Pinned), ("changed", Changed)]),
        ("a+x v a+y ^ a+x", &[("new", Pinned), ("seen", Pinned), ("changed", Changed)]),
        // Everything else counted before.
        ("a+x v b+x", &[("new", Pinned), ("changed", Changed)]),
        ("a+x v b+x a+x", &[("new", Pinned), ("changed", Changed), ("restored", Pinned)]),
        (
            "a+x v b+x a+x a+y",
            &[("new", Pinned), ("changed", Changed), ("restored", Pinned), ("changed", Changed)],
        ),
        // What was said before is not said again.
        ("a+x b+x v b+x", &[("new", Pinned), ("changed", Changed), ("seen", Changed)]),
        ("a+x b+x v a+x", &[("new", Pinned), ("changed", Changed), ("restored", Pinned)]),
        // Pins of this version.
        ("a a+x", &[("new", Pinned), ("changed", Changed)]),
        ("a+x a", &[("new", Pinned), ("changed", Changed)]),
        ("a+x a+y", &[("new", Pinned), ("changed", Changed)]),
        ("a a+trace a", &[("new", Pinned), ("seen", Pinned), ("seen", Pinned)]),
        ("a+trace v a", &[("new", Pinned), ("seen", Pinned)]),
        // What is approved is what is listed, with its `_meta`.
        ("a v b !b b+x", &[("new", Pinned), ("changed", Changed), ("changed", Changed)]),
        ("a+x v a+x !a+x a+y", &[("new", Pinned), ("seen", Pinned), ("changed", Changed)]),
    ];
    for (steps, expected) in cases {
        assert_eq!(play(&mut World::with_server(), steps), *expected, "{steps}");
    }
    let settings = RegistrySettings { pin_on_first_use: false, ..RegistrySettings::default() };
    let mut world = World::new(settings);
    world.connect(A, "files");
    let seen = play(&mut world, "a+x v a+y a+x");
    assert_eq!(seen, [("new", Unpinned), ("seen", Unpinned), ("changed", Unpinned)]);
}

#[test]
fn former_decisions_stay_in_force() {
    // Steps, and whether the tool is approved and denied then.
    for (steps, approved, denied) in [
        ("a+x !a+x v a+x", true, false),
        ("a !a v a", true, false),
        ("a+x !a+x v b+x", false, false),
        ("a+x ~a+x v a+x", false, true),
        ("a ~a v a", false, true),
        ("a+x b+x ~b+x v b+x", false, true),
        ("a+x b+x ~b+x v a+x", false, false),
        ("a+x ~a+x v ^ a+x ^ a+x", false, true),
        ("a+x ~a+x v a+x !a+x", true, true),
        ("a+x v a+x ~a+x", false, true),
    ] {
        let mut world = World::with_server();
        play(&mut world, steps);
        let standing = world.registry.tool(A, "t").unwrap();
        assert_eq!((standing.approved, standing.denied), (approved, denied), "{steps}");
        let record = &world.registry.pins(&key("files")).unwrap()[&Item::tool("t")];
        assert_eq!(record.denies_current(), denied, "{steps}");
    }
}

/// A record as an earlier version wrote it.
#[test]
fn former_record_is_read() {
    let json = r#"{"first_seen":"2026-01-01T00:00:00Z","last_seen":"2026-01-01T00:00:00Z","hash":"h","pinned":true,
        "approved":null,"max_severity":null,"current":"h","listed":true,"said":[]}"#;
    let record: PinRecord = serde_json::from_str(json).unwrap();
    assert_eq!((record.hash_version, record.bare), (0, None));
}
