//! What comes out of streams.

use mcpwarden_terms::{ConnectionId, Direction, Endpoint, GapCause, ServerType, Timestamp};

use super::{HttpMeta, Uninspected};

/// What comes out.
#[derive(Clone, Copy, Debug)]
pub enum HttpOutput<'a> {
    /// A link begins; said before its first frame.
    Opened {
        /// Its number: the highest bit is set, which it is in no number of the kernel half.
        link: ConnectionId,
        /// When.
        time: Timestamp,
        /// The stream that it was first seen on.
        stream: ConnectionId,
        /// The process: its id, and when it started.
        client: (u32, u64),
        /// The address that it connected to.
        server: Endpoint,
        /// What the request calls it: `Host`.
        host: Option<&'a str>,
        /// Path of the request, without its query.
        path: &'a str,
        /// `Http`, or `Sse` of the older transport.
        kind: ServerType,
    },
    /// A message or a batch.
    Frame {
        /// Of which link.
        link: ConnectionId,
        /// On which stream.
        stream: ConnectionId,
        /// Which way.
        direction: Direction,
        /// When its first byte was captured.
        time: Timestamp,
        /// The JSON text, perhaps invalid, without its framing and outer blanks.
        bytes: &'a [u8],
        /// What may be told of the request that it is, or answers.
        meta: &'a HttpMeta,
    },
    /// A message that the gate in the kernel stopped, as the client wrote it; or a batch in which it stopped something.
    Stopped {
        /// Of which link.
        link: ConnectionId,
        /// On which stream.
        stream: ConnectionId,
        /// When its first byte was captured.
        time: Timestamp,
        /// As in [`Self::Frame`].
        bytes: &'a [u8],
        /// Whether its write was refused; else it was overwritten in part, and its server answers it.
        is_refused: bool,
    },
    /// Bytes of a link's messages that were not captured, or were given up.
    Gap {
        /// Of which link.
        link: ConnectionId,
        /// Which way.
        direction: Direction,
        /// When.
        time: Timestamp,
        /// How many.
        bytes: u64,
        /// Why.
        cause: GapCause,
    },
    /// A request of a link was refused by HTTP: a status of 400 or more, and no JSON-RPC answer with it.
    Refused {
        /// Of which link.
        link: ConnectionId,
        /// On which stream.
        stream: ConnectionId,
        /// When.
        time: Timestamp,
        /// The status.
        status: u16,
        /// The id of the request, as it was sent, where it was one request and its id is not too long.
        id: Option<&'a str>,
    },
    /// A request that is no MCP: a POST with a body of JSON.
    OtherRequest {
        /// On which stream.
        stream: ConnectionId,
        /// Its number there.
        exchange: u64,
        /// When its first byte was captured.
        time: Timestamp,
        /// What it calls its server.
        host: Option<&'a str>,
        /// Its body, without coding and outer blanks.
        bytes: &'a [u8],
    },
    /// A piece of the body of the answer to such a request, without coding.
    OtherAnswer {
        /// On which stream.
        stream: ConnectionId,
        /// The number of the request.
        exchange: u64,
        /// When it was captured.
        time: Timestamp,
        /// What the server calls the request.
        request_id: Option<&'a str>,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The answer to such a request is over.
    OtherEnd {
        /// On which stream.
        stream: ConnectionId,
        /// The number of the request.
        exchange: u64,
        /// When.
        time: Timestamp,
        /// Its status; 0 where its head is not known.
        status: u16,
        /// Whether all of its body came.
        is_whole: bool,
    },
    /// A stream, or one message of it, cannot be read.
    Uninspected {
        /// Which stream.
        stream: ConnectionId,
        /// The link that it belongs to, where that is known.
        link: Option<ConnectionId>,
        /// Why.
        why: Uninspected,
    },
    /// Nothing of MCP is in this stream, and no declared server is there: capture of it can stop. It is forgotten.
    NotMcp {
        /// Which.
        stream: ConnectionId,
    },
    /// A link ended.
    Closed {
        /// Which.
        link: ConnectionId,
        /// When.
        time: Timestamp,
    },
}
