//! Iterators over all descriptors, which are loaded here and run elsewhere.

use aya::{Ebpf, programs::Iter};

use super::program;
use crate::{KernelError, brief::brief};

/// An iterator over all descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Who holds channels.
    Holders,
    /// Servers over stdio that already run.
    Stdio,
    /// Connections of sockets that are open already.
    Sockets,
}

impl Scan {
    /// Name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Holders => "fd_scan",
            Self::Stdio => "stdio_scan",
            Self::Sockets => "socket_scan",
        }
    }

    /// What it hangs on, for people.
    pub fn place(self) -> &'static str {
        match self {
            Self::Holders => "iter/task_file",
            Self::Stdio => "iter/task_file (stdio)",
            Self::Sockets => "iter/task_file (sockets)",
        }
    }
}

/// Loads an iterator over all descriptors.
pub fn load_scan(ebpf: &mut Ebpf, btf: &aya::Btf, scan: Scan) -> Result<(), KernelError> {
    program::<Iter>(ebpf, scan.program())?.load("task_file", btf).map_err(|error| KernelError::Hook {
        action: "load",
        hook: scan.place().into(),
        reason: brief(&error),
    })
}
