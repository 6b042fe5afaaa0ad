//! What is gathered, and what is written of it.

use serde_json::json;

use super::*;
use crate::{
    cli::Query,
    query::tests::{Filled, called, connected, detected, hostile, of, two_sessions},
};

fn gathered(filled: &Filled, args: &str) -> Report {
    let Query::Report(options) = filled.query(args) else { panic!("{args}") };
    Report::gather(&filled.db, &options, Clock::new().now()).unwrap()
}

type Write = fn(&Document) -> String;
const WRITERS: [(&str, Write); 3] =
    [("text", text::write), ("html", html::write), ("markdown", markdown::write)];

/// What is asked, and some of the report.
#[test]
fn report_sums_up_filtered_events() {
    let filled = two_sessions();
    for (args, expected) in [
        (
            "report",
            json!({
                "session_id": null, "since": filled.start, "events": 16, "servers_connected": 2, "sessions": 2,
                "tools_seen": 2, "tools_changed": 0, "calls": 4, "errors": 1, "calls_blocked": 1, "calls_stopped": 1,
                "detections_by_severity": {"low": 1, "critical": 1}, "gap_bytes": 0, "destinations": 2,
                "top_detections": [
                    {"server_id": "web", "tool_name": "read", "pattern": "webhook", "category": "exfiltration", "severity": "critical", "count": 1},
                    {"server_id": "git", "tool_name": "read", "pattern": "path", "category": "exfiltration", "severity": "low", "count": 1},
                ],
                "blocked_calls": [
                    {"server_id": "web", "tool_name": "send", "guard": "tool_access", "reason": "it is denied", "count": 1, "stopped": 1},
                ],
                "egress": [
                    {"server_id": "web", "remote_addr": "192.0.2.1:443", "remote_name": null, "action": "block", "count": 1, "stopped": 0},
                    {"server_id": "git", "remote_addr": "192.0.2.2:443", "remote_name": null, "action": "allow", "count": 1, "stopped": 0},
                ],
            }),
        ),
        (
            "report --session s2",
            json!({"session_id": "s2", "events": 2, "servers_connected": 1, "calls": 1, "errors": 0, "egress": []}),
        ),
        (
            "report --since @15 --until @16",
            json!({"events": 1, "calls": 0, "detections_by_severity": {"critical": 1}}),
        ),
        ("report --session nobody", json!({"events": 0, "servers_connected": 0, "servers": []})),
    ] {
        let found = serde_json::to_value(gathered(&filled, args)).unwrap();
        for (name, expected) in expected.as_object().unwrap() {
            assert_eq!(found[name], *expected, "{args}: {name}");
        }
    }
    let changed = &serde_json::to_value(gathered(&hostile(), "report")).unwrap()["changed_tools"];
    assert_eq!((&changed[0]["previous_hash"], &changed[0]["max_severity"]), (&json!("h0"), &json!("high")));
}

/// Every call and detection of the time is in a part of it.
#[test]
fn timeline_has_every_call_and_detection() {
    let filled = two_sessions();
    for (args, parts, length, sums) in [
        // From second 0 to just after second 31.
        ("report", 32, 1, (4, 1, 2)),
        ("report --since @12 --until @16", 4, 1, (2, 1, 1)),
        ("report --since @0 --until @120", 60, 2, (4, 1, 2)),
        ("report --since @5 --until @6", 1, 1, (0, 0, 0)),
    ] {
        let report = gathered(&filled, args);
        let timeline = &report.timeline;
        assert_eq!(timeline.len(), parts, "{args}");
        for pair in timeline.windows(2) {
            assert_eq!(pair[1].timestamp.nanos_since(pair[0].timestamp), length * LEAST_PART_NS, "{args}");
        }
        let sum = |of: fn(&Part) -> u64| timeline.iter().map(of).sum::<u64>();
        let found = (sum(|part| part.calls), sum(|part| part.blocked), sum(|part| part.detections));
        assert_eq!(found, sums, "{args}");
    }
}

/// All that the writers are given is in what they write.
#[test]
fn writers_include_all_report_fields() {
    let report = gathered(&two_sessions(), "report");
    for (name, write) in WRITERS {
        let text = write(&Document::new(&report)).replace('\\', "");
        for part in [
            "git",
            "web",
            "webhook",
            "exfiltration",
            "192.0.2.1:443",
            "tool_access",
            "it is denied",
            "unhealthy",
            "2 (1 critical, 1 low)",
        ] {
            assert!(text.contains(part), "{name}: no {part} in {text}");
        }
    }
    let empty = gathered(&Filled::new(Vec::new()), "report");
    for (name, write) in WRITERS {
        let text = write(&Document::new(&empty)).replace('\\', "");
        assert!(text.contains("No server was seen."), "{name}: {text}");
    }
}

/// Of many rows the first are shown, and how many more there are is said.
#[test]
fn long_report_tables_are_truncated() {
    const MORE: usize = 7;
    let mut lines = Vec::new();
    for number in 0..ROWS + MORE {
        let server = of("s1", &format!("server-{number}"));
        let blocked =
            format!(r#""action":"block","enforced":false,"guard":"tool_access","reason":"{number}""#);
        let changed = r#""tool_name":"a","tool_id":"t","previous_hash":"h0","new_hash":"h1","changes":[]"#;
        let rest = r#""truncated":false,"detections":[],"max_severity":null,"action":"alert""#;
        lines.push(called(1, &server, "a", 1, &blocked));
        lines.push(detected(1, &server, "high", "p"));
        lines.push((1, format!(r#""type":"mcp_tool_changed",{server},{changed},{rest}"#)));
        // One place of which two things came.
        for action in ["allow", "block"] {
            lines.push(connected(1, &of("s1", "web"), &format!("192.0.2.{}:1", number / 2), action));
        }
    }
    let report = gathered(&Filled::new(lines), "report");
    assert_eq!((report.changes, report.destinations, report.egress_rows), (57, 29, 58));
    for (name, write) in WRITERS {
        let text = write(&Document::new(&report));
        // Servers and egress have one more: `web`, and half a place.
        for (more, times) in [(MORE, 3), (MORE + 1, 2)] {
            assert_eq!(text.matches(&format!("and {more} more")).count(), times, "{name}: {text}");
        }
    }
}

/// Names that are HTML, Markdown or orders to a terminal are none of these in a report.
#[test]
fn hostile_texts_are_neutral_in_reports() {
    let report = gathered(&hostile(), "report");
    for (name, write) in WRITERS {
        let text = write(&Document::new(&report));
        let deceptive = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
        assert!(!text.contains(deceptive), "{name}: {text:?}");
        assert!(text.contains("alert"), "{name}: {text}");
    }
    let html = html::write(&Document::new(&report));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("a&lt;b"), "{html}");
    for part in ["<script", "href", "src=", "url(", "http://", "https://", "@import"] {
        assert!(!html.contains(part), "{part} in {html}");
    }
    let markdown = markdown::write(&Document::new(&report));
    let mut before = ' ';
    for character in markdown.chars() {
        assert!(!"<>[]`".contains(character) || before == '\\', "{character} in {markdown}");
        before = if before == '\\' { ' ' } else { character };
    }
    for row in markdown.lines().filter(|line| line.starts_with('|')) {
        let cells = row.replace("\\\\", "").replace("\\|", "").matches('|').count();
        assert!([3, 7, 8, 9].contains(&cells), "{row}");
    }
}

/// Elements end where they should, so that nothing swallows what follows it.
#[test]
fn html_report_is_well_formed() {
    for filled in [hostile(), two_sessions(), Filled::new(Vec::new())] {
        let html = html::write(&Document::new(&gathered(&filled, "report")));
        let mut open: Vec<&str> = Vec::new();
        for tag in html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
            match tag {
                _ if ["!doctype", "meta"].contains(&name) || tag.ends_with('/') => {}
                _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "{html}"),
                _ => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
}
