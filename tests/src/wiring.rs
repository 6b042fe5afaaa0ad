//! Starting a child whose standard input and output are ours: over pipes, or over Unix socket pairs as Node does.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What a child's standard input and output are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Wiring {
    /// Two pipes (Python, Go, Rust).
    #[default]
    Pipes,
    /// Two Unix stream socket pairs (Node).
    Sockets,
    /// TCP within this host.
    Tcp,
    /// A Unix stream socket with a path.
    Named,
    /// A Unix stream socket with an abstract name.
    Abstract,
}

/// The channels between this process and a child, made before there is a child: what is written by then is the
/// first that the child reads.
#[derive(Debug)]
pub struct Channels {
    /// Our end of the child's standard input.
    pub to_child: OwnedFd,
    /// Our end of the child's standard output.
    pub from_child: OwnedFd,
    child_stdin: OwnedFd,
    child_stdout: OwnedFd,
}

impl Wiring {
    /// Whether the server has an address, to which the client connects: see [`crate::addressed`].
    pub fn is_addressed(self) -> bool {
        matches!(self, Self::Tcp | Self::Named | Self::Abstract)
    }

    /// Makes the channels, of those without an address.
    ///
    /// # Errors
    /// No descriptors are left, or there is an address.
    pub fn channels(self) -> io::Result<Channels> {
        match self {
            Self::Pipes => {
                let (child_stdin, to_child) = io::pipe()?;
                let (from_child, child_stdout) = io::pipe()?;
                Ok(Channels {
                    to_child: to_child.into(),
                    from_child: from_child.into(),
                    child_stdin: child_stdin.into(),
                    child_stdout: child_stdout.into(),
                })
            }
            Self::Sockets => {
                let (to_child, child_stdin) = UnixStream::pair()?;
                let (from_child, child_stdout) = UnixStream::pair()?;
                Ok(Channels {
                    to_child: to_child.into(),
                    from_child: from_child.into(),
                    child_stdin: child_stdin.into(),
                    child_stdout: child_stdout.into(),
                })
            }
            Self::Tcp | Self::Named | Self::Abstract => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A child and our ends of its channels.
#[derive(Debug)]
pub struct Wired {
    /// The child.
    pub child: Child,
    /// Writing here is what the child reads. Dropping it is the end of the child's input.
    pub to_child: File,
    /// What the child writes.
    pub from_child: File,
}

impl Channels {
    /// Both ends of the child's standard input, for use without a child.
    pub fn into_stdin(self) -> (OwnedFd, OwnedFd) {
        (self.to_child, self.child_stdin)
    }

    /// Starts `command` on these channels. The standard library uses `posix_spawn` for it, which returns to the
    /// parent before the kernel says that the child has executed its program.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(self, command: &mut Command) -> io::Result<Wired> {
        let child =
            command.stdin(Stdio::from(self.child_stdin)).stdout(Stdio::from(self.child_stdout)).spawn()?;
        // `command` still holds the child's ends: without this, the end of its output would never be seen.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Wired { child, to_child: File::from(self.to_child), from_child: File::from(self.from_child) })
    }
}
