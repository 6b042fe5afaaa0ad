//! Bytes of TCP connections that speak HTTP/1.1 or HTTP/2 into frames of MCP (specification 2025-11-25, "Transports";
//! 2024-11-05, "HTTP with SSE"). It is no client, server or proxy: it opens no connection, and changes nothing of what it reads. Its two
//! most important types are [`Http`], which takes the bytes of all streams, and [`HttpOutput`], what follows from them.
//!
//! Streams go in: the bytes of both directions of TCP connections, as the client wrote and read them. Frames come out, of
//! *links*: what the engine calls a connection, one client process speaking with one session of one server. A link spans
//! many streams (pools, the stream of a GET, answers on another stream than their requests), and a stream can serve
//! several links, one after the other.
//!
//! | a message belongs to the link of | because |
//! |---|---|
//! | its session | its request names it in `Mcp-Session-Id` |
//! | the endpoint that it was posted to | a server of the older transport named it in its first event |
//! | the request itself | it is `initialize`: the answer names the session, or there is none |
//! | all stateless requests of that client, address, host and path | they name a stateless revision, and no session |
//! | all others of that client, address, host and path | nothing else is known |
//!
//! **What it takes for granted.** The two directions come nearly in order of time: an answer may come before its
//! request, but what a client sends because of an answer comes behind that. Answers are paired with requests in order.
//! Behind a gap, pairing starts afresh: a request that begins after answers were lost means that those before it are
//! answered (no official client pipelines), and an answer to a request that was lost belongs to the last link of its
//! stream. Over HTTP/2 requests and answers are paired by the numbers of its own streams, of which one connection has many.
//!
//! **Nothing is hidden behind a doubt.** What two readers could read differently (see `head`) is not guessed: the
//! stream is given up, and [`HttpOutput::Uninspected`] says so. Where the border of messages is certain and only what one
//! says is not (see `readings`), each reading is a frame, and that is said as well.
//!
//! **Secrets stay inside.** Of a head, a few fields go out: [`HttpMeta`], the host, and the path without its query.

mod brotli;
mod coding;
mod connection;
mod content;
mod exchange;
mod exchanges;
mod head;
mod http1;
mod http2;
mod limits;
mod link;
mod mirrored;
mod output;
mod reader;
mod readings;
pub mod sse;
mod stream;

use std::collections::BTreeMap;

use mcpwarden_terms::{ConnectionId, Direction, Endpoint, GapCause, Timestamp, counters};
use serde::Serialize;

pub use http2::Http2Error;
pub use limits::HttpLimits;
pub use link::LINK;
use link::Links;
pub use mirrored::{Header, Mirrored};
pub use output::HttpOutput;
use stream::Stream;

/// Who speaks to whom over one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The process: its id, and when it started in nanoseconds since boot.
    pub client: (u32, u64),
    /// What it connected to.
    pub server: Endpoint,
    /// Whether a declared server is there: such a stream is never called "not MCP".
    pub known: bool,
    /// Whether what is no MCP is wanted, too: neither is such a stream.
    pub others: bool,
}

/// What of a request's head may be told. Nothing else of it leaves, but host and path. An answer has its request's, and
/// whether its own has a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HttpMeta {
    /// `MCP-Protocol-Version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<Box<str>>,
    /// `traceparent` (W3C Trace Context).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Box<str>>,
    /// `tracestate` (W3C Trace Context).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Box<str>>,
    /// `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<Box<str>>,
    /// What the body is to say as well. Not for guards.
    #[serde(skip)]
    pub mirrored: Mirrored,
}

impl HttpMeta {
    /// Memory that its texts take.
    pub fn bytes(&self) -> usize {
        let texts = [&self.protocol_version, &self.traceparent, &self.tracestate, &self.user_agent];
        texts.into_iter().flatten().map(|text| text.len()).sum::<usize>() + self.mirrored.bytes()
    }
}

/// Why a stream, or a message of it, is not inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Uninspected {
    /// Its HTTP/2 is invalid: both ends have to close it (RFC 9113, section 5.4.1).
    #[error("its HTTP/2 is invalid: {0}")]
    Http2(Http2Error),
    /// `Upgrade: websocket` was accepted.
    #[error("it is a WebSocket")]
    WebSocket,
    /// `CONNECT`, or another upgrade, was accepted.
    #[error("it became a tunnel for something else")]
    Tunnel,
    /// It begins with a record of TLS.
    #[error("it is encrypted")]
    Encrypted,
    /// It is no HTTP/1.
    #[error("it is not HTTP/1.1")]
    NotHttp,
    /// It can be read in more than one way: two lengths, a length beside the chunks of a request, chunks that are not framed
    /// as they must be, an unknown coding of the transfer, a session or a host named twice.
    #[error("its HTTP can be read in more than one way")]
    Ambiguous,
    /// A head or trailers are longer than the bound.
    #[error("a head is too long")]
    HeadTooLong,
    /// More requests wait for an answer than the bound.
    #[error("too many requests wait for an answer")]
    Pipelined,
    /// The body of a message has a coding that is not read (zstd), or is not what it says. The stream goes on.
    #[error("the coding of a body cannot be read")]
    Coding,
    /// The body of a message decodes to far more than it is. The stream goes on.
    #[error("a body decodes to far more than it is")]
    Bomb,
    /// Readers take a message for different ones, or for several: values behind each other, lines that some of them join.
    /// Each of those is a frame of its own. The stream goes on.
    #[error("a message can be read in more than one way")]
    Readings,
    /// There are as many links as there may be. The stream goes on.
    #[error("too many sessions at once")]
    TooManyLinks,
}

counters!(HttpCounters {
    /// Streams that were refused: there were too many.
    streams_refused,
    /// Links that were refused: there were too many.
    links_refused,
    /// Streams that were given up, since they cannot be read.
    uninspected_streams,
    /// Bytes of such streams that came afterwards.
    uninspected_bytes,
    /// Streams with nothing of MCP in them.
    not_mcp,
    /// Messages over the bound of a frame.
    frames_too_long,
    /// Bodies in a coding that is not read, or not coded as they say.
    undecodable,
    /// Bodies that decode to far more than they are.
    bombs,
    /// Times that a stream gave up what it held, for want of memory.
    memory_given_up,
    /// Bytes of streams to servers that passed: heads, bodies, what was not captured.
    server_bytes,
    /// Of them: bytes that were not captured, that were skipped behind those, of streams that were given up, and of bodies
    /// that cannot be decoded.
    server_bytes_unread,
    /// Bytes of streams that were not captured.
    gap_bytes,
    /// Bytes of streams that were skipped behind a gap, until something could be read again.
    unsynchronised_bytes,
    /// Answers without a request, and requests whose answers were lost.
    unpaired,
    /// Messages that were unfinished when their stream ended.
    unfinished,
    /// Events that were sent a second time after a resumption, and left out.
    resent,
    /// Requests that were sent a second time after a redirect, and left out.
    redirected,
    /// Messages of links that were closed or are no MCP.
    unwanted,
    /// Streams that spoke HTTP/2.
    h2_connections,
    /// Frames and heads of HTTP/2 that are invalid.
    h2_faults,
    /// Requests of HTTP/2 that were forgotten, since there were too many on one connection.
    h2_streams_dropped,
    /// Requests and answers of HTTP/2 that can be read in more than one way, and tunnels: they were not read.
    h2_streams_unread,
    /// Fields of heads of HTTP/2 that are not known, since those before them were not captured.
    head_fields_unknown,
    /// Heads of HTTP/2 that are too long, and were read in part.
    heads_cut,
});

/// What everything below works with.
struct Context<'a> {
    limits: &'a HttpLimits,
    links: &'a mut Links,
    counters: &'a mut HttpCounters,
    sink: &'a mut dyn FnMut(HttpOutput<'_>),
}

/// Reads all streams. See the module.
///
/// Linear in the bytes pushed, and the same bytes give the same frames wherever they are cut, but behind a gap.
#[derive(Debug, Default)]
pub struct Http {
    limits: HttpLimits,
    streams: BTreeMap<ConnectionId, Stream>,
    links: Links,
    counters: HttpCounters,
    held: usize,
}

impl Http {
    /// One that knows of no stream.
    pub fn new(limits: HttpLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A connection was made. Where bytes went over it before, [`Self::gap`] must say so of both directions. `false`:
    /// there are too many, and nothing of it is read.
    pub fn open(&mut self, stream: ConnectionId, peers: Peers, _time: Timestamp) -> bool {
        if self.streams.len() >= self.limits.streams && !self.streams.contains_key(&stream) {
            self.counters.streams_refused += 1;
            return false;
        }
        self.streams.entry(stream).or_insert_with(|| Stream::new(stream, peers, &self.limits));
        true
    }

    /// The next bytes of one direction, captured at `time`. Nothing happens where the stream is not open.
    pub fn push(
        &mut self,
        stream: ConnectionId,
        direction: Direction,
        bytes: &[u8],
        time: Timestamp,
        sink: &mut dyn FnMut(HttpOutput<'_>),
    ) {
        self.with(stream, time, sink, |stream, context| stream.push(direction, bytes, time, context));
    }

    /// The gate has overwritten some of the request in progress, all of which is pushed as the client wrote it.
    pub fn neutralized(&mut self, stream: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.neutralized();
        }
    }

    /// The gate has refused a write of the client with these bytes: the messages that they end or begin are handed on as stopped, and
    /// the stream is as before. Nothing happens where the link of a message is not known.
    pub fn refused(
        &mut self,
        stream: ConnectionId,
        bytes: &[u8],
        time: Timestamp,
        sink: &mut dyn FnMut(HttpOutput<'_>),
    ) {
        self.with(stream, time, sink, |stream, context| stream.refused(bytes, time, context));
    }

    /// What is no MCP is wanted of a stream from now on.
    pub fn want_others(&mut self, stream: ConnectionId) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.want_others();
        }
    }

    /// The link that a stream carried something of last.
    pub fn link_of(&self, stream: ConnectionId) -> Option<ConnectionId> {
        self.streams.get(&stream).and_then(Stream::last_link)
    }

    /// `bytes` of one direction were not captured here, or it is not known how many (0).
    pub fn gap(
        &mut self,
        stream: ConnectionId,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        sink: &mut dyn FnMut(HttpOutput<'_>),
    ) {
        self.counters.gap_bytes = self.counters.gap_bytes.saturating_add(bytes);
        self.with(stream, time, sink, |stream, context| {
            stream.missed(bytes);
            stream.gap(direction, bytes, cause, time, context);
        });
    }

    /// The connection was closed: nothing will come of it any more.
    pub fn close(&mut self, stream: ConnectionId, time: Timestamp, sink: &mut dyn FnMut(HttpOutput<'_>)) {
        self.with(stream, time, sink, |stream, context| stream.close(time, context));
    }

    /// A process ended: its links are closed.
    pub fn client_ended(
        &mut self,
        client: (u32, u64),
        time: Timestamp,
        sink: &mut dyn FnMut(HttpOutput<'_>),
    ) {
        for link in self.links.of_client(client) {
            self.context(sink).close(link, time);
        }
    }

    /// Time has come to `now`: closes the links that were idle for too long.
    pub fn tick(&mut self, now: Timestamp, sink: &mut dyn FnMut(HttpOutput<'_>)) {
        for link in self.links.idle(now, self.limits.idle) {
            self.context(sink).close(link, now);
        }
    }

    /// When [`Self::tick`] may have something to do; perhaps nothing yet.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.links.next_deadline()
    }

    /// The engine says that a link is no MCP: nothing more comes of it, [`HttpOutput::Closed`] neither. Says which
    /// streams carried nothing else and need no capture; they are forgotten.
    pub fn forget(&mut self, link: ConnectionId) -> Vec<ConnectionId> {
        let mut streams = self.links.forget(link);
        streams.retain(|stream| self.streams.get(stream).is_some_and(|stream| stream.serves_only(link)));
        for id in &streams {
            if let Some(stream) = self.streams.remove(id) {
                self.held -= stream.held();
                self.links.leave(link, *id, Timestamp::default(), self.limits.idle);
            }
        }
        streams
    }

    /// Whether a process has links.
    pub fn is_linked(&self, client: (u32, u64)) -> bool {
        self.links.has(client)
    }

    /// The open streams that carried something of a link.
    pub fn streams(&self, link: ConnectionId) -> impl Iterator<Item = ConnectionId> {
        self.links.streams(link)
    }

    /// What happened so far.
    pub fn counters(&self) -> HttpCounters {
        self.counters
    }

    fn context<'a>(&'a mut self, sink: &'a mut dyn FnMut(HttpOutput<'_>)) -> Context<'a> {
        Context { limits: &self.limits, links: &mut self.links, counters: &mut self.counters, sink }
    }

    /// Does something with a stream, and keeps account of what it holds.
    fn with(
        &mut self,
        id: ConnectionId,
        time: Timestamp,
        sink: &mut dyn FnMut(HttpOutput<'_>),
        action: impl FnOnce(&mut Stream, &mut Context<'_>),
    ) {
        let Self { limits, streams, links, counters, held } = self;
        let Some(stream) = streams.get_mut(&id) else { return };
        let mut context = Context { limits, links, counters, sink };
        let before = stream.held();
        action(stream, &mut context);
        stream.account(context.counters);
        if *held - before + stream.held() > context.limits.held_bytes {
            stream.give_up(time, &mut context);
        }
        *held = *held - before + stream.held();
        if stream.is_over() {
            stream.leave(time, &mut context);
            *held -= stream.held();
            streams.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
