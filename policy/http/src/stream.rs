//! One TCP connection: its requests, its answers, and which belong together.

mod answers;
mod requests;

use std::collections::VecDeque;

use mcpwarden_terms::{ConnectionId, Direction, GapCause, Timestamp};

use super::content::Content;
use super::exchange::Exchange;
use super::link::RequestTarget;
use super::reader::{Damage, Reader, Side};
use super::{Context, HttpCounters, HttpLimits, HttpOutput, Peers, Uninspected};

/// A stream is not MCP when so many requests or events show nothing of it.
const STRANGE_MESSAGES: u32 = 8;
/// How many requests may wait for an answer. The official clients send the next one on another connection.
const MAX_WAITING: usize = 128;

/// Something of the answers that came before its request.
#[derive(Debug)]
enum Held {
    Bytes(Vec<u8>, Timestamp),
    Gap(u64, GapCause, Timestamp),
}

impl Held {
    fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Gap(..) => 0,
        }
    }
}

/// What each of them takes beside its bytes.
const HELD_BYTES: usize = size_of::<Held>();

/// What may still come of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    On,
    /// It cannot be read.
    Stopped,
    /// Nothing of it is wanted.
    Over,
}

/// One TCP connection.
#[derive(Debug)]
pub(super) struct Stream {
    id: ConnectionId,
    peers: Peers,
    reading: Reading,
    requests: Reader,
    /// The body of the request in progress.
    asking: Option<Content>,
    /// The request in progress waits for leave to send its body, and nothing of that came.
    expecting: bool,
    /// Requests that wait for their answers; the last one may be unfinished.
    waiting: VecDeque<Exchange>,
    answers: Reader,
    /// Whose answer is in progress, and its body.
    answering: Option<(Exchange, Option<Content>)>,
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Why requests, and answers, are missing since the last time that nothing was.
    requests_lost: Option<GapCause>,
    answers_lost: Option<GapCause>,
    /// Whether requests or answers were ever missing: then it is taken for granted that the client does not pipeline.
    is_doubtful: bool,
    /// The links that it serves, the latest last.
    links: VecDeque<ConnectionId>,
    /// Whether something of MCP was seen, and how many messages were nothing of it.
    is_mcp: bool,
    strange: u32,
    told_full: bool,
    /// Bytes that passed, and how many of them nobody read; since the last account of them.
    passed: u64,
    unread: u64,
}

impl Stream {
    pub(super) fn new(id: ConnectionId, peers: Peers, limits: &HttpLimits) -> Self {
        Self {
            id,
            peers,
            reading: Reading::On,
            requests: Reader::new(Side::Requests, limits.head_bytes),
            asking: None,
            expecting: false,
            waiting: VecDeque::new(),
            answers: Reader::new(Side::Answers, limits.head_bytes),
            answering: None,
            held: VecDeque::new(),
            held_bytes: 0,
            requests_lost: None,
            answers_lost: None,
            is_doubtful: false,
            links: VecDeque::new(),
            is_mcp: false,
            strange: 0,
            told_full: false,
            passed: 0,
            unread: 0,
        }
    }

    /// Bytes held of what is unfinished.
    pub(super) fn held(&self) -> usize {
        let content = |content: Option<&Content>| content.map_or(0, Content::held);
        let answering = self.answering.as_ref().and_then(|(_, content)| content.as_ref());
        self.requests.held()
            + self.answers.held()
            + self.held_bytes
            + content(self.asking.as_ref())
            + content(answering)
            + self.waiting.iter().map(Exchange::bytes).sum::<usize>()
    }

    /// Whether nothing of it is wanted any more.
    pub(super) fn is_over(&self) -> bool {
        self.reading == Reading::Over
    }

    /// Whether it carried nothing but this link, and nobody declared its server.
    pub(super) fn serves_only(&self, link: ConnectionId) -> bool {
        !self.peers.known && self.links.iter().all(|other| *other == link)
    }

    /// Counts its bytes, once it is known that a server is there.
    pub(super) fn account(&mut self, counters: &mut HttpCounters) {
        if self.is_mcp || self.peers.known {
            counters.server_bytes += std::mem::take(&mut self.passed);
            counters.server_bytes_unread += std::mem::take(&mut self.unread);
        }
    }

    /// It serves no link any more.
    pub(super) fn leave(&mut self, time: Timestamp, context: &mut Context<'_>) {
        for link in self.links.drain(..) {
            context.links.leave(link, self.id, time, context.limits.idle);
        }
    }

    /// The connection was closed.
    pub(super) fn close(&mut self, time: Timestamp, context: &mut Context<'_>) {
        if self.reading == Reading::On {
            // What waits for a request, or the rest of one, waits for nothing now.
            self.requests_lost.get_or_insert(GapCause::Unseen);
            self.waiting.iter_mut().for_each(|exchange| exchange.decided = true);
            self.release(context);
            let unread = [
                (Direction::ClientToServer, self.requests.lost(), self.requests_lost),
                (Direction::ServerToClient, self.answers.lost(), self.answers_lost),
            ];
            for (direction, bytes, cause) in unread {
                self.skipped(direction, bytes.unwrap_or_default(), cause, time, context);
            }
            self.end_answers(time, context);
        }
        self.reading = Reading::Over;
    }

    /// Bytes of one direction were not captured.
    pub(super) fn gap(
        &mut self,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        match direction {
            _ if self.reading != Reading::On => {}
            Direction::ClientToServer => {
                self.expecting = false;
                let head = self.requests.held() as u64;
                let damage = self.requests.gap(bytes);
                let given_up = self.asking.as_mut().map_or(0, |content| content.gap(cause));
                self.say_gap(direction, bytes + head + given_up, cause, time, context);
                if damage == Damage::Lost {
                    (self.requests_lost, self.is_doubtful) = (Some(cause), true);
                    if self.asking.take().is_some()
                        && let Some(last) = self.waiting.back_mut()
                    {
                        last.decided = true;
                    }
                    self.release(context);
                }
            }
            Direction::ServerToClient if !self.held.is_empty() => {
                self.held_bytes += HELD_BYTES;
                self.held.push_back(Held::Gap(bytes, cause, time));
            }
            Direction::ServerToClient => {
                let head = self.answers.held() as u64;
                let damage = self.answers.gap(bytes);
                let content = self.answering.as_mut().and_then(|(_, content)| content.as_mut());
                let given_up = content.map_or(0, |content| content.gap(cause));
                self.say_gap(direction, bytes + head + given_up, cause, time, context);
                if damage == Damage::Lost {
                    (self.answers_lost, self.is_doubtful) = (Some(cause), true);
                }
            }
        }
    }

    /// Frees what is held.
    pub(super) fn give_up(&mut self, time: Timestamp, context: &mut Context<'_>) {
        context.counters.memory_given_up += 1;
        let asked = self.asking.as_mut().map_or(0, Content::give_up);
        let content = self.answering.as_mut().and_then(|(_, content)| content.as_mut());
        let mut answered = content.map_or(0, Content::give_up);
        if !self.held.is_empty() {
            answered += self.held.iter().map(Held::bytes).sum::<u64>();
            (self.held, self.held_bytes) = (VecDeque::new(), 0);
            self.gap(Direction::ServerToClient, 0, GapCause::Memory, time, context);
        }
        self.say_gap(Direction::ClientToServer, asked, GapCause::Memory, time, context);
        self.say_gap(Direction::ServerToClient, answered, GapCause::Memory, time, context);
        // What is known of requests that wait cannot be given up without mistaking an answer.
        if self.waiting.len() > 1 {
            self.stop(Uninspected::Pipelined, context);
        }
    }

    /// Bytes behind a gap meant nothing without those in it.
    fn skipped(
        &mut self,
        direction: Direction,
        bytes: u64,
        cause: Option<GapCause>,
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        context.counters.unsynchronised_bytes += bytes;
        self.unread += bytes;
        self.say_gap(direction, bytes, cause.unwrap_or(GapCause::Unseen), time, context);
    }

    fn say_gap(
        &self,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        let link = match direction {
            Direction::ClientToServer => {
                let last = self.waiting.back().filter(|last| !last.decided);
                last.and_then(|last| context.links.find(last.names.session?))
            }
            Direction::ServerToClient => self.answering.as_ref().and_then(|(exchange, _)| exchange.link),
        };
        let link = link.or(self.links.back().copied());
        if let Some(link) = link.filter(|link| bytes > 0 && context.links.is_wanted(*link)) {
            (context.sink)(HttpOutput::Gap { link, direction, time, bytes, cause });
        }
    }

    /// What comes behind that.
    fn uninspected(&mut self, rest: &[u8], context: &mut Context<'_>) {
        if self.reading == Reading::Stopped {
            context.counters.uninspected_bytes += rest.len() as u64;
            self.unread += rest.len() as u64;
        }
    }

    /// Bytes were not captured, whatever becomes of the stream.
    pub(super) fn missed(&mut self, bytes: u64) {
        self.passed += bytes;
        self.unread += bytes;
    }

    /// Nothing of this stream can be read from here on.
    fn stop(&mut self, why: Uninspected, context: &mut Context<'_>) {
        self.asking = None;
        self.answering = None;
        self.waiting = VecDeque::new();
        (self.held, self.held_bytes) = (VecDeque::new(), 0);
        self.requests.restart();
        self.answers.restart();
        if self.is_mcp || self.peers.known {
            context.counters.uninspected_streams += 1;
            self.reading = Reading::Stopped;
            self.say_uninspected(why, self.links.back().copied(), context);
        } else {
            self.not_mcp(context);
        }
    }

    fn say_uninspected(&self, why: Uninspected, link: Option<ConnectionId>, context: &mut Context<'_>) {
        let link = link.filter(|link| context.links.is_wanted(*link));
        (context.sink)(HttpOutput::Uninspected { stream: self.id, link, why });
    }

    fn not_mcp(&mut self, context: &mut Context<'_>) {
        context.counters.not_mcp += 1;
        self.reading = Reading::Over;
        (context.sink)(HttpOutput::NotMcp { stream: self.id });
    }

    /// A message shows nothing of MCP.
    fn strange(&mut self, context: &mut Context<'_>) {
        self.strange = self.strange.saturating_add(1);
        if self.strange >= STRANGE_MESSAGES
            && !self.is_mcp
            && !self.peers.known
            && self.reading == Reading::On
        {
            self.not_mcp(context);
        }
    }

    /// No link can be opened. Said once.
    fn full(&mut self, context: &mut Context<'_>) {
        if !std::mem::replace(&mut self.told_full, true) {
            self.say_uninspected(Uninspected::TooManyLinks, None, context);
        }
    }

    /// Hands on a message of a link.
    fn frame(
        &mut self,
        (link, direction): (ConnectionId, Direction),
        exchange: &Exchange,
        (bytes, time): (&[u8], Timestamp),
        context: &mut Context<'_>,
    ) {
        self.is_mcp = true;
        if !context.links.is_wanted(link) {
            context.counters.unwanted += 1;
            return;
        }
        context.links.touch(link, self.id, time, &mut self.links, context.limits.idle);
        let meta = &exchange.meta;
        (context.sink)(HttpOutput::Frame { link, stream: self.id, direction, time, bytes, meta });
    }

    /// The exchange of an answer whose request was not captured: its client speaks with that server over one link, mostly.
    fn unpaired(&self, context: &mut Context<'_>) -> Exchange {
        let Peers { client, server, .. } = self.peers;
        let link = self.links.back().copied().or_else(|| context.links.only(client, server));
        Exchange { link, paired: false, ..Exchange::unpaired(RequestTarget::new(client, server, None, "")) }
    }
}
