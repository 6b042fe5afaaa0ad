//! One stream of HTTP/2: a request and its answer.

use std::borrow::Cow;
use std::collections::VecDeque;

use mcpwarden_terms::{ConnectionId, Direction, GapCause, Timestamp};

use super::head::unknown_answer;
use super::hpack::Head;
use crate::connection::{Connection, Reading};
use crate::exchange::Exchange;
use crate::exchanges::Exchanges;
use crate::head::Method;
use crate::{Context, Uninspected};

/// What one side says on a stream.
#[derive(Clone, Debug)]
pub(super) enum Item<'a> {
    /// A head, and whether something comes behind it.
    Head(Head, bool),
    /// A piece of a body.
    Body(Cow<'a, [u8]>),
    /// Nothing more.
    End,
    /// Bytes of the body are missing.
    Gap(GapCause),
}

impl Item<'_> {
    /// Bytes of a body.
    pub(super) fn bytes(&self) -> u64 {
        if let Self::Body(bytes) = self { bytes.len() as u64 } else { 0 }
    }

    /// Memory that it takes.
    fn held(&self) -> usize {
        size_of::<(Item<'_>, Timestamp)>()
            + match self {
                Self::Head(head, _) => head.held(),
                Self::Body(bytes) => bytes.len(),
                Self::End | Self::Gap(_) => 0,
            }
    }

    fn into_owned(self) -> Item<'static> {
        match self {
            Self::Head(head, goes_on) => Item::Head(head, goes_on),
            Self::Body(bytes) => Item::Body(Cow::Owned(bytes.into_owned())),
            Self::End => Item::End,
            Self::Gap(cause) => Item::Gap(cause),
        }
    }
}

/// How far one side is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// Before its head.
    #[default]
    Before,
    /// In its body.
    Body,
    /// It says nothing more.
    Over,
}

/// One stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    exchanges: Exchanges,
    asked: Progress,
    answered: Progress,
    /// Answers that came before their request.
    held: VecDeque<(Item<'static>, Timestamp)>,
    held_bytes: usize,
    /// The first bytes of an answer whose head was not seen.
    begun: Vec<u8>,
    /// Whether what it carries is no request and answer, or cannot be read.
    is_unread: bool,
    is_websocket: bool,
    /// Whether its heads may not have been seen.
    pub(super) is_partial: bool,
    /// When something was said on it last.
    pub(super) age: u64,
}

impl Stream {
    /// One whose request was made before.
    pub(super) fn of(exchange: Exchange) -> Self {
        Self { exchanges: Exchanges::of(exchange), asked: Progress::Over, ..Self::default() }
    }

    /// Bytes held of what is unfinished.
    pub(super) fn held(&self) -> usize {
        size_of::<Self>() + self.exchanges.held() + self.held_bytes + self.begun.len()
    }

    /// Whether both sides say nothing more; of a request that was not seen nothing comes behind its answer.
    pub(super) fn is_over(&self) -> bool {
        self.asked != Progress::Body && self.answered == Progress::Over && self.held.is_empty()
    }

    /// The server has not looked at the request.
    pub(super) fn refused(&mut self, time: Timestamp, context: &mut Context<'_>) {
        if self.answered == Progress::Before {
            self.exchanges.refused(time, context);
        }
    }

    /// The link that what is in progress belongs to, where that is known.
    pub(super) fn link(&self, direction: Direction, context: &Context<'_>) -> Option<ConnectionId> {
        self.exchanges.link(direction, context)
    }

    /// Takes what the client says.
    pub(super) fn ask(
        &mut self,
        item: Item<'_>,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        match (item, self.asked) {
            (Item::Head(head, goes_on), Progress::Before) => {
                self.request(&head, goes_on, connection, context)
            }
            (Item::Body(bytes), Progress::Over) => connection.unread += bytes.len() as u64,
            (Item::Body(bytes), _) if self.is_unread => connection.unread += bytes.len() as u64,
            (Item::Body(bytes), progress) => {
                if progress == Progress::Before {
                    self.request(&Head::unknown(), true, connection, context);
                }
                self.exchanges.request_body(&bytes, time, connection, context);
            }
            (Item::End, Progress::Before | Progress::Body) => {
                if !self.is_unread {
                    self.exchanges.request_ends(time, connection, context);
                }
                self.asked = Progress::Over;
            }
            // Trailers, or what no reader takes.
            (Item::Head(..) | Item::End | Item::Gap(_), _) => {}
        }
    }

    fn request(
        &mut self,
        head: &Head,
        goes_on: bool,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        self.asked = Progress::Body;
        self.is_websocket = head.is_websocket();
        let exchanges = &mut self.exchanges;
        let read = head.with_request(goes_on, |request| exchanges.request(request, connection, context));
        if let Err(why) = read {
            self.refuse(why, None, connection, context);
        }
    }

    /// This message is not read; others of the connection are.
    fn refuse(
        &mut self,
        why: Uninspected,
        link: Option<ConnectionId>,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        (self.is_unread, self.exchanges) = (true, Exchanges::default());
        (self.held, self.held_bytes) = Default::default();
        match connection.is_known() {
            true => {
                context.counters.h2_streams_unread += 1;
                connection.say_uninspected(why, link.or(connection.links.back().copied()), context);
            }
            false => connection.strange(context),
        }
    }

    /// Takes what the server says; until it is known what it answers, it waits.
    pub(super) fn answer(
        &mut self,
        item: Item<'_>,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        if self.held.is_empty() && self.is_ready() {
            self.read_answer(item, time, connection, context);
        } else {
            self.held_bytes += item.held();
            self.held.push_back((item.into_owned(), time));
        }
    }

    /// Whether it is known what is answered; or, of a stream whose request may not have been seen, that nobody knows.
    fn is_ready(&self) -> bool {
        self.answered != Progress::Before
            || self.is_unread
            || self.exchanges.is_decided().unwrap_or(self.is_partial)
    }

    /// Reads what waited, as far as it is known now what it answers.
    pub(super) fn release(&mut self, connection: &mut Connection, context: &mut Context<'_>) {
        while self.is_ready()
            && connection.reading == Reading::On
            && let Some((item, time)) = self.held.pop_front()
        {
            self.held_bytes = self.held_bytes.saturating_sub(item.held());
            self.read_answer(item, time, connection, context);
        }
    }

    fn read_answer(
        &mut self,
        item: Item<'_>,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        match (item, self.answered) {
            (Item::End, _) => {
                self.join_answer(time, connection, context);
                if self.answered == Progress::Body && !self.is_unread {
                    self.exchanges.answer_ends(time, connection, context);
                }
                self.answered = Progress::Over;
            }
            (Item::Body(bytes), Progress::Body) if !self.is_unread => {
                self.exchanges.answer_body(&bytes, time, connection, context);
            }
            // Of a stream whose beginning was seen, no client takes a body without a head.
            (Item::Body(bytes), Progress::Before) if self.is_partial && !self.is_unread => {
                self.begun.extend_from_slice(&bytes);
                if self.begun.len() >= BEGINNING_BYTES {
                    self.join_answer(time, connection, context);
                }
            }
            (Item::Body(bytes), _) => connection.unread += bytes.len() as u64,
            (Item::Head(head, _), Progress::Before) if !self.is_unread => {
                self.answer_head(&head, time, connection, context);
            }
            (Item::Gap(cause), Progress::Body) => {
                self.exchanges.gap(Direction::ServerToClient, cause);
            }
            // Trailers, or what no reader takes.
            (Item::Head(..) | Item::Gap(_), _) => {}
        }
    }

    /// Reads an answer of which only a part of the body came, from there on.
    fn join_answer(&mut self, time: Timestamp, connection: &mut Connection, context: &mut Context<'_>) {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() {
            return;
        }
        self.exchanges.answer(&unknown_answer(), time, connection, context);
        self.answered = Progress::Body;
        if !begins(&begun) {
            self.exchanges.gap(Direction::ServerToClient, GapCause::Unseen);
        }
        self.exchanges.answer_body(&begun, time, connection, context);
    }

    fn answer_head(
        &mut self,
        head: &Head,
        time: Timestamp,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) {
        let is_tunnel = self.exchanges.method() == Method::Connect;
        let link = self.exchanges.link(Direction::ServerToClient, context);
        let Self { exchanges, answered, .. } = self;
        let read = head.with_answer(|answer| match answer.status {
            // Another one comes.
            100..200 => Ok(()),
            200..300 if is_tunnel => Err(Uninspected::Tunnel),
            _ => {
                exchanges.answer(&answer, time, connection, context);
                *answered = Progress::Body;
                Ok(())
            }
        });
        let why = match read.flatten() {
            Ok(()) => return,
            Err(Uninspected::Tunnel) if self.is_websocket => Uninspected::WebSocket,
            Err(why) => why,
        };
        self.answered = Progress::Body;
        self.refuse(why, link, connection, context);
    }

    /// Bytes of one direction were not captured: of this stream perhaps. Says how many others are given up with them.
    pub(super) fn gap(&mut self, direction: Direction, cause: GapCause, time: Timestamp) -> u64 {
        if direction == Direction::ServerToClient && !self.held.is_empty() {
            let item = Item::Gap(cause);
            self.held_bytes += item.held();
            self.held.push_back((item, time));
            return 0;
        }
        self.exchanges.gap(direction, cause)
    }

    /// The end of what is in progress in this direction may not be seen.
    pub(super) fn lose(&mut self, direction: Direction) {
        if direction == Direction::ClientToServer {
            self.exchanges.break_off();
        }
    }

    /// Frees what is held of a body. Says how much that was.
    pub(super) fn give_up(&mut self, direction: Direction) -> u64 {
        let mut given_up = self.exchanges.give_up(direction);
        if direction == Direction::ServerToClient {
            given_up += self.held.iter().map(|(item, _)| item.bytes()).sum::<u64>();
            (self.held, self.held_bytes) = Default::default();
        }
        given_up
    }

    /// Nothing more comes on it.
    pub(super) fn end(&mut self, time: Timestamp, connection: &mut Connection, context: &mut Context<'_>) {
        self.exchanges.decide();
        self.is_partial = true;
        self.release(connection, context);
        self.join_answer(time, connection, context);
        self.exchanges.end(time, connection, context);
    }
}

/// How many bytes tell that.
const BEGINNING_BYTES: usize = 6;

/// Whether a message may begin so: of a body whose head was not seen.
fn begins(bytes: &[u8]) -> bool {
    [&b"{\""[..], b"[{"].iter().any(|start| bytes.starts_with(start)) || crate::sse::is_field(bytes)
}
