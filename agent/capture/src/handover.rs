//! One agent after another: the next begins where the one before has stopped.

use std::{cmp::Reverse, collections::BinaryHeap};

use mcpwarden_abi as abi;
use mcpwarden_policy::{GapCause, Timestamp};

use super::{Capture, outlet::Outlet, output::Sink, pressure::account};
use crate::time::BootTime;

impl Capture {
    /// Another agent has read these connections until now, and the kernel half is so far by now.
    pub fn begin_at(&mut self, streams: &[(u64, [abi::Stream; 2])]) {
        self.begun = streams.iter().copied().collect();
    }

    /// All that waited in the ring for this agent is read: it is handed on as it went by, requests before their answers.
    pub fn resume(&mut self, sink: &mut Sink<'_>) {
        let streams = self.connections.keys().flat_map(|id| [(*id, 0), (*id, 1)]);
        let mut next: BinaryHeap<_> = streams.map(|(id, index)| Reverse((Timestamp(0), id, index))).collect();
        while let Some(Reverse((_, id, index))) = next.pop() {
            let last = next.peek().map_or(Timestamp(u64::MAX), |Reverse((time, ..))| *time);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
            if let Some(time) = connection.streams[index].release_until(last, out) {
                next.push(Reverse((time, id, index)));
            }
            account(&mut self.memory, connection, index);
        }
    }

    /// Another agent goes on behind what was read by now: what waits is handed on as it is, and of messages of which that one
    /// will see the end only, nobody has the whole.
    pub fn leave(&mut self, clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        let waiting = self.connections.iter().filter(|(_, connection)| connection.waits());
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            if !self.serve_held(id, clock, now, sink) {
                self.release_early(id, clock, now, sink);
            }
        }
        for connection in self.connections.values_mut() {
            for stream in &mut connection.streams {
                let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
                stream.stop_waiting(GapCause::AgentEnded, out);
                self.counters.missing_bytes += stream.discard_frame(now, GapCause::AgentEnded, out);
            }
        }
    }
}
