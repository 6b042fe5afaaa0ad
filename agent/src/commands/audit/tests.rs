mod killed;

use std::path::PathBuf;

use mcpwarden_policy::{
    Event,
    config::{Bytes, Period, Retention},
    event::{AgentLoss, EventBody, StoreRecovered},
};
use mcpwarden_store::{self as store, checkpoint::Signer, retention};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

/// A database of these events, each with its number as its time, and the host's public key beside it.
fn database(bodies: Vec<(u64, EventBody)>) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let db = store::SCHEMA.open(&path, None).unwrap();
    let (mut head, mut lines) = (Head::START, Vec::new());
    for (seq, body) in bodies {
        // The ones before were not stored.
        while head.seq + 1 < seq {
            head.append(&mut Event::agent(Timestamp(0), AgentLoss::default().into()), &mut lines);
        }
        let mut event = Event::agent(Timestamp(seq), body);
        let line = head.append(&mut event, &mut lines);
        db.execute(
            "INSERT INTO events (seq, time_ns, type, hash, body) VALUES (?1, ?1, ?2, ?3, ?4)",
            rusqlite::params![head.seq as i64, event.kind(), head.hash.0, &lines[line]],
        )
        .unwrap();
    }
    Signer::new(&[7; 32]).unwrap().publish(directory.path(), None).unwrap();
    (directory, path)
}

fn plain(count: u64) -> Vec<(u64, EventBody)> {
    (1..=count).map(|seq| (seq, AgentLoss { count: seq, ..AgentLoss::default() }.into())).collect()
}

fn verdict(path: &Path, from: Option<u64>, to: Option<u64>) -> Result<Verdict> {
    let reader = Reader::open(path)?;
    let key = path.with_file_name(PUBLIC_KEY);
    walk(&reader, from.map(Bound::Seq), to.map(Bound::Seq), &key, &mut |_| ())
}

fn run(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// What was done to five events, and the first link that is broken: number and problem.
#[test]
fn audit_finds_every_tampered_event() {
    let text = "its text is not what was hashed";
    let columns = "its columns are not what its text says";
    let cases = [
        ("SELECT 1", None),
        (
            "UPDATE events SET body = replace(body, '\"count\":3', '\"count\":4') WHERE seq = 3",
            Some((3, text)),
        ),
        ("UPDATE events SET hash = zeroblob(32) WHERE seq = 2", Some((2, text))),
        ("UPDATE events SET hash = x'00' WHERE seq = 2", Some((2, text))),
        ("UPDATE events SET body = x'7b' WHERE seq = 5", Some((5, text))),
        ("UPDATE events SET type = 'mcp_message' WHERE seq = 4", Some((4, columns))),
        ("UPDATE events SET time_ns = 9 WHERE seq = 4", Some((4, columns))),
        ("DELETE FROM events WHERE seq = 3", Some((3, "it is missing"))),
        ("DELETE FROM events WHERE seq <= 2", Some((1, "it is missing"))),
        ("UPDATE events SET seq = 9 WHERE seq = 5", Some((9, columns))),
        (
            "UPDATE events SET seq = 100 WHERE seq = 2; UPDATE events SET seq = 2 WHERE seq = 3;
             UPDATE events SET seq = 3 WHERE seq = 100",
            Some((2, columns)),
        ),
        // What no chain shows without its end somewhere else.
        ("DELETE FROM events WHERE seq = 5", None),
    ];
    for (sql, expected) in cases {
        let (_directory, path) = database(plain(5));
        run(&path, sql);
        let verdict = verdict(&path, None, None).unwrap();
        let broken = verdict.broken.as_ref().map(|broken| (broken.seq, broken.problem.as_str()));
        assert_eq!(broken, expected, "{sql}");
        assert_eq!(verdict.intact, expected.is_none(), "{sql}");
    }
}

/// An event is changed with its hash, as somebody would who knows how they are stored: the next one tells.
#[test]
fn rehashed_event_breaks_the_next_link() {
    let (_directory, path) = database(plain(5));
    let db = Connection::open(&path).unwrap();
    let body: Vec<u8> = db.query_row("SELECT body FROM events WHERE seq = 3", [], |row| row.get(0)).unwrap();
    let body = String::from_utf8(body).unwrap().replace("\"count\":3", "\"count\":0");
    let forged = (Hash::of(body.as_bytes()).0, body.as_bytes());
    db.execute("UPDATE events SET hash = ?1, body = ?2 WHERE seq = 3", forged).unwrap();
    drop(db);
    let broken = verdict(&path, None, None).unwrap().broken.unwrap();
    assert_eq!((broken.seq, broken.problem.as_str()), (4, "it does not hang on the event before"));
    assert_eq!(broken.expected, Hash::of(body.as_bytes()).to_string());
    // Of others, nothing is said.
    assert!(verdict(&path, Some(5), None).unwrap().intact);
    assert!(verdict(&path, None, Some(3)).unwrap().intact);
    assert!(!verdict(&path, Some(4), None).unwrap().intact);
}

/// From, to, and what was looked at: how many, from, to.
#[test]
fn audit_verifies_only_the_given_range() {
    let (_directory, path) = database(plain(5));
    for (from, to, expected) in [
        (None, None, (5, Some(1), Some(5))),
        (Some(0), None, (5, Some(1), Some(5))),
        (Some(1), Some(1), (1, Some(1), Some(1))),
        (Some(2), Some(4), (3, Some(2), Some(4))),
        (Some(5), Some(9), (1, Some(5), Some(5))),
        (Some(6), None, (0, None, None)),
        (Some(u64::MAX), None, (0, None, None)),
    ] {
        let found = verdict(&path, from, to).unwrap();
        assert!(found.intact, "{from:?} {to:?}");
        assert_eq!((found.events, found.first, found.last), expected, "{from:?} {to:?}");
    }
}

/// Numbers of events and what the last of them says is missing before it, and what is found.
#[test]
fn reported_store_loss_leaves_the_audit_intact() {
    let recovered =
        |first_missing| EventBody::from(StoreRecovered { path: "x".into(), events_lost: 3, first_missing });
    for (seq, first_missing, broken, not_stored) in [
        (6, Some(3), None, 3),
        (6, Some(2), Some(3), 0),
        (6, Some(4), Some(3), 0),
        (6, None, Some(3), 0),
        (3, None, None, 0),
        (3, Some(3), None, 0),
    ] {
        let mut bodies = plain(2);
        bodies.push((seq, recovered(first_missing)));
        bodies.push((seq + 1, AgentLoss::default().into()));
        let (_directory, path) = database(bodies);
        let found = verdict(&path, None, None).unwrap();
        let what = format!("{seq} {first_missing:?}");
        assert_eq!(found.broken.map(|broken| broken.seq), broken, "{what}");
        assert_eq!(found.not_stored, not_stored, "{what}");
        if broken.is_none() && seq == 6 {
            for from in 4..=7 {
                assert!(verdict(&path, Some(from), None).unwrap().intact, "{what} from {from}");
            }
        }
    }
    // An event that says so of others than those before it does not stand for them.
    let (_directory, path) = database(plain(5));
    run(&path, "DELETE FROM events WHERE seq IN (3, 4)");
    assert_eq!(verdict(&path, Some(4), None).unwrap().broken.unwrap().seq, 3);
}

#[test]
fn removed_events_are_covered_by_checkpoint() {
    let (directory, path) = database(plain(5));
    let mut db = store::SCHEMA.open(&path, None).unwrap();
    let limits = Retention { age: Period(Duration::from_nanos(1)), bytes: Bytes(1 << 30) };
    let signer = Signer::new(&[7; 32]).unwrap();
    assert_eq!(retention::step(&mut db, &limits, &signer, Timestamp(5)).unwrap(), 3);
    drop(db);
    let found = verdict(&path, None, None).unwrap();
    assert!(found.intact, "{found:?}");
    assert_eq!((found.removed_until, found.events, found.first), (Some(3), 2, Some(4)));
    for (sql, seq) in [
        ("UPDATE checkpoint SET time_ns = 6", 3),
        ("UPDATE checkpoint SET seq = 4; DELETE FROM events WHERE seq = 4", 4),
        ("UPDATE checkpoint SET signature = x'00'", 3),
    ] {
        let copy = directory.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        run(&copy, sql);
        assert_eq!(verdict(&copy, None, None).unwrap().broken.unwrap().seq, seq, "{sql}");
    }
    run(&path, "DELETE FROM checkpoint");
    assert_eq!(verdict(&path, None, None).unwrap().broken.unwrap().seq, 1);
    // Another host's key.
    fs::remove_file(directory.path().join(PUBLIC_KEY)).unwrap();
    Signer::new(&[8; 32]).unwrap().publish(directory.path(), None).unwrap();
    assert!(verdict(&directory.path().join("copy.db"), None, None).unwrap().broken.is_some());
}
