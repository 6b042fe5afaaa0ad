//! Where what a test starts lies.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};

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
