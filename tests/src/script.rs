//! What the `sender` is told to do, and what it reports.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::io_methods::WriteMethod;

/// One step of a script. In JSON: `{"write": {"text": "…"}}`, `{"await_lines": 2}`, `{"sleep_ms": 5}`,
/// `{"pause": "/path/of/a/fifo"}`, `"spawn"`, `"close"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Write bytes to the child's standard input.
    Write(Write),
    /// Wait until the child has written so many lines in all.
    AwaitLines(usize),
    /// Do nothing for so many milliseconds.
    SleepMs(u64),
    /// Read this FIFO to its end: whoever opens it for writing knows that the script is here, and decides when it
    /// goes on (see [`crate::gate::Gate`]).
    Pause(PathBuf),
    /// Start the child; before the first step where a script does not say it.
    Spawn,
    /// Close the child's standard input; after the last step where a script does not say it.
    Close,
}

/// Bytes to write, from one of the sources, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Write {
    /// The bytes as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
    /// The bytes of this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// How; as the command line says where this does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<WriteMethod>,
    /// In pieces of so many bytes, each a write of its own; 0: all at once.
    pub chunk: usize,
}

impl Step {
    /// Writes text and ends the line.
    pub fn line(text: &str) -> Self {
        Self::text(&format!("{text}\n"))
    }

    /// Writes text as it is.
    pub fn text(text: &str) -> Self {
        Self::Write(Write { text: Some(text.to_owned()), ..Write::default() })
    }

    /// Writes any bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Write(Write { hex: Some(hex), ..Write::default() })
    }

    /// The same step, written by `how` in pieces of `chunk` bytes (0: all at once).
    #[must_use]
    pub fn by(self, how: WriteMethod, chunk: usize) -> Self {
        match self {
            Self::Write(write) => Self::Write(Write { how: Some(how), chunk, ..write }),
            other => other,
        }
    }
}

/// What went one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Bytes.
    pub bytes: u64,
    /// Newlines in them.
    pub lines: u64,
    /// Their SHA-256 in hexadecimal digits.
    pub sha256: String,
}

impl Flow {
    /// Describes `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            sha256: crate::io_methods::hex_digest(bytes),
        }
    }
}

/// What the `sender` prints at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The sender's own process id.
    pub pid: u32,
    /// The child's.
    pub child_pid: u32,
    /// The child's exit code; absent where a signal ended it.
    pub child_code: Option<i32>,
    /// What the child was sent.
    pub sent: Flow,
    /// What it answered.
    pub received: Flow,
}
