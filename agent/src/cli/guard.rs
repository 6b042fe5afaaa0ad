//! Arguments of `mcpwarden guard`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(super) const EXAMPLES: &str = "\
Examples:
  mcpwarden guard new data-loss --lang rust
  mcpwarden guard build data-loss
  mcpwarden guard test data-loss/data-loss.wasm --frames data-loss/frames.jsonl
";

/// What to do with a guard.
#[derive(Subcommand, Debug)]
pub enum GuardCommand {
    /// Write the files of a guard: its interface, its source, and recorded frames to test it with.
    ///
    /// Exit status 2 if the directory exists or cannot be written.
    New(GuardNew),
    /// Build a guard with the tools of its language, and check that it is one.
    ///
    /// Rust needs the target wasm32-wasip2 of rustup, JavaScript Node.js with npm, Python the module venv; other tools are
    /// installed into DIR.
    ///
    /// Exit status 2 if the guard is not built.
    Build(GuardBuild),
    /// Evaluate a guard with recorded frames, and print each answer and its time.
    ///
    /// Exit status 0 if the guard answered each question, 1 if it failed, 2 if it cannot be loaded.
    Test(GuardTest),
}

/// A language in which a guard is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GuardLanguage {
    /// Rust, built by cargo.
    Rust,
    /// JavaScript, built by componentize-js.
    Js,
    /// Python, built by componentize-py.
    Python,
}

/// Arguments of `mcpwarden guard new`.
#[derive(Args, Debug)]
pub struct GuardNew {
    /// The new directory. Its name becomes the name of the guard.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The language.
    #[arg(long, value_enum)]
    pub lang: GuardLanguage,
}

/// Arguments of `mcpwarden guard build`.
#[derive(Args, Debug)]
pub struct GuardBuild {
    /// The directory of the guard.
    #[arg(value_name = "DIR", default_value = ".")]
    pub directory: PathBuf,
}

/// Arguments of `mcpwarden guard test`.
#[derive(Args, Debug)]
pub struct GuardTest {
    /// The component.
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The recording, as for `mcpwarden replay`; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub frames: PathBuf,
    /// Values that the guard reads with get-config, as in `wasm_config`: a file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The time that the guard has for one answer. Milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    pub timeout_ms: u64,
    /// Print JSON, one line for each question.
    #[arg(long)]
    pub json: bool,
}
