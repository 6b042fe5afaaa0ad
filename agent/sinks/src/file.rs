//! A file with an event a line, put aside when it is large.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result};
use mcpwarden_policy::config;
use mcpwarden_system::files::{beside, remove, rename};
use nix::libc;

use super::queue::{Queue, add};

/// Where the configuration does not say.
const ROTATE_BYTES: u64 = 100 << 20;
const ROTATE_KEEP: u32 = 10;
/// Bytes written at once.
const BATCH_BYTES: usize = 256 << 10;
/// How long more events are waited for, to be written with the first.
const LINGER: Duration = Duration::from_millis(20);
/// Where writing failed, it is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// The file, and those that were put aside: `path.1` is the latest of them.
pub struct RotatingFile {
    path: PathBuf,
    rotate_bytes: u64,
    rotate_keep: u32,
    /// `None` where it could not be opened again.
    file: Option<File>,
    inode: (u64, u64),
    /// It ends within a line, which could not be removed.
    torn: bool,
}

impl RotatingFile {
    /// Opens it, or makes it with mode 0640.
    ///
    /// # Errors
    /// It is none, or cannot be written to.
    pub fn open(config: &config::Sink) -> Result<Self> {
        let path = config.path.as_ref().context("there is no path")?;
        let mut file = Self {
            path: path.as_str().into(),
            rotate_bytes: config.rotate_bytes.map_or(ROTATE_BYTES, |bytes| bytes.0),
            rotate_keep: config.rotate_keep.unwrap_or(ROTATE_KEEP),
            file: None,
            inode: (0, 0),
            torn: false,
        };
        file.reopen().with_context(|| format!("cannot write to {}", path.as_str()))?;
        Ok(file)
    }

    /// Writes what is in the queue until it is closed and empty.
    pub fn run(&mut self, queue: &Queue) {
        queue.drain(BATCH_BYTES, LINGER, RETRY, |lines| {
            let (written, result) = self.write(lines);
            add(&queue.counts.written, written);
            (written, result)
        });
    }

    /// Writes lines, and says how many of them are in the file whole.
    fn write(&mut self, lines: &[super::Line]) -> (usize, io::Result<()>) {
        let size = match self.follow() {
            Ok(size) => size,
            Err(error) => return (0, Err(error)),
        };
        let (mut bytes, mut ready) = (Vec::new(), 0);
        if self.torn && size > 0 {
            bytes.push(b'\n');
        }
        for line in lines {
            let before = size + bytes.len() as u64;
            if before > 0 && before + line.text.len() as u64 >= self.rotate_bytes {
                break;
            }
            bytes.extend_from_slice(&line.text);
            bytes.push(b'\n');
            ready += 1;
        }
        if ready > 0
            && let Err(error) = self.append(&bytes, size)
        {
            return (0, Err(error));
        }
        if ready == lines.len() {
            return (ready, Ok(()));
        }
        (ready, self.rotate())
    }

    /// Appends to a file of so many bytes: all or nothing, since half a line would corrupt the next one.
    fn append(&mut self, bytes: &[u8], size: u64) -> io::Result<()> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let result = file.write_all(bytes);
        self.torn = result.is_err() && cut(file, size).unwrap_or(true);
        result
    }

    /// Opens the file again where somebody else moved or removed it, as logrotate does. Its length, which changes where somebody
    /// else empties it.
    fn follow(&mut self) -> io::Result<u64> {
        let there = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if self.file.is_none() || there.ok() != Some(self.inode) {
            self.reopen()?;
        }
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(file.metadata()?.len())
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = None;
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o640)
            // A link would have root write to whatever it names; a pipe without a reader would hold this up.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        self.inode = (metadata.dev(), metadata.ino());
        self.torn = is_torn(&file, metadata.len())?;
        self.file = Some(file);
        Ok(())
    }

    fn aside(&self, number: u32) -> PathBuf {
        beside(&self.path, &format!(".{number}"))
    }

    /// Puts the file aside and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        if self.rotate_keep == 0 {
            remove(&self.path)?;
        } else {
            remove(&self.aside(self.rotate_keep))?;
            for number in (1..self.rotate_keep).rev() {
                rename(&self.aside(number), &self.aside(number + 1))?;
            }
            rename(&self.path, &self.aside(1))?;
        }
        self.reopen()
    }
}

/// Cuts off what is behind so many bytes. A file that somebody else has emptied meanwhile is not made longer again, which would
/// fill it with zeros. Whether it ends within a line all the same.
fn cut(file: &File, size: u64) -> io::Result<bool> {
    let length = file.metadata()?.len();
    if length > size {
        file.set_len(size)?;
    }
    is_torn(file, length.min(size))
}

/// Whether a file of so many bytes ends within a line: an agent before this one was killed, or its disk was full.
fn is_torn(file: &File, size: u64) -> io::Result<bool> {
    let Some(last) = size.checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
