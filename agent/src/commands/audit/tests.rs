mod killed;

use std::path::PathBuf;

use mcpwarden_policy::{
    Event,
    config::{Bytes, Period, Retention},
    event::{AgentLoss, EventBody, StoreRecovered, examples::examples},
};
use mcpwarden_store::{
    self as store,
    checkpoint::Signer,
    removal,
    retention::{self, Now},
    testing::{TestAgent, settings},
};
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
    let mut reader = Reader::open(path)?;
    let key = path.with_file_name(PUBLIC_KEY);
    walk(&mut reader, from.map(Bound::Seq), to.map(Bound::Seq), &key, &mut |_| ())
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
        ("UPDATE events SET hash = hex(hash) WHERE seq = 5", Some((5, text))),
        ("UPDATE events SET body = CAST(body AS BLOB) || x'0a' WHERE seq = 5", Some((5, text))),
        ("UPDATE events SET body = CAST(body AS TEXT) WHERE seq = 5", Some((5, text))),
        ("UPDATE events SET hash = (SELECT hash FROM events WHERE seq = 2) WHERE seq = 3", Some((3, text))),
        ("UPDATE events SET seq = -seq WHERE seq = 3", Some((3, "an event stands where there is none"))),
        ("UPDATE events SET seq = seq + 1000000 WHERE seq = 5", Some((1_000_005, columns))),
        (
            "INSERT INTO events (seq, time_ns, type, hash, body) SELECT 6, time_ns, type, hash, body FROM events WHERE seq = 3",
            Some((6, columns)),
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
    let limits = Retention { age: Period(Duration::from_nanos(1)), bytes: Bytes(1 << 30), per_user: None };
    let signer = Signer::new(&[7; 32]).unwrap();
    db.execute("INSERT INTO ages (seq, age_ns) VALUES (3, 1), (5, 2)", []).unwrap();
    let now = Now { wall: Timestamp(5), age_ns: 2 };
    assert_eq!(retention::step(&mut db, &limits, &signer, now).unwrap().events, 3);
    drop(db);
    let found = verdict(&path, None, None).unwrap();
    assert!(found.intact, "{found:?}");
    assert_eq!((found.removed_until, found.events, found.first), (Some(3), 2, Some(4)));
    for (sql, seq) in [
        ("UPDATE checkpoint SET time_ns = 6", 3),
        ("UPDATE checkpoint SET seq = 4; DELETE FROM events WHERE seq = 4", 4),
        ("UPDATE checkpoint SET signature = x'00'", 3),
        ("UPDATE checkpoint SET signature = zeroblob(64)", 3),
        ("UPDATE checkpoint SET time_ns = 0", 3),
        ("UPDATE checkpoint SET hash = (SELECT hash FROM events WHERE seq = 4)", 3),
        ("INSERT INTO checkpoint SELECT seq + 1, hash, time_ns, signature FROM checkpoint", 0),
        ("INSERT INTO checkpoint SELECT seq - 1, hash, time_ns, signature FROM checkpoint", 0),
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

/// Events of all types, stored as the agent does; and beside them the host's public key.
fn stored() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let mut agent = TestAgent::start(settings(directory.path()));
    agent.send(examples().into_iter().map(|event| Event { link: None, ..event }).collect());
    agent.finish();
    Signer::new(&[7; 32]).unwrap().publish(directory.path(), None).unwrap();
    let path = settings(directory.path()).path;
    (directory, path)
}

/// An edit of a column of an event that has a value there, and the column.
#[test]
fn audit_compares_every_column() {
    let (directory, path) = stored();
    let found = verdict(&path, None, None).unwrap();
    assert!(found.intact && found.unknown == 0, "{found:?}");
    let changed = |column: &str, value: &str| {
        format!(
            "UPDATE events SET {column} = {value} WHERE seq = (SELECT max(seq) FROM events WHERE {column} IS NOT NULL)"
        )
    };
    let set = |column: &str, value: &str| {
        format!(
            "UPDATE events SET {column} = {value} WHERE seq = (SELECT max(seq) FROM events WHERE {column} IS NULL)"
        )
    };
    for (sql, column) in [
        (changed("time_ns", "time_ns + 1"), "time_ns"),
        (changed("time_ns", "time_ns / 3.7"), "time_ns"),
        (changed("time_ns", "-1"), "time_ns"),
        (changed("type", "'mcp_message'"), "type"),
        (changed("type", "upper(type)"), "type"),
        (changed("type", "type || ' '"), "type"),
        (changed("type", "CAST(type AS BLOB)"), "type"),
        (changed("severity", "NULL"), "severity"),
        (changed("severity", "severity + 1"), "severity"),
        (set("severity", "0"), "severity"),
        (changed("session", "NULL"), "session"),
        (changed("session", "session || x'00'"), "session"),
        (changed("session", "'sess_000000000000'"), "session"),
        (changed("session", "upper(session)"), "session"),
        (changed("session", "CAST(session AS BLOB)"), "session"),
        (changed("server", "CAST(server AS BLOB)"), "server"),
        (changed("severity", "1.5"), "severity"),
        (changed("uid", "uid || 'x'"), "uid"),
        (changed("tool", "tool || ' '"), "tool"),
        (set("session", "'s'"), "session"),
        (changed("server", "NULL"), "server"),
        (changed("server", "'other'"), "server"),
        (changed("server", "''"), "server"),
        (set("server", "'s'"), "server"),
        (changed("tool", "NULL"), "tool"),
        (changed("tool", "lower(tool) || '2'"), "tool"),
        (set("tool", "'t'"), "tool"),
        (changed("uid", "NULL"), "uid"),
        (changed("uid", "uid + 1"), "uid"),
        (changed("uid", "'x'"), "uid"),
        (set("uid", "0"), "uid"),
    ] {
        let copy = directory.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        run(&copy, &sql);
        let found = verdict(&copy, None, None).unwrap();
        let broken = found.broken.unwrap_or_else(|| panic!("{sql}"));
        assert_eq!((broken.column, found.intact), (Some(column), false), "{sql}: {broken:?}");
        assert_ne!(broken.expected, broken.found, "{sql}");
    }
}

/// Every column that differs is named, not only the first.
#[test]
fn audit_names_all_altered_columns() {
    let (_directory, path) = stored();
    run(
        &path,
        "UPDATE events SET server = 'x' WHERE seq IN (3, 4); UPDATE events SET uid = 77 WHERE seq = 9",
    );
    let found = verdict(&path, None, None).unwrap();
    let all = found.broken.iter().chain(&found.altered);
    let all: Vec<_> = all.map(|broken| (broken.seq, broken.column.unwrap())).collect();
    assert_eq!(all, [(3, "server"), (4, "server"), (9, "uid")]);
    assert_eq!(found.text().lines().count(), 3);
}

/// What is done to the database around the events, and part of what is reported.
#[test]
fn audit_finds_changes_around_the_events() {
    let (directory, path) = stored();
    let schema = |sql: &str| format!("PRAGMA writable_schema = ON; {sql}; PRAGMA writable_schema = RESET");
    let hide = "SELECT * FROM main.events WHERE seq > 3";
    for (sql, expected) in [
        (String::new(), None),
        ("ANALYZE".into(), None),
        ("DROP VIEW calls".into(), Some("the view `calls` is missing")),
        (
            "DROP VIEW calls; CREATE VIEW calls AS SELECT 1 AS one".into(),
            Some("the view `calls` is not the one"),
        ),
        (format!("CREATE VIEW more AS {hide}"), Some("the view `more` is not mcpwarden's")),
        ("DROP INDEX events_by_type".into(), Some("the index `events_by_type` is missing")),
        (
            "DROP INDEX events_by_type; CREATE INDEX events_by_type ON events (type, time_ns) WHERE seq > 3"
                .into(),
            Some("the index `events_by_type` is not the one"),
        ),
        ("CREATE TABLE more (x)".into(), Some("the table `more` is not mcpwarden's")),
        (
            "CREATE TRIGGER less AFTER INSERT ON events BEGIN DELETE FROM events WHERE seq = 1; END".into(),
            Some("the trigger `less` is not mcpwarden's"),
        ),
        (
            schema(
                "UPDATE sqlite_schema SET sql = replace(sql, 'severity IS NOT NULL', 'severity > 2') WHERE name = 'events_by_severity'",
            ),
            Some("the index `events_by_severity` is not the one"),
        ),
        ("ALTER TABLE events ADD COLUMN more".into(), Some("the table `events` is not the one")),
    ] {
        let copy = directory.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        run(&copy, &sql);
        let found = integrity::problems(Reader::open(&copy).unwrap().db()).unwrap();
        match expected {
            None => assert!(found.is_empty(), "{sql}: {found:?}"),
            Some(expected) => assert!(found.iter().any(|one| one.contains(expected)), "{sql}: {found:?}"),
        }
    }
}

/// An index without an event that is there: whoever asks it does not see the event.
#[test]
fn audit_finds_a_row_that_an_index_lacks() {
    let (_directory, path) = stored();
    // Made without the row, and then declared to be the one that has it.
    run(
        &path,
        "DROP INDEX events_by_session;
         CREATE INDEX events_by_session ON events (session, time_ns) WHERE session IS NOT NULL AND seq <> 5;
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql =
             'CREATE INDEX events_by_session ON events (session, time_ns) WHERE session IS NOT NULL'
             WHERE name = 'events_by_session';
         PRAGMA writable_schema = RESET",
    );
    let found = integrity::problems(Reader::open(&path).unwrap().db()).unwrap();
    assert!(found.iter().any(|one| one.contains("events_by_session")), "{found:?}");
}

/// Ten events, some of which retention removed from between the others; what is done then, and the first link that is broken.
#[test]
fn removed_events_between_others_are_covered_by_records() {
    let (directory, path) = database(plain(10));
    let mut db = store::SCHEMA.open(&path, None).unwrap();
    let signer = Signer::new(&[7; 32]).unwrap();
    let change = db.transaction().unwrap();
    let heads: Vec<Head> = [1_i64, 4, 5, 8]
        .into_iter()
        .map(|seq| {
            let hash = "SELECT hash FROM events WHERE seq = ?1";
            let hash = change.query_row(hash, [seq], |row| row.get(0)).unwrap();
            Head { seq: seq.unsigned_abs(), hash: Hash(hash) }
        })
        .collect();
    assert!(removal::remove(&change, &signer, Timestamp(1), &heads).unwrap());
    change.commit().unwrap();
    drop(db);
    let found = verdict(&path, None, None).unwrap();
    assert!(found.intact, "{found:?}");
    assert_eq!((found.removed_until, found.removed_between, found.events), (Some(1), 3, 6));
    for from in 1..=10 {
        for to in from..=10 {
            let found = verdict(&path, Some(from), Some(to)).unwrap();
            assert!(found.intact, "{from} {to}: {found:?}");
        }
    }
    let copied = "INSERT INTO removals SELECT";
    for (sql, seq) in [
        ("DELETE FROM removals WHERE first = 4".to_owned(), 4),
        ("DELETE FROM removals".into(), 4),
        ("UPDATE removals SET last = 6 WHERE first = 4; DELETE FROM events WHERE seq = 6".into(), 4),
        ("UPDATE removals SET first = 3 WHERE first = 4; DELETE FROM events WHERE seq = 3".into(), 3),
        ("UPDATE removals SET time_ns = 2 WHERE first = 8".into(), 8),
        ("UPDATE removals SET signature = (SELECT signature FROM removals WHERE first = 8) WHERE first = 4".into(), 4),
        ("UPDATE removals SET before = zeroblob(32) WHERE first = 8".into(), 8),
        ("UPDATE removals SET hash = zeroblob(32) WHERE first = 8".into(), 8),
        ("DELETE FROM events WHERE seq = 6".into(), 6),
        ("DELETE FROM events WHERE seq = 3".into(), 3),
        ("DELETE FROM events WHERE seq IN (6, 7)".into(), 6),
        (format!("{copied} 6, 6, before, hash, time_ns, signature FROM removals WHERE first = 8; DELETE FROM events WHERE seq = 6"), 6),
        (format!("{copied} 11, 12, before, hash, time_ns, signature FROM removals WHERE first = 8"), 11),
        ("INSERT INTO events (seq, time_ns, type, hash, body) SELECT 0, time_ns, type, hash, body FROM events WHERE seq = 2".into(), 0),
        ("INSERT INTO events (seq, time_ns, type, hash, body) SELECT -5, time_ns, type, hash, body FROM events WHERE seq = 2".into(), 5),
        ("INSERT INTO events (seq, time_ns, type, hash, body) SELECT 1, time_ns, type, hash, body FROM events WHERE seq = 2".into(), 1),
        ("INSERT INTO events (seq, time_ns, type, hash, body) SELECT 4, time_ns, type, hash, body FROM events WHERE seq = 3".into(), 4),
    ] {
        let copy = directory.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        run(&copy, &sql);
        let found = verdict(&copy, None, None).unwrap();
        assert_eq!(found.broken.map(|broken| broken.seq), Some(seq), "{sql}");
    }
}
