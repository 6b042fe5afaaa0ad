//! What is removed, and what is left of it.

use std::collections::BTreeMap;

use mcpwarden_policy::config::{Bytes, Period};
use rusqlite::params;

use super::*;
use crate::{
    ages::{Age, Boot},
    checkpoint::Checkpoint,
    removal::Removal,
    retention::{self, Now, Removed},
    shares,
};

const S: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * S;

fn limits(age: Duration, bytes: u64) -> Retention {
    Retention { age: Period(age), bytes: Bytes(bytes), per_user: None }
}

fn signer() -> Signer {
    Signer::new(&[7; 32]).unwrap()
}

/// A database with events of these users, each with so many bytes of text, in this order.
fn filled(path: &Path, events: impl IntoIterator<Item = (Option<u32>, usize)>) {
    let directory = path.parent().unwrap();
    let mut agent = TestAgent::start(Settings { queue_bytes: 64 << 20, ..settings(directory) });
    let events: Vec<_> = events.into_iter().collect();
    for (batch, events) in events.chunks(500).enumerate() {
        let event = |(at, (owner, bytes)): (usize, &(Option<u32>, usize))| {
            let meaning = "x".repeat(*bytes);
            let time = Timestamp((batch * 500 + at) as u64);
            Event {
                owner: *owner,
                ..Event::agent(time, AgentLoss { meaning, ..AgentLoss::default() }.into())
            }
        };
        agent.send(events.iter().enumerate().map(event).collect());
    }
    agent.finish();
}

/// Numbers of the events that are left.
fn left(db: &Connection) -> Vec<u64> {
    let mut find = db.prepare("SELECT seq FROM events ORDER BY seq").unwrap();
    let found = find.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    found.map(|seq| seq.unwrap().unsigned_abs()).collect()
}

/// What stands for what is gone has good signatures, and hangs on what is left: from the first event to the last.
fn is_whole(db: &Connection, end: u64) {
    let hash_of = |seq: u64| -> Option<[u8; 32]> {
        db.query_row("SELECT hash FROM events WHERE seq = ?1", [integer(seq)], |row| row.get(0)).ok()
    };
    let checkpoint = Checkpoint::read(db).unwrap();
    assert!(checkpoint.iter().all(|checkpoint| checkpoint.is_signed(signer().public())));
    let mut at = checkpoint.map_or(Head::START, |checkpoint| checkpoint.removed);
    let removals: BTreeMap<u64, Removal> =
        Removal::all(db).unwrap().into_iter().map(|removal| (removal.first, removal)).collect();
    let mut used = 0;
    while at.seq < end {
        if let Some(removal) = removals.get(&(at.seq + 1)) {
            assert!(removal.is_signed(signer().public()), "{removal:?}");
            assert!(!removal.is_signed(Signer::new(&[8; 32]).unwrap().public()));
            assert_eq!(removal.before, at.hash, "{removal:?}");
            (at, used) = (removal.last, used + 1);
        } else {
            let hash = hash_of(at.seq + 1).unwrap_or_else(|| panic!("{} is missing", at.seq + 1));
            at = Head { seq: at.seq + 1, hash: Hash(hash) };
        }
    }
    assert_eq!(used, removals.len(), "{removals:?}");
    let recount = "SELECT count(*) FROM (
        SELECT owner, events, bytes FROM shares EXCEPT
        SELECT coalesce(owner, -1), count(*), sum(length(body)) FROM events GROUP BY owner)";
    assert_eq!(db.query_row(recount, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "shares are as counted");
}

fn step(db: &mut Connection, limits: &Retention, age_ns: u64) -> Removed {
    retention::step(db, limits, &signer(), Now { wall: Timestamp(9), age_ns }).unwrap()
}

/// An agent that runs for some time, by the clock since boot, while the wall clock shows what it likes: events are as old as the
/// trail grew since. Which boot, its clock in hours, how many events come then; how many are left after retention (a day).
#[test]
fn age_follows_the_clock_since_boot() {
    const HOUR: u64 = 3_600 * S;
    type Turn = (&'static str, u64, u64, usize);
    let cases: [(&str, &[Turn]); 10] = [
        ("nothing is old", &[("a", 1, 5, 5), ("a", 2, 5, 10)]),
        ("a day goes by", &[("a", 1, 5, 5), ("a", 24, 0, 5), ("a", 26, 0, 0)]),
        ("half of them", &[("a", 1, 5, 5), ("a", 13, 5, 10), ("a", 26, 0, 5), ("a", 38, 0, 0)]),
        ("asleep", &[("a", 1, 5, 5), ("a", 100, 5, 5), ("a", 123, 0, 5), ("a", 124, 0, 0)]),
        ("another boot", &[("a", 1, 5, 5), ("b", 1, 0, 5), ("b", 23, 0, 5), ("b", 25, 0, 0)]),
        ("many boots, which add up", &[("a", 8, 5, 5), ("b", 8, 0, 5), ("c", 8, 0, 5), ("d", 8, 0, 0)]),
        ("a clock that went back", &[("a", 30, 5, 5), ("a", 10, 5, 10), ("a", 30, 0, 10)]),
        ("no boot is known", &[("", 1, 5, 5), ("", 2, 5, 10), ("", 3, 0, 10), ("", 22, 0, 0)]),
        ("a long life", &[("a", 10_000, 5, 5), ("a", 10_001, 5, 10), ("a", 10_025, 0, 0)]),
        ("no events", &[("a", 1, 0, 0), ("a", 100, 0, 0)]),
    ];
    for (name, turns) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let (mut head, mut lines) = (Head::START, Vec::new());
        for (boot, hours, events, expected) in turns {
            let mut db = SCHEMA.open(&path, None).unwrap();
            for _ in 0..*events {
                // The wall clock is far ahead, and far behind.
                let time = [1, i64::MAX.unsigned_abs()][(head.seq % 2) as usize];
                head.append(&mut TestAgent::event(time), &mut lines);
                let row = params![integer(head.seq), integer(time), head.hash.0];
                db.execute(
                    "INSERT INTO events (seq, time_ns, type, hash, body) VALUES (?1, ?2, 'x', ?3, x'00')",
                    row,
                )
                .unwrap();
            }
            let boot = Boot { id: (*boot).into(), ns: hours * HOUR };
            let mut age = Age::read(&db, boot.clone()).unwrap();
            age.write(&mut db, head.seq, boot.ns).unwrap();
            let limits = limits(Duration::from_nanos(DAY), 1 << 30);
            while step(&mut db, &limits, age.at(boot.ns)).events > 0 {}
            assert_eq!(left(&db).len(), *expected, "{name}: {boot:?}");
        }
    }
}

/// Hours at which the age of the trail may be written down, and at which it is.
#[test]
fn age_is_written_down_now_and_then() {
    let directory = tempfile::tempdir().unwrap();
    let mut db = SCHEMA.open(&directory.path().join("x.db"), None).unwrap();
    let mut age = Age::read(&db, Boot { id: "a".into(), ns: 0 }).unwrap();
    for (life, seconds, last, expected) in [
        (DAY, 0, 1, 1),
        (DAY, 1, 2, 1),
        (DAY, 1_349, 3, 1),
        (DAY, 1_350, 4, 2),
        (30 * DAY, 4_949, 5, 2),
        (30 * DAY, 4_950, 6, 3),
        (S, 4_950, 7, 3),
        (S, 4_951, 8, 4),
        (S, 4_952, 8, 4),
    ] {
        age.mark(&mut db, last, Duration::from_nanos(life), seconds * S).unwrap();
        let marks = db.query_row("SELECT count(*) FROM ages", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(marks, expected, "{seconds}");
    }
}

/// Retention of an agent whose wall clock is 40 days ahead, or behind: it removes nothing of what was stored just now.
#[test]
fn wall_clock_removes_nothing() {
    for time in [0, 1, DAY, 40 * 365 * DAY, i64::MAX.unsigned_abs(), u64::MAX] {
        let directory = tempfile::tempdir().unwrap();
        let limits = limits(Duration::from_secs(3_600), 1 << 30);
        let mut agent = TestAgent::start(Settings { retention: limits, ..settings(directory.path()) });
        agent.send_at([time, 0, time]);
        // Beyond one round of retention.
        while agent.store.status().stored < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(1_100));
        assert_eq!(agent.store.status().removed, 0, "{time}");
        agent.finish();
        assert_eq!(left(&SCHEMA.read(&directory.path().join("x.db")).unwrap()), [1, 2, 3], "{time}");
    }
}

/// Whose events come in which order, and which are left when there is room for half of them.
#[test]
fn loudest_user_loses_the_oldest_events() {
    const ONE: usize = 40_000;
    let (loud, quiet) = (Some(1_000), Some(1_001));
    let of = |count: usize, owner| std::iter::repeat_n((owner, ONE), count);
    type Events = Vec<(Option<u32>, usize)>;
    let alternating = |count: usize| (0..count).flat_map(|_| [(loud, ONE), (quiet, 100)]).collect::<Events>();
    let cases: [(&str, Events, &[Option<u32>]); 8] = [
        ("one user", of(200, loud).collect(), &[loud]),
        ("the agent alone", of(200, None).collect(), &[None]),
        ("a flood behind a few", of(5, quiet).chain(of(200, loud)).collect(), &[loud]),
        ("a flood before a few", of(200, loud).chain(of(5, quiet)).collect(), &[loud]),
        ("a flood between a few", of(5, quiet).chain(of(200, loud)).chain(of(5, quiet)).collect(), &[loud]),
        ("one by one", alternating(200), &[loud]),
        ("a flood about the agent", of(5, quiet).chain(of(200, None)).chain(of(5, quiet)).collect(), &[None]),
        ("root's flood", of(5, quiet).chain(of(200, Some(0))).collect(), &[Some(0)]),
    ];
    for (name, events, losers) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        filled(&path, events.clone());
        let mut db = SCHEMA.open(&path, None).unwrap();
        let end = events.len() as u64;
        let limits = limits(Duration::from_secs(9), 4 << 20);
        let mut trimmed = 0;
        loop {
            let removed = step(&mut db, &limits, 0);
            trimmed += removed.trimmed.map_or(0, |(_, share)| share.events);
            is_whole(&db, end);
            if removed.events == 0 {
                break;
            }
        }
        assert!(retention::used_bytes(&db).unwrap() <= 4 << 20, "{name}");
        let kept = left(&db);
        assert_eq!(kept.last(), Some(&end), "{name}: the last one stays");
        assert!(kept.len() as u64 > end / 4, "{name}: no more than needed goes: {}", kept.len());
        let whose = |seq: u64| events[seq as usize - 1].0;
        let gone: Vec<u64> = (1..=end).filter(|seq| !kept.contains(seq)).collect();
        assert!(gone.iter().all(|seq| losers.contains(&whose(*seq))), "{name}: {gone:?}");
        // Of the loser, the oldest.
        let oldest_kept = kept.iter().find(|seq| losers.contains(&whose(**seq))).unwrap();
        assert!(gone.iter().all(|seq| seq < oldest_kept), "{name}");
        let spares = gone.iter().any(|seq| kept.iter().any(|kept| kept < seq));
        assert_eq!(trimmed > 0, spares, "{name}");
    }
}

/// Bytes that a user may have; whose events lose some while the database has room.
#[test]
fn user_beyond_its_size_loses_events() {
    let (loud, quiet) = (Some(1_000), Some(1_001));
    let events = || {
        let some = |owner, count| std::iter::repeat_n((owner, 40_000), count);
        some(quiet, 10).chain(some(loud, 100)).chain(some(None, 60)).chain(some(quiet, 10))
    };
    for (per_user, expected) in [
        (None, [100, 20, 60]),
        (Some(8 << 20), [100, 20, 60]),
        // A step removes half of them at most.
        (Some(2 << 20), [50, 20, 60]),
        (Some(1 << 20), [25, 20, 60]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        filled(&path, events());
        let mut db = SCHEMA.open(&path, None).unwrap();
        let limits = Retention { per_user: per_user.map(Bytes), ..limits(Duration::from_secs(9), 1 << 30) };
        while step(&mut db, &limits, 0).events > 0 {}
        is_whole(&db, 180);
        let found = [loud, quiet, None].map(|owner| shares::of(&db, owner).unwrap().events);
        assert_eq!(found, expected, "{per_user:?}");
    }
}

/// Removals next to each other become one, and part of the checkpoint once nothing is before them. What is removed by turns.
#[test]
fn removals_merge() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    for (name, turns, expected, checkpoint) in [
        ("one", &[&[5][..]][..], &[(5, 5)][..], None),
        ("neighbours at once", &[&[5, 6, 7]], &[(5, 7)], None),
        ("two places at once", &[&[3, 4, 7, 8]], &[(3, 4), (7, 8)], None),
        ("behind one", &[&[5], &[6]], &[(5, 6)], None),
        ("before one", &[&[6], &[5]], &[(5, 6)], None),
        ("between two", &[&[4], &[6], &[5]], &[(4, 6)], None),
        ("at the beginning", &[&[1, 2]], &[], Some(2)),
        ("behind the checkpoint", &[&[1], &[2]], &[], Some(2)),
        ("up to a removal", &[&[3, 4], &[1, 2]], &[], Some(4)),
        ("all before a removal, and one behind", &[&[3, 4], &[7], &[1, 2, 5]], &[(7, 7)], Some(5)),
        ("every second one, then the others", &[&[2, 4, 6, 8], &[1, 3, 5, 7]], &[], Some(8)),
        ("from the end", &[&[9], &[8], &[7], &[6]], &[(6, 9)], None),
    ] {
        let _ = fs::remove_file(&path);
        filled(&path, std::iter::repeat_n((None, 1), 10));
        let mut db = SCHEMA.open(&path, None).unwrap();
        for removed in turns {
            let change = db.transaction().unwrap();
            let heads: Vec<Head> = removed
                .iter()
                .map(|seq| {
                    let hash = "SELECT hash FROM events WHERE seq = ?1";
                    let hash = change.query_row(hash, [*seq], |row| row.get(0)).unwrap();
                    Head { seq: u64::try_from(*seq).unwrap(), hash: Hash(hash) }
                })
                .collect();
            removal::remove(&change, &signer(), Timestamp(1), &heads).unwrap();
            change.commit().unwrap();
        }
        shares::recount(&db).unwrap();
        is_whole(&db, 10);
        let found: Vec<_> =
            Removal::all(&db).unwrap().iter().map(|removal| (removal.first, removal.last.seq)).collect();
        assert_eq!(found, expected, "{name}");
        let found = Checkpoint::read(&db).unwrap().map(|checkpoint| checkpoint.removed.seq);
        assert_eq!(found, checkpoint, "{name}");
    }
}

#[test]
fn altered_removal_is_not_signed() {
    let removal = Removal {
        first: 3,
        before: Hash([1; 32]),
        last: Head { seq: 5, hash: Hash([2; 32]) },
        time: Timestamp(9),
        signature: Vec::new(),
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    filled(&path, std::iter::repeat_n((None, 1), 10));
    let mut db = SCHEMA.open(&path, None).unwrap();
    let change = db.transaction().unwrap();
    let heads = [Head { seq: 5, hash: Hash([5; 32]) }];
    removal::remove(&change, &signer(), Timestamp(1), &heads).unwrap();
    change.commit().unwrap();
    let good = Removal::all(&db).unwrap().remove(0);
    assert!(good.is_signed(signer().public()));
    for bad in [
        removal,
        Removal { first: good.first - 1, ..good.clone() },
        Removal { before: Hash([7; 32]), ..good.clone() },
        Removal { last: Head { seq: 6, ..good.last }, ..good.clone() },
        Removal { last: Head { hash: Hash([7; 32]), ..good.last }, ..good.clone() },
        Removal { time: Timestamp(2), ..good.clone() },
        Removal { signature: Vec::new(), ..good.clone() },
        Removal { signature: vec![0; 64], ..good.clone() },
    ] {
        assert!(!bad.is_signed(signer().public()), "{bad:?}");
    }
}

/// Megabytes that are stored and kept: the file is no larger than what is kept, and some.
#[test]
fn file_shrinks_with_its_content() {
    const MIB: u64 = 1 << 20;
    for (stored, kept) in [(24, 4), (24, 16), (8, 4), (3, 4)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        filled(&path, std::iter::repeat_n((Some(1), 10_000), stored * 100));
        let before = fs::metadata(&path).unwrap().len();
        assert!(before >= stored as u64 * 900_000, "{before}");
        let retention = limits(Duration::from_secs(3_600), kept * MIB);
        let agent = TestAgent::start(Settings { retention, ..settings(directory.path()) });
        let until = Instant::now() + Duration::from_secs(60);
        let most = (kept + 3) * MIB;
        // While the agent runs, not only once it has closed the database.
        while fs::metadata(&path).unwrap().len() > most && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let after = fs::metadata(&path).unwrap().len();
        agent.finish();
        assert!(after <= most, "{stored} {kept}: {before} {after}");
        let closed = fs::metadata(&path).unwrap().len();
        assert!(closed <= most && closed >= before.min(kept * MIB) / 3, "{stored} {kept}: {closed}");
    }
}

/// A database of the version before has no shares and no ages: all of its events are the agent's, and new.
#[test]
fn earlier_events_are_kept_for_another_life() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let before = Schema { migrations: &SCHEMA.migrations[..2], ..SCHEMA };
    let db = before.open(&path, None).unwrap();
    let row = "INSERT INTO events (seq, time_ns, type, hash, body) VALUES (?1, 5, 'x', zeroblob(32), zeroblob(100))";
    for seq in 1..=3 {
        db.execute(row, [seq]).unwrap();
    }
    drop(db);
    let mut db = SCHEMA.open(&path, None).unwrap();
    assert_eq!(shares::of(&db, None).unwrap(), shares::Share { events: 3, bytes: 300 });
    let mut age = Age::read(&db, Boot { id: "a".into(), ns: 90 * DAY }).unwrap();
    age.write(&mut db, 3, 90 * DAY).unwrap();
    let limits = limits(Duration::from_nanos(DAY), 1 << 30);
    assert_eq!(step(&mut db, &limits, age.at(90 * DAY + DAY / 2)).events, 0);
    assert_eq!(step(&mut db, &limits, age.at(91 * DAY)).events, 3);
}
