use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use hyper::Method;
use serde_json::{Value, json};

use super::table::{Source, all};
use super::*;
use crate::loss::WATCHED;

/// The number of a line of the page, which begins so.
fn number(page: &str, line: &str) -> Option<f64> {
    page.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn metric_names_follow_conventions() {
    let mut names = BTreeSet::new();
    for metric in all() {
        let name = metric.name;
        assert!(names.insert(name), "{name} twice");
        assert!(name.starts_with("mcpwarden_") || name.starts_with("process_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let grows = !matches!(metric.source, Source::Gauge(_) | Source::Seconds(_));
        assert_eq!(name.ends_with("_total"), grows, "{name}");
        assert_eq!(
            matches!(metric.source, Source::Seconds(_)),
            name.ends_with("_seconds") && grows_not(name),
            "{name}"
        );
        assert!(metric.help.ends_with('.') && !metric.help.contains('\n'), "{name}");
    }
}

/// The counter of the agent's that has no labels and says the same.
fn adds_up_to(name: &str) -> Option<&'static str> {
    match name {
        table::CALLS => Some("calls"),
        table::DETECTIONS => Some("detections"),
        table::DETECTIONS_MUTED => Some("detections_muted"),
        _ => None,
    }
}

/// Gauges in seconds.
fn grows_not(name: &str) -> bool {
    !matches!(name, table::CLOCK_MOVED | table::DRAIN_AGE | table::LAG | table::STARTED | table::RELOADED_AT)
}

/// Counters of the policy core; those of the agent are held against a running one.
#[test]
fn every_policy_counter_has_a_metric() {
    let text = b"policy: { rate_limits: { enabled: true } }";
    let (config, _) = mcpwarden_policy::config::parse(text).unwrap();
    let counted = crate::config::engine(&config.into(), [0; 32], false, false).unwrap().counters_by_name();
    let shown: BTreeSet<&str> = all()
        .flat_map(|metric| match metric.source {
            Source::Counter(name) | Source::Nanoseconds(name) => vec![name],
            Source::Events(_) => adds_up_to(metric.name).into_iter().collect(),
            Source::Counters(_, list) => list.iter().map(|(_, name)| *name).collect(),
            _ => Vec::new(),
        })
        .collect();
    for name in counted.keys() {
        let lost = WATCHED.iter().any(|(watched, _)| watched == name);
        assert!(shown.contains(name.as_str()) || lost, "no metric shows {name}");
    }
    let agents = [
        "clock_", "kernel_", "capture_", "queue_", "gate_", "network_", "control_", "metrics_", "http_",
        "listing_", "store_", "tls_",
    ];
    for name in shown {
        let own = agents.iter().any(|part| name.starts_with(part));
        assert!(own || counted.contains_key(name), "there is no counter {name}");
    }
}

fn event(kind: &str, server: &str, fields: Value) -> Event {
    let mut event = json!({
        "type": kind, "timestamp": "2026-01-06T10:30:00.000000000Z", "server_id": server, "server_type": "http",
    });
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(event).unwrap()
}

fn called(server: &str, decided: Value) -> Event {
    let mut fields =
        json!({"tool_name": "t", "tool_id": "i", "jsonrpc_id": 1, "input": {}, "category": "read"});
    fields.as_object_mut().unwrap().extend(decided.as_object().unwrap().clone());
    event("mcp_tool_called", server, fields)
}

/// Event, and the line that grows by it.
#[test]
fn each_event_increments_its_metric() {
    let found = |severity: &str| {
        let found = json!({"pattern": "p", "category": "shell_injection", "severity": severity, "field": "/",
                           "matches": [], "score": 1, "form": "raw"});
        json!({"subject": "result", "action": "alert", "detection": found})
    };
    let connecting = json!({"remote_addr": "a", "protocol": "tcp", "family": "ipv4", "pid": 1, "action": "block",
                            "enforced": true, "first_seen": true, "severity": "high"});
    let cases = [
        (
            called("a", json!({"action": "allow", "enforced": false})),
            r#"calls_total{action="allow",server="a"}"#,
        ),
        (
            called("a", json!({"action": "block", "enforced": true, "guard": "tool_access"})),
            r#"denials_total{enforced="yes",guard="tool_access"}"#,
        ),
        (
            called("a\"\n\u{202e}", json!({"action": "alert", "enforced": false})),
            r#"calls_total{action="alert",server="a\" \\u{202e}"}"#,
        ),
        (
            called(&"x".repeat(200), json!({"action": "allow", "enforced": false})),
            r#"calls_total{action="allow",server="other"}"#,
        ),
        (
            event(
                "mcp_request_blocked",
                "a",
                json!({"kind": "request", "method": "m", "guard": "server_access", "code": "c", "reason": "r", "enforced": false}),
            ),
            r#"denials_total{enforced="no",guard="server_access"}"#,
        ),
        (
            event(
                "mcp_gate_decided",
                "a",
                json!({"action": "neutralized", "guard": "tool_access", "code": "c", "reason": "r", "pid": 1, "bytes": 1}),
            ),
            r#"gate_decisions_total{action="neutralized",reason="tool_access"}"#,
        ),
        (
            event("mcp_detection", "a", found("high")),
            r#"detections_total{category="shell_injection",severity="high"}"#,
        ),
        (event("mcp_detection", "a", found("low")), r#"events_total{type="mcp_detection"}"#),
        (
            event("mcp_network_connection", "a", connecting.clone()),
            r#"connections_total{action="block",enforced="yes",kind="network"}"#,
        ),
        (
            event("mcp_server_egress", "a", connecting),
            r#"connections_total{action="block",enforced="yes",kind="egress"}"#,
        ),
        (
            event("mcp_capture_gap", "a", json!({"direction": "c2s", "bytes": 1, "cause": "ring_full"})),
            r#"gap_bytes_total{cause="ring_full",direction="c2s",transport="http"}"#,
        ),
        (
            event(
                "mcp_tool_result",
                "a",
                json!({"tool_name": "t", "tool_id": "i", "jsonrpc_id": 1, "status": "error", "bytes": 1, "latency_ns": 2_000_000, "result": {}, "action": "allow", "enforced": false}),
            ),
            r#"call_results_total{server="a",status="error"}"#,
        ),
    ];
    let mut metrics = Metrics::start(None).unwrap();
    let page =
        |metrics: &Metrics| page::text(&Snapshot::default(), metrics.shared.registry.gather()).unwrap();
    for (event, line) in cases {
        let line = format!("mcpwarden_{line}");
        let before = number(&page(&metrics), &line).unwrap_or(0.0);
        metrics.observe(&event, || event.timestamp.after(std::time::Duration::from_millis(3)));
        let after = page(&metrics);
        assert_eq!(number(&after, &line), Some(before + 1.0), "{line}\n{after}");
    }
    let page = page(&metrics);
    for (line, expected) in [
        ("mcpwarden_added_latency_seconds_count", 5.0),
        (r#"mcpwarden_added_latency_seconds_bucket{le="0.0025"}"#, 0.0),
        (r#"mcpwarden_added_latency_seconds_bucket{le="0.005"}"#, 5.0),
        ("mcpwarden_call_duration_seconds_count", 1.0),
        (r#"mcpwarden_detections_total{category="custom",severity="critical"}"#, 0.0),
    ] {
        assert_eq!(number(&page, line), Some(expected), "{line}");
    }
}

#[test]
fn distinct_server_labels_are_bounded() {
    let mut metrics = Metrics::start(None).unwrap();
    for number in 0..observe::SERVERS + 50 {
        let event = called(&format!("s{number}"), json!({"action": "allow", "enforced": false}));
        metrics.observe(&event, || event.timestamp);
    }
    let page = page::text(&Snapshot::default(), metrics.shared.registry.gather()).unwrap();
    assert_eq!(number(&page, r#"mcpwarden_calls_total{action="allow",server="other"}"#), Some(50.0));
    let lines = page.lines().filter(|line| line.starts_with("mcpwarden_calls_total"));
    assert_eq!(lines.count(), 3 * (observe::SERVERS + 1));
}

#[test]
fn agent_counters_become_metrics() {
    let counters = [
        ("servers", 3),
        ("program_runs_exec", 4),
        ("program_ns_exec", 2_500_000_000),
        ("kernel_missed_runs", 5),
    ];
    let counters = counters.map(|(name, count)| (name.to_owned(), count)).into();
    let samples = vec![Sample::new(table::SERVERS, &["stdio"], 2.0)];
    let page = page::text(&Snapshot { counters, samples }, Vec::new()).unwrap();
    for (line, expected) in [
        ("mcpwarden_servers_found_total", Some(3.0)),
        (r#"mcpwarden_program_runs_total{program="exec"}"#, Some(4.0)),
        (r#"mcpwarden_program_seconds_total{program="exec"}"#, Some(2.5)),
        (r#"mcpwarden_losses_total{counter="kernel_missed_runs"}"#, Some(5.0)),
        (r#"mcpwarden_servers{transport="stdio"}"#, Some(2.0)),
        ("mcpwarden_messages_total", None),
    ] {
        assert_eq!(number(&page, line), expected, "{line}\n{page}");
    }
}

/// Method, path, how far the agent is, status, part of the answer.
#[test]
fn metrics_endpoint_answers_by_stage() {
    let metrics = Metrics::start(None).unwrap();
    let cases = [
        (Method::GET, "/readyz", Stage::Starting, 503, "not attached yet"),
        (Method::GET, "/healthz", Stage::Starting, 503, "not attached yet"),
        (Method::GET, "/readyz", Stage::Running, 200, "ok"),
        (Method::GET, "/healthz", Stage::Running, 200, "ok"),
        (Method::HEAD, "/metrics", Stage::Running, 200, "mcpwarden_events_total"),
        (Method::GET, "/metrics", Stage::Ending, 200, "mcpwarden_events_total"),
        (Method::GET, "/readyz", Stage::Ending, 503, "the agent ends"),
        (Method::GET, "/", Stage::Running, 404, "/metrics, /healthz and /readyz"),
        (Method::POST, "/metrics", Stage::Running, 405, "only GET and HEAD"),
    ];
    metrics.drained();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (method, path, stage, status, part) in cases {
        metrics.stage(stage);
        let answer = metrics.shared.answer(&method, path);
        assert_eq!(answer.status(), status, "{method} {path} {stage:?}");
        let body = runtime.block_on(http_body_util::BodyExt::collect(answer.into_body())).unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(part), "{method} {path} {stage:?}: {body}");
    }
}

/// What is sent, and how it is answered.
#[test]
fn metrics_clients_are_bounded() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let metrics = Metrics::start(Some(address)).unwrap();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let get = "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n";
    let long = format!("GET /readyz HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(serving_head()));
    for (name, request, part) in [
        ("a request", get, "503"),
        ("a page", "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", "text/plain; version=0.0.4"),
        ("no HTTP", "hello\r\n\r\n", "400"),
        ("a long head", &long, "431"),
    ] {
        let answer = ask(request);
        assert!(answer.contains(part), "{name}: {answer}");
    }
    // Who reads an answer may be faster than who counts it.
    let counted = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        (metrics.counters().requests, metrics.counters().unusable) == (2, 2)
    });
    assert!(counted, "{:?}", metrics.counters());

    // Those who only sit there are in nobody's way.
    let mut slow: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ");
    }
    assert!(ask(get).contains("503 Service Unavailable"));
    assert!(metrics.counters().pushed_out >= 100, "{:?}", metrics.counters());
    drop(metrics);
    let gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        TcpStream::connect(address).is_err()
    });
    assert!(gone, "nobody listens any more");
}

fn serving_head() -> usize {
    crate::serving::HEAD_BYTES
}

#[test]
fn occupied_metrics_address_is_not_fatal() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(Metrics::start(Some(taken.local_addr().unwrap())).is_ok());
}

const BEGIN: &str = "<!-- The metrics, generated from the table. -->\n";
const END: &str = "<!-- End of the metrics. -->\n";

fn reference() -> String {
    let mut text = String::from(
        "\n| metric | type | labels | what it says | counters of the agent |\n|---|---|---|---|---|\n",
    );
    for metric in all() {
        let kind = format!("{:?}", metric.kind()).to_lowercase();
        let labels: Vec<String> = metric.labels().iter().map(|label| format!("`{label}`")).collect();
        let from = match metric.source {
            Source::Counter(name) | Source::Nanoseconds(name) => format!("`{name}`"),
            Source::Events(_) => adds_up_to(metric.name).map_or(String::new(), |name| format!("`{name}`")),
            Source::Counters(_, list) => {
                list.iter().map(|(value, name)| format!("`{value}`: `{name}`")).collect::<Vec<_>>().join(", ")
            }
            Source::Prefix(_, prefix, _) => format!("`{prefix}…`"),
            Source::Losses => "see below".to_owned(),
            _ => String::new(),
        };
        let (name, labels) = (metric.name, labels.join(", "));
        writeln!(text, "| `{name}` | {kind} | {labels} | {} | {from} |", metric.help).unwrap();
    }
    text += "\nValues of `counter` of `mcpwarden_losses_total`, which should stay at zero:\n\n| counter | what its growth means |\n|---|---|\n";
    for (name, meaning) in WATCHED {
        writeln!(text, "| `{name}` | {meaning} |").unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn docs_list_every_metric() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let must = format!("{before}{BEGIN}{}{END}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, must).unwrap();
    } else {
        assert!(
            page == must,
            "docs/reference/metrics.md is old: UPDATE_DOCS=1 cargo test -p mcpwarden metrics"
        );
    }
}

/// Names of metrics in an expression of Prometheus.
fn named(expression: &str) -> BTreeSet<String> {
    let part = |byte: char| byte.is_ascii_alphanumeric() || byte == '_' || byte == ':';
    let words = expression.split(|byte| !part(byte));
    let ours = words.filter(|word| word.starts_with("mcpwarden_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

fn deployed(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// All texts under a key, however deep.
fn under<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                match value {
                    Value::String(text) if name == key => found.push(text),
                    value => under(value, key, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| under(value, key, found)),
        _ => {}
    }
}

#[test]
fn alerts_and_dashboard_use_existing_metrics() {
    let dashboard: Value = serde_json::from_str(&deployed("grafana/mcpwarden.json")).unwrap();
    let rules: Value = serde_saphyr::from_str(&deployed("prometheus/mcpwarden.rules.yaml")).unwrap();
    for (file, value) in [("dashboard", dashboard), ("rules", rules)] {
        let mut expressions = Vec::new();
        under(&value, "expr", &mut expressions);
        assert!(expressions.len() > 8, "{file}");
        for expression in expressions {
            let names = named(expression);
            assert!(!names.is_empty() || expression.starts_with("up{"), "{file}: {expression}");
            for name in names {
                let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                let known = |name: &str| all().any(|metric| metric.name == name);
                assert!(known(&name) || bare.is_some_and(known), "{file}: {name} in {expression}");
            }
        }
    }
}

#[test]
fn metrics_know_every_gap_cause_and_gate_action() {
    fn holds(name: &str, known: &[impl serde::Serialize]) {
        let schema = mcpwarden_policy::event::schema();
        let mut words = Vec::new();
        under(&schema["$defs"][name], "const", &mut words);
        assert_eq!(words.len(), known.len(), "{words:?}");
        for one in known {
            let word = json!(one);
            assert!(words.contains(&word.as_str().unwrap()), "{word}");
        }
    }
    holds("GapCause", &observe::CAUSES);
    holds("GateAction", &observe::GATE_ACTIONS);
}
