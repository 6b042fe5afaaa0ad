use mcpwarden_policy::{
    Timestamp,
    registry::{Approval, HASH_VERSION},
};

use serde_json::json;

use super::*;

fn key(uid: Option<u32>, server: &str) -> PinKey {
    PinKey { uid, server: ServerId(server.into()), program: "/bin/x".into() }
}

fn record(hash: &str) -> PinRecord {
    PinRecord {
        first_seen: Timestamp(1),
        last_seen: Timestamp(2),
        hash: hash.into(),
        pinned: true,
        approved: Some(Approval { by: "ann".into(), at: Timestamp(3) }),
        max_severity: None,
        current: hash.into(),
        listed: true,
        said: vec![],
        denied: vec![],
        version: None,
        hash_version: HASH_VERSION,
        bare: None,
        limited: Box::default(),
    }
}

fn item(kind: ItemKind, name: &str) -> Item {
    Item { kind, name: name.into() }
}

fn open(directory: &Path) -> Pins {
    let (pins, replaced) = Pins::open(directory, None).unwrap();
    assert_eq!(replaced, None);
    pins
}

/// Two servers of one name, and every kind of thing.
fn filled(directory: &Path) -> Pins {
    let mut pins = open(directory);
    let all = [
        item(ItemKind::Tool, "a"),
        item(ItemKind::Prompt, "a"),
        item(ItemKind::ResourceTemplate, "a"),
        item(ItemKind::Instructions, ""),
    ];
    let records: Vec<_> = all.into_iter().map(|item| (item, record("h1"))).collect();
    pins.put(&key(Some(1), "s"), &records, &[("h1".into(), "{\"name\":\"ä\"}".into())]).unwrap();
    pins.put(&key(None, "s"), &records[..1], &[]).unwrap();
    pins
}

#[test]
fn stored_pins_are_loaded_in_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let mut pins = open(directory.path());
    let found = pins.load(&key(Some(1), "s")).unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(found[&item(ItemKind::Tool, "a")], record("h1"));
    assert_eq!(pins.load(&key(None, "s")).unwrap().len(), 1);
    assert_eq!(pins.load(&key(Some(2), "s")).unwrap().len(), 0);
    assert_eq!(pins.definition("h1").unwrap().as_deref(), Some("{\"name\":\"ä\"}"));
    assert_eq!(pins.definition("h2").unwrap(), None);
    pins.put(&key(None, "s"), &[(item(ItemKind::Tool, "a"), record("h2"))], &[]).unwrap();
    pins.remove(&key(Some(1), "s"), &[item(ItemKind::Tool, "a"), item(ItemKind::Tool, "b")]).unwrap();
    assert_eq!(pins.load(&key(None, "s")).unwrap()[&item(ItemKind::Tool, "a")], record("h2"));
    assert_eq!(pins.load(&key(Some(1), "s")).unwrap().len(), 3);
    let open = pins.opened().unwrap();
    let counted = (open.pins.clone(), open.definition_bytes);
    let again = Open::new(SCHEMA.open(&directory.path().join(PINS), None).unwrap()).unwrap();
    assert_eq!(counted, (again.pins, again.definition_bytes));
    assert_eq!(counted, ([(-1, 1), (1, 3)].into(), 13));
}

#[test]
fn excess_pins_are_refused_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut pins = filled(directory.path());
    pins.opened().unwrap().pins.insert(7, MAX_PINS_PER_USER - 1);
    let two = [(item(ItemKind::Tool, "x"), record("h")), (item(ItemKind::Tool, "y"), record("h"))];
    let refused = pins.put(&key(Some(7), "t"), &two, &[]).unwrap_err().to_string();
    assert!(refused.starts_with("the store of pins is full: "), "{refused}");
    assert_eq!(pins.load(&key(Some(7), "t")).unwrap().len(), 0);
    pins.put(&key(Some(7), "t"), &two[..1], &[]).unwrap();
    pins.put(&key(Some(7), "t"), &two[..1], &[]).unwrap();
    pins.put(&key(Some(8), "t"), &two, &[]).unwrap();
    pins.opened().unwrap().pins.insert(9, MAX_PINS);
    assert!(pins.put(&key(Some(10), "t"), &two, &[]).is_err());
    pins.opened().unwrap().definition_bytes = MAX_DEFINITION_BYTES - 1;
    pins.put(&key(Some(8), "t"), &two, &[("h2".into(), "{}".into())]).unwrap();
    assert_eq!(pins.definition("h2").unwrap(), None);
}

fn mute(id: &str) -> Mute {
    let mute = json!({"mute_id": id, "source": "operator", "rule": "r", "until": Timestamp(9), "reason": "ä", "by": "ann"});
    serde_json::from_value(mute).unwrap()
}

#[test]
fn stored_mutes_are_loaded_in_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let mut pins = open(directory.path());
    for (id, replaced) in [("a", None), ("b", None), ("c", Some("a")), ("d", Some("none"))] {
        pins.put_mute(&mute(id), replaced).unwrap();
    }
    pins.remove_mute("b").unwrap();
    pins.remove_mute("none").unwrap();
    drop(pins);
    assert_eq!(open(directory.path()).mutes().unwrap(), [mute("c"), mute("d")]);
}

/// A database of the version before has no mutes, and keeps its pins.
#[test]
fn earlier_registry_gets_a_table_of_mutes() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let path = directory.path().join(PINS);
    let before = Connection::open(&path).unwrap();
    before.execute_batch("DROP TABLE mutes; PRAGMA user_version = 1").unwrap();
    drop(before);
    let mut pins = open(directory.path());
    assert_eq!(pins.mutes().unwrap(), []);
    assert_eq!(pins.load(&key(Some(1), "s")).unwrap().len(), 4);
}

#[test]
fn damaged_registry_is_restored_from_export() {
    let directory = tempfile::tempdir().unwrap();
    let mut pins = filled(directory.path());
    pins.put_mute(&mute("a"), None).unwrap();
    let export = pins.export();
    export.run();
    pins.put(&key(Some(5), "late"), &[(item(ItemKind::Tool, "a"), record("h"))], &[]).unwrap();
    drop(pins);
    let path = directory.path().join(PINS);
    fs::write(&path, "x".repeat(9_000)).unwrap();
    let (mut pins, replaced) = Pins::open(directory.path(), None).unwrap();
    let replaced = replaced.unwrap();
    assert_eq!(replaced.pins_restored, Some(5));
    assert_eq!(pins.mutes().unwrap(), [mute("a")]);
    assert!(replaced.reason.contains("not a database"), "{}", replaced.reason);
    assert_eq!(fs::read(&replaced.set_aside).unwrap().len(), 9_000);
    assert_eq!(pins.load(&key(Some(1), "s")).unwrap().len(), 4);
    assert_eq!(pins.definition("h1").unwrap().as_deref(), Some("{\"name\":\"ä\"}"));
    assert_eq!(pins.load(&key(Some(5), "late")).unwrap().len(), 0, "it was pinned after the export");
    // A damaged export leaves nothing half restored.
    drop(pins);
    let text = fs::read_to_string(directory.path().join(EXPORT)).unwrap();
    fs::write(directory.path().join(EXPORT), &text[..text.len() - 9]).unwrap();
    fs::write(&path, "x".repeat(9_000)).unwrap();
    let (mut pins, replaced) = Pins::open(directory.path(), None).unwrap();
    assert_eq!(replaced.unwrap().pins_restored, Some(0));
    assert_eq!(pins.load(&key(Some(1), "s")).unwrap().len(), 0);
}

#[test]
fn export_is_written_only_after_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let mut pins = filled(directory.path());
    let (export, path) = (pins.export(), directory.path().join(EXPORT));
    let exists = || {
        export.run();
        fs::remove_file(&path).is_ok()
    };
    assert!(exists());
    assert!(!exists());
    pins.remove(&key(None, "s"), &[item(ItemKind::Tool, "a")]).unwrap();
    assert!(exists());
    pins.put(&key(None, "s"), &[(item(ItemKind::Tool, "a"), record("h"))], &[]).unwrap();
    assert!(exists());
    assert!(!exists());
}

#[test]
fn unopenable_registry_is_retried() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(PINS);
    fs::create_dir(&path).unwrap();
    let mut pins = open(directory.path());
    assert!(pins.load(&key(None, "s")).is_err());
    fs::remove_dir(&path).unwrap();
    assert_eq!(pins.load(&key(None, "s")).unwrap().len(), 0);
}

/// Times at which pins were first and last seen, and the latest of them.
#[test]
fn newest_pin_is_found() {
    const AHEAD: u64 = 2_000_000_000_000_000_000;
    for (seen, expected) in [
        (&[][..], None),
        (&[(0, 0)], Some(0)),
        (&[(1, 2)], Some(2)),
        (&[(3, 2)], Some(3)),
        (&[(1, 5), (2, 4)], Some(5)),
        (&[(2, 4), (1, 5)], Some(5)),
        (&[(9, 9), (1, 5)], Some(9)),
        (&[(1, AHEAD), (1, 5)], Some(AHEAD)),
        (&[(999_999_999, 1_000_000_000)], Some(1_000_000_000)),
        (&[(AHEAD, 7), (AHEAD + 1, 8), (3, 3)], Some(AHEAD + 1)),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut pins = open(directory.path());
        for (number, (first_seen, last_seen)) in seen.iter().enumerate() {
            let (first_seen, last_seen) = (Timestamp(*first_seen), Timestamp(*last_seen));
            let record = PinRecord { first_seen, last_seen, ..record("h") };
            let item = item(ItemKind::Tool, &number.to_string());
            pins.put(&key(Some(1), "s"), &[(item, record)], &[]).unwrap();
        }
        assert_eq!(pins.newest(), expected.map(Timestamp), "{seen:?}");
    }
}
