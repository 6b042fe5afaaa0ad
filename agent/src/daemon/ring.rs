//! The records of the kernel half, in the order in which the agent takes them in.

use std::{
    collections::{HashSet, VecDeque},
    os::fd::{AsRawFd, RawFd},
};

use anyhow::{Context as _, Result};
use mcpwarden_abi::{FLAG_ADOPTED, FLAG_NO_EXEC, RECORD_EXEC, RecordHeader, record::read};
use mcpwarden_kernel::{Ring, fill::Fill};

/// What a record takes in the ring beside its bytes: `BPF_RINGBUF_HDR_SZ`.
const RING_HEADER: u64 = 8;

/// A record that was taken out of the ring and not yet in.
type Record = Box<[u8]>;

/// The ring buffer, and records that come before those in it.
pub struct RingReader {
    ring: Ring,
    fill: Fill,
    /// Most that was in the ring when it was drained, since that was last reported. Bytes.
    most_used: u64,
    set_aside: VecDeque<Record>,
}

impl RingReader {
    /// A reader of a ring of so many bytes.
    ///
    /// # Errors
    /// The positions of the ring cannot be mapped.
    pub fn new(ring: Ring, ring_bytes: u32) -> Result<Self> {
        let fill = Fill::map(&ring, ring_bytes).context("cannot map the positions of the ring buffer")?;
        Ok(Self { ring, fill, most_used: 0, set_aside: VecDeque::new() })
    }

    /// Has `take` take the next record. False where there is none.
    pub fn next(&mut self, take: impl FnOnce(&[u8])) -> bool {
        if let Some(record) = self.set_aside.pop_front() {
            take(&record);
        } else if let Some(record) = self.ring.pop() {
            take(&record);
        } else {
            return false;
        }
        true
    }

    /// Takes down how much is in the ring now.
    pub fn measure(&mut self) {
        self.most_used = self.most_used.max(self.fill.used());
    }

    /// Bytes that fit in the ring, and most that was in it since this was called last.
    pub fn usage(&mut self) -> (u64, u64) {
        (self.fill.ring_bytes(), std::mem::take(&mut self.most_used))
    }

    /// Takes out what is in the ring now.
    pub fn take_waiting(&mut self) -> Vec<Record> {
        let (mut left, mut records) = (self.fill.used(), Vec::new());
        while left > 0
            && let Some(record) = self.ring.pop()
        {
            left = left.saturating_sub(RING_HEADER + record.len() as u64);
            records.push(Box::from(&*record));
        }
        records
    }

    /// These records come next: see [`found_first`].
    pub fn put_back(&mut self, waited: Vec<Record>, since: Vec<Record>) {
        self.set_aside = found_first(waited, since);
    }
}

impl AsRawFd for RingReader {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

/// The order in which an agent takes in the records that `waited` in the ring when it started, and those that came `since`:
/// first the programs of servers that it found running, by whose records alone the others are understood. A program that
/// started while records waited was not found: its own record is among them.
fn found_first(waited: Vec<Record>, since: Vec<Record>) -> VecDeque<Record> {
    let exec = |record: &[u8]| read::<RecordHeader>(record).filter(|header| header.kind == RECORD_EXEC);
    let started: HashSet<(u64, u32)> = waited
        .iter()
        .filter_map(|record| exec(record))
        .filter(|header| header.flags & FLAG_NO_EXEC == 0)
        .map(|header| (header.connection, header.pid))
        .collect();
    let is_found = |record: &[u8]| {
        exec(record).is_some_and(|header| {
            header.flags & FLAG_ADOPTED != 0 && !started.contains(&(header.connection, header.pid))
        })
    };
    let (first, rest): (Vec<_>, Vec<_>) = since.into_iter().partition(|record| is_found(record));
    first.into_iter().chain(waited).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use mcpwarden_abi::RECORD_DATA;

    use super::*;

    /// Kind, flags, connection (its process has the same number).
    type Sent = (u8, u8, u64);

    fn record((kind, flags, connection): Sent) -> Record {
        let pid = u32::try_from(connection).unwrap();
        let header = RecordHeader { kind, flags, connection, pid, ..Default::default() };
        // SAFETY: a header is plain bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&header).cast::<u8>(), size_of::<RecordHeader>())
        };
        bytes.into()
    }

    #[test]
    fn adopted_servers_come_before_waiting_records() {
        const DATA: Sent = (RECORD_DATA, 0, 1);
        const STARTED: Sent = (RECORD_EXEC, 0, 1);
        const HANDED: Sent = (RECORD_EXEC, FLAG_NO_EXEC, 1);
        const FOUND: Sent = (RECORD_EXEC, FLAG_ADOPTED, 1);
        const OTHER: Sent = (RECORD_EXEC, FLAG_ADOPTED, 2);
        // Name, what was found, what waited, and in which order both come.
        type Case = (&'static str, &'static [Sent], &'static [Sent], &'static [Sent]);
        let cases: [Case; 6] = [
            ("nothing", &[], &[], &[]),
            ("in order", &[DATA], &[DATA, STARTED], &[DATA, DATA, STARTED]),
            ("found", &[DATA], &[DATA, FOUND], &[FOUND, DATA, DATA]),
            ("started meanwhile", &[STARTED, DATA], &[FOUND], &[STARTED, DATA, FOUND]),
            (
                "found, and handed its descriptors meanwhile",
                &[HANDED, DATA],
                &[FOUND],
                &[FOUND, HANDED, DATA],
            ),
            ("found, of two", &[STARTED], &[FOUND, OTHER], &[OTHER, STARTED, FOUND]),
        ];
        for (name, waited, since, expected) in cases {
            let all = |sent: &[Sent]| sent.iter().map(|sent| record(*sent)).collect::<Vec<_>>();
            let ordered = Vec::from(found_first(all(waited), all(since)));
            assert_eq!(ordered, all(expected), "{name}");
        }
        let broken: Record = Box::from([1, 2, 3]);
        assert_eq!(found_first(vec![broken.clone()], Vec::new()), [broken], "no header is no exec");
    }
}
