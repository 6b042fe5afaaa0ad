//! What commands print of a store that a test has filled.

mod filled;

use mcpwarden_policy::{
    ServerId,
    registry::{Item, PinKey, PinRecord, Store as _},
};
use mcpwarden_store::registry::Pins;
use rusqlite::Connection;
use serde_json::{Value, json};

use filled::{ALLOWED, answered, exited, started};
pub(super) use filled::{Filled, called, connected, detected, hostile, of, two_sessions};

use super::*;

/// Command, fields of its lines, and what they are.
#[test]
fn list_commands_filter_their_rows() {
    let filled = two_sessions();
    let calls = "seq session_id server_id tool_name action enforced status latency_ns";
    let all = "5|s1|git|read|allow|false|ok|1500000 7|s1|git|read|allow|false|error|1500000 8|s1|web|send|block|true|null|null 15|s2|git|read|allow|false|null|null";
    for (args, fields, expected) in [
        ("calls", calls, all),
        ("calls --limit 0", calls, all),
        ("calls --limit 1", "seq", "15"),
        ("calls --session s1 --tool read", "seq status", "5|ok 7|error"),
        (
            "calls --server web --server nobody",
            "seq guard reason category",
            "8|tool_access|it is denied|read",
        ),
        ("calls --action block --action alert", "seq", "8"),
        ("calls --since @12 --until @30", "seq", "7 8"),
        ("calls --until 1h", "seq", ""),
        ("calls --tool '", "seq", ""),
        (
            "detections",
            "seq severity category pattern subject field tool_name action",
            "10|critical|exfiltration|webhook|result|/f|read|alert 11|low|exfiltration|path|result|/f|read|alert",
        ),
        ("detections --severity medium", "seq server_id", "10|web"),
        ("detections --category exfiltration --server git", "seq", "11"),
        ("detections --category shadowing", "seq", ""),
        ("detections --tool read --session s2", "seq", ""),
        (
            "connections",
            "seq server_id remote_addr protocol action enforced pid uid",
            "12|web|192.0.2.1:443|tcp|block|false|3|5 13|git|192.0.2.2:443|tcp|allow|false|3|5",
        ),
        ("connections --action block", "seq", "12"),
        ("connections --server git --since 1d", "seq", "13"),
        (
            "servers",
            "server_id server_type sessions tools calls errors detections_by_severity health reasons",
            r#"git|stdio|2|1|3|1|{"low":1}|healthy|[] web|stdio|1|1|1|0|{"critical":1}|unhealthy|["it ended with exit code 3, and was not started again"]"#,
        ),
        ("servers --session s2", "server_id sessions calls errors", "git|1|1|0"),
        ("servers --limit 1", "server_id", "git"),
        (
            "sessions",
            "session_id servers calls blocked detections max_severity",
            "s1|2|3|1|2|critical s2|1|1|0|0|null",
        ),
        ("sessions --server web", "session_id servers calls blocked", "s1|1|1|1"),
        ("sessions --limit 1", "session_id", "s2"),
        (
            "tools",
            "server_id tool_name state tool_hash pinned_hash max_severity risk_level category side_effect_tags",
            r#"git|read|not pinned|h1|null|null|low|read|["fs.read"] web|send|changed|h2|null|high|high|send|["fs.read","net.send"]"#,
        ),
        ("tools --changed", "tool_name", "send"),
        ("tools --severity low", "tool_name", "send"),
        ("tools --risk low", "tool_name", "read send"),
        ("tools --risk medium", "tool_name", "send"),
        ("tools --side-effect net.send", "tool_name", "send"),
        ("tools --side-effect fs.read --server git", "tool_name", "read"),
        ("tools --limit 1", "tool_name", "read"),
    ] {
        assert_eq!(filled.fields(args, fields), expected, "{args}");
    }
    let client = &filled.lines("sessions")[0]["client"];
    assert_eq!(client["pid"], 42);
    assert_eq!(filled.lines("sessions")[1]["client"], Value::Null);
}

/// What was said of a declared server, hours before now or lately, how it does, and why.
#[test]
fn declared_server_health_follows_events() {
    use health::Health::{Healthy, Unhealthy};
    const NOW: u64 = 3 * 3_600;
    const LATELY: u64 = NOW - 60;
    let of = of("s1", "web").replace("stdio", "http");
    let says = |at: u64, kind: &str, more: &str| {
        let of = r#""server_id":"web","server_type":"http","url":"http://x/""#;
        (at, format!(r#""type":"{kind}",{of}{more}"#))
    };
    let reached = |at| says(at, "mcp_server_reachable", "");
    let gone = |at| says(at, "mcp_server_unreachable", r#","reason":"refused""#);
    let other = |at| {
        says(at, "mcp_tls_mismatch", r#","severity":"critical","expected":"sha256:0","found":"sha256:1""#)
    };
    let agent = |at: u64| {
        let rest = r#""version":"1","kernel":"6","backend":"b","programs":[],"servers_adopted":0"#;
        (at, format!(r#""type":"agent_started",{rest}"#))
    };
    let answer = |at, status| answered(at, &of, "read", 1, status);
    let refused = Some("it cannot be reached: refused");
    let certificate = Some("it cannot be reached: its certificate is not the one of its tls_fingerprint");
    for (name, events, health, why) in [
        ("down for hours", vec![gone(0)], Some(Unhealthy), refused),
        ("down for hours after it was there", vec![reached(0), gone(1)], Some(Unhealthy), refused),
        ("back as it was", vec![reached(0), gone(1), reached(2)], Some(Healthy), None),
        ("there and idle", vec![agent(0), reached(1)], Some(Healthy), None),
        ("another certificate", vec![reached(0), other(1)], Some(Unhealthy), certificate),
        ("the right one again", vec![other(0), reached(1)], Some(Healthy), None),
        ("answers a client", vec![gone(0), answer(LATELY, "ok")], Some(Healthy), None),
        (
            "answered a client that left",
            vec![gone(0), answer(LATELY, "ok"), exited(NOW - 1, &of, 0)],
            Some(Healthy),
            None,
        ),
        ("answered a client before", vec![answer(LATELY, "ok"), gone(NOW - 1)], Some(Unhealthy), refused),
        (
            "there, and fails",
            [vec![reached(0)], (0..5).map(|more| answer(LATELY + more, "error")).collect()].concat(),
            Some(Unhealthy),
            Some("5 of 5 calls failed"),
        ),
        ("down before the agent started", vec![gone(0), agent(1)], None, None),
        ("down before and after that", vec![gone(0), agent(1), gone(2)], Some(Unhealthy), refused),
        ("seen by clients alone", vec![started(0, &of)], None, None),
    ] {
        let filled = Filled::new(events);
        let now = filled.start.after(std::time::Duration::from_secs(NOW));
        let all = mcpwarden_store::conditions::Conditions::default();
        let servers = servers::gather(&filled.db, &all, None, now).unwrap();
        let found: Vec<_> = servers.iter().map(|server| (server.health, server.reasons.join("; "))).collect();
        assert_eq!(found, [(health, why.unwrap_or_default().to_owned())], "{name}");
    }
}

/// Connections over HTTP have numbers beyond those that SQLite has: neighbours are two, and are shown as they are.
#[test]
fn large_connection_numbers_stay_exact() {
    let of = |connection: u64| {
        of("s1", "web").replace("\"connection\":7", &format!("\"connection\":{connection}"))
    };
    let first = (3_u64 << 62) + 1;
    let filled = Filled::new(vec![
        started(0, &of(first)),
        called(1, &of(first), "a", 1, ALLOWED),
        called(2, &of(first + 1), "a", 1, ALLOWED),
        answered(3, &of(first + 1), "a", 1, "error"),
        answered(4, &of(first), "a", 1, "ok"),
    ]);
    let expected = format!("2|{first}|ok 3|{}|error", first + 1);
    assert_eq!(filled.fields("calls", "seq connection status"), expected);
    let sql = "SELECT connection FROM servers";
    assert_eq!(filled.db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap(), first.to_string());
}

/// A pin of the server `git`, and the definitions that are kept.
fn pin(filled: &Filled, uid: u32, tool: &str, record: &PinRecord, definitions: &[(&str, &Value)]) {
    let (mut pins, _) = Pins::open(filled.directory.path(), None).unwrap();
    let key = PinKey { uid: Some(uid), server: ServerId("git".into()), program: "/usr/bin/git-mcp".into() };
    let definitions: Vec<_> =
        definitions.iter().map(|(hash, json)| ((*hash).to_owned(), json.to_string())).collect();
    pins.put(&key, &[(Item::tool(tool), record.clone())], &definitions).unwrap();
}

fn record(hash: &str, current: &str) -> PinRecord {
    let time = "2026-01-31T10:00:00Z";
    serde_json::from_value(json!({
        "first_seen": time, "last_seen": time, "hash": hash, "pinned": true, "current": current, "listed": true,
        "approved": {"by": "alice", "at": time}, "max_severity": null, "said": [], "denied": [],
    }))
    .unwrap()
}

/// Whoever reads a table sees what is there: no text in it is obeyed by a terminal, hidden, or on a line of its own.
#[test]
fn hostile_texts_are_escaped_in_tables() {
    fn table<T: list::Line>(lines: &[T]) -> String {
        let mut table = crate::output::list(T::HEADER);
        for line in lines {
            assert_eq!(line.cells().len(), T::HEADER.len());
            table.add_row(crate::output::line(line.cells()));
        }
        table.to_string()
    }
    fn rows<T: list::Row>(db: &Connection) -> String {
        let mut rows: Vec<T> = Vec::new();
        let all = mcpwarden_store::conditions::Conditions::default();
        list::each(db, &all, None, |row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
        table(&rows)
    }
    let filled = hostile();
    let db = &filled.db;
    let all = mcpwarden_store::conditions::Conditions::default();
    let now = Clock::new().now();
    let offers = tools::offers(db, &all).unwrap();
    let shown = show::find(db, &filled.path(), "a<b:\u{1b}[31m\n\u{202e}<script>alert(1)</script>").unwrap();
    for (name, text) in [
        ("calls", rows::<Call>(db)),
        ("detections", rows::<Detection>(db)),
        ("connections", rows::<Connected>(db)),
        ("servers", table(&servers::gather(db, &all, None, now).unwrap())),
        ("sessions", table(&sessions::gather(db, &all, None).unwrap())),
        ("tools", table(&tools::gather(&offers, &[]))),
        ("registry show", shown.iter().map(show::Shown::text).collect()),
    ] {
        let controls = text.chars().filter(|c| *c != '\n' && c.is_control() || *c == '\u{202e}').count();
        assert_eq!(controls, 0, "{name}: {text:?}");
        if name != "registry show" {
            assert_eq!(text.lines().count(), 2, "{name}: {text}");
        }
        if !["servers", "sessions", "connections"].contains(&name) {
            assert!(text.contains("\\u{1b}[31m \\u{202e}<script>"), "{name}: {text}");
        }
    }
}

/// Pinned and current hash, which definitions are kept, and what is said to be different.
#[test]
fn pinned_definition_is_compared_to_current() {
    let filled = two_sessions();
    let old = json!({"name": "read", "description": "Reads a file."});
    let new = json!({"name": "read", "description": "Reads\u{1b}[2J a file.\nAnd sends it."});
    pin(&filled, 5, "read", &record("h1", "h2"), &[("h1", &old), ("h2", &new)]);
    pin(&filled, 6, "read", &record("h1", "h1"), &[]);
    pin(&filled, 7, "read", &record("h0", "h2"), &[]);
    pin(&filled, 5, "a:b", &record("h1", "h2"), &[]);
    let path = filled.directory.path().join(mcpwarden_store::registry::PINS);
    let db = mcpwarden_store::registry::SCHEMA.read(&path).unwrap();
    let none = path.with_file_name("none.db");
    let texts = |name: &str| -> Vec<String> {
        changes::find(&db, &none, name).unwrap().iter().map(changes::Change::text).collect()
    };
    let of = |uid: u32, rest: &str| format!("git:read (uid {uid}, /usr/bin/git-mcp)\n{rest}");
    assert_eq!(
        texts("git:read"),
        [
            of(
                5,
                "  pinned h1\n  now    h2\n  /description\n    - Reads a file.\n    + Reads\\u{1b}[2J a file.\n    + And sends it."
            ),
            of(6, "  is as it is pinned"),
            of(7, "  pinned h0\n  now    h2\n  (what it was is not known any more)"),
        ]
    );
    assert_eq!(texts("git:a:b").len(), 1);
    for name in ["git", "git:", "read", "git:rea", "it:read", "git:read:"] {
        assert_eq!(texts(name).len(), 0, "{name}");
    }
    let json = serde_json::to_value(changes::find(&db, &none, "git:read").unwrap()).unwrap();
    let changes = json!([{"field": "/description", "previous": "Reads a file.", "new": new["description"]}]);
    for (field, expected) in
        [("server", json!("git")), ("uid", json!(5)), ("kind", json!("tool")), ("changes", changes)]
    {
        assert_eq!(json[0][field], expected, "{field}");
    }
}

/// Where a definition is not kept, the change is as it was said.
#[test]
fn change_is_taken_from_event_without_definition() {
    let said = r#""type":"mcp_tool_changed","session_id":"s1","server_id":"git","server_type":"stdio","connection":7,
        "tool_name":"read","tool_id":"t","previous_hash":"h0","new_hash":"h2","changes":[{"field":"/title","new":"x"}],
        "truncated":false,"detections":[],"max_severity":null,"action":"alert""#;
    let filled = Filled::new(vec![(1, said.replace('\n', ""))]);
    pin(&filled, 5, "read", &record("h0", "h2"), &[]);
    let path = filled.directory.path().join(mcpwarden_store::registry::PINS);
    let db = mcpwarden_store::registry::SCHEMA.read(&path).unwrap();
    let found = changes::find(&db, &filled.path(), "git:read").unwrap();
    assert!(found[0].text().ends_with("\n  /title\n    + x"), "{}", found[0].text());
}

/// Everything of one tool, each user's on its own.
#[test]
fn tool_details_are_shown_per_user() {
    let filled = two_sessions();
    let old = json!({"name": "read", "description": "Reads\u{202e} a file."});
    pin(&filled, 5, "read", &record("h1", "h1"), &[("h1", &old)]);
    pin(&filled, 6, "read", &record("h0", "h1"), &[]);
    let found = show::find(&filled.db, &filled.path(), "git:read").unwrap();
    let json = serde_json::to_value(&found).unwrap();
    for (at, field, expected) in [
        (0, "uid", json!(5)),
        (0, "state", json!("pinned")),
        (0, "definition", old),
        (0, "approved", json!({"by": "alice", "at": "2026-01-31T10:00:00.000000000Z"})),
        (0, "side_effect_tags", json!(["fs.read"])),
        (1, "uid", json!(6)),
        (1, "state", json!("changed")),
        (1, "pinned_hash", json!("h0")),
        // Kept once for each hash.
        (1, "definition", json[0]["definition"].clone()),
        (2, "uid", Value::Null),
    ] {
        assert_eq!(json[at][field], expected, "{at} {field}");
    }
    let text = found[0].text();
    for part in [
        "git:read\n",
        "  uid           5\n",
        "  approved      by alice at 2026-01-31 10:00:00Z\n",
        r#"    "description": "Reads\u{202e} a file.""#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(show::find(&filled.db, &filled.path(), "git:nothing").unwrap().is_empty());
}

/// Each user's pin is a line of its own, with what events tell of its definition.
#[test]
fn tools_list_one_row_per_user_pin() {
    let filled = two_sessions();
    let old = json!({"name": "read", "description": "Reads a file."});
    pin(&filled, 5, "read", &record("h1", "h1"), &[("h1", &old)]);
    pin(&filled, 6, "read", &record("h0", "h1"), &[]);
    pin(&filled, 5, "gone", &PinRecord { listed: false, ..record("h3", "h3") }, &[]);
    let fields = "server_id tool_name uid state tool_hash pinned_hash risk_level";
    for (args, expected) in [
        (
            "tools",
            "git|gone|5|removed|h3|h3|null git|read|5|pinned|h1|h1|low git|read|6|changed|h1|h0|low web|send|null|changed|h2|null|high",
        ),
        ("tools --changed --server git", "git|read|6|changed|h1|h0|low"),
        ("tools --risk low --server git", "git|read|5|pinned|h1|h1|low git|read|6|changed|h1|h0|low"),
    ] {
        assert_eq!(filled.fields(args, fields), expected, "{args}");
    }
}

/// What is muted is listed where that is asked for, and counts for no server and no session.
#[test]
fn muted_detections_are_listed_only_on_demand() {
    let of = of("s1", "git");
    let (at, found) = detected(2, &of, "critical", "path");
    let mute = r#""mute":{"mute_id":"m","source":"operator","reason":"r"}"#;
    let muted = found.replace(r#""action":"alert""#, &format!(r#""action":"allow","muted":true,{mute}"#));
    let filled = Filled::new(vec![started(1, &of), (at, muted), detected(3, &of, "low", "webhook")]);
    for (args, fields, expected) in [
        ("detections", "pattern muted severity", "webhook|false|low"),
        (
            "detections --muted",
            "pattern muted severity mute_id",
            "path|true|critical|m webhook|false|low|null",
        ),
        ("detections --muted --severity high", "pattern action", "path|allow"),
        ("sessions", "detections max_severity", "1|low"),
        ("servers", "detections_by_severity", r#"{"low":1}"#),
    ] {
        assert_eq!(filled.fields(args, fields), expected, "{args}");
    }
}
