//! Inputs that wait: a long frame until it was inspected apart, and behind it what comes of its connection.
//!
//! Each connection has a line, and keeps its order. Connections of one session depend on each other where rules across servers do: on
//! what the client asks, and on what servers list. From the first of these that waits, all later messages of the session wait as well.
//! All other connections go on.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::io::{Input, Process};
use super::memory::User;
use crate::http::HttpMeta;
use crate::terms::{ConnectionId, Direction, SessionId, Timestamp};

/// What an input takes beside its bytes.
pub(super) const INPUT_BYTES: usize = 512;

/// An input that waits.
#[derive(Debug)]
pub(super) enum Kept {
    Frame {
        direction: Direction,
        time: Timestamp,
        bytes: Arc<[u8]>,
        http: Option<Box<HttpMeta>>,
        turn: Option<Box<str>>,
    },
    Stopped {
        time: Timestamp,
        bytes: Arc<[u8]>,
        is_refused: bool,
    },
    Refused {
        time: Timestamp,
        status: u16,
        id: Option<Box<str>>,
    },
    /// One without borrowed parts.
    Other(Box<Input<'static>>),
}

impl Kept {
    /// The input of a connection. `None` of one that waits for nothing.
    pub(super) fn of(input: Input<'_>) -> Option<Self> {
        Some(match input {
            Input::Frame { direction, time, bytes, http, turn, .. } => Self::Frame {
                direction,
                time,
                bytes: bytes.into(),
                http: http.map(|http| Box::new(http.clone())),
                turn: turn.map(Into::into),
            },
            Input::Stopped { time, bytes, is_refused, .. } => {
                Self::Stopped { time, bytes: bytes.into(), is_refused }
            }
            Input::Refused { time, status, id, .. } => Self::Refused { time, status, id: id.map(Into::into) },
            Input::Exec(exec) => Self::Other(Box::new(Input::Exec(exec))),
            Input::Open { connection, time, session, server } => {
                Self::Other(Box::new(Input::Open { connection, time, session, server }))
            }
            Input::Gate { connection, time, decided } => {
                Self::Other(Box::new(Input::Gate { connection, time, decided }))
            }
            Input::Ambiguous { connection, direction, time, framing } => {
                Self::Other(Box::new(Input::Ambiguous { connection, direction, time, framing }))
            }
            Input::Junk { connection, direction, time, bytes, broken } => {
                Self::Other(Box::new(Input::Junk { connection, direction, time, bytes, broken }))
            }
            Input::Gap { connection, direction, time, bytes, cause, pid, offset } => {
                Self::Other(Box::new(Input::Gap { connection, direction, time, bytes, cause, pid, offset }))
            }
            Input::Exit { connection, pid, time, status } => {
                Self::Other(Box::new(Input::Exit { connection, pid, time, status }))
            }
            Input::Closed { connection, time } => Self::Other(Box::new(Input::Closed { connection, time })),
            Input::Reached(reached) => Self::Other(Box::new(Input::Reached(reached))),
            Input::Uninspected { reached, reason } => {
                Self::Other(Box::new(Input::Uninspected { reached, reason }))
            }
            Input::Connect(_)
            | Input::Model(_)
            | Input::Uncaptured { .. }
            | Input::Operator(_)
            | Input::Answered { .. }
            | Input::Inspected(_) => {
                return None;
            }
        })
    }

    /// Hands the input on.
    pub(super) fn hand_on(self, connection: ConnectionId, take: impl FnOnce(Input<'_>)) {
        match self {
            Self::Frame { direction, time, bytes, http, turn } => {
                let (http, turn) = (http.as_deref(), turn.as_deref());
                take(Input::Frame { connection, direction, time, bytes: &bytes, http, turn });
            }
            Self::Stopped { time, bytes, is_refused } => {
                take(Input::Stopped { connection, time, bytes: &bytes, is_refused });
            }
            Self::Refused { time, status, id } => {
                take(Input::Refused { connection, time, status, id: id.as_deref() });
            }
            Self::Other(input) => take(*input),
        }
    }

    /// The bytes of a frame.
    pub(super) fn frame(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Frame { bytes, .. } | Self::Stopped { bytes, .. } => Some(bytes),
            Self::Refused { .. } | Self::Other(_) => None,
        }
    }

    /// Which way a frame goes.
    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Frame { direction, .. } => *direction,
            _ => Direction::ClientToServer,
        }
    }

    fn bytes(&self) -> usize {
        INPUT_BYTES
            + match self {
                Self::Frame { bytes, http, .. } => bytes.len() + http.as_ref().map_or(0, |http| http.bytes()),
                Self::Stopped { bytes, .. } => bytes.len(),
                Self::Other(input) => match &**input {
                    Input::Exec(exec) => {
                        exec.process.bytes() + exec.client.as_ref().map_or(0, Process::bytes)
                    }
                    _ => 0,
                },
                Self::Refused { .. } => 0,
            }
    }
}

/// Who the inputs of a connection are of.
#[derive(Clone, Debug)]
pub(super) struct Whose {
    pub(super) user: User,
    pub(super) session: SessionId,
}

/// An input in a line.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) number: u64,
    pub(super) input: Kept,
    /// Whether it has to be inspected apart.
    pub(super) is_long: bool,
    /// Whether other connections of its session wait for it.
    pub(super) is_awaited: bool,
}

#[derive(Debug)]
struct Line {
    whose: Whose,
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// The inspection of the first, while it runs.
    inspection: Option<u64>,
}

/// All lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: HashMap<ConnectionId, Line>,
    bytes: usize,
    users: HashMap<User, usize>,
    /// Of each session, the numbers of the inputs that its connections wait for.
    awaited: HashMap<SessionId, BTreeSet<u64>>,
    /// Inspections that run, and whose they are: the line may be given up meanwhile.
    running: HashMap<u64, (ConnectionId, User)>,
    last: u64,
}

impl Lines {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether something of this connection waits.
    pub(super) fn has(&self, id: ConnectionId) -> bool {
        self.lines.contains_key(&id)
    }

    /// Whether connections of this session wait for something.
    pub(super) fn is_awaited(&self, session: &SessionId) -> bool {
        self.awaited.contains_key(session)
    }

    /// Whether connections of any session wait for something.
    pub(super) fn is_any_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Bytes that wait, of one user or of all.
    pub(super) fn bytes(&self, user: Option<User>) -> usize {
        user.map_or(self.bytes, |user| self.users.get(&user).copied().unwrap_or(0))
    }

    /// How many inputs wait.
    pub(super) fn count(&self) -> usize {
        self.lines.values().map(|line| line.waiting.len()).sum()
    }

    /// How many inspections run.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Puts an input at the end of a line. `whose` the line is, where that is not known.
    pub(super) fn push(
        &mut self,
        id: ConnectionId,
        input: Kept,
        (is_long, is_awaited): (bool, bool),
        whose: impl FnOnce() -> Whose,
    ) -> User {
        self.last += 1;
        let number = self.last;
        let bytes = input.bytes();
        let line = self.lines.entry(id).or_insert_with(|| Line {
            whose: whose(),
            waiting: VecDeque::new(),
            bytes: 0,
            inspection: None,
        });
        if is_awaited {
            self.awaited.entry(line.whose.session.clone()).or_default().insert(number);
        }
        line.bytes += bytes;
        line.waiting.push_back(Waiting { number, input, is_long, is_awaited });
        self.bytes += bytes;
        *self.users.entry(line.whose.user).or_default() += bytes;
        line.whose.user
    }

    /// The connections whose first input need not wait, with its number, and whether it has to be inspected first.
    fn heads(&self) -> impl Iterator<Item = (u64, ConnectionId, bool)> {
        let first_of = |session| self.awaited.get(session).and_then(BTreeSet::first);
        self.lines.iter().filter_map(move |(id, line)| {
            let head = line.waiting.front()?;
            let is_behind = first_of(&line.whose.session).is_some_and(|first| *first < head.number);
            (!is_behind).then_some((head.number, *id, head.is_long))
        })
    }

    /// The connection whose first input can be taken: the oldest.
    pub(super) fn ready(&self) -> Option<ConnectionId> {
        let ready = self.heads().filter(|(.., is_long)| !is_long);
        ready.min_by_key(|(number, ..)| *number).map(|(_, id, _)| id)
    }

    /// The connection whose first input is to be inspected next: of the user with the fewest that are being inspected, the oldest. `most`:
    /// of one user at once.
    pub(super) fn next_long(&self, most: usize) -> Option<ConnectionId> {
        let user = |id: &ConnectionId| self.lines.get(id).map(|line| line.whose.user);
        let running =
            |id: &ConnectionId| self.running.values().filter(|(_, other)| Some(*other) == user(id)).count();
        let is_idle = |id: &ConnectionId| self.lines.get(id).is_some_and(|line| line.inspection.is_none());
        let long = self.heads().filter(|(_, id, is_long)| *is_long && is_idle(id));
        let next = long.map(|(number, id, _)| (running(&id), number, id)).min();
        next.filter(|(running, ..)| *running < most).map(|(.., id)| id)
    }

    /// The first input of a connection, and whose it is.
    pub(super) fn first(&self, id: ConnectionId) -> Option<(&Waiting, &Whose)> {
        let line = self.lines.get(&id)?;
        Some((line.waiting.front()?, &line.whose))
    }

    /// The first input of a connection is being inspected. The number of the inspection.
    pub(super) fn begin(&mut self, id: ConnectionId) -> u64 {
        self.last += 1;
        if let Some(line) = self.lines.get_mut(&id) {
            line.inspection = Some(self.last);
            self.running.insert(self.last, (id, line.whose.user));
        }
        self.last
    }

    /// An inspection has ended. The connection whose first input is still the one that was inspected.
    pub(super) fn end(&mut self, inspection: u64) -> Option<ConnectionId> {
        let (id, _) = self.running.remove(&inspection)?;
        let line = self.lines.get_mut(&id)?;
        let inspected = line.inspection.take_if(|running| *running == inspection);
        inspected.map(|_| id)
    }

    /// The connection that has most waiting, of one user or of all.
    pub(super) fn longest(&self, user: Option<User>) -> Option<ConnectionId> {
        let of_user = self.lines.iter().filter(|(_, line)| user.is_none_or(|user| line.whose.user == user));
        of_user.max_by_key(|(id, line)| (line.bytes, std::cmp::Reverse(id.0))).map(|(id, _)| *id)
    }

    /// The connection with the input that waits for longest.
    pub(super) fn oldest(&self) -> Option<ConnectionId> {
        let number = |line: &Line| line.waiting.front().map(|head| head.number);
        self.lines.iter().min_by_key(|(_, line)| number(line)).map(|(id, _)| *id)
    }

    /// Nothing is inspected from now on: nothing waits for that.
    pub(super) fn forget_lengths(&mut self) {
        self.lines.values_mut().flat_map(|line| &mut line.waiting).for_each(|input| input.is_long = false);
    }

    /// Takes the first input of a connection.
    pub(super) fn pop(&mut self, id: ConnectionId) -> Option<Waiting> {
        let line = self.lines.get_mut(&id)?;
        let head = line.waiting.pop_front()?;
        line.inspection = None;
        let bytes = head.input.bytes();
        let Whose { user, session } = &line.whose;
        self.bytes -= bytes;
        line.bytes -= bytes;
        if let Some(of_user) = self.users.get_mut(user) {
            *of_user -= bytes;
            if *of_user == 0 {
                self.users.remove(user);
            }
        }
        if let Some(awaited) = self.awaited.get_mut(session).filter(|_| head.is_awaited) {
            awaited.remove(&head.number);
            if awaited.is_empty() {
                self.awaited.remove(session);
            }
        }
        if line.waiting.is_empty() {
            self.lines.remove(&id);
        }
        Some(head)
    }
}
