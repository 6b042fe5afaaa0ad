//! The thread that empties the ring.

use std::{
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Shared;

/// After a wake-up the ring is emptied so much later: half the cost of emptying it at once.
const NAP: Duration = Duration::from_millis(2);
/// Records and bytes that are moved before the agent's task may take some out.
const BATCH_RECORDS: usize = 256;
const BATCH_BYTES: u64 = 1 << 20;
/// Batches before it is looked whether the thread is to end: a flood must not keep it.
const BATCHES: usize = 64;

/// The thread, which ends with this.
pub struct Thread {
    /// Dropped first: the thread sees that.
    end: Option<UnixStream>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts it.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (end, other) = UnixStream::pair()?;
        let body = move || empty_until(&other, &shared);
        let handle = std::thread::Builder::new().name("ring".to_owned()).spawn(body)?;
        Ok(Self { end: Some(end), handle: Some(handle) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.end = None;
        if let Some(handle) = self.handle.take() {
            // One that panicked has said so.
            let _ = handle.join();
        }
    }
}

/// Empties the ring whenever something is in it, until `end` is closed.
fn empty_until(end: &UnixStream, shared: &Shared) {
    let ring = shared.lock().ring.as_raw_fd();
    // SAFETY: `shared` owns the ring, and does not close it as long as it lives.
    let ring = unsafe { BorrowedFd::borrow_raw(ring) };
    loop {
        let mut wait = [PollFd::new(ring, PollFlags::POLLIN), PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        // Interrupted, or no memory: once more.
        let _ = poll(&mut wait, PollTimeout::NONE);
        if wait[1].any().unwrap_or(false) {
            return;
        }
        std::thread::sleep(NAP);
        for _ in 0..BATCHES {
            if shared.lock_behind().pump(BATCH_RECORDS, BATCH_BYTES) == 0 {
                break;
            }
            shared.some.notify_one();
        }
    }
}
