//! The two enums that the whole program can be read off.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::command::{CommandError, OperatorCommand};
use super::question::GuardQuestion;
use crate::detect::{Ahead, Detector};
use crate::discovery::{Files, Running};
use crate::event::{Event, Family, GapCause, GateDecided, Protocol, ServerType, Transport};
use crate::http::HttpMeta;
use crate::network::Verdict;
use crate::terms::contract::{GuardFailure, GuardReply};
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
use crate::wire::Framing;

/// Something that happened.
#[allow(clippy::large_enum_variant, reason = "an input is handed on once; a box for each would cost more")]
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A process whose standard input and output are this connection ran a program. A chain (`npx`, `sh`,
    /// `node`) gives several for one connection.
    Exec(Exec),
    /// A connection whose server and session are known by name: of a recording.
    Open {
        /// Which.
        connection: ConnectionId,
        /// When.
        time: Timestamp,
        /// Whose session it belongs to.
        session: SessionId,
        /// Which server it is; it counts as one at once.
        server: ServerId,
    },
    /// A whole frame was captured.
    Frame {
        /// On which connection.
        connection: ConnectionId,
        /// Which way.
        direction: Direction,
        /// When its first byte was.
        time: Timestamp,
        /// The JSON text, without framing.
        bytes: &'a [u8],
        /// What the head of its request says, where it went over HTTP.
        http: Option<&'a HttpMeta>,
        /// The turn of the model that it belongs to, where a recording names it; `None`: turns are found by time.
        turn: Option<&'a str>,
    },
    /// A client's frame that the gate stopped.
    Stopped {
        /// On which connection.
        connection: ConnectionId,
        /// When.
        time: Timestamp,
        /// The JSON text, as the client wrote it.
        bytes: &'a [u8],
        /// Whether none of it reached its server; else that got it with one byte neutralized, and answers.
        is_refused: bool,
    },
    /// The gate did something to a write, or could not tell what it asks for.
    Gate {
        /// On which connection.
        connection: ConnectionId,
        /// When.
        time: Timestamp,
        /// What.
        decided: GateDecided,
    },
    /// The frame before, of this direction, is one for some readers only.
    Ambiguous {
        /// On which connection.
        connection: ConnectionId,
        /// Which way.
        direction: Direction,
        /// When.
        time: Timestamp,
        /// Why.
        framing: Framing,
    },
    /// Bytes that are no frame, such as log text on standard output.
    Junk {
        /// On which connection.
        connection: ConnectionId,
        /// Which way.
        direction: Direction,
        /// When.
        time: Timestamp,
        /// How many.
        bytes: u64,
        /// Whether they are a piece of a frame whose rest is missing, which says nothing of what this is.
        broken: bool,
    },
    /// Bytes were not captured, or had to be given up.
    Gap {
        /// On which connection.
        connection: ConnectionId,
        /// Which way.
        direction: Direction,
        /// When.
        time: Timestamp,
        /// How many.
        bytes: u64,
        /// Why.
        cause: GapCause,
        /// Who moved them, if known.
        pid: Option<u32>,
        /// Where in the stream, if known.
        offset: Option<u64>,
    },
    /// A process of a connection's chain ended.
    Exit {
        /// Whose.
        connection: ConnectionId,
        /// Which.
        pid: u32,
        /// When.
        time: Timestamp,
        /// How, if known.
        status: Option<ExitStatus>,
    },
    /// Nobody holds the connection any more: nothing will come after this.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// When.
        time: Timestamp,
    },
    /// A process connects to something.
    Connect(Connect),
    /// A client speaks with what may be a server at an address.
    Reached(Reached),
    /// A server at an address refused a request, without an answer of JSON-RPC.
    Refused {
        /// In which conversation.
        connection: ConnectionId,
        /// When.
        time: Timestamp,
        /// The status of HTTP.
        status: u16,
        /// `id` of the request, as it was sent, where it was one.
        id: Option<&'a str>,
    },
    /// What a client and what may be a server at an address say is not inspected.
    Uninspected {
        /// Who speaks with whom; its `connection` is known where something was read before.
        reached: Reached,
        /// Why, in words.
        reason: String,
    },
    /// Something goes between a client and the API of a model.
    Model(ModelTraffic<'a>),
    /// A process runs whose standard input and output are not captured.
    Uncaptured {
        /// The process.
        process: Process,
        /// What they are.
        transport: Transport,
        /// When it was found.
        time: Timestamp,
    },
    /// An operator commands something.
    Operator(OperatorCommand<'a>),
    /// A guard that others wrote has answered a question, or has not.
    Answered {
        /// The id of the question: see [`Output::Ask`].
        id: &'a str,
        /// What it answered, or why there is no answer.
        answer: Result<&'a GuardReply, &'a GuardFailure>,
    },
    /// A long message was inspected: see [`Engine::next_inspection`](super::Engine::next_inspection).
    Inspected(Inspected),
}

impl Input<'_> {
    /// When it was captured; `None` of what is no part of any stream.
    pub(super) fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Exec(exec) => Some(exec.time),
            Self::Connect(connect) => Some(connect.time),
            Self::Model(traffic) => Some(traffic.time),
            Self::Reached(reached) | Self::Uninspected { reached, .. } => Some(reached.time),
            Self::Refused { time, .. } => Some(*time),
            Self::Open { time, .. }
            | Self::Frame { time, .. }
            | Self::Stopped { time, .. }
            | Self::Gate { time, .. }
            | Self::Ambiguous { time, .. }
            | Self::Junk { time, .. }
            | Self::Uncaptured { time, .. }
            | Self::Gap { time, .. }
            | Self::Exit { time, .. }
            | Self::Closed { time, .. } => Some(*time),
            Self::Operator(_) | Self::Inspected(_) | Self::Answered { .. } => None,
        }
    }

    /// The connection of whose stream, or life, it is a part.
    pub(super) fn connection(&self) -> Option<ConnectionId> {
        match self {
            Self::Exec(exec) => Some(exec.connection),
            Self::Reached(reached) | Self::Uninspected { reached, .. } => Some(reached.connection),
            Self::Open { connection, .. }
            | Self::Frame { connection, .. }
            | Self::Stopped { connection, .. }
            | Self::Gate { connection, .. }
            | Self::Ambiguous { connection, .. }
            | Self::Junk { connection, .. }
            | Self::Gap { connection, .. }
            | Self::Exit { connection, .. }
            | Self::Refused { connection, .. }
            | Self::Closed { connection, .. } => Some(*connection),
            Self::Connect(_)
            | Self::Model(_)
            | Self::Uncaptured { .. }
            | Self::Operator(_)
            | Self::Answered { .. }
            | Self::Inspected(_) => None,
        }
    }
}

/// What was inspected of a long message.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The number of the inspection.
    pub(super) id: u64,
    /// By which rules; `None` where it came to nothing.
    pub(super) detector: Option<Arc<Detector>>,
    pub(super) ahead: Option<Arc<Ahead>>,
}

impl Inspected {
    /// The inspection with this number came to nothing.
    pub fn failed(id: u64) -> Self {
        Self { id, detector: None, ahead: None }
    }
}

/// A program was run, or found running.
#[derive(Clone, Debug)]
pub struct Exec {
    /// The connection that is its standard input and output.
    pub connection: ConnectionId,
    /// When it was run.
    pub time: Timestamp,
    /// Whether it ran before the agent did.
    pub adopted: bool,
    /// The process, as the program sees it.
    pub process: Process,
    /// The process at the other end, if known.
    pub client: Option<Process>,
    /// The session that the connection belongs to, where a recording names it.
    pub session: Option<SessionId>,
}

/// A process connects to something, or sends a datagram there, and the kernel half has decided about it.
#[derive(Clone, Debug)]
pub struct Connect {
    /// When.
    pub time: Timestamp,
    /// The connection of the stdio server that the process belongs to, by descent; `None`: it belongs to none.
    pub connection: Option<ConnectionId>,
    /// The process.
    pub process: Process,
    /// Where to, as it was asked for; a v4-mapped address is the IPv4 address.
    pub address: IpAddr,
    /// Which port.
    pub port: u16,
    /// What is spoken.
    pub protocol: Protocol,
    /// The family of the socket.
    pub family: Family,
    /// The name that the address was the answer for, where an answer was seen.
    pub name: Option<String>,
    /// The declared server that is there.
    pub server: Option<(ServerId, ServerType)>,
    /// What was decided.
    pub verdict: Verdict,
    /// Whether a denial was carried out.
    pub enforced: bool,
    /// Why, as [`Table::reason`](crate::network::Table::reason) says it.
    pub reason: Option<String>,
    /// Whether it was open when the agent started: `time` is when it was found.
    pub adopted: bool,
    /// The network namespace of the socket (cookie), of another than the agent's.
    pub netns: Option<u64>,
}

/// Where a server is that is no process over stdio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An address and a port.
    Internet(SocketAddr),
    /// A Unix socket: its path, or behind an `@` its abstract name.
    Unix(String),
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Internet(address)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(formatter),
            Self::Unix(name) => write!(formatter, "unix:{name}"),
        }
    }
}

/// A client speaks with what may be a server at an address, in plain text.
#[derive(Clone, Debug)]
pub struct Reached {
    /// What the two say from now on, over however many connections of TCP.
    pub connection: ConnectionId,
    /// Since when.
    pub time: Timestamp,
    /// The client.
    pub client: Process,
    /// Where the server is.
    pub address: ServerAddress,
    /// The process that listens there, where that is known.
    pub server: Option<Process>,
    /// The network namespace that it is in (cookie), of another than the agent's.
    pub netns: Option<u64>,
    /// What the client calls it: `Host`.
    pub host: Option<String>,
    /// Path of the URL that the client asks for, without its query; empty where it is not spoken to over HTTP.
    pub path: String,
    /// What is spoken.
    pub kind: ServerType,
    /// The declared servers that are at this address.
    pub declared: Vec<ServerId>,
    /// Whether the connection was open before the agent started: what was said earlier is unknown.
    pub adopted: bool,
    /// Whether what is said is read in the memory of the client (over TLS): its user can make it say anything, also in the name of the server.
    pub read_in_client: bool,
}

/// A server at an address that nobody declared has answered something of MCP: it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id, of its address and the path.
    pub server: ServerId,
    /// How it is spoken to.
    pub kind: ServerType,
    /// The session in which it answered.
    pub session: Option<SessionId>,
    /// Where it is.
    pub address: SocketAddr,
    /// As in [`Reached::netns`].
    pub netns: Option<u64>,
}

impl Connect {
    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.process.bytes() + text(&self.name) + text(&self.reason)
    }
}

/// A part of a request to the API of a model, or of the answer.
#[derive(Clone, Debug)]
pub struct ModelTraffic<'a> {
    /// The connection of TCP.
    pub stream: ConnectionId,
    /// The number of the request there.
    pub exchange: u64,
    /// When it was captured.
    pub time: Timestamp,
    /// The part.
    pub part: ModelPart<'a>,
}

/// See there. The request comes first.
#[derive(Clone, Debug)]
pub enum ModelPart<'a> {
    /// A request.
    Request(Box<ModelRequest>),
    /// A piece of the body of its answer, without coding.
    Answer {
        /// What the server calls the request.
        request_id: Option<&'a str>,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The answer is over.
    End {
        /// Whether all of it came.
        is_whole: bool,
    },
}

/// A request to the API of a model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The client.
    pub client: Process,
    /// Where the server is.
    pub address: ServerAddress,
    /// What the client calls it: `Host`.
    pub host: Option<String>,
    /// The model that it asks.
    pub model: Option<String>,
}

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id in the root pid namespace.
    pub pid: u32,
    /// When it started, in nanoseconds since boot: with `pid` this is unique.
    pub start_ns: u64,
    /// User id, if known.
    pub uid: Option<u32>,
    /// Id of its cgroup (v2), if known.
    pub cgroup_id: Option<u64>,
    /// Path of its cgroup (v2), from the root of the tree; known of clients alone.
    pub cgroup: Option<String>,
    /// Command line, bounded by the capture.
    pub argv: Vec<String>,
    /// Whether `argv` was cut off.
    pub argv_truncated: bool,
    /// Working directory, if known.
    pub cwd: Option<String>,
    /// Path of the executable, if known.
    pub executable: Option<String>,
    /// Process ids of its parents, nearest first.
    pub ancestors: Vec<u32>,
    /// Variables of its environment that name code to load: see [`code_variables`](crate::discovery::code_variables). Looked for
    /// where servers are declared.
    pub code_variables: Vec<&'static str>,
    /// The files of what it runs. `None` where no declaration asks for them, and of a recording.
    pub files: Option<Box<Files>>,
}

impl Process {
    /// What it runs. `adopted`: it ran before the agent did.
    pub(super) fn running(&self, adopted: bool) -> Running<'_> {
        let (cwd, executable) = (self.cwd.as_deref(), self.executable.as_deref());
        Running { argv: &self.argv, cwd, executable, files: self.files.as_deref(), adopted }
    }

    /// Memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let argv: usize = self.argv.iter().map(|word| size_of::<String>() + word.len()).sum();
        let path = |path: &Option<String>| path.as_ref().map_or(0, String::len);
        let paths = path(&self.cwd) + path(&self.executable) + path(&self.cgroup);
        let files = self.files.as_ref().map_or(0, |files| files.bytes());
        size_of::<Self>() + argv + paths + size_of_val(&*self.ancestors) + files
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Something that is to be done.
#[allow(clippy::large_enum_variant, reason = "nearly all of them are events")]
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Report this.
    Event(Event),
    /// The connection is an MCP server's: the kernel may lift its budgets. Said again where it turns out to be another.
    Confirm {
        /// Which.
        connection: ConnectionId,
        /// Whose: its declaration says where its processes may connect.
        server: ServerId,
    },
    /// There is a server that nobody declared. Said when it first answers in a conversation, and each half hour in which it does.
    Found(Found),
    /// Ask a guard that others wrote: [`Input::Answered`] takes the answer.
    Ask(GuardQuestion),
    /// The connection is none: stop capturing it. The engine has forgotten it.
    Drop(ConnectionId),
    /// The connection is a server's, and there is no room for it: stop capturing it, and hold its calls for undecided. The
    /// engine wants to know when it is closed.
    Refuse(ConnectionId),
    /// What the gate's tables are made of has changed, or who is to be in them. Once for all that an input brings.
    GateStale {
        /// When the message was captured that changed it; `None`: it was none.
        since: Option<Timestamp>,
    },
    /// What [`Input::Operator`] commands cannot be done.
    Failed(CommandError),
}
