//! The start of an agent: servers that already run are adopted, and what another agent left is continued or detached.

use std::collections::HashSet;

use anyhow::{Context as _, Result};
use mcpwarden_kernel::{
    Met,
    fd_scan::{self, FdScan},
    pins::Left,
};
use mcpwarden_policy::event::TakenOver;

use super::Agent;
use crate::{daemon::ring::RingReader, host::process};

/// What went wrong where an fd scan at start fails.
const NO_FD_SCAN: &str = "cannot read the fd scan, by which servers that already run are found";

impl Agent {
    /// Continues with what another agent left: what came before it is the other's.
    pub fn continue_from(&mut self, met: &Met) {
        self.capture.begin_at(&met.streams);
        self.programs = self.kernel.program_stats();
        // Losses until now are the other's, too.
        let counters = self.counters();
        self.loss.look(&counters);
        self.shares.look(&self.kernel.shares(), 0);
    }

    /// Has the kernel half register servers that already run.
    pub(super) fn adopt(&mut self) -> Result<FdScan> {
        self.kernel.adopt().context(NO_FD_SCAN)?;
        self.kernel.members().adopt(&process::parents());
        // A client that is nobody's parent was passed before its server's channels were known.
        fd_scan::take(self.kernel.fd_scan()?, &HashSet::new()).context(NO_FD_SCAN)
    }

    /// As [`Agent::adopt`], where records wait in the ring: it can be full of them, and whose they are is known only from records
    /// that come now.
    pub(super) fn adopt_behind(&mut self, ring: &mut RingReader) -> Result<FdScan> {
        let waited = ring.take_waiting();
        let found = self.adopt()?;
        let since = ring.take_waiting();
        ring.put_back(waited, since);
        Ok(found)
    }

    /// Stops reading TCP connections that another agent had begun to read: their beginnings are not known.
    pub(super) fn detach_sockets(&mut self, met: &Met) {
        let known = self.capture.socket_ids().into_iter().filter(|(_, key)| key.is_some());
        let known: HashSet<u64> = known.map(|(id, _)| id).collect();
        for (key, number) in met.sockets.iter().filter(|(_, number)| !known.contains(number)) {
            self.forget_socket(*key, *number);
        }
    }

    /// Has the kernel half register connections of sockets that are open already. Where only a part of the cgroups is watched, whose a
    /// socket is would not be known.
    pub(super) fn adopt_sockets(&mut self) {
        let config = self.reload.config();
        if !config.discovery.loopback || config.network.cgroup_path.is_some() {
            return;
        }
        if let Err(error) = self.kernel.adopt_sockets() {
            tracing::error!("{error}; connections over sockets that were open before the agent are not read");
        }
    }

    /// From here on only this agent judges, and what it leaves. What the agent before had left, for the event.
    pub(super) fn take_over(&mut self) -> Result<Option<TakenOver>> {
        let (left, error) = self.kernel.take_over(&self.pins)?;
        if let Some(error) = error {
            tracing::error!(
                "cannot detach the programs of an earlier agent, which still judge connections: {error}; stop this agent and \
                 run `mcpwarden detach`"
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
