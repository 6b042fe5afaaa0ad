//! The start of an agent where another was before: what that one left is gone on with, or let go.

use std::collections::HashSet;

use anyhow::Result;
use mcpwarden_abi::{FLAG_ADOPTED, RECORD_EXEC, RecordHeader, record::read};
use mcpwarden_kernel::{Met, Ring, fd_scan::FdScan, pins::Left};
use mcpwarden_policy::event::TakenOver;

use super::Agent;

/// What a record takes in the ring beside its bytes: `BPF_RINGBUF_HDR_SZ`.
const RING_HEADER: u64 = 8;

impl Agent {
    /// Goes on with what another left: what came before it is the other's.
    pub(super) fn meet(&mut self, met: &Met) {
        self.capture.begin_at(&met.streams);
        self.programs = self.kernel.program_stats();
        let counters = self.counters();
        self.loss.look(&counters);
    }

    /// As [`Agent::adopt`], where records wait in the ring: it can be full of them, and whose they are is known only from records
    /// that come now.
    pub(super) fn adopt_behind(&mut self, ring: &mut Ring) -> Result<FdScan> {
        let waited = self.set_aside(ring);
        let found = self.adopt()?;
        let since = self.set_aside(ring);
        let exec = |record: &[u8]| read::<RecordHeader>(record).filter(|header| header.kind == RECORD_EXEC);
        let started: HashSet<(u64, u32)> = waited
            .iter()
            .filter_map(|record| exec(record))
            .map(|header| (header.connection, header.pid))
            .collect();
        let is_found = |record: &[u8]| {
            exec(record).is_some_and(|header| {
                header.flags & FLAG_ADOPTED != 0 && !started.contains(&(header.connection, header.pid))
            })
        };
        let (first, rest): (Vec<_>, Vec<_>) = since.into_iter().partition(|record| is_found(record));
        self.waited = first.into_iter().chain(waited).chain(rest).collect();
        Ok(found)
    }

    /// Takes out what is in the ring now.
    fn set_aside(&self, ring: &mut Ring) -> Vec<Box<[u8]>> {
        let (mut left, mut records) = (self.fill.used(), Vec::new());
        while left > 0
            && let Some(record) = ring.pop()
        {
            left = left.saturating_sub(RING_HEADER + record.len() as u64);
            records.push(Box::from(&*record));
        }
        records
    }

    /// TCP connections that another agent had begun to read are not read on: what they began with is not known.
    pub(super) fn part(&mut self, met: &Met) {
        let known = self.capture.socket_ids().into_iter().filter(|(_, key)| key.is_some());
        let known: HashSet<u64> = known.map(|(id, _)| id).collect();
        for (key, number) in met.sockets.iter().filter(|(_, number)| !known.contains(number)) {
            self.kernel.remove_socket(*key, *number);
            self.capture.forget(*number);
        }
    }

    /// From here on nobody judges but this agent, and what it leaves. What the one before had left is told.
    pub(super) fn succeed(&mut self) -> Result<Option<TakenOver>> {
        let (left, error) = self.kernel.take_over(&self.pins)?;
        if let Some(error) = error {
            tracing::error!(
                "what an agent before left attached still judges connections, too: {error}; \
                 `mcpwarden detach` lets it go when no agent runs"
            );
        }
        let Left { programs, is_resumed, unread } = left;
        Ok((programs > 0).then_some(TakenOver {
            programs,
            resumed: is_resumed,
            unread_records: unread.records,
            unread_bytes: unread.bytes,
        }))
    }
}
