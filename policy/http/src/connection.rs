//! What a TCP connection is to everything that is read from it, whichever version of HTTP it speaks.

use std::collections::VecDeque;

use mcpwarden_terms::{ConnectionId, Direction, GapCause, Timestamp};

use super::exchange::{Exchange, Other};
use super::link::RequestTarget;
use super::{Context, HttpCounters, HttpOutput, Peers, Uninspected};

/// A stream is not MCP when so many requests or events show nothing of it.
const STRANGE_MESSAGES: u32 = 8;

/// What may still come of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    On,
    /// It cannot be read.
    Stopped,
    /// Nothing of it is wanted.
    Over,
}

/// One TCP connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) peers: Peers,
    pub(super) reading: Reading,
    /// The links that it serves, the latest last.
    pub(super) links: VecDeque<ConnectionId>,
    /// Whether something of MCP was seen, and how many messages were nothing of it.
    pub(super) is_mcp: bool,
    /// Whether the gate has overwritten some of the request in progress.
    pub(super) is_neutralized: bool,
    strange: u32,
    /// Requests so far that are no MCP.
    others: u64,
    told_full: bool,
    /// Bytes that passed, and how many of them nobody read; since the last account of them.
    pub(super) passed: u64,
    pub(super) unread: u64,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, peers: Peers) -> Self {
        Self {
            id,
            peers,
            reading: Reading::On,
            links: VecDeque::new(),
            is_mcp: false,
            is_neutralized: false,
            strange: 0,
            others: 0,
            told_full: false,
            passed: 0,
            unread: 0,
        }
    }

    /// Whether a server is there: nothing of it is left out without a word.
    pub(super) fn is_known(&self) -> bool {
        self.is_mcp || self.peers.known
    }

    /// Counts its bytes, once it is known that a server is there.
    pub(super) fn account(&mut self, counters: &mut HttpCounters) {
        if self.is_known() {
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

    /// Nothing of it can be read from here on.
    pub(super) fn stop(&mut self, why: Uninspected, context: &mut Context<'_>) {
        if self.is_known() {
            context.counters.uninspected_streams += 1;
            self.reading = Reading::Stopped;
            self.say_uninspected(why, self.links.back().copied(), context);
        } else {
            self.not_mcp(context);
        }
    }

    /// What comes behind that.
    pub(super) fn uninspected(&mut self, rest: &[u8], context: &mut Context<'_>) {
        if self.reading == Reading::Stopped {
            context.counters.uninspected_bytes += rest.len() as u64;
            self.unread += rest.len() as u64;
        }
    }

    /// Bytes behind a gap meant nothing without those in it.
    pub(super) fn skipped(
        &mut self,
        (link, direction): (Option<ConnectionId>, Direction),
        bytes: u64,
        cause: Option<GapCause>,
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        context.counters.unsynchronised_bytes += bytes;
        self.unread += bytes;
        self.say_gap((link, direction), bytes, cause.unwrap_or(GapCause::Unseen), time, context);
    }

    /// Says what is missing of a link, or of the last one.
    pub(super) fn say_gap(
        &self,
        (link, direction): (Option<ConnectionId>, Direction),
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        context: &mut Context<'_>,
    ) {
        let link = link.or(self.links.back().copied());
        if let Some(link) = link.filter(|link| bytes > 0 && context.links.is_wanted(*link)) {
            (context.sink)(HttpOutput::Gap { link, direction, time, bytes, cause });
        }
    }

    pub(super) fn say_uninspected(
        &self,
        why: Uninspected,
        link: Option<ConnectionId>,
        context: &mut Context<'_>,
    ) {
        let link = link.filter(|link| context.links.is_wanted(*link));
        (context.sink)(HttpOutput::Uninspected { stream: self.id, link, why });
    }

    fn not_mcp(&mut self, context: &mut Context<'_>) {
        context.counters.not_mcp += 1;
        self.reading = Reading::Over;
        (context.sink)(HttpOutput::NotMcp { stream: self.id });
    }

    /// A message shows nothing of MCP.
    pub(super) fn strange(&mut self, context: &mut Context<'_>) {
        self.strange = self.strange.saturating_add(1);
        let is_wanted = self.is_known() || self.peers.others;
        if self.strange >= STRANGE_MESSAGES && !is_wanted && self.reading == Reading::On {
            self.not_mcp(context);
        }
    }

    /// One more exchange that is no MCP.
    pub(super) fn other(&mut self) -> Box<Other> {
        self.others += 1;
        Box::new(Other { number: self.others, ..Other::default() })
    }

    /// No link can be opened. Said once.
    pub(super) fn full(&mut self, context: &mut Context<'_>) {
        if !std::mem::replace(&mut self.told_full, true) {
            self.say_uninspected(Uninspected::TooManyLinks, None, context);
        }
    }

    /// Something of a link went over it.
    pub(super) fn touch(&mut self, link: ConnectionId, time: Timestamp, context: &mut Context<'_>) {
        context.links.touch(link, self.id, time, &mut self.links, context.limits.idle);
    }

    /// Hands on a message of a link.
    pub(super) fn frame(
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
        self.touch(link, time, context);
        if self.is_neutralized && direction == Direction::ClientToServer {
            return (context.sink)(HttpOutput::Stopped {
                link,
                stream: self.id,
                time,
                bytes,
                is_refused: false,
            });
        }
        let meta = &exchange.meta;
        (context.sink)(HttpOutput::Frame { link, stream: self.id, direction, time, bytes, meta });
    }

    /// The link of what does not say which it belongs to: its client speaks with that server over one link, mostly.
    pub(super) fn likely_link(&self, context: &Context<'_>) -> Option<ConnectionId> {
        let Peers { client, server, .. } = self.peers;
        self.links.back().copied().or_else(|| context.links.only(client, server))
    }

    /// The exchange of an answer whose request was not captured.
    pub(super) fn unpaired(&self, context: &Context<'_>) -> Exchange {
        let Peers { client, server, .. } = self.peers;
        let link = self.likely_link(context);
        Exchange { link, paired: false, ..Exchange::unpaired(RequestTarget::new(client, server, None, "")) }
    }
}
