//! Where a script waits for the test, and the test for the script.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use crate::patience::patience;
use crate::script::Step;

/// How long a script may take to come.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A point in a script at which it waits: see [`Step::Pause`].
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    _directory: TempDir,
}

impl Gate {
    /// A gate that is closed.
    ///
    /// # Errors
    /// No FIFO can be made.
    pub fn new() -> Result<Self> {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let path = directory.path().join("gate");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).context("cannot make a FIFO")?;
        Ok(Self { path, _directory: directory })
    }

    /// The step at which a script waits here.
    pub fn step(&self) -> Step {
        Step::Pause(self.path.clone())
    }

    /// Waits until the script is here. It goes on when what this returns is dropped.
    ///
    /// # Errors
    /// The script did not come in time.
    pub fn reached(&self) -> Result<File> {
        let deadline = Instant::now() + patience(TIMEOUT);
        loop {
            // Not blocking: a script that failed never comes, and the error says more than a test that hangs.
            let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
            match opened {
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(1));
                }
                other => return other.context("the script did not reach the gate"),
            }
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
