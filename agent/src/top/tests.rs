//! What is counted, what keys do, and what stands on terminals of several sizes.

use mcpwarden_policy::{Event, Timestamp, event::examples::examples};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::{Terminal, backend::TestBackend, style::Color};
use serde_json::{Value, json};

use super::act::Effect;
use super::keys::{Action, action};
use super::model::Model;
use super::view::{Command, Mode, Tab, View};
use crate::{control::Status, output::clean};

mod hand;

/// 2026-01-06T10:30:00Z.
const START: u64 = 1_767_695_400;

fn now(seconds: u64) -> Timestamp {
    Timestamp((START + seconds) * 1_000_000_000)
}

/// An event of a server, so many seconds after [`START`].
fn event(at: u64, kind: &str, server: &str, more: Value) -> Event {
    let mut line = json!({
        "type": kind, "timestamp": now(at), "session_id": "sess_1", "server_id": server, "server_type": "stdio", "connection": 7,
    });
    let fields = line.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    serde_json::from_value(line).unwrap()
}

fn started(at: u64, server: &str) -> Event {
    let client = json!({"pid": 42, "executable": "/usr/bin/client"});
    event(
        at,
        "mcp_server_started",
        server,
        json!({
            "pid": 7, "uid": 5, "executable": "/usr/bin/git", "client": client, "argv": ["git"], "matched_by": "name", "identity": "derived",
            "adopted": false, "chain": [],
        }),
    )
}

fn exited(at: u64, server: &str) -> Event {
    let none = json!({"c2s": 0, "s2c": 0});
    event(
        at,
        "mcp_server_exited",
        server,
        json!({
            "pid": 7, "exit_code": 0, "duration_ns": 1, "calls": 0, "frames": none, "bytes": none, "junk_bytes": 0, "gap_bytes": 0, "unanswered": 0,
        }),
    )
}

fn called(at: u64, server: &str, id: u64, action: &str) -> Event {
    event(
        at,
        "mcp_tool_called",
        server,
        json!({
            "tool_name": "add", "tool_id": "t", "jsonrpc_id": id, "input": {"a": 1}, "category": "read", "action": action, "enforced": false,
        }),
    )
}

fn answered(at: u64, server: &str, id: u64, status: &str, latency: u64) -> Event {
    event(
        at,
        "mcp_tool_result",
        server,
        json!({
            "tool_name": "add", "tool_id": "t", "jsonrpc_id": id, "status": status, "bytes": 9, "latency_ns": latency, "result": null,
            "action": "allow", "enforced": false,
        }),
    )
}

fn detected(at: u64, server: &str, severity: &str) -> Event {
    event(
        at,
        "mcp_detection",
        server,
        json!({
            "subject": "definition", "tool_name": "add", "tool_hash": "abc", "action": "alert", "detection": {
                "pattern": "hidden-tags", "category": "exfiltration", "severity": severity, "field": "/f", "matches": [], "score": 1,
                "form": "raw",
            },
        }),
    )
}

fn egress(at: u64, server: &str, address: &str) -> Event {
    event(
        at,
        "mcp_server_egress",
        server,
        json!({
            "remote_addr": address, "remote_name": "example.com", "protocol": "tcp", "family": "ipv4", "pid": 7, "action": "allow",
            "enforced": false, "first_seen": true, "severity": "low",
        }),
    )
}

fn gap(at: u64, server: &str) -> Event {
    event(at, "mcp_capture_gap", server, json!({"direction": "c2s", "bytes": 77, "cause": "ring_full"}))
}

pub fn status(frames: u64, more: Value) -> Box<Status> {
    let mut status = json!({
        "version": "1.2.3", "pid": 1, "since": now(0), "kernel": "6", "troubles": [],
        "config": {"hash": "", "since": now(0), "usable": true, "stdio": "observe", "network": "deny"},
        "gate": {"neutralize": "lsm", "deny": "lsm"}, "not_enforced": [], "servers": 1, "sessions": 1, "approvals": 0, "blocks": 0,
        "store": {"path": "/x", "last": 1, "stored": 1, "lost": 0},
        "sinks": [], "programs": [], "blind_spots": [], "counters": {"frames": frames},
    });
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(status).unwrap()
}

fn waiting(server: &str) -> mcpwarden_policy::WaitingTool {
    serde_json::from_value(json!({
        "server_id": server, "session_id": "sess_1", "tool_name": "held", "tool_hash": "0123456789abcdef", "uid": 5,
        "guard": "tool_poisoning", "code": "approval_required", "reason": "it has detections", "max_severity": "high",
        "requested": now(0), "expires": now(300), "timed_out": false,
    }))
    .unwrap()
}

/// Two servers: one that is called, one that ended; and all that can happen to the first.
fn filled() -> Model {
    let mut model = Model::default();
    let mut events = vec![started(0, "files"), started(0, "gone"), exited(1, "gone")];
    events
        .extend((0..40).map(|id| called(80 + id / 4, "files", id, if id == 0 { "block" } else { "allow" })));
    events.extend((0..39).map(|id| {
        answered(81 + id / 4, "files", id, if id == 1 { "error" } else { "ok" }, (id + 1) * 1_000_000)
    }));
    events.extend([
        detected(85, "files", "critical"),
        detected(86, "files", "low"),
        egress(87, "files", "192.0.2.1:443"),
        gap(88, "files"),
    ]);
    events.into_iter().for_each(|event| model.add(event));
    model.waiting = vec![waiting("files")];
    model.status(status(100, json!({})), now(88));
    model.status(
        status(180, json!({"approvals": 1, "counters": {"frames": 180, "sinks_dropped": 3}})),
        now(90),
    );
    model
}

fn screen(model: &Model, view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| super::draw::draw(frame, "host-1", model, view, now(90))).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect()
}

/// Presses keys, as they are written in a text: `>` is Enter, `<` Esc, `~` Tab. What the last led to.
fn press(view: &mut View, model: &Model, keys: &str) -> Option<Effect> {
    let mut effect = None;
    for key in keys.chars() {
        let code = match key {
            '>' => KeyCode::Enter,
            '<' => KeyCode::Esc,
            '~' => KeyCode::Tab,
            character => KeyCode::Char(character),
        };
        effect = action(view, KeyEvent::from(code)).and_then(|action| view.apply(action, model, now(90)));
    }
    effect
}

#[test]
fn calls_errors_and_blocks_are_tallied() {
    let model = filled();
    let files = model.servers.get("files").unwrap();
    let tally = &files.tally;
    assert_eq!((tally.calls, tally.errors, tally.blocked), (40, 1, 1));
    assert_eq!(tally.found, [1, 0, 0, 1]);
    assert_eq!(tally.latencies.quantiles(), Some((20_000_000, 38_000_000)));
    assert!((tally.rate.per_second(now(90)) - 4.0).abs() < 1e-9);
    assert!((model.agent.frames_per_second - 40.0).abs() < 1e-9);
    assert_eq!(
        (tally.running.len(), files.sessions.len(), files.tools.len(), files.addresses.len()),
        (1, 1, 1, 1)
    );
    // Both have connection 7, so the exit of the one is the session's, too.
    let session = model.sessions.get("sess_1").unwrap();
    assert_eq!((session.tally.calls, session.servers.len()), (40, 2));
    assert_eq!(session.client.as_ref().unwrap().pid, 42);
    assert_eq!(model.calls.back().unwrap().answer, None);
    assert_eq!(model.calls.front().unwrap().answer.unwrap().1, 1_000_000);
    let lost: Vec<_> = model.lost().into_iter().map(|(name, value, _)| (name, value)).collect();
    assert_eq!(lost, [("gap_bytes", 77), ("sinks_dropped", 3)]);
}

#[test]
fn every_event_type_is_tallied_and_drawn() {
    let mut model = Model::default();
    let all = examples();
    let count = all.len() as u64;
    all.into_iter().for_each(|event| model.add(event));
    assert_eq!(model.events, count);
    for tab in Tab::ALL {
        for (width, height) in [(80, 24), (40, 10), (200, 60), (1, 1), (10, 3), (0, 0)] {
            let mut view = View { tab, ..View::default() };
            screen(&model, &view, width, height);
            press(&mut view, &model, ">");
            screen(&model, &view, width, height);
        }
    }
}

#[test]
fn top_tables_are_bounded() {
    let mut model = Model::default();
    for server in 0..1_100 {
        model.add(called(0, &format!("server-{server}"), 1, "allow"));
    }
    // None of them runs: the oldest went.
    assert_eq!((model.servers.len(), model.servers.refused()), (1_024, 76));
    let mut model = Model::default();
    for server in 0..1_100 {
        model.add(started(0, &format!("server-{server}")));
    }
    assert_eq!((model.servers.len(), model.servers.refused()), (1_024, 76));
    assert!(model.servers.get("server-0").is_some());
    (0..5_000).for_each(|id| model.add(called(0, "server-0", id, "allow")));
    assert_eq!(model.calls.len(), 512);
    assert_eq!(model.servers.get("server-0").unwrap().tally.calls, 5_000);
}

#[test]
fn restarted_agent_resets_running_calls() {
    let mut model = filled();
    let started = examples().into_iter().find(|event| event.kind() == "agent_started").unwrap();
    model.add(started);
    assert_eq!(model.servers.get("files").unwrap().tally.running.len(), 0);
    model.status(status(0, json!({"since": now(89)})), now(91));
    assert!(model.agent.frames_per_second.abs() < 1e-9);
    model.down("no agent runs".to_owned());
    assert!(screen(&model, &View::default(), 80, 24)[1].starts_with("no agent: no agent runs"));
    model.status(status(0, json!({})), now(92));
    assert!(!screen(&model, &View::default(), 80, 24)[1].contains("no agent"));
}

/// Keys that were pressed before, and parts of what is on the screen, which is of 120 columns.
#[test]
fn screen_shows_the_expected_content() {
    let model = filled();
    let cases: [(&str, &[&str]); 11] = [
        (
            "",
            &[
                "host-1  mcpwarden 1.2.3 up 90s  4.0 calls/s  40.0 frames/s",
                "lost: gap_bytes 77, sinks_dropped 3  1 tools wait for approval",
                "files  ",
                "live",
                " 40     4.0 20.0 ms 38.0 ms      1       1 1C 1L",
                "gone",
                "exited",
            ],
        ),
        ("2", &["sess_1", "client", "42"]),
        ("3", &["10:31:29 files", "add", "39.0 ms"]),
        ("3G", &["block    ok        1.0 ms", "allow    error     2.0 ms"]),
        ("4", &["critical hidden-tags", "definition", "alert"]),
        ("5", &["gap_bytes", "gap: ring_full", "77", "bytes of files were not seen", "sinks_dropped"]),
        (
            ">",
            &[
                "server files",
                "/usr/bin/git",
                "40, 1 answered with an error, 1 blocked",
                "p50 20.0 ms, p95 38.0 ms",
                "waits    held: it has detections, high",
                "tool     add: 40 calls",
                "address  192.0.2.1:443 (example.com): 1 connections",
            ],
        ),
        ("4>", &["mcp_detection", "hidden-tags", "tool     add"]),
        ("/GON", &["/GON_", "gone"]),
        ("?", &["as `mcpwarden approve` does"]),
        (">a", &["y/n  trust 0123456789abcdef as the definition of files:held (uid 5)?"]),
    ];
    for (keys, parts) in cases {
        let mut view = View::default();
        press(&mut view, &model, keys);
        let text = screen(&model, &view, 120, 24).join("\n");
        for part in parts {
            assert!(text.contains(part), "{keys}: no {part:?} in\n{text}");
        }
    }
    let mut view = View::default();
    press(&mut view, &model, "/gon>");
    assert!(!screen(&model, &view, 120, 24).join("\n").contains("files  "));
    press(&mut view, &model, "<");
    assert!(screen(&model, &view, 120, 24).join("\n").contains("files "));
}

/// State, key, what it asks for.
#[test]
fn key_action_depends_on_the_view_state() {
    let list = View::default;
    let open = || View { open: true, ..View::default() };
    let typing = || View { typing: true, ..View::default() };
    let help = || View { help: true, ..View::default() };
    let asking = || {
        let mut view = View::default();
        press(&mut view, &filled(), ">a");
        assert_eq!(view.mode(), Mode::Asking);
        view
    };
    let key = |code| KeyEvent::from(code);
    let control = |code| KeyEvent::new(code, KeyModifiers::CONTROL);
    use KeyCode::{BackTab, Backspace, Char, Down, Enter, Esc, F, Tab as Tabulator};
    type Case = (fn() -> View, KeyEvent, Option<Action>);
    let cases: [Case; 26] = [
        (list, key(Char('q')), Some(Action::Quit)),
        (list, control(Char('c')), Some(Action::Quit)),
        (list, control(Char('q')), None),
        (list, key(Char('3')), Some(Action::Show(Tab::Calls))),
        (list, key(Char('6')), None),
        (list, key(Tabulator), Some(Action::Turn(true))),
        (list, key(BackTab), Some(Action::Turn(false))),
        (list, key(Down), Some(Action::Move(1))),
        (list, key(Char('k')), Some(Action::Move(-1))),
        (list, key(Enter), Some(Action::Open)),
        (list, key(Char('/')), Some(Action::Filter)),
        (list, key(Char('s')), Some(Action::Sort)),
        (list, key(F(1)), None),
        (open, key(Esc), Some(Action::Back)),
        (open, key(Char('a')), Some(Action::Approve)),
        (open, key(Char('b')), Some(Action::Block)),
        (typing, key(Char('q')), Some(Action::Type('q'))),
        (typing, key(Backspace), Some(Action::Erase)),
        (typing, key(Enter), Some(Action::Typed)),
        (typing, control(Char('c')), Some(Action::Quit)),
        (help, key(Char('x')), Some(Action::Back)),
        (help, key(Char('q')), Some(Action::Quit)),
        (asking, key(Char('y')), Some(Action::Yes)),
        (asking, key(Char('n')), Some(Action::No)),
        (asking, key(Enter), Some(Action::No)),
        (asking, control(Char('c')), Some(Action::Quit)),
    ];
    for (view, key, expected) in cases {
        assert_eq!(action(&view(), key), expected, "{key:?}");
    }
}

#[test]
fn selected_row_stays_selected() {
    let mut model = filled();
    let mut view = View::default();
    press(&mut view, &model, "j");
    assert_eq!(view.selected, "gone");
    (0..200).for_each(|id| model.add(called(89, "gone", id, "allow")));
    let screen = screen(&model, &view, 120, 24);
    assert!(screen[4].starts_with("gone"), "{screen:?}");
    press(&mut view, &model, "j");
    assert_eq!(view.selected, "files");
    // Further than there are rows.
    press(&mut view, &model, "jjjG");
    assert_eq!(view.selected, "files");
    press(&mut view, &model, "g");
    assert_eq!(view.selected, "gone");
}

#[test]
fn every_sort_order_is_selectable() {
    let model = filled();
    for tab in Tab::ALL {
        let mut view = View { tab, ..View::default() };
        let first = view.sort();
        for _ in super::view::sorts(tab) {
            press(&mut view, &model, "s");
            screen(&model, &view, 80, 24);
        }
        assert_eq!(view.sort(), first);
    }
    let mut view = View { tab: Tab::Detections, ..View::default() };
    assert!(screen(&model, &view, 80, 24)[4].contains(" low "));
    press(&mut view, &model, "s");
    assert!(screen(&model, &view, 80, 24)[4].contains(" critical "));
}

#[test]
fn hostile_names_never_reach_the_terminal() {
    let hostile = "a\u{1b}[2J\u{202e}b\n\u{9b}31m\u{200b}";
    let mut model = Model::default();
    let named = |line: Event| {
        let text = serde_json::to_string(&line).unwrap();
        serde_json::from_str::<Event>(&text.replace("XX", json!(hostile).to_string().trim_matches('"')))
            .unwrap()
    };
    let mut call = called(1, "XX", 1, "block");
    if let mcpwarden_policy::EventBody::ToolCalled(call) = &mut call.body {
        call.tool_name = "XX".into();
        call.decided.reason = Some("XX".into());
        call.jsonrpc_id = "XX".into();
    }
    for event in [started(0, "XX"), call, detected(1, "XX", "high"), egress(1, "XX", "XX"), gap(1, "XX")] {
        model.add(named(event));
    }
    model.waiting = vec![
        serde_json::from_str(&serde_json::to_string(&waiting("XX")).unwrap().replace("XX", "a\\u001b[2J"))
            .unwrap(),
    ];
    model.down(hostile.to_owned());
    for tab in Tab::ALL {
        for keys in ["", ">", ">a", ">jb", ">jjb"] {
            let mut view = View { tab, ..View::default() };
            press(&mut view, &model, keys);
            view.filter = if keys.is_empty() { "\u{202e}".to_owned() } else { String::new() };
            if view.message.is_some() {
                view.done(Err(hostile.to_owned()));
            }
            for (width, height) in [(80, 24), (40, 10), (200, 40)] {
                let text = screen(&model, &view, width, height).concat();
                let found =
                    text.chars().find(|character| clean(&character.to_string()) != character.to_string());
                assert_eq!(found, None, "{tab:?} {keys}: {text:?}");
            }
        }
    }
}

#[test]
fn colours_are_drawn_only_where_enabled() {
    let model = filled();
    for colour in [true, false] {
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        let view = View::new(colour);
        terminal.draw(|frame| super::draw::draw(frame, "host-1", &model, &view, now(90))).unwrap();
        let cells = &terminal.backend().buffer().content;
        let coloured = cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(coloured, colour);
        let red = cells.iter().any(|cell| cell.fg == Color::Red && cell.symbol() == "l");
        assert_eq!(red, colour, "what is lost is red");
    }
}
