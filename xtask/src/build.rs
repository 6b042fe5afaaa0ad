//! What is built for the tests: everything once, in one profile and with one selection of features.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::util::{cargo, command_line, run};

/// The variable that names another agent to be tested than the one that is built here.
const AGENT: &str = "MCPWARDEN_BIN";

/// The programs of the end-to-end tests: the folders of `tests/tests`.
pub const PROGRAMS: [&str; 4] = ["offline", "agent", "network", "gate"];

/// What every build and test command says of which packages: all that are not built for the kernel, and not what only
/// `--full` tests. Another selection would have other features, and cargo would build the dependencies once more.
pub const WORKSPACE: [&str; 5] =
    ["--workspace", "--exclude", "mcpwarden-ebpf", "--exclude", "mcpwarden-ocsf"];

/// A cargo command that builds or tests the workspace with the compiler of clippy, which finds lints while it compiles: a lint is
/// an error, and nothing is compiled once for the lints and once more for the tests.
///
/// `cargo clippy` does the same two things, but only checks; clippy's compiler reads its own arguments from `CLIPPY_ARGS`.
pub fn linted(subcommand: &[&str]) -> Command {
    let mut command = cargo();
    command.args(subcommand).args(WORKSPACE).env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

/// One program of the end-to-end tests.
pub struct TestProgram {
    /// Which of [`PROGRAMS`].
    pub name: String,
    /// Where cargo has put it.
    pub path: PathBuf,
}

/// Builds the agent, the programs that the end-to-end tests start, and all tests: without the tests, dependencies would have other
/// features, and be built once more with them.
///
/// # Errors
/// The compiler found a mistake.
pub fn programs() -> Result<()> {
    run(&mut linted(&["build", "--all-targets"]), "mend what the compiler says above")
}

/// Builds these, and the programs of the end-to-end tests.
///
/// # Errors
/// The compiler found a mistake.
pub fn test_programs() -> Result<Vec<TestProgram>> {
    if std::env::var_os(AGENT).is_none() {
        programs()?;
    }
    let mut command = linted(&["test", "--no-run", "--message-format=json-render-diagnostics"]);
    let line = command_line(&command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(output.status.success(), "`{line}` failed; mend what the compiler says above");
    let mut found = executables(&String::from_utf8_lossy(&output.stdout));
    PROGRAMS
        .into_iter()
        .map(|name| {
            let path =
                found.remove(name).with_context(|| format!("`{line}` builds no test program {name}"))?;
            Ok(TestProgram { name: name.to_owned(), path })
        })
        .collect()
}

/// The executables of integration tests among cargo's messages, by name.
fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["kind"][0] == "test")
        .filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_cargo_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"a"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gate"},"executable":"/t/gate-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        let found: Vec<(String, PathBuf)> = executables(messages).into_iter().collect();
        assert_eq!(found, [("gate".to_owned(), PathBuf::from("/t/gate-1"))]);
    }
}
