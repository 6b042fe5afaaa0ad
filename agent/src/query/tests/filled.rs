//! A store that a test has filled with events.

use std::path::PathBuf;

use clap::Parser as _;
use mcpwarden_policy::{Event, Timestamp};
use mcpwarden_store::testing::{TestAgent, settings};
use rusqlite::Connection;
use serde_json::Value;

use super::super::*;
use crate::cli::{Cli, Command};

/// A store with these events: their seconds from ten minutes ago on, and the rest of their lines.
pub(in crate::query) struct Filled {
    pub(super) directory: tempfile::TempDir,
    /// The time from which seconds count.
    pub(in crate::query) start: Timestamp,
    pub(in crate::query) db: Connection,
}

/// Session, server and connection of an event.
pub(in crate::query) fn of(session: &str, server: &str) -> String {
    format!(r#""session_id":"{session}","server_id":"{server}","server_type":"stdio","connection":7"#)
}

pub(in crate::query) fn started(at: u64, of: &str) -> (u64, String) {
    let client = r#"{"pid":42,"executable":"/usr/bin/client"}"#;
    let rest = r#""argv":["git"],"matched_by":"name","identity":"derived","adopted":false,"chain":[]"#;
    (at, format!(r#""type":"mcp_server_started",{of},"pid":7,"uid":5,"client":{client},{rest}"#))
}

pub(in crate::query) fn seen(at: u64, of: &str, tool: &str, hash: &str, more: &str) -> (u64, String) {
    let tool = format!(r#""tool_name":"{tool}","tool_id":"t","tool_hash":"{hash}""#);
    (at, format!(r#""type":"mcp_tool_seen",{of},{tool},"detections":[],{more}"#))
}

pub(in crate::query) fn called(at: u64, of: &str, tool: &str, id: u64, decided: &str) -> (u64, String) {
    let call =
        format!(r#""tool_name":"{tool}","tool_id":"t","jsonrpc_id":{id},"input":null,"category":"read""#);
    (at, format!(r#""type":"mcp_tool_called",{of},{call},{decided}"#))
}

pub(in crate::query) fn answered(at: u64, of: &str, tool: &str, id: u64, status: &str) -> (u64, String) {
    let call = format!(r#""tool_name":"{tool}","tool_id":"t","jsonrpc_id":{id},"status":"{status}""#);
    let rest = r#""bytes":9,"latency_ns":1500000,"result":null,"action":"allow","enforced":false"#;
    (at, format!(r#""type":"mcp_tool_result",{of},{call},{rest}"#))
}

pub(in crate::query) fn detected(at: u64, of: &str, severity: &str, pattern: &str) -> (u64, String) {
    let found = format!(r#""pattern":"{pattern}","category":"exfiltration","severity":"{severity}""#);
    let found = format!(r#""detection":{{{found},"field":"/f","matches":[],"score":1,"form":"raw"}}"#);
    let rest = r#""subject":"result","tool_name":"read","action":"alert""#;
    (at, format!(r#""type":"mcp_detection",{of},{found},{rest}"#))
}

pub(in crate::query) fn connected(at: u64, of: &str, remote: &str, action: &str) -> (u64, String) {
    let connecting = r#""protocol":"tcp","family":"ipv4","pid":3,"uid":5,"enforced":false"#;
    let rest = r#""first_seen":true,"severity":"low""#;
    let kind = "mcp_server_egress";
    (at, format!(r#""type":"{kind}",{of},"remote_addr":"{remote}","action":"{action}",{connecting},{rest}"#))
}

pub(in crate::query) fn exited(at: u64, of: &str, code: i32) -> (u64, String) {
    let rest = r#""duration_ns":1,"calls":1,"frames":{"c2s":1,"s2c":1},"bytes":{"c2s":1,"s2c":1},"junk_bytes":0,"gap_bytes":0,"unanswered":0"#;
    (at, format!(r#""type":"mcp_server_exited",{of},"exit_code":{code},{rest}"#))
}

pub(in crate::query) const ALLOWED: &str = r#""action":"allow","enforced":false"#;
pub(in crate::query) const BLOCKED: &str =
    r#""action":"block","enforced":true,"guard":"tool_access","reason":"it is denied""#;
pub(in crate::query) const HARMLESS: &str = r#""status":"new","category":"read","risk_level":"low","side_effect_tags":["fs.read"],"max_severity":null"#;
pub(in crate::query) const HARMFUL: &str = r#""status":"changed","category":"send","risk_level":"high","side_effect_tags":["net.send","fs.read"],"max_severity":"high""#;

impl Filled {
    pub(in crate::query) fn new(lines: Vec<(u64, String)>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut agent = TestAgent::start(settings(directory.path()));
        let start = Clock::new().now().before(std::time::Duration::from_secs(600));
        let events = lines.iter().map(|(second, line)| {
            let line = format!(r#"{{"timestamp":"1970-01-01T00:00:00Z",{line}}}"#);
            let event: Event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            Event { timestamp: start.after(std::time::Duration::from_secs(*second)), ..event }
        });
        agent.send(events.collect());
        agent.finish();
        let db = SCHEMA.read(&directory.path().join("x.db")).unwrap();
        Self { directory, start, db }
    }

    /// The query of a command line, of this store. `@7` is the time of the events of second 7.
    pub(in crate::query) fn query(&self, args: &str) -> Query {
        let word = |word: &str| match word.strip_prefix('@').and_then(|second| second.parse().ok()) {
            Some(second) => self.start.after(std::time::Duration::from_secs(second)).to_string(),
            None => word.to_owned(),
        };
        let path = ["--path".to_owned(), self.path().display().to_string()];
        let words = ["mcpwarden".to_owned()].into_iter().chain(args.split(' ').map(word)).chain(path);
        match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{args}: {error}")).command {
            Command::Query(query) => query,
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::query) fn path(&self) -> PathBuf {
        self.directory.path().join("x.db")
    }

    /// The lines of a list as JSON.
    pub(super) fn lines(&self, args: &str) -> Vec<Value> {
        fn json<T: serde::Serialize>(lines: Vec<T>) -> Vec<Value> {
            lines.iter().map(|line| serde_json::to_value(line).unwrap()).collect()
        }
        fn rows<T: list::Row>(
            db: &Connection,
            conditions: &mcpwarden_store::conditions::Conditions,
            shown: &crate::cli::Shown,
        ) -> Vec<Value> {
            let mut rows = Vec::new();
            list::each::<T>(db, conditions, list::limit(shown), |row| {
                rows.push(row);
                Ok(())
            })
            .unwrap();
            json(rows)
        }
        let db = &self.db;
        match &self.query(args) {
            Query::Servers(ListOptions { which, shown }) => {
                let now = Clock::new().now();
                json(servers::gather(db, &list::of_events(which), list::limit(shown), now).unwrap())
            }
            Query::Sessions(SessionsOptions { list: ListOptions { which, shown }, .. }) => {
                json(sessions::gather(db, &list::of_events(which), list::limit(shown)).unwrap())
            }
            Query::Tools(options) => json(tools::find(db, options).unwrap()),
            Query::Calls(options) => rows::<Call>(db, &calls::conditions(options), &options.shown),
            Query::Detections(options) => {
                rows::<Detection>(db, &detections::conditions(options), &options.shown)
            }
            Query::Connections(options) => {
                rows::<Connected>(db, &connections::conditions(options), &options.shown)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Some fields of each line, as one text.
    pub(super) fn fields(&self, args: &str, names: &str) -> String {
        let field = |line: &Value, name: &str| match &line[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let line =
            |line: &Value| names.split(' ').map(|name| field(line, name)).collect::<Vec<_>>().join("|");
        self.lines(args).iter().map(line).collect::<Vec<_>>().join(" ")
    }
}

/// Two sessions with the servers `git` and `web`, and a connection of nobody's.
pub(in crate::query) fn two_sessions() -> Filled {
    let (git, web, other) = (of("s1", "git"), of("s1", "web"), of("s2", "git"));
    Filled::new(vec![
        started(0, &git),
        seen(1, &git, "read", "h1", HARMLESS),
        started(2, &web),
        seen(3, &web, "send", "h2", HARMFUL),
        called(10, &git, "read", 1, ALLOWED),
        answered(11, &git, "read", 1, "ok"),
        called(12, &git, "read", 1, ALLOWED),
        called(13, &web, "send", 2, BLOCKED),
        answered(14, &git, "read", 1, "error"),
        detected(15, &web, "critical", "webhook"),
        detected(16, &git, "low", "path"),
        connected(20, &web, "192.0.2.1:443", "block"),
        connected(21, &git, "192.0.2.2:443", "allow"),
        exited(22, &web, 3),
        // Answered in another session, which has the same ids.
        called(30, &other, "read", 2, ALLOWED),
        seen(31, &other, "read", "h1", HARMLESS),
    ])
}

/// Names and texts that are written to deceive whoever reads them.
pub(in crate::query) fn hostile() -> Filled {
    const NAME: &str = r"\u001b[31m\n\u202e<script>alert(1)</script>";
    let bad = of("s1", "a<b");
    let found = detected(4, &bad, "high", "p")
        .1
        .replace(r#""tool_name":"read""#, &format!(r#""tool_name":"{NAME}""#));
    Filled::new(vec![
        started(0, &bad),
        seen(1, &bad, NAME, "h1", HARMFUL),
        called(2, &bad, NAME, 1, &BLOCKED.replace("it is denied", &format!("|[x](javascript:1) `{NAME}"))),
        (4, found),
        connected(5, &bad, "192.0.2.1:443\\u001b[2J", "block"),
        (
            6,
            format!(
                r#""type":"mcp_tool_changed",{bad},"tool_name":"{NAME}","tool_id":"t","previous_hash":"h0","new_hash":"h1","changes":[],"truncated":false,"detections":[],"max_severity":"high","action":"alert""#
            ),
        ),
    ])
}
