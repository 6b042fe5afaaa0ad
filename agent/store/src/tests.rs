//! The store as the agent uses it, on files of a test's own.

mod readers;
mod retention;

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use mcpwarden_policy::{
    Event, SessionId, Timestamp,
    event::{AgentLoss, StoreRecovered},
};
use rusqlite::Connection;

use super::{
    reader::{Query, Reader},
    testing::{TestAgent, settings},
    *,
};

impl TestAgent {
    fn event(time: u64) -> Event {
        let session_id = Some(SessionId(format!("sess_{}", time % 3).into()));
        Event { session_id, ..Event::agent(Timestamp(time), AgentLoss::default().into()) }
    }

    /// Says events at these times, in one batch.
    fn send_at(&mut self, times: impl IntoIterator<Item = u64>) {
        self.send(times.into_iter().map(Self::event).collect());
    }

    /// Waits for updates.
    fn update(&self) -> StoreUpdate {
        self.store.updates.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

fn bodies(path: &Path, query: &Query) -> Vec<Event> {
    let mut found = Vec::new();
    let reader = Reader::open(path).unwrap();
    reader
        .find(query, |_, line| {
            found.push(serde_json::from_slice(line)?);
            Ok(())
        })
        .unwrap();
    found
}

fn numbers(path: &Path, query: &Query) -> Vec<u64> {
    bodies(path, query).into_iter().map(|event| event.link.unwrap().seq).collect()
}

#[test]
fn hash_chain_continues_in_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = TestAgent::start(settings(directory.path()));
    assert_eq!((first.head, first.reported.len()), (Head::START, 0));
    first.send_at([10, 20]);
    first.send_at([30]);
    let end = first.finish();
    assert_eq!(end.seq, 3);
    let path = directory.path().join("x.db");
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&path), "one file, for readers that may write nothing beside it");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let mut second = TestAgent::start(settings(directory.path()));
    assert_eq!(second.head, end);
    second.send_at([40]);
    let end = second.finish();
    assert_eq!(opening::head(&SCHEMA.read(&path).unwrap()).unwrap(), end);
    assert_eq!(numbers(&path, &Query::default()), [1, 2, 3, 4]);
}

/// What is asked for, and the numbers of what is found. Times are tens.
#[test]
fn stored_events_are_found_by_query() {
    let directory = tempfile::tempdir().unwrap();
    let mut agent = TestAgent::start(settings(directory.path()));
    // The fourth came late.
    agent.send_at([10, 20, 30, 15, 40]);
    let failing = Event::agent(Timestamp(50), StoreFailing::default().into());
    agent.send(vec![Event { server_id: Some(mcpwarden_policy::ServerId("a".into())), ..failing }]);
    agent.finish();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let at = |time| Some(Timestamp(time));
    let high = Some(mcpwarden_policy::event::Severity::High);
    for (query, expected) in [
        (Query::default(), &[1, 4, 2, 3, 5, 6][..]),
        (Query { limit: Some(2), ..Query::default() }, &[5, 6]),
        (Query { since: at(15), until: at(40), ..Query::default() }, &[4, 2, 3]),
        (Query { since: at(60), ..Query::default() }, &[]),
        (Query { types: texts(&["agent_loss"]), limit: Some(1), ..Query::default() }, &[5]),
        (
            Query { types: texts(&["agent_loss", "mcp_store_failing"]), since: at(30), ..Query::default() },
            &[3, 5, 6],
        ),
        (Query { types: texts(&["' OR 1"]), ..Query::default() }, &[]),
        (Query { sessions: texts(&["sess_1"]), ..Query::default() }, &[1, 5]),
        (Query { servers: texts(&["a", "b"]), ..Query::default() }, &[6]),
        (Query { severity: high, ..Query::default() }, &[6]),
        (Query { severity: Some(mcpwarden_policy::event::Severity::Critical), ..Query::default() }, &[]),
    ] {
        assert_eq!(numbers(&directory.path().join("x.db"), &query), expected, "{query:?}");
    }
}

#[test]
fn damaged_database_is_set_aside_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    fs::write(&path, "no database ".repeat(1_000)).unwrap();
    let mut agent = TestAgent::start(settings(directory.path()));
    assert_eq!(agent.head, Head::START);
    match agent.reported.as_slice() {
        [EventBody::StoreReplaced(replaced)] => {
            assert!(fs::read(&replaced.set_aside).unwrap().starts_with(b"no database"));
            assert!(replaced.set_aside.starts_with(&format!("{}.damaged-", path.display())));
        }
        other => panic!("{other:?}"),
    }
    agent.send_at([10]);
    agent.finish();
    assert_eq!(numbers(&path, &Query::default()), [1]);
}

#[test]
fn foreign_database_is_refused_and_unchanged() {
    let later = format!("PRAGMA user_version = 99; PRAGMA application_id = {}", database::APPLICATION_ID);
    for (sql, part) in [
        (later.as_str(), "by a later version of mcpwarden"),
        ("CREATE TABLE x (y)", "a database of another program"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&path).unwrap();
        let error = Store::start(settings(directory.path()), || ()).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

/// Somebody holds the database, so that nothing can be written: as with a full disk, of which the end-to-end tests have one.
#[test]
fn unstored_events_are_counted_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut agent = TestAgent::start(settings(directory.path()));
    agent.send_at([10, 20]);
    while agent.store.status().stored < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    agent.send_at([30, 40]);
    let StoreUpdate::Report(body) = agent.update() else { panic!("nothing is said") };
    let EventBody::StoreFailing(failing) = *body else { panic!("{body:?}") };
    assert!(failing.reason.contains("locked"), "{failing:?}");
    agent.send_at([50]);
    other.execute_batch("ROLLBACK").unwrap();
    let StoreUpdate::Recovered { stored, ours: true } = agent.update() else { panic!("it is not well") };
    assert_eq!(stored.seq, 2);
    let recovered =
        StoreRecovered { path: String::new(), events_lost: 3, first_missing: Some(stored.seq + 1) };
    agent.send(vec![
        TestAgent::event(60),
        Event::agent(Timestamp(70), recovered.into()),
        TestAgent::event(80),
    ]);
    let status = {
        while agent.store.status().stored < 4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        agent.store.status()
    };
    assert_eq!((status.stored, status.lost, status.head), (4, 4, agent.head));
    drop(other);
    agent.finish();
    assert_eq!(numbers(&path, &Query::default()), [1, 2, 7, 8]);
}

/// Its pages are overwritten while it is open: what is in it is set aside with them, and the next one says what it lacks.
#[test]
fn database_damaged_at_runtime_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut agent = TestAgent::start(settings(directory.path()));
    agent.send_at(1..=50);
    while agent.store.status().stored < 50 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Into the database, so that its own pages count, and nobody remembers them.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let damaged = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let pages = fs::metadata(&path).unwrap().len() / 4096;
    for page in 1..pages {
        std::os::unix::fs::FileExt::write_all_at(&damaged, &[0xff; 512], page * 4096).unwrap();
    }
    agent.send_at([60, 70]);
    let mut reported = Vec::new();
    let stored = loop {
        match agent.update() {
            StoreUpdate::Report(body) => reported.push(body.kind()),
            StoreUpdate::Recovered { stored, ours: true } => break stored,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((reported, stored), (vec!["mcp_store_failing", "mcp_store_replaced"], Head::START));
    let recovered = StoreRecovered { first_missing: Some(1), ..StoreRecovered::default() };
    agent.send(vec![Event::agent(Timestamp(u64::MAX), recovered.into())]);
    drop(other);
    agent.finish();
    assert_eq!(numbers(&path, &Query::default()), [53]);
}

/// A directory that cannot be used at first: the chain begins anew and goes on from what is found later.
#[test]
fn unopenable_database_is_retried() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut before = TestAgent::start(settings(directory.path()));
    before.send_at([10, 20, 30]);
    let end = before.finish();
    let away = directory.path().join("away");
    fs::rename(&path, &away).unwrap();
    fs::create_dir(&path).unwrap();
    let mut agent = TestAgent::start(settings(directory.path()));
    assert!(matches!(agent.reported.as_slice(), [EventBody::StoreFailing(_)]), "{:?}", agent.reported);
    agent.send_at([40]);
    fs::remove_dir(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    let StoreUpdate::Recovered { stored, ours: false } = agent.update() else { panic!("it is not well") };
    assert_eq!(stored, end);
    agent.head = stored;
    agent.send(vec![Event::agent(Timestamp(50), StoreRecovered::default().into())]);
    agent.finish();
    assert_eq!(numbers(&path, &Query::default()), [1, 2, 3, 4]);
}

#[test]
fn store_queue_is_bounded_in_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let agent = TestAgent::start(Settings { queue_bytes: 100, ..settings(directory.path()) });
    agent.runtime.block_on(async {
        let some = agent.store.room(60).await;
        let waits = |bytes| {
            let store = &agent.store;
            async move {
                let mut room = Box::pin(store.room(bytes));
                std::future::poll_fn(|context| {
                    std::task::Poll::Ready(room.as_mut().poll(context).is_pending())
                })
                .await
            }
        };
        assert!(!waits(40).await);
        assert!(waits(41).await);
        assert!(waits(1_000).await, "what is larger than all of it waits for all of it");
        drop(some);
        assert!(!waits(1_000).await);
    });
}

/// A database of an earlier version gets the views of this one, and keeps its events.
#[test]
fn earlier_schema_version_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let first = Schema { migrations: &SCHEMA.migrations[..1], ..SCHEMA };
    let db = first.open(&path, None).unwrap();
    let views = "CREATE VIEW servers AS SELECT 1 AS one; CREATE VIEW calls AS SELECT 2 AS two;
        INSERT INTO events (seq, time_ns, type, hash, body)
            VALUES (1, 9223372036854775807, 'mcp_tool_called', zeroblob(32), CAST('{\"action\":\"allow\"}' AS BLOB))";
    db.execute_batch(views).unwrap();
    drop(db);
    let refused = SCHEMA.read(&path).unwrap_err().to_string();
    assert!(refused.contains("its schema is 1, this version reads 4"), "{refused}");
    TestAgent::start(settings(directory.path())).finish();
    let db = SCHEMA.read(&path).unwrap();
    let requested = "SELECT seq || action FROM calls";
    assert_eq!(db.query_row(requested, [], |row| row.get::<_, String>(0)).unwrap(), "1allow");
    assert_eq!(
        db.query_row("SELECT count(server_id) FROM servers", [], |row| row.get::<_, i64>(0)).unwrap(),
        0
    );
}

/// What a batch of events costs. Printed, and not held against anything: it depends on the machine.
#[test]
fn storing_cost_is_printed() {
    const EVENTS: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let mut agent = TestAgent::start(Settings { queue_bytes: 64 << 20, ..settings(directory.path()) });
    let began = Instant::now();
    for batch in 0..EVENTS / 100 {
        agent.send_at(batch * 100..(batch + 1) * 100);
    }
    let chained = began.elapsed();
    let store = agent.store;
    let status = Arc::clone(&store.status);
    store.finish(Instant::now() + Duration::from_secs(60));
    let status = *lock(&status);
    assert_eq!(status.stored, EVENTS);
    println!(
        "{} ns an event in the engine's task, {} ns in the writer's ({} transactions)",
        chained.as_nanos() / u128::from(EVENTS),
        status.write_ns / EVENTS,
        status.writes,
    );
}

/// View, what it is asked, and what it says of a recorded session.
#[test]
fn database_views_show_a_recorded_session() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let mut agent = TestAgent::start(settings(directory.path()));
    let of_session = r#""session_id":"s1","server_id":"git","server_type":"stdio","connection":7"#;
    let decided = r#""action":"block","enforced":false,"guard":"tool_access","reason":"r""#;
    let connecting = r#""protocol":"tcp","family":"ipv4","pid":3,"uid":5,"action":"allow","enforced":false"#;
    let lines = [
        format!(
            r#""type":"mcp_server_started",{of_session},"uid":5,"argv":["git"],"matched_by":"name","identity":"derived","adopted":false,"chain":[]"#
        ),
        format!(
            r#""type":"mcp_tool_seen",{of_session},"tool_name":"a","tool_id":"t","tool_hash":"h1","status":"new","category":"read","risk_level":"low","detections":[],"max_severity":null"#
        ),
        format!(
            r#""type":"mcp_tool_seen",{of_session},"tool_name":"a","tool_id":"t","tool_hash":"h1","status":"unchanged","category":"read","risk_level":"low","detections":[],"max_severity":"high""#
        ),
        format!(
            r#""type":"mcp_tool_called",{of_session},"tool_name":"a","tool_id":"t","jsonrpc_id":"1","input":{{}},"category":"read",{decided}"#
        ),
        format!(
            r#""type":"mcp_detection",{of_session},"subject":"result","action":"alert","detection":{{"pattern":"p","category":"exfiltration","severity":"critical","field":"/f","matches":[],"score":1,"form":"raw"}}"#
        ),
        format!(
            r#""type":"mcp_server_egress",{of_session},"remote_addr":"192.0.2.1:443",{connecting},"first_seen":true,"severity":"low""#
        ),
        format!(r#""type":"mcp_network_connection","remote_addr":"192.0.2.2:80",{connecting}"#),
    ];
    let events = lines.iter().enumerate().map(|(second, line)| {
        let line = format!(r#"{{"timestamp":"1970-01-01T00:00:0{second}Z",{line}}}"#);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    });
    // Not so old that they are removed at once.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(since.as_nanos()).unwrap();
    let recent = |event: Event| Event { timestamp: Timestamp(now + event.timestamp.0), ..event };
    agent.send(events.map(recent).collect());
    agent.finish();
    let db = SCHEMA.read(&path).unwrap();
    for (view, columns, expected) in [
        (
            "servers",
            "server_id, server_type, session_id, connection, identity, argv, uid",
            "git|stdio|s1|7|derived|[\"git\"]|5",
        ),
        (
            "sessions",
            "session_id, events, servers, calls, detections, last_ns - first_ns",
            "s1|6|1|1|1|5000000000",
        ),
        (
            "mcp_tools",
            "server_id, tool_name, server_type, tool_hash, max_severity, last_seen_ns - first_seen_ns",
            "git|a|stdio|h1|2|1000000000",
        ),
        (
            "calls",
            "session_id, server_id, tool_name, jsonrpc_id, action, enforced, guard, reason",
            "s1|git|a|\"1\"|block|0|tool_access|r",
        ),
        (
            "detections",
            "session_id, severity, category, pattern, subject, field, action",
            "s1|3|exfiltration|p|result|/f|alert",
        ),
        (
            "connections",
            "server_id, remote_addr, pid, uid, action",
            "-|192.0.2.2:80|3|5|allow git|192.0.2.1:443|3|5|allow",
        ),
    ] {
        let columns: Vec<String> =
            columns.split(", ").map(|column| format!("coalesce({column}, '-')")).collect();
        let sql = format!("SELECT {} FROM {view}", columns.join(" || '|' || "));
        let mut rows = db.prepare(&sql).unwrap();
        let rows: Vec<String> =
            rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.join(" "), expected, "{view}");
    }
}
