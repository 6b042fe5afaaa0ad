//! Standard output, as one of the sinks: what is printed at once waits as a chunk of lines, and a thread writes it.
//!
//! A chunk that was written in part is gone on with, so that no line is torn. Where the reader of a pipe is gone, what waits is
//! dropped: there is nobody whom it could reach. The pause between two attempts grows, and another reader gets whole lines.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
    time::Duration,
};

use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::queue::{Item, OVERHEAD_BYTES, Queue, add};

/// Where writing failed, it is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);
/// How long a descriptor that does not block is waited for at once. Milliseconds.
const WAIT_MS: u16 = 1_000;

/// Lines that are printed together.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The lines, each with its line feed.
    pub text: Bytes,
    /// How many events they are.
    pub events: usize,
}

impl Item for Chunk {
    fn cost(&self) -> usize {
        self.text.len() + OVERHEAD_BYTES
    }

    fn events(&self) -> usize {
        self.events
    }
}

/// Writes what is in the queue until it is closed and empty.
pub fn run(out: &File, queue: &Queue<Chunk>) {
    let mut written = 0;
    // One at a time, so that all others can be dropped for later ones.
    queue.drain(1, Duration::ZERO, RETRY, |chunks| {
        let Some(chunk) = chunks.first() else { return (0, Ok(())) };
        let result = write(out, &chunk.text, &mut written);
        match &result {
            Ok(()) => {
                written = 0;
                add(&queue.counts.written, chunk.events);
                return (1, result);
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                written = 0;
                queue.discard();
            }
            Err(_) => {}
        }
        (0, result)
    });
}

/// Writes the bytes behind the first `written`, which counts those that come.
fn write(mut out: &File, text: &[u8], written: &mut usize) -> io::Result<()> {
    while let Some(rest) = text.get(*written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => *written += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut ready = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
                // Where that fails, the next attempt tells why.
                let _ = poll(&mut ready, PollTimeout::from(WAIT_MS));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "stdout_tests.rs"]
mod tests;
