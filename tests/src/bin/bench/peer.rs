//! The server's end of a measurement: as little as a server can do.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use anyhow::Result;

use mcpwarden_tests::gated::NEUTRAL_BYTE;

/// What it does with what it reads.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Kind {
    /// Answers every read with one write of the same size, on descriptors 0 and 1.
    Echo,
    /// The same on descriptors 3 and 4, so that nobody takes it for a server.
    EchoAside,
    /// Answers each line with a short result, on descriptors 0 and 1; one that the gate has neutralized, with that.
    Answer,
    /// Reads to the end.
    Sink,
}

impl Kind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::EchoAside => "echo-aside",
            Self::Answer => "answer",
            Self::Sink => "sink",
        }
    }
}

fn take(fd: RawFd) -> File {
    // SAFETY: whoever started this process gave it the descriptor, and nothing else here uses it.
    File::from(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs until the other side closes.
pub fn run(kind: Kind) -> Result<()> {
    let (mut input, mut output) = match kind {
        Kind::Echo | Kind::Answer | Kind::Sink => (take(0), take(1)),
        Kind::EchoAside => (take(3), take(4)),
    };
    if matches!(kind, Kind::Answer) {
        return answer(input, output);
    }
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let size = input.read(&mut buffer)?;
        if size == 0 {
            return Ok(());
        }
        if !matches!(kind, Kind::Sink) {
            output.write_all(&buffer[..size])?;
        }
    }
}

/// Answers every line that has an id.
fn answer(input: File, mut output: File) -> Result<()> {
    for line in BufReader::new(input).lines() {
        let line = line?;
        let id = line.split_once("\"id\":").and_then(|(_, rest)| rest.split([',', '}']).next());
        if let Some(id) = id {
            let content = if line.as_bytes().contains(&NEUTRAL_BYTE) { "\u{7f}" } else { "[]" };
            // In one write, as servers do.
            let answer =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":{content}}}}}\n");
            output.write_all(answer.as_bytes())?;
        }
    }
    Ok(())
}
