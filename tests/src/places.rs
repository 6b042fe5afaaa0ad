//! Where what a test starts lies.

use std::env;
use std::fs;
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

/// The agent: `MCPWARDEN_BIN`, or the release build, which alone is fast enough to be tested.
pub fn agent() -> PathBuf {
    match env::var_os("MCPWARDEN_BIN") {
        Some(path) => path.into(),
        None => target_dir().join("release/mcpwarden"),
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

/// Says that a test has nothing to run on. `cargo xtask test` counts these lines.
pub fn skipped(test: &str, why: &str) {
    // Not eprintln!: libtest would swallow it, since the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
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
