//! Tests that run at the same time: which events are about processes that another of them has started.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::Value;

/// What cargo-nextest sets for each test, and all that the test starts inherits.
const ATTEMPT: &str = "NEXTEST_ATTEMPT_ID";

/// Tells the events of a test's own processes from those of other tests. Every agent watches the whole host.
pub struct Others {
    /// `None` where tests run one after the other.
    attempt: Option<OsString>,
    /// The connections whose test is known, and whether it is another.
    connections: HashMap<u64, bool>,
}

impl Default for Others {
    fn default() -> Self {
        Self { attempt: env::var_os(ATTEMPT), connections: HashMap::new() }
    }
}

impl Others {
    /// Whether the event is about another test's processes. One about no process, or about processes that are gone already, is
    /// taken for the test's own.
    pub fn started(&mut self, event: &Value) -> bool {
        let Some(attempt) = &self.attempt else { return false };
        let connection = event["connection"].as_u64();
        if let Some(known) = connection.and_then(|connection| self.connections.get(&connection)) {
            return *known;
        }
        let pids = [&event["pid"], &event["client"]["pid"], &event["process"]["pid"]];
        let Some(found) = pids.into_iter().filter_map(Value::as_u64).find_map(attempt_of) else {
            return false;
        };
        let is_anothers = found != *attempt;
        if let Some(connection) = connection {
            self.connections.insert(connection, is_anothers);
        }
        is_anothers
    }
}

/// The test that has started a process.
fn attempt_of(pid: u64) -> Option<OsString> {
    variable_of(Path::new(&format!("/proc/{pid}")), ATTEMPT)
}

/// A variable of the environment that a process began with, by its directory in /proc. `None` also where that cannot be read.
pub fn variable_of(process: &Path, name: &str) -> Option<OsString> {
    let environment = fs::read(process.join("environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_other_tests_are_identified_by_environment() {
        let mine = u64::from(std::process::id());
        let others = |attempt: Option<OsString>| Others { attempt, connections: HashMap::new() };
        let start = json!({"type": "mcp_server_started", "connection": 1, "pid": mine});
        let later = json!({"type": "mcp_tool_called", "connection": 1});
        let no_process = json!({"type": "agent_loss"});
        let gone = json!({"type": "mcp_server_started", "connection": 2, "pid": 4_194_305});
        // In order, nothing is another's; side by side, this process has the attempt of the run or none at all.
        let mut alone = others(None);
        assert!(![&start, &later, &no_process, &gone].into_iter().any(|event| alone.started(event)));
        let mut other = others(Some("another".into()));
        let is_known = attempt_of(mine).is_some();
        assert_eq!(other.started(&start), is_known);
        assert_eq!(other.started(&later), is_known);
        assert!(!other.started(&no_process) && !other.started(&gone));
        let mut same = others(attempt_of(mine));
        assert!(!same.started(&start) && !same.started(&later));
    }
}
