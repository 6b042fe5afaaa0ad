//! Long frames wait until they were inspected apart, and what depends on them waits behind: see [`super::lines`].

use std::sync::Arc;

use super::apart::{AnswerTo, LongMessage};
use super::asked::Asked;
use super::io::Inspected;
use super::lines::{INPUT_BYTES, Kept, Waiting, Whose};
use super::{Engine, Input, Output};
use crate::detect::Ahead;
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};

/// Most bytes of inputs that have waited and are taken at once: others are to have their turn.
const TURN_BYTES: usize = 1 << 20;

impl Engine {
    /// The next long message that is to be inspected apart, by [`LongMessage::inspect`]: its outcome is an [`Input::Inspected`]. `None`
    /// where there is none, or enough are being inspected.
    pub fn next_inspection(&mut self) -> Option<LongMessage> {
        let detector = self.config.inspection.as_ref().map(|inspection| Arc::clone(&inspection.detector))?;
        let most = self.config.limits.inspections;
        if self.lines.running() >= most {
            return None;
        }
        // One is left to others, whose messages are not to wait until the longest of this user are inspected.
        let connection = self.lines.next_long(most.saturating_sub(1).max(1))?;
        let (Waiting { input, .. }, whose) = self.lines.first(connection)?;
        let (frame, direction) = (Arc::clone(input.frame()?), input.direction());
        let tools = self.evaluator.shared_names(&whose.session);
        let definitions = self.evaluator.definitions();
        // One that was forgotten meanwhile has asked for nothing.
        let known = self.connections.get_mut(connection);
        let server = known.as_ref().map_or_else(|| ServerId("".into()), |known| known.server_id());
        let asked = known.into_iter().flat_map(|known| known.requests(direction.reversed()).asked());
        let asked = asked.map(|(key, asked)| (key.clone(), AnswerTo::of(asked))).collect();
        let id = self.lines.begin(connection);
        self.counters.inspections_apart += 1;
        Some(LongMessage { id, frame, direction, detector, tools, server, definitions, asked })
    }

    /// Whether long messages are being inspected.
    pub fn is_inspecting(&self) -> bool {
        self.lines.running() > 0
    }

    /// Inputs that wait, and their bytes.
    pub fn waiting_inputs(&self) -> (usize, usize) {
        (self.lines.count(), self.lines.bytes(None))
    }

    /// Takes an input in as [`Engine::handle`] does, and inspects what is long at once: for whoever has the time, such as a recording.
    pub fn handle_at_once(&mut self, input: Input<'_>, now: Timestamp, out: &mut Vec<Output>) {
        self.handle(input, now, out);
        while !self.lines.is_empty() {
            match self.next_inspection() {
                Some(long) => self.handle(Input::Inspected(long.inspect()), now, out),
                None if self.has_ready() => self.take_waiting(now, out),
                None => return,
            }
        }
    }

    /// Has an input wait if it has to. Else it comes back.
    pub(super) fn put_in_line<'i>(
        &mut self,
        input: Input<'i>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Option<Input<'i>> {
        let frame = match &input {
            Input::Frame { direction, bytes, .. } => Some((*direction, bytes.len())),
            Input::Stopped { bytes, .. } => Some((Direction::ClientToServer, bytes.len())),
            _ => None,
        };
        let is_long = frame.is_some_and(|(_, bytes)| bytes > self.config.limits.frame_at_once)
            && self.config.inspection.is_some();
        // The usual case.
        if self.lines.is_empty() && !is_long {
            return Some(input);
        }
        let (Some(id), Some(time)) = (input.connection(), input.time()) else { return Some(input) };
        let waits = self.lines.has(id) || frame.is_some() && self.is_behind(id);
        let goes_apart = waits || (is_long && self.admit(id, time, out));
        if !goes_apart {
            return Some(input);
        }
        let is_awaited = match frame {
            Some((Direction::ClientToServer, _)) => true,
            Some((Direction::ServerToClient, _)) => is_long && self.is_listing(id),
            None => false,
        };
        let kept = Kept::of(input)?;
        self.counters.messages_delayed += u64::from(frame.is_some() && !is_long);
        let user = {
            let Self { lines, connections, .. } = self;
            let whose = || Whose {
                user: connections.user(id),
                session: connections
                    .get(id)
                    .map_or_else(|| SessionId("".into()), |one| connections.session(one)),
            };
            lines.push(id, kept, (is_long, is_awaited), whose)
        };
        let limits = &self.config.limits;
        let (all, per_user) = (limits.waiting_bytes, limits.waiting_bytes_per_user);
        while self.lines.bytes(Some(user)) > per_user && self.give_up_line(Some(user), now, out) {}
        while self.lines.bytes(None) > all && self.give_up_line(None, now, out) {}
        None
    }

    /// Whether a connection that has no line has to wait for others of its session.
    fn is_behind(&self, id: ConnectionId) -> bool {
        let session = || self.connections.get(id).map(|connection| self.connections.session(connection));
        self.lines.is_any_awaited() && session().is_some_and(|session| self.lines.is_awaited(&session))
    }

    /// Whether a client has asked for a list that is compared with those of other servers.
    fn is_listing(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let mut open = connection.requests(Direction::ClientToServer).open();
        open.any(|asked| matches!(asked, Asked::List { .. } | Asked::Initialize(_) | Asked::Discover(_)))
    }

    /// Takes the first input of the longest line, of a user or of all, as it is. Whether there is one.
    fn give_up_line(
        &mut self,
        user: Option<super::memory::User>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> bool {
        let id = self.lines.longest(user);
        id.is_some_and(|id| self.take_first(id, None, now, out).is_some())
    }

    /// Takes the first input of a connection, of which this was inspected ahead. Its bytes.
    fn take_first(
        &mut self,
        id: ConnectionId,
        ahead: Option<Arc<Ahead>>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Option<usize> {
        let Waiting { input, is_long, .. } = self.lines.pop(id)?;
        let bytes = input.frame().map_or(0, |frame| frame.len());
        self.ahead = ahead;
        if let (true, None, Some(frame)) = (is_long, &self.ahead, input.frame()) {
            self.counters.inspections_given_up += 1;
            self.ahead = Some(Arc::new(Ahead::given_up(frame.len())));
        }
        input.hand_on(id, |input| self.handle_now(input, now, out));
        self.ahead = None;
        Some(bytes)
    }

    /// A long message was inspected.
    pub(super) fn inspected(&mut self, inspected: Inspected, now: Timestamp, out: &mut Vec<Output>) {
        let Inspected { id, detector, ahead } = inspected;
        let Some(connection) = self.lines.end(id) else { return };
        let current = self.config.inspection.as_ref().map(|inspection| &inspection.detector);
        let is_current = detector.as_ref().zip(current).is_some_and(|(by, current)| Arc::ptr_eq(by, current));
        // By rules that are no longer in force: it is inspected once more.
        if ahead.is_some() && current.is_some() && !is_current {
            return;
        }
        self.take_first(connection, ahead, now, out);
        self.take_waiting(now, out);
    }

    /// Takes inputs that waited and need not wait any longer, up to a bound.
    pub(super) fn take_waiting(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let mut left = TURN_BYTES;
        while let Some(id) = self.lines.ready() {
            let Some(bytes) = self.take_first(id, None, now, out) else { return };
            match left.checked_sub(bytes.max(INPUT_BYTES)) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }

    /// Whether there are inputs that need not wait any longer.
    pub(super) fn has_ready(&self) -> bool {
        !self.lines.is_empty() && self.lines.ready().is_some()
    }

    /// Takes all that waits, as it is.
    pub(super) fn give_up_waiting(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        while let Some(id) = self.lines.oldest() {
            if self.take_first(id, None, now, out).is_none() {
                return;
            }
        }
    }
}
