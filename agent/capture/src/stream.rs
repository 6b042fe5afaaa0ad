//! One direction of one connection: its records in order, compared with the positions that the kernel half counted.

use mcpwarden_abi as abi;
use mcpwarden_policy::{ConnectionId, Direction, GapCause, Limits, Timestamp};

use super::{
    frames::{Frames, Overwritten},
    order::{MissingRange, Order, Position},
    outlet::Outlet,
};

/// One direction of one connection.
pub struct Stream {
    order: Order,
    frames: Frames,
    /// The kernel's positions when last looked at.
    seen: abi::Stream,
    /// Whether they were the same the time before: then no call has returned since.
    is_still: bool,
    /// How much of the server's surplus was reported.
    reported: u64,
}

impl Stream {
    /// Nothing captured yet.
    pub fn new(connection: ConnectionId, direction: Direction, limits: Limits) -> Self {
        Self {
            order: Order::default(),
            frames: Frames::new(connection, direction, limits),
            seen: abi::Stream::default(),
            is_still: false,
            reported: 0,
        }
    }

    /// Another agent has taken in what came before; the kernel half is at `positions` by now.
    pub fn begin_at(&mut self, positions: &abi::Stream) {
        self.order = Order::after_another(positions.offset, positions.refused);
        // That agent has reported what was missing by then.
        self.reported = surplus(positions, 0);
        if positions.offset > 0 {
            self.frames.begin_within();
        }
    }

    /// All that waited in the ring for this agent is read: what went by until `last` is handed on. When the next went by.
    pub fn release_until(&mut self, last: Timestamp, out: &mut Outlet<'_>) -> Option<Timestamp> {
        self.order.release_until(last, &mut |segment| self.frames.take(segment, out))
    }

    /// Until when records wait for others.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.order.deadline()
    }

    /// Bytes of the unfinished frame, and bytes that records take which wait for others.
    pub fn held(&self) -> (usize, usize) {
        (self.frames.pending_bytes() + self.frames.overwritten_bytes(), self.order.held())
    }

    /// Whether a frame went by.
    pub fn has_frames(&self) -> bool {
        self.frames.any()
    }

    /// The gate has overwritten bytes that are about to come.
    pub fn overwrite(&mut self, offset: u64, overwritten: Overwritten) {
        self.frames.overwrite(offset, overwritten);
    }

    /// The gate has refused a write that would have begun at `offset`: see [`Frames::refuse`].
    pub fn refuse(&mut self, offset: u64, bytes: Vec<u8>, time: Timestamp, out: &mut Outlet<'_>) {
        self.frames.refuse(offset, bytes, time, out);
    }

    /// Bytes came.
    pub fn data(&mut self, position: Position, bytes: &[u8], now: Timestamp, out: &mut Outlet<'_>) {
        self.order.data(position, bytes, now, &mut |segment| self.frames.take(segment, out));
    }

    /// The kernel half reports that bytes were not captured.
    pub fn missing(&mut self, range: MissingRange, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.missing(range, now, &mut |segment| self.frames.take(segment, out));
    }

    /// Gives up waiting where the time is over.
    pub fn tick(&mut self, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.tick(now, &mut |segment| self.frames.take(segment, out));
    }

    /// Waits no longer for records that others wait for, because of `cause`. Returns how many bytes are missing for it.
    pub fn stop_waiting(&mut self, cause: GapCause, out: &mut Outlet<'_>) -> u64 {
        let before = out.counters.missing_bytes;
        self.order.give_up(cause, &mut |segment| self.frames.take(segment, out));
        out.counters.missing_bytes - before
    }

    /// Gives up the unfinished frame, because of `cause`. Returns how many bytes it had.
    pub fn discard_frame(&mut self, now: Timestamp, cause: GapCause, out: &mut Outlet<'_>) -> u64 {
        self.frames.discard(now, cause, out)
    }

    /// The kernel's positions, when everything in the ring was read: what it counted and never sent is missing, if it
    /// was so the time before too. A position moves when a call begins to be captured, and that takes milliseconds for
    /// one of megabytes.
    pub fn look(&mut self, positions: &abi::Stream, now: Timestamp, out: &mut Outlet<'_>) {
        if self.order.deadline().is_none() {
            self.skip_to(self.seen.offset, positions.refused, now, out);
        }
        self.is_still = self.is_same(positions);
        self.seen = *positions;
        // What only waited to be read has been.
        self.reported = self.reported.min(surplus(positions, 0));
    }

    /// Whether the server's side passed bytes that nobody saw on the client's, and neither side has moved between the
    /// last two looks. They may still be seen, or wait to be read: [`Self::judge`] tells.
    pub fn is_suspect(&self) -> bool {
        self.is_still && self.frames.is_in_lines() && surplus(&self.seen, 0) > self.reported
    }

    /// Nobody is in the middle of a call on the client's side, and at most `waiting` bytes wait for him to be read:
    /// what the server's side passed beyond is missing, if nothing has moved since the last look.
    pub fn judge(&mut self, positions: &abi::Stream, waiting: u64, now: Timestamp, out: &mut Outlet<'_>) {
        if self.is_still && self.is_same(positions) {
            self.report_surplus(positions, waiting, GapCause::Unseen, now, out);
        }
    }

    /// Nobody holds the connection any more: what has not come will not. What nobody read is reported only
    /// where frames were `seen`: any program in a pipeline can end without reading all.
    pub fn settle(&mut self, positions: &abi::Stream, seen: bool, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.give_up(GapCause::RingFull, &mut |segment| self.frames.take(segment, out));
        self.skip_to(positions.offset, positions.refused, now, out);
        let cause = match self.frames.direction() {
            Direction::ClientToServer => GapCause::Unseen,
            Direction::ServerToClient if seen => GapCause::Unread,
            Direction::ServerToClient => return,
        };
        self.report_surplus(positions, 0, cause, now, out);
    }

    /// The stream ended.
    pub fn finish(&mut self, now: Timestamp, out: &mut Outlet<'_>) {
        self.order.give_up(GapCause::RingFull, &mut |segment| self.frames.take(segment, out));
        self.frames.finish(now, out.sink);
    }

    fn is_same(&self, positions: &abi::Stream) -> bool {
        (positions.offset, positions.far) == (self.seen.offset, self.seen.far)
    }

    fn skip_to(&mut self, offset: u64, refused: u64, time: Timestamp, out: &mut Outlet<'_>) {
        let position = Position { offset, time, refused };
        self.order.skip_to(position, &mut |segment| self.frames.take(segment, out));
    }

    fn report_surplus(
        &mut self,
        positions: &abi::Stream,
        waiting: u64,
        cause: GapCause,
        now: Timestamp,
        out: &mut Outlet<'_>,
    ) {
        // What is read as HTTP is not held against the second count.
        if !self.frames.is_in_lines() {
            return;
        }
        let surplus = surplus(positions, waiting);
        let bytes = surplus.saturating_sub(self.reported);
        if bytes > 0 {
            self.reported = surplus;
            out.counters.missing_bytes += bytes;
            self.frames.report_gap(now, bytes, cause, out);
            self.frames.break_off(bytes, now, out.sink);
        }
    }
}

/// How many bytes passed the server's side that neither passed the client's nor wait for it.
fn surplus(positions: &abi::Stream, waiting: u64) -> u64 {
    positions.far.saturating_sub(positions.offset).saturating_sub(waiting)
}

#[cfg(test)]
mod tests;
