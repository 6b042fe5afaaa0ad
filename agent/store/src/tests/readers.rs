//! Readers of a database that an agent writes, that appears, that goes, and that is given up.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    process::{Child, Command, Stdio},
};

use mcpwarden_policy::event::{CutReason, StoreReadersCut};
use mcpwarden_system::files::beside;
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};

use super::*;
use crate::{access, follower::Follower};

/// A read lock on bytes of a file, as any reader of it can take one: one of the open file, since those of one process do not
/// conflict with each other.
struct ReadLock(#[allow(dead_code)] fs::File);

impl ReadLock {
    fn take(path: &Path, start: i64, length: i64) -> Self {
        let file = fs::File::open(path).unwrap();
        let lock = libc::flock {
            l_type: libc::c_short::try_from(libc::F_RDLCK).unwrap(),
            l_whence: 0,
            l_start: start,
            l_len: length,
            l_pid: 0,
        };
        fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        Self(file)
    }
}

fn stored(agent: &TestAgent, count: u64) {
    let until = Instant::now() + Duration::from_secs(30);
    while agent.store.status().stored < count {
        assert!(Instant::now() < until, "{:?}", agent.store.status());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn cut(agent: &TestAgent) -> StoreReadersCut {
    match agent.update() {
        StoreUpdate::Report(body) => match *body {
            EventBody::StoreReadersCut(cut) => cut,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

/// Bytes of the index that a reader locks while events come: none is lost, and whoever locks what only a writer needs is cut off.
#[test]
fn read_locks_lose_no_event() {
    for (name, start, length, is_cut) in [
        ("the lock of the writer", 120, 1, true),
        ("the locks of the writer and of who merges", 120, 2, true),
        ("all locks", 120, 8, true),
        ("the first of the readers", 123, 1, false),
        ("all of the readers", 123, 5, false),
        ("the dead man's switch", 128, 1, false),
        ("the contents", 0, 100, false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let mut agent = TestAgent::start(settings(directory.path()));
        agent.send_at(1..=10);
        stored(&agent, 10);
        let index = beside(&path, "-shm");
        let lock = ReadLock::take(&index, start, length);
        for batch in 1..=20 {
            agent.send_at(batch * 10 + 1..=batch * 10 + 10);
        }
        stored(&agent, 210);
        let status = agent.store.status();
        assert_eq!((status.lost, status.readers_cut), (0, u64::from(is_cut)), "{name}");
        assert_eq!(mode(&index), if is_cut { 0o600 } else { 0o640 }, "{name}");
        if is_cut {
            let cut = cut(&agent);
            assert_eq!((cut.reason, cut.closed_seconds), (CutReason::Locked, 600), "{name}");
        }
        drop(lock);
        let end = agent.finish();
        assert_eq!(end.seq, 210, "{name}");
        assert_eq!(numbers(&path, &Query::default()).len(), 210, "{name}");
        // The next agent lets readers in again.
        let agent = TestAgent::start(settings(directory.path()));
        assert_eq!(mode(&index), 0o640, "{name}");
        agent.finish();
    }
}

/// A reader that locks what who opens the database needs, left over by an agent that was killed: the next one starts all the same.
#[test]
fn read_lock_does_not_keep_the_agent_from_starting() {
    for (start, length) in [(120, 1), (122, 1), (120, 3), (120, 8)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        TestAgent::start(settings(directory.path())).finish();
        // As a killed agent leaves it.
        let live = directory.path().join("live.db");
        fs::copy(&path, &live).unwrap();
        let db = SCHEMA.open(&live, None).unwrap();
        db.execute_batch("INSERT INTO probe VALUES (x'00'); DELETE FROM probe").unwrap();
        for suffix in ["", "-wal"] {
            fs::copy(beside(&live, suffix), beside(&path, suffix)).unwrap();
        }
        // An index that has to be made anew.
        fs::write(beside(&path, "-shm"), vec![0; 32 << 10]).unwrap();
        let _lock = ReadLock::take(&beside(&path, "-shm"), start, length);
        let mut agent = TestAgent::start(settings(directory.path()));
        let reported: Vec<_> = agent.reported.iter().map(EventBody::kind).collect();
        assert_eq!(reported, ["mcp_store_readers_cut"], "{start} {length}: {:?}", agent.reported);
        agent.send_at(1..=5);
        stored(&agent, 5);
        assert_eq!(agent.store.status().lost, 0, "{start} {length}");
        agent.finish();
        assert_eq!(numbers(&path, &Query::default()).len(), 5, "{start} {length}");
    }
}

/// Somebody who may write holds the lock for some time: events wait, and no reader is cut off.
#[test]
fn writer_waits_for_another_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut agent = TestAgent::start(settings(directory.path()));
    agent.send_at([1]);
    stored(&agent, 1);
    let other = Connection::open(&path).unwrap();
    for round in 1..=3 {
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        agent.send_at([round + 1]);
        let waits = agent.store.status().locked;
        let until = Instant::now() + Duration::from_secs(10);
        while agent.store.status().locked == waits {
            assert!(Instant::now() < until, "it does not wait");
            std::thread::sleep(Duration::from_millis(5));
        }
        other.execute_batch("ROLLBACK").unwrap();
        stored(&agent, round + 1);
    }
    let status = agent.store.status();
    assert_eq!((status.lost, status.readers_cut), (0, 0));
    drop(other);
    agent.finish();
}

#[test]
fn closed_database_is_reported_to_readers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let agent = TestAgent::start(settings(directory.path()));
    let index = beside(&path, "-shm");
    // Root may open it whatever its mode is.
    if !nix::unistd::geteuid().is_root() {
        fs::set_permissions(&index, fs::Permissions::from_mode(0o000)).unwrap();
        let error = Reader::open(&path).err().unwrap().to_string();
        assert!(error.contains("closed"), "{error}");
    }
    access::share_index(&path).unwrap();
    assert_eq!(mode(&index), 0o640);
    assert!(access::share_index(&directory.path().join("none")).is_ok());
    agent.finish();
}

/// A process that holds a read transaction of the database that this names open until its input ends. Run by the tests below.
#[test]
fn reader_process() {
    let Some(path) = std::env::var_os("MCPWARDEN_TEST_READER") else { return };
    let db = SCHEMA.read(Path::new(&path)).unwrap();
    db.execute_batch("BEGIN").unwrap();
    let count: i64 = db.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    println!("\nreading {count}");
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

struct ReaderProcess(Child);

impl ReaderProcess {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::readers::reader_process", "--nocapture"])
            .env("MCPWARDEN_TEST_READER", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("reading ")), "it does not read");
        Self(child)
    }
}

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Somebody reads, and does not end: the log of the database stays within its limit, which is reported, and no event is lost.
#[test]
fn open_transaction_does_not_grow_the_log() {
    const LIMIT: u64 = 4 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut agent = TestAgent::start(Settings { log_bytes: LIMIT, ..settings(directory.path()) });
    agent.send_at([1]);
    stored(&agent, 1);
    let reader = ReaderProcess::start(&path);
    let mut most = 0;
    let mut sent = 1;
    let mut cuts = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while cuts.is_empty() || agent.store.log_bytes() > LIMIT {
        assert!(Instant::now() < until, "{} bytes, {cuts:?}", agent.store.log_bytes());
        let event = |_| {
            let body = AgentLoss { meaning: "x".repeat(10_000), ..AgentLoss::default() };
            Event::agent(Timestamp(1), body.into())
        };
        agent.send((0..20).map(event).collect());
        sent += 20;
        std::thread::sleep(Duration::from_millis(20));
        most = most.max(agent.store.log_bytes());
        cuts.extend(agent.store.updates());
    }
    assert!(most > LIMIT, "the reader was not in the way");
    match &cuts[0] {
        StoreUpdate::Report(body) => match &**body {
            EventBody::StoreReadersCut(cut) => {
                assert_eq!((cut.reason, cut.closed_seconds), (CutReason::LogTooLarge, 0));
                assert!(cut.log_bytes > LIMIT);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    stored(&agent, sent);
    let status = agent.store.status();
    assert_eq!((status.lost, status.readers_cut, status.stored), (0, 1, sent));
    assert_eq!(mode(&beside(&path, "-shm")), 0o640, "others can read");
    // Somebody who reads now sees all of it.
    drop(ReaderProcess::start(&path));
    drop(reader);
    agent.finish();
    assert_eq!(numbers(&path, &Query::default()).len() as u64, sent);
    let check: String =
        SCHEMA.read(&path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

/// A follower that began without an agent sees what agents store from then on: whether it looks while they run or afterwards, and
/// through how many of them.
#[test]
fn follower_sees_agents_that_start_later() {
    for (name, agents, looks_between, looks_while) in [
        ("while it runs", 1, false, true),
        ("after it ended", 1, true, false),
        ("while it runs and after", 1, true, true),
        ("two, after both", 2, false, false),
        ("two, after each", 2, true, false),
        ("two, while they run", 2, false, true),
        ("three", 3, true, true),
        ("four, after all", 4, false, false),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let mut agent = TestAgent::start(settings(directory.path()));
        agent.send_at([1, 2, 3]);
        agent.finish();
        let mut follower = Follower::open(&path).unwrap();
        let mut seen = Vec::new();
        let mut look = |seen: &mut Vec<u64>| {
            follower
                .poll(|row| {
                    seen.push(row.head.seq);
                    Ok(())
                })
                .unwrap();
        };
        look(&mut seen);
        assert!(seen.is_empty(), "{name}");
        let mut last = 3;
        for _ in 0..agents {
            let mut agent = TestAgent::start(settings(directory.path()));
            agent.send_at([1, 2]);
            stored(&agent, 2);
            last += 2;
            if looks_while {
                look(&mut seen);
                assert_eq!(seen.last(), Some(&last), "{name}");
            }
            agent.finish();
            if looks_between {
                look(&mut seen);
            }
        }
        look(&mut seen);
        assert_eq!(seen, (4..=last).collect::<Vec<_>>(), "{name}");
    }
}

/// A reader that walks a database while an agent appears, writes, and removes: it reads every event that is there throughout, each
/// once and in order, and those that came.
#[test]
fn walk_survives_an_agent_that_appears() {
    for (name, at) in
        [("at the first event", 1), ("in a page", 3_000), ("between pages", 4_096), ("at the end", 9_000)]
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        let start = || TestAgent::start(Settings { queue_bytes: 64 << 20, ..settings(directory.path()) });
        let mut agent = start();
        for batch in 0..90 {
            agent.send_at(batch * 100..(batch + 1) * 100);
        }
        agent.finish();
        let mut reader = Reader::open(&path).unwrap();
        let mut seen = Vec::new();
        let mut agent = None;
        reader
            .walk(0, |row| {
                seen.push(row.head.seq);
                if row.head.seq == at {
                    let mut new = start();
                    for _ in 0..20 {
                        new.send_at(1..=100);
                    }
                    stored(&new, 2_000);
                    agent = Some(new);
                }
                Ok(true)
            })
            .unwrap();
        assert_eq!(seen, (1..=11_000).collect::<Vec<_>>(), "{name}");
        agent.unwrap().finish();
    }
}

/// What is asked of a reader whose agent gave its readers up: the next page is read from what is there now.
#[test]
fn reader_follows_another_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut agent = TestAgent::start(settings(directory.path()));
    agent.send_at(1..=10);
    stored(&agent, 10);
    let mut reader = Reader::open(&path).unwrap();
    assert!(!reader.refresh().unwrap());
    let index = beside(&path, "-shm");
    fs::rename(&index, beside(&path, "-old")).unwrap();
    assert!(!reader.refresh().unwrap(), "there is no other one yet");
    fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(&index).unwrap();
    assert!(reader.refresh().unwrap());
    assert!(!reader.refresh().unwrap());
    drop(reader);
    agent.finish();
}
