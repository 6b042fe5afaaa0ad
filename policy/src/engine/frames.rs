//! Frames, gaps and what the gate did: reported of a server; of a candidate kept until it is clear whether it is one.

use super::connections::Opinion;
use super::seen::Seen;
use super::timers::Due;
use super::{Engine, Output, Parts};
use crate::event::{CaptureGap, GateDecided};
use crate::protocol::{self, Message};
use crate::terms::{ConnectionId, Direction, Timestamp};

impl Engine {
    pub(super) fn gap(
        &mut self,
        (id, time, now): (ConnectionId, Timestamp, Timestamp),
        gap: CaptureGap,
        out: &mut Vec<Output>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.totals.gap_bytes = connection.totals.gap_bytes.saturating_add(gap.bytes);
        if connection.is_candidate() {
            connection.keep_gap(time, gap);
            if self.connections.has_answered_unasked(id) {
                self.start(id, time, now, out);
            }
        } else {
            let Parts { mut cx, ev, .. } = self.parts(out);
            if gap.direction == Direction::ServerToClient
                && let Some(scope) = cx.connections.scope(id)
            {
                ev.answers_lost(&scope, time);
            }
            cx.report(id, time, gap);
        }
    }

    /// What the gate did to a write of a connection.
    pub(super) fn gate_decided(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        decided: GateDecided,
        out: &mut Vec<Output>,
    ) {
        let limits = &self.config.limits;
        if let Some(pending) = self.connections.get_mut(id).filter(|connection| connection.is_pending()) {
            if pending.keep_decided(time, decided.clone(), limits) {
                return;
            }
            self.start(id, time, time, out);
        }
        self.parts(out).cx.report(id, time, decided);
    }

    pub(super) fn frame(&mut self, seen: Seen<'_>, frame: &[u8], out: &mut Vec<Output>) {
        let Some(connection) = self.connections.get_mut(seen.connection) else { return };
        let is_candidate = connection.is_candidate();
        if !is_candidate {
            connection.count(seen.direction, seen.bytes);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let parsed = protocol::parse(frame, &mut scratch);
        let messages = parsed.as_ref().map_or(&[][..], |parsed| &parsed.messages);
        if !is_candidate || self.is_server(seen, frame, messages, out) {
            self.server_frame(seen, frame, parsed, out);
        } else {
            drop(parsed);
        }
        // A frame of 16 MiB that had to be mended must not be kept for ever.
        scratch.clear();
        scratch.shrink_to(64 * 1024);
        self.scratch = scratch;
    }

    /// A frame of a candidate: whether it is a server, which is announced then. Else the frame is kept, or the candidate is
    /// dropped.
    fn is_server(
        &mut self,
        seen: Seen<'_>,
        frame: &[u8],
        messages: &[Message<'_>],
        out: &mut Vec<Output>,
    ) -> bool {
        let Seen { connection: id, direction, time, now, .. } = seen;
        let limits = &self.config.limits;
        let opinion = self.connections.opinion(seen, messages, limits.opening_frames);
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let is_request = direction == Direction::ClientToServer;
        match opinion {
            Opinion::No => {
                self.drop_candidate(id, out);
                return false;
            }
            Opinion::Open => {
                let kept = connection.keep_frame(seen, frame, limits);
                if kept || !connection.is_pending() {
                    // So much was asked, and nothing of MCP's in it. What the server says never decides.
                    if !kept && is_request && connection.is_unnamed() && !connection.adopted {
                        self.drop_candidate(id, out);
                    } else if !kept {
                        self.counters.candidate_overflow += 1;
                    }
                    return false;
                }
            }
            Opinion::Server => {
                let waits = is_request
                    && !connection.adopted
                    && !connection.has_answered()
                    && !limits.start_wait.is_zero()
                    && connection.keep_frame(seen, frame, limits);
                if waits {
                    connection.asked = Some(time);
                    let server = connection.server_id();
                    connection.confirmed = Some(server.clone());
                    self.timers.set(now.after(limits.start_wait), Due::Start(id));
                    self.parts(out).cx.reporter.confirm(id, server);
                    return false;
                }
            }
        }
        self.start(id, time, now, out);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.count(direction, seen.bytes);
        }
        true
    }
}
