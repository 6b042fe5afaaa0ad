//! Where what a test starts lies.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The directory of the built programs that this test (or program) was built with, such as `target/release`.
///
pub fn programs_dir() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    let directory = exe.parent().unwrap_or(Path::new("."));
    // Tests are in `deps/`, programs beside it.
    if directory.ends_with("deps") {
        directory.parent().unwrap_or(directory).to_path_buf()
    } else {
        directory.to_path_buf()
    }
}

/// One of our own programs: `benign-server`, `client`, `sender` …
pub fn program(name: &str) -> PathBuf {
    programs_dir().join(name)
}

/// The agent: `MCPWARDEN_BIN`, or what was built beside the tests.
pub fn agent() -> PathBuf {
    match env::var_os("MCPWARDEN_BIN") {
        Some(path) => path.into(),
        None => program("mcpwarden"),
    }
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    programs_dir().parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// What `cargo xtask setup --tests` has installed: `venv/` and `node/`.
pub fn real_servers() -> PathBuf {
    target_dir().join("e2e")
}

/// The directory of this crate.
pub fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reports that a test has nothing to run on: `cargo xtask test` prints and counts these lines. They go to the file that
/// `MCPWARDEN_TEST_SKIPS` names, since a test runner keeps the output of a passed test to itself, or to standard error.
pub fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    let file =
        env::var_os("MCPWARDEN_TEST_SKIPS").and_then(|path| File::options().append(true).open(path).ok());
    let _ = match file {
        Some(mut file) => file.write_all(line.as_bytes()),
        // Not eprintln!: libtest would swallow it.
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}

/// Why a test of this run was skipped, where one was for a reason that contains `why`: what this machine lacks need not be found
/// out again by starting an agent.
pub fn skipped_before(why: &str) -> Option<String> {
    let lines = fs::read_to_string(env::var_os("MCPWARDEN_TEST_SKIPS")?).ok()?;
    let line = lines.lines().find(|line| line.contains(why))?;
    Some(line.split_once(": ")?.1.to_owned())
}

/// Two groups of this host that are not root's: their names and numbers.
///
/// # Errors
/// There are fewer, or they cannot be read.
pub fn two_groups() -> Result<[(String, String); 2]> {
    let text = fs::read_to_string("/etc/group")?;
    let group = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number != "0").then(|| (name.to_owned(), number.to_owned()))
    };
    let found: Vec<_> = text.lines().filter_map(group).take(2).collect();
    found.try_into().ok().context("this host has fewer than two groups")
}
