//! What is given up where memory is short.

use mcpwarden_policy::{GapCause, Timestamp};

use super::{
    Capture, Connection,
    memory::{Hold, Memory},
    outlet::Outlet,
    output::Sink,
};
use crate::time::BootTime;

impl Capture {
    /// Gives up what is held, largest first, until everybody is within their bound: `id` may hold more than before.
    pub(super) fn keep_within_bounds(
        &mut self,
        id: u64,
        clock: &BootTime,
        now: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        let owner = self.connections.get(&id).and_then(|connection| connection.account.owner());
        // Each turn ends a hold, and a turn that ends records' waiting begins an unfinished frame at most.
        while let Some(over) = self.memory.over(owner) {
            let largest = self
                .connections
                .iter()
                .filter(|(_, connection)| connection.account.owner() == over)
                .filter_map(|(id, connection)| Some((connection.account.largest()?, *id)))
                .max();
            let Some(((_, hold), id)) = largest else { return };
            self.give_up(id, hold, clock, now, sink);
        }
    }

    /// Gives up one thing that is held. A gap reports it, or nothing does where nothing is missing for it.
    fn give_up(&mut self, id: u64, hold: Hold, clock: &BootTime, now: Timestamp, sink: &mut Sink<'_>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let out = &mut Outlet { sockets: &mut self.sockets, counters: &mut self.counters, sink };
        let (index, missing) = match hold {
            Hold::Early => {
                self.await_no_longer(id, clock, now, sink);
                return;
            }
            Hold::Frame(index) => {
                (index, connection.streams[index].discard_frame(now, GapCause::Memory, out))
            }
            Hold::Waiting(index) => (index, connection.streams[index].stop_waiting(GapCause::Memory, out)),
        };
        self.counters.memory_refused_frames += 1;
        self.counters.memory_refused_bytes += missing;
        account(&mut self.memory, connection, index);
    }
}

/// What a direction of a connection holds now.
pub fn account(memory: &mut Memory, connection: &mut Connection, index: usize) {
    let (frame, waiting) = connection.streams[index].held();
    memory.set(&mut connection.account, Hold::Frame(index), frame);
    memory.set(&mut connection.account, Hold::Waiting(index), waiting);
}
