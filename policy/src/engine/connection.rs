//! What is known of one connection.

mod candidate;
mod chain;
mod tools;

pub(super) use tools::RESOURCE;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use super::address::At;
use super::config::Counters;
use super::conversation::Conversation;
use super::heads::Repeated;
use super::io::{Connect, ExitStatus, Process};
use super::memory::Account;
use super::pairing::Pairing;
use super::seen::Stop;
use crate::discovery::{self, Match};
use crate::event::{CaptureGap, GateDecided, Identity, MatchedBy, ServerExited, ServerType};
use crate::guard::ToolFacts;
use crate::http::{HttpMeta, Mirrored};
use crate::terms::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
use crate::wire::Framing;

/// Something that came before it was known whether this is a server.
#[derive(Debug)]
pub(super) enum Waiting {
    /// `stop`: what the gate made of it.
    Frame {
        direction: Direction,
        time: Timestamp,
        bytes: Vec<u8>,
        stop: Option<Stop>,
        turn: Option<Box<str>>,
        http: Option<Box<HttpMeta>>,
    },
    Decided {
        time: Timestamp,
        decided: Box<GateDecided>,
    },
    Gap {
        time: Timestamp,
        gap: CaptureGap,
    },
    /// Of the frame before.
    Ambiguous {
        direction: Direction,
        time: Timestamp,
        framing: Framing,
    },
    Connect(Box<Connect>),
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Perhaps a server.
    Candidate { waiting: VecDeque<Waiting>, frames: usize, bytes: usize, gaps: usize },
    /// A server; it was reported.
    Server,
    /// A server whose end was reported.
    Exited,
}

/// One connection, from its first program to its end.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) account: Account,
    pub(super) since: Timestamp,
    pub(super) stage: Stage,
    pub(super) adopted: bool,
    /// Of a candidate: it is a server, first asked then, and is announced when it answers.
    pub(super) asked: Option<Timestamp>,
    /// Whose the kernel half was told that it is.
    pub(super) confirmed: Option<ServerId>,
    /// Programs, in order.
    pub(super) chain: Vec<Process>,
    pub(super) chain_bytes: usize,
    /// Processes of the chain that have not ended.
    pub(super) live: HashSet<u32>,
    /// How the last program of the chain ended.
    pub(super) status: Option<ExitStatus>,
    /// When the last process ended.
    pub(super) ended: Option<Timestamp>,
    /// When the end is to be reported, after the last process ended.
    pub(super) exit_at: Option<Timestamp>,
    pub(super) client: Option<Process>,
    /// Where the server is, if it is no process.
    pub(super) at: Option<At>,
    /// Whether a program of the chain has a container engine run the server: [`discovery::runs_in_container`].
    pub(super) runs_container: bool,
    pub(super) named: Option<Match>,
    pub(super) declared: Option<ServerId>,
    /// The version of its package, image or program.
    pub(super) version: Option<String>,
    /// What its programs are called, and the declared server that it was mistaken for: see [`Connection::also`].
    ids: Vec<ServerId>,
    /// The process that serves, once it is announced.
    pub(super) serving: Option<u32>,
    /// Processes that have run a program since.
    pub(super) later: HashSet<u32>,
    /// Whether another program serves by now than its declaration demands.
    pub(super) is_replaced: bool,
    /// Value, id and place in the chain of the most telling program.
    best: Option<(u8, ServerId, usize)>,
    /// Connects of a candidate that were not kept. They matter only where it turns out to be a server.
    pub(super) connects_not_kept: u64,
    /// As announced.
    pub(super) server: Option<ServerId>,
    /// As announced, or as will be.
    pub(super) session: Option<SessionId>,
    /// The relay that this is inner to, and those that are inner to this.
    pub(super) outer: Option<ConnectionId>,
    pub(super) inners: Vec<ConnectionId>,
    /// Client to server, server to client.
    requests: [Pairing; 2],
    /// Whether the last frame of each direction was a message.
    last_was_message: [bool; 2],
    /// The era in which it is held, and who speaks.
    pub(super) conversation: Conversation,
    /// Whether a look at late answers is due.
    pub(super) watched: bool,
    /// Whether it was reported that too much is open.
    pub(super) crowded: bool,
    /// Whether it was reported that definitions are not compared with pins.
    pub(super) is_uncompared: bool,
    /// For guards that are not in this process: see [`Connection::describe`].
    pub(super) metadata: Value,
    /// What the head of its last request says, where it is spoken over HTTP.
    pub(super) http: Option<HttpMeta>,
    /// Digests of names and hashes of definitions that were reported.
    pub(super) reported: HashSet<[u8; 16]>,
    /// What is known of the tools that it lists, by name.
    pub(super) tools: BTreeMap<Arc<str>, ToolFacts>,
    /// What is known from before of tools that it does not list, by name.
    pub(super) unlisted: BTreeMap<Arc<str>, ToolFacts>,
    /// Of them: the parameters that their clients repeat in heads.
    pub(super) repeated: BTreeMap<Arc<str>, Vec<Repeated>>,
    /// Memory that all three take.
    pub(super) tools_bytes: usize,
    pub(super) totals: ServerExited,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, account: Account, since: Timestamp) -> Self {
        Self {
            id,
            account,
            since,
            stage: Stage::Candidate { waiting: VecDeque::new(), frames: 0, bytes: 0, gaps: 0 },
            adopted: false,
            asked: None,
            confirmed: None,
            chain: Vec::new(),
            chain_bytes: 0,
            live: HashSet::new(),
            status: None,
            ended: None,
            exit_at: None,
            client: None,
            at: None,
            runs_container: false,
            named: None,
            declared: None,
            version: None,
            ids: Vec::new(),
            serving: None,
            later: HashSet::new(),
            is_replaced: false,
            best: None,
            connects_not_kept: 0,
            server: None,
            session: None,
            outer: None,
            inners: Vec::new(),
            requests: [Pairing::default(), Pairing::default()],
            last_was_message: [false; 2],
            conversation: Conversation::default(),
            watched: false,
            crowded: false,
            is_uncompared: false,
            metadata: Value::Null,
            http: None,
            reported: HashSet::new(),
            tools: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            repeated: BTreeMap::new(),
            tools_bytes: 0,
            totals: ServerExited::default(),
        }
    }

    /// Requests that went in this direction.
    pub(super) fn requests(&mut self, direction: Direction) -> &mut Pairing {
        let [to_server, to_client] = &mut self.requests;
        match direction {
            Direction::ClientToServer => to_server,
            Direction::ServerToClient => to_client,
        }
    }

    pub(super) fn take_pairings(&mut self) -> [Pairing; 2] {
        std::mem::take(&mut self.requests)
    }

    pub(super) fn pairings(&self) -> &[Pairing; 2] {
        &self.requests
    }

    pub(super) fn is_candidate(&self) -> bool {
        matches!(self.stage, Stage::Candidate { .. })
    }

    /// Whether it is a server that is to be announced when it answers: its chain of programs may go on until then.
    pub(super) fn is_pending(&self) -> bool {
        self.is_candidate() && self.asked.is_some()
    }

    /// Whether its client stands between a container engine's daemon and the programs in its containers.
    pub(super) fn is_in_container(&self) -> bool {
        let executable = self.client.as_ref().and_then(|client| client.executable.as_deref());
        executable.is_some_and(discovery::is_container_shim)
    }

    /// Whether it may be dropped when it does not behave like a server.
    pub(super) fn is_unnamed(&self) -> bool {
        self.named.is_none() && self.declared.is_none()
    }

    /// Whether its first frame seen need not be the first that was sent, and so proves nothing by itself.
    pub(super) fn began_late(&self) -> bool {
        let is_from_start = self.at.as_ref().is_some_and(|at| at.kind.is_in_lines());
        self.adopted
            || self.chain.is_empty() && !is_from_start
            || matches!(&self.stage, Stage::Candidate { gaps, .. } if *gaps > 0)
    }

    /// Who speaks to whom: the process that serves, and its client.
    pub(super) fn describe(&mut self) {
        let about = |process: &Process| {
            json!({
                "pid": process.pid,
                "uid": process.uid,
                "cgroup_id": process.cgroup_id,
                "executable": process.executable,
            })
        };
        let (server, client) = (self.chain.last().map(about), self.client.as_ref().map(about));
        self.metadata = match &self.http {
            None => json!({ "server": server, "client": client }),
            Some(http) => json!({ "server": server, "client": client, "http": http }),
        };
    }

    /// What the head of a request says.
    pub(super) fn set_http(&mut self, http: &HttpMeta) {
        // What is only compared with the body is another with each request, and nothing for guards.
        let told = |http: &HttpMeta| HttpMeta { mirrored: Mirrored::default(), ..http.clone() };
        let is_known = self.http.as_ref().is_some_and(|known| {
            (&known.protocol_version, &known.traceparent, &known.tracestate, &known.user_agent)
                == (&http.protocol_version, &http.traceparent, &http.tracestate, &http.user_agent)
        });
        if !is_known {
            self.http = Some(told(http));
            self.describe();
        }
    }

    /// What a recording calls it, unless that is the name of the day and its programs say more.
    pub(super) fn give_name(&mut self, server: ServerId) {
        let is_named = self.best.as_ref().is_some_and(|(rank, ..)| *rank > 0);
        self.server = Some(server).filter(|server| !is_named || !discovery::is_temporary(server));
    }

    /// The id it has, or would have if it were announced now.
    pub(super) fn server_id(&self) -> ServerId {
        let derived = || match &self.at {
            Some(at) => Some(at.server_id()),
            None => self.best.as_ref().map(|(_, id, _)| id.clone()),
        };
        (self.server.clone())
            .or_else(|| self.declared.clone())
            .or_else(derived)
            .unwrap_or_else(|| discovery::hashed_id(format!("connection {}", self.id.0).as_bytes()))
    }

    /// How the server is reached.
    pub(super) fn kind(&self) -> ServerType {
        self.at.as_ref().map_or(ServerType::Stdio, |at| at.kind)
    }

    pub(super) fn identity(&self) -> Identity {
        if self.declared.is_some() && !self.is_replaced { Identity::Declared } else { Identity::Derived }
    }

    pub(super) fn matched_by(&self) -> MatchedBy {
        match (&self.declared, &self.server, &self.named) {
            (Some(_), ..) => MatchedBy::Declared,
            (None, Some(_), _) => MatchedBy::Given,
            (None, None, Some(_)) => MatchedBy::Name,
            (None, None, None) => MatchedBy::Behaviour,
        }
    }

    /// Notes whether the last frame of a direction was a message.
    pub(super) fn note_message(&mut self, direction: Direction, is_message: bool) {
        *self.last_of(direction) = is_message;
    }

    /// Whether the last frame of a direction was a message.
    pub(super) fn was_message(&mut self, direction: Direction) -> bool {
        *self.last_of(direction)
    }

    fn last_of(&mut self, direction: Direction) -> &mut bool {
        let [to_server, to_client] = &mut self.last_was_message;
        match direction {
            Direction::ClientToServer => to_server,
            Direction::ServerToClient => to_client,
        }
    }

    /// Memory that is kept of it, about.
    pub(super) fn bytes(&self) -> usize {
        /// A digest in a table that is half full.
        const TOOL_BYTES: usize = 40;
        /// Two small objects; their texts are counted with the programs, of which they are.
        const METADATA_BYTES: usize = 2_048;
        let waiting = match &self.stage {
            Stage::Candidate { waiting, bytes, .. } => bytes + waiting.len() * size_of::<Waiting>(),
            Stage::Server | Stage::Exited => 0,
        };
        let requests: usize = self.pairings().iter().map(|pairing| pairing.bytes()).sum();
        let tools = self.reported.len() * TOOL_BYTES + self.tools_bytes;
        let metadata = if self.metadata.is_null() { 0 } else { METADATA_BYTES + self.chain_bytes };
        // As it is, and within the metadata.
        let http = self.http.as_ref().map_or(0, |http| 2 * http.bytes());
        let at = self.at.as_ref().map_or(0, At::bytes);
        let ids: usize = self.ids.iter().map(|id| size_of::<ServerId>() + id.0.len()).sum();
        let said = self.conversation.bytes();
        size_of::<Self>() + ids + said + waiting + requests + tools + self.chain_bytes + metadata + http + at
    }

    /// Gives up all that can be done without but its requests.
    pub(super) fn shed(&mut self, counters: &mut Counters) {
        if let Stage::Candidate { waiting, bytes, .. } = &mut self.stage {
            let before = waiting.len();
            waiting.retain(|item| matches!(item, Waiting::Gap { .. }));
            *bytes = 0;
            counters.candidate_overflow += (before - waiting.len()) as u64;
        }
        counters.tools_overflow += self.reported.len() as u64;
        self.reported = HashSet::new();
        self.forget_unlisted();
        counters.chain_overflow += self.shorten_chain() as u64;
    }

    /// Counts a frame.
    pub(super) fn count(&mut self, direction: Direction, bytes: u64) {
        *self.totals.frames.of(direction) += 1;
        *self.totals.bytes.of(direction) += bytes;
    }
}
