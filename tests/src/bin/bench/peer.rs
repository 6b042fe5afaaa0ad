//! The server's end of a measurement: as little as a server can do.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use anyhow::Result;

/// What it does with what it reads.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Kind {
    /// Answers every read with one write of the same size, on descriptors 0 and 1.
    Echo,
    /// The same on descriptors 3 and 4, so that nobody takes it for a server.
    EchoAside,
    /// Reads to the end.
    Sink,
}

impl Kind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::EchoAside => "echo-aside",
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
        Kind::Echo | Kind::Sink => (take(0), take(1)),
        Kind::EchoAside => (take(3), take(4)),
    };
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
