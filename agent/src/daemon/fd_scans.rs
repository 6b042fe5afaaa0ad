//! When the fd scans are taken, and what became of them.

use std::{collections::HashSet, fs::File, time::Duration};

use mcpwarden_kernel::fd_scan::{self, FdScan, Side};
use tokio::{task::JoinHandle, time::Instant};

use crate::network::finished;

/// How often the descriptors of all processes are scanned where nothing requests it sooner.
const EVERY: Duration = Duration::from_secs(5);
/// How soon after a server was confirmed: another process may hold its channels (a client that forked twice).
const SOON: Duration = Duration::from_millis(10);

/// The fd scans of a running agent: one at a time, on a thread of its own.
pub struct FdScans {
    running: Option<JoinHandle<std::io::Result<FdScan>>>,
    next: Instant,
    /// Whether the next one was requested.
    is_requested: bool,
    failed: u64,
    tasks_skipped: u64,
}

impl FdScans {
    /// None was taken yet; the first is due one period after `start`.
    pub fn new(start: Instant) -> Self {
        Self { running: None, next: start + EVERY, is_requested: false, failed: 0, tasks_skipped: 0 }
    }

    /// A scan is wanted before the next regular one.
    pub fn request(&mut self, now: Instant) {
        self.next = self.next.min(now + SOON);
        self.is_requested = true;
    }

    /// The start of the agent is over: the first scan is due after it.
    pub fn restart(&mut self, now: Instant) {
        self.next = now + if self.is_requested { SOON } else { EVERY };
    }

    /// When the next one is due.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whether one is to be started now.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next && self.running.is_none()
    }

    /// Starts one, of which the kernel half has given the file. `sides`: the sides of channels of which it is to find what is
    /// being done there.
    pub fn start<E>(&mut self, file: Result<File, E>, sides: HashSet<Side>, now: Instant) {
        (self.next, self.is_requested) = (now + EVERY, false);
        match file {
            Ok(file) => {
                self.running = Some(tokio::task::spawn_blocking(move || fd_scan::take(file, &sides)));
            }
            Err(_) => self.failed += 1,
        }
    }

    /// Waits for the end of the one that runs; for ever where none does. `None`: it failed, so that nothing is collected and
    /// no server is found until the next.
    pub async fn finished(&mut self) -> Option<FdScan> {
        let scan = finished(&mut self.running).await.and_then(Result::ok);
        match &scan {
            Some(scan) => self.tasks_skipped += scan.tasks_skipped,
            None => self.failed += 1,
        }
        scan
    }

    /// Scans that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Processes with more threads than scans looked at.
    pub fn tasks_skipped(&self) -> u64 {
        self.tasks_skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requested_fd_scan_comes_before_the_regular_one() {
        let start = Instant::now();
        let mut scans = FdScans::new(start);
        assert!(!scans.is_due(start) && scans.is_due(start + EVERY));
        scans.request(start);
        assert_eq!(scans.next(), start + SOON);
        scans.request(start + SOON);
        assert_eq!(scans.next(), start + SOON, "a later request does not put it off");
        scans.restart(start + EVERY);
        assert_eq!(scans.next(), start + EVERY + SOON, "a request outlasts the start");
        scans.start(Err::<File, _>(()), HashSet::new(), start + SOON);
        assert_eq!((scans.failed(), scans.next()), (1, start + SOON + EVERY));
        scans.restart(start);
        assert_eq!(scans.next(), start + EVERY, "no request is left");
        let none = tempfile::tempfile().unwrap();
        scans.start(Ok::<_, ()>(none), HashSet::new(), start);
        assert!(!scans.is_due(start + EVERY), "one at a time");
        assert!(scans.finished().await.is_some_and(|scan| scan.holders.is_empty()));
        assert!(scans.is_due(start + EVERY));
    }
}
