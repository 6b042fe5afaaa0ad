//! What is looked at in full, and done by hand about it.

use super::*;

/// As long as those that the agent makes.
const HASHES: [&str; 2] = [
    "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
];

fn seen(tool: &str, hash: &str, description: &str) -> Event {
    let more = json!({
        "tool_name": tool, "tool_id": "t", "tool_hash": hash, "description": description, "status": "new", "category": "read",
        "risk_level": "low", "detections": [], "max_severity": null,
    });
    event(89, "mcp_tool_seen", "files", more)
}

/// Fields of an event, replaced.
fn with(event: &Event, more: Value) -> Event {
    let mut line = json!(event);
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(line).unwrap()
}

fn with_hash(hash: &str) -> Event {
    with(&called(89, "files", 99, "allow"), json!({"tool_hash": hash}))
}

fn changed(hash: &str) -> Event {
    let example = examples().into_iter().find(|event| event.kind() == "mcp_tool_changed").unwrap();
    with(&example, json!({"server_id": "files", "tool_name": "add", "new_hash": hash}))
}

/// What the agent is asked for, and what the user is told.
fn does(view: &mut View, model: &Model, keys: &str) -> (Option<Value>, String) {
    let done = match press(view, model, keys) {
        Some(Effect::Do(Command::Approve(new))) => Some(json!(new)),
        Some(Effect::Do(Command::Block(new))) => Some(json!(new)),
        Some(Effect::Quit) => panic!("{keys}"),
        None => None,
    };
    (done, view.message.take().map(|(text, _)| text).unwrap_or_default())
}

fn approving(tool: &str, hash: &str) -> Option<Value> {
    Some(json!({"server": "files", "tool": tool, "all": false, "decision": "approve", "hash": hash}))
}

/// Keys, what the agent is asked to do, and a part of what is said.
#[test]
fn keys_approve_tools_and_block_targets() {
    let model = filled();
    let held = json!({
        "server": "files", "tool": "held", "all": false, "decision": "approve", "uid": 5, "hash": "0123456789abcdef",
    });
    let unknown = "look at `mcpwarden registry show files:add`, then `mcpwarden approve files:add`";
    let cases: [(&str, Option<Value>, &str); 10] = [
        (">ay", Some(held), ""),
        (">an", None, "nothing was done"),
        ("a", None, "select a tool"),
        ("b", None, "select an address"),
        (">b", None, "select an address"),
        // Whatever it is by then is not what anybody looked at.
        (">ja", None, unknown),
        (">jay", None, ""),
        (">jjby", Some(json!({"target": "192.0.2.1:443", "reason": "mcpwarden top", "yes": false})), ""),
        (">jja", None, "select a tool"),
        ("4>ay", approving("add", "abc"), ""),
    ];
    for (keys, expected, reported) in cases {
        let (done, message) = does(&mut View::default(), &model, keys);
        assert_eq!(done, expected, "{keys}");
        assert!(message.contains(reported), "{keys}: {message}");
    }
    // A shell would take this name for something else.
    let mut model = Model::default();
    model.add(with(&called(0, "files", 1, "allow"), json!({"tool_name": "a;reboot"})));
    let (_, message) = does(&mut View::default(), &model, ">a");
    assert!(message.contains("show SERVER:TOOL`") && !message.contains("reboot"), "{message}");
}

/// What was said of a tool; the hash that is approved, and what is shown of the definition.
#[test]
fn approval_covers_the_latest_reported_definition() {
    let [first, second] = HASHES;
    let cases: [(&[Event], &str, Option<&str>); 6] = [
        (&[seen("add", first, "Adds numbers")], first, Some("Adds numbers")),
        (&[with_hash(first)], first, None),
        (&[seen("add", first, "Adds numbers"), with_hash(first)], first, Some("Adds numbers")),
        (&[seen("add", first, "Adds numbers"), with_hash(second)], second, None),
        (&[seen("add", first, "Adds numbers"), changed(second)], second, None),
        (
            &[changed(second), seen("add", second, "Adds\u{1b}[2J\u{202e}")],
            second,
            Some("Adds\\u{1b}[2J\\u{202e}"),
        ),
    ];
    for (events, hash, description) in cases {
        let mut model = filled();
        events.iter().for_each(|event| model.add(event.clone()));
        let mut view = View::default();
        press(&mut view, &model, ">j");
        let text = screen(&model, &view, 120, 24).join("\n");
        assert!(text.contains(&format!("hash  {hash}")), "{text}");
        let reported = text.split("says  ").nth(1).and_then(|text| text.lines().next()).map(str::trim_end);
        assert_eq!(reported, description, "{text}");
        assert_eq!(does(&mut view, &model, "ay").0, approving("add", hash), "{events:?}");
    }
    let mut model = filled();
    model.add(seen("add", first, &"x".repeat(5_000)));
    assert!(
        model.servers.get("files").unwrap().tools.get("add").unwrap().description.as_ref().unwrap().len()
            < 500
    );
}

#[test]
fn confirmation_stays_readable_with_long_names() {
    for (server, tool) in [("s".repeat(128), "t".repeat(120)), ("s".to_owned(), "\u{4e2d}".repeat(100))] {
        let mut model = Model::default();
        let event = with(&seen(&tool, HASHES[0], ""), json!({"server_id": server}));
        model.add(event);
        for (width, height) in [(120, 24), (80, 24), (80, 6), (40, 24), (33, 5)] {
            let mut view = View::default();
            press(&mut view, &model, ">a");
            let lines = screen(&model, &view, width, height);
            let text = lines.concat();
            assert!(text.contains(&format!("y/n  trust {} as", HASHES[0])), "{width} {height}: {lines:#?}");
            let drawn = text.replace(' ', "");
            let whole = drawn.contains(&server) && drawn.contains(&tool) && drawn.contains('?');
            assert!(whole || height < 24, "{width} {height}: {lines:#?}");
        }
    }
    // So is what is to be done where there is nothing to ask.
    let mut view = View::default();
    press(&mut view, &filled(), ">ja");
    let text = screen(&filled(), &view, 60, 24).concat();
    assert!(text.contains("then `mcpwarden approve files:add`"), "{text}");
}

/// Keys that select something, what happens then; what `ay` or `by` is about.
#[test]
fn selection_survives_model_changes() {
    let [first, second] = HASHES;
    let above = |model: &mut Model| model.add(seen("aaa", first, ""));
    let waits = |model: &mut Model| {
        let mut tool = waiting("files");
        tool.tool_name = "another".to_owned();
        model.waiting.insert(0, tool);
    };
    let approved = |model: &mut Model| model.waiting.clear();
    let address = json!({"target": "192.0.2.1:443", "reason": "mcpwarden top", "yes": false});
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Model), &'a str, Option<Value>);
    let held = approving("held", "0123456789abcdef").map(|mut new| {
        new["uid"] = json!(5);
        new
    });
    let cases: [Case<'_>; 6] = [
        (">j", &above, "ay", approving("add", first)),
        (">j", &waits, "ay", approving("add", first)),
        (">", &waits, "ay", held),
        (">jj", &above, "by", Some(address)),
        // It is gone, and its neighbour is not taken in its place.
        (">", &approved, "ay", None),
        (">", &approved, "jay", approving("add", first)),
    ];
    for (keys, happens, more, expected) in cases {
        let mut model = filled();
        model.add(seen("add", first, ""));
        let mut view = View::default();
        press(&mut view, &model, keys);
        happens(&mut model);
        assert_eq!(does(&mut view, &model, more).0, expected, "{keys} {more}");
    }

    // What is asked about is what is done, whatever is known by then.
    let mut model = filled();
    model.add(seen("add", first, ""));
    let mut view = View::default();
    press(&mut view, &model, ">ja");
    model.add(seen("add", second, ""));
    assert_eq!(does(&mut view, &model, "y").0, approving("add", first));
    // And who looked at another definition is asked to look again.
    let (done, message) = does(&mut view, &model, "a");
    assert!(
        done.is_none() && view.requested.is_none() && message.contains("another definition"),
        "{message}"
    );
    assert_eq!(does(&mut view, &model, "ay").0, approving("add", second));
}

/// Presses a key until nothing else is shown: all lines that were.
fn read(view: &mut View, model: &Model, key: &str, width: u16, height: u16) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..60 {
        let shown = screen(model, view, width, height);
        lines.extend(shown[3..usize::from(height) - 1].iter().cloned());
        press(view, model, key);
    }
    lines
}

#[test]
fn detail_view_scrolls_through_all_lines() {
    // Without anything to select, and with.
    let mut model = filled();
    model.add(event(
        89,
        "agent_loss",
        "files",
        json!({"counter": "dropped", "count": 1, "meaning": "word ".repeat(20) + "END", "total": 1}),
    ));
    model.add(seen("add", HASHES[0], &("text ".repeat(60) + "END")));
    for (opening, key, parts) in [
        ("5jj>", "j", &["agent_loss", "time  ", "END"][..]),
        (">", "j", &["server files", "program  ", "last seen", HASHES[0], "END", "address  192.0.2.1:443"]),
    ] {
        for (width, height) in [(80, 24), (80, 8), (79, 9), (120, 7)] {
            let mut view = View::default();
            press(&mut view, &model, opening);
            // From wherever it begins to its top, and from there down.
            read(&mut view, &model, "k", width, height);
            let down = read(&mut view, &model, key, width, height).join("\n");
            for part in parts {
                assert!(down.contains(part), "{opening} {width}x{height}: no {part}");
            }
            // At once, too, and back by as many lines as there are.
            for (key, part) in [("g", parts[0]), ("Gg", parts[0])] {
                press(&mut view, &model, key);
                let top = screen(&model, &view, width, height);
                assert!(top[3].contains(part), "{opening} {key} {width}x{height}: {top:#?}");
            }
            press(&mut view, &model, "G");
            let bottom = screen(&model, &view, width, height).join("\n");
            assert!(bottom.contains(parts[parts.len() - 1]), "{opening} {width}x{height}: {bottom}");
        }
    }
}

/// Type, where its id is from, and its address; what it is blocked by.
#[test]
fn server_is_blocked_by_id_or_address() {
    let url = "http://127.0.0.1:8000/mcp";
    for (kind, identity, url, expected) in [
        ("http", "declared", url, Some("crm")),
        ("sse", "declared", "https://crm.example/mcp", Some("crm")),
        ("http", "derived", url, Some("127.0.0.1:8000")),
        ("http", "derived", "https://[2001:db8::1]:443/a/b", Some("[2001:db8::1]:443")),
        ("http", "derived", "http://crm.example/mcp", None),
        ("stdio", "declared", url, None),
    ] {
        let mut model = Model::default();
        let more = json!({"server_type": kind, "identity": identity, "url": url});
        model.add(with(&started(0, "crm"), more));
        model.add(with(&called(0, "crm", 1, "allow"), json!({"server_type": kind})));
        for keys in [">by", "3>by"] {
            let (done, message) = does(&mut View::default(), &model, keys);
            assert_eq!(
                done.as_ref().map(|new| new["target"].as_str().unwrap()),
                expected,
                "{kind} {identity} {url}"
            );
            assert_eq!(expected.is_none(), message.contains("select an address"), "{message}");
        }
    }
    // Of which nothing is known but what it was asked for.
    let mut model = Model::default();
    model.add(with(&called(0, "127.0.0.1:8000/mcp", 1, "allow"), json!({"server_type": "http"})));
    assert_eq!(does(&mut View::default(), &model, ">by").0, None);
}
