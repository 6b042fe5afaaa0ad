//! What docs/internals/eras.md lists, against the code.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

use std::collections::BTreeMap;
use std::path::Path;

use mcpwarden_policy::definition::VARYING;
use mcpwarden_policy::event::{EventBody, examples::examples, schema};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/internals/eras.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn varying_meta_keys_are_documented() {
    let page = page();
    let (_, rest) = page.split_once("<!-- varying -->").unwrap();
    let (table, _) = rest.split_once("<!-- /varying -->").unwrap();
    let keys: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(keys, VARYING);
}

/// Each violation of the schema of events has its row, with its severity.
#[test]
fn protocol_violations_are_documented() {
    let page = page();
    let (_, rest) = page.split_once("## Violations").unwrap();
    let rows: BTreeMap<&str, &str> = rest
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            Some((cells.next()?.trim().trim_matches('`'), cells.next()?.trim()))
        })
        .filter(|(_, severity)| ["low", "medium", "high", "critical"].contains(severity))
        .collect();
    let schema = schema();
    let kinds = schema["$defs"]["Violation"]["oneOf"].as_array().unwrap();
    let kinds: BTreeMap<&str, String> = kinds
        .iter()
        .map(|kind| {
            let name = kind["const"].as_str().unwrap();
            let violation: mcpwarden_policy::event::Violation = serde_json::from_value(name.into()).unwrap();
            (name, serde_json::to_value(violation.severity()).unwrap().as_str().unwrap().to_owned())
        })
        .collect();
    let rows: BTreeMap<&str, String> =
        rows.into_iter().map(|(name, severity)| (name, severity.to_owned())).collect();
    assert_eq!(rows, kinds);
    let example = |body: &EventBody| matches!(body, EventBody::ProtocolViolation(_));
    assert!(examples().iter().any(|event| example(&event.body)));
}
