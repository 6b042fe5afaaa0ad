use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::examples::examples;
use super::*;

#[test]
fn every_event_conforms_to_the_schema() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    for event in examples() {
        let json = serde_json::to_value(&event).unwrap();
        if let Err(error) = schema.validate(&json) {
            panic!("{json}: {error}");
        }
        kinds.insert(event.kind());
    }
    assert_eq!(kinds, EventBody::KINDS.iter().copied().collect(), "each kind has an example");
}

#[test]
fn event_schema_refuses_malformed_events() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let good = examples().into_iter().find(|event| event.kind() == "mcp_tool_seen").unwrap();
    let good = serde_json::to_value(&good).unwrap();
    assert!(schema.is_valid(&good));
    let cases = [
        ("type", json!("mcp_unknown")),
        ("type", Value::Null),
        ("timestamp", json!("yesterday")),
        ("timestamp", Value::Null),
        ("tool_name", Value::Null),
        ("via", json!("relay")),
        ("server_type", json!("smoke")),
        ("seq", json!("9")),
        ("previous", json!(9)),
    ];
    for (key, value) in cases {
        let mut bad = good.clone();
        match value {
            Value::Null => bad.as_object_mut().unwrap().retain(|name, _| name != key),
            value => bad[key] = value,
        }
        assert!(!schema.is_valid(&bad), "{bad}");
    }
}

#[test]
fn events_round_trip_with_type_and_timestamp_first() {
    for event in examples() {
        let line = serde_json::to_string(&event).unwrap();
        let start = format!(r#"{{"type":"{}","timestamp":"{}""#, event.kind(), event.timestamp);
        assert!(line.starts_with(&start), "{line}");
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event, "{line}");
    }
}

/// The published schema; with `UPDATE_DOCS=1` it is made so.
#[test]
fn documented_event_schema_equals_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/events.schema.json");
    let expected = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        let published = std::fs::read_to_string(path).unwrap();
        assert!(
            published == expected,
            "docs/reference/events.schema.json is old: UPDATE_DOCS=1 cargo test -p mcpwarden-event"
        );
    }
}

/// Every time in an event, whatever its field, is moved with the wall clock.
#[test]
fn every_time_in_an_event_is_moved() {
    /// The times in a value, by where they stand.
    fn times(value: &Value, path: &str, found: &mut Vec<(String, Timestamp)>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(key, value)| times(value, &format!("{path}/{key}"), found));
            }
            Value::Array(items) => items.iter().for_each(|value| times(value, &format!("{path}/-"), found)),
            text => {
                found.extend(serde_json::from_value(text.clone()).ok().map(|time| (path.to_owned(), time)))
            }
        }
    }
    let times_of = |event: &Event| {
        let mut found = Vec::new();
        times(&serde_json::to_value(event).unwrap(), "", &mut found);
        found
    };
    let mut seen = BTreeSet::new();
    for event in examples::examples() {
        for nanos in [0, 1, 86_400_000_000_000, -1] {
            let mut moved = event.clone();
            moved.move_times(nanos);
            let expected: Vec<(String, Timestamp)> =
                times_of(&event).into_iter().map(|(path, time)| (path, time.moved(nanos))).collect();
            assert_eq!(times_of(&moved), expected, "{} by {nanos}", event.kind());
            seen.extend(expected.into_iter().map(|(path, _)| path));
        }
    }
    let expected = [
        "/expires",
        "/limits/until",
        "/related_calls/-/timestamp",
        "/requested",
        "/timestamp",
        "/until",
        "/valid_until",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
