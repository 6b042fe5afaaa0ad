//! TCP connections that clients have with servers: from bytes to what the two say to each other.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    time::Duration,
};

use mcpwarden_policy::{
    ConnectionId, Direction, GapCause, Input, Process, Reached, ServerId, Timestamp,
    event::ServerType,
    http::{Http, HttpCounters, HttpLimits, HttpOutput, Peers},
};

use crate::process;

/// How long after its last connection a client's conversation counts as over.
const IDLE: Duration = Duration::from_secs(300);

/// Who has connected, and where to.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The client.
    pub client: Process,
    /// The server's address.
    pub address: SocketAddr,
    /// The declared server that is there.
    pub declared: Option<ServerId>,
}

/// What is to be done in the kernel half about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is an MCP server's: capture all of it.
    Lift(u64),
    /// It is none: capture no more of it.
    Drop(u64),
}

/// A client, and how many connections it has open.
type Client = (u32, u64);

/// All TCP connections.
pub struct Sockets {
    http: Http,
    open: HashMap<u64, Connected>,
    /// Conversations with what is known to be a server.
    confirmed: HashSet<ConnectionId>,
    /// Connections whose capture has no bounds any more.
    lifted: HashSet<u64>,
    /// Clients without a connection that may have ended.
    without: HashSet<Client>,
    wishes: Vec<Wish>,
}

impl Sockets {
    /// None yet.
    pub fn new(message_bytes: usize, held_bytes: usize, streams: usize) -> Self {
        let limits = HttpLimits {
            frame_bytes: message_bytes,
            held_bytes,
            streams,
            idle: IDLE,
            ..HttpLimits::default()
        };
        Self {
            http: Http::new(limits),
            open: HashMap::new(),
            confirmed: HashSet::new(),
            lifted: HashSet::new(),
            without: HashSet::new(),
            wishes: Vec::new(),
        }
    }

    /// A connection was made.
    pub fn open(&mut self, id: u64, connected: Connected, time: Timestamp) {
        let client = key(&connected.client);
        let known = connected.declared.is_some();
        let peers = Peers { client, server: connected.address, known };
        if !self.http.open(ConnectionId(id), peers, time) {
            self.wishes.push(Wish::Drop(id));
            return;
        }
        self.without.remove(&client);
        self.open.insert(id, connected);
    }

    /// Bytes of a connection, in order.
    pub fn push(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        bytes: &[u8],
        time: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let Self { http, open, confirmed, lifted, wishes, .. } = self;
        http.push(id, direction, bytes, time, &mut |output| {
            hand_on(output, time, open, confirmed, lifted, wishes, sink);
        });
    }

    /// Bytes of a connection are missing.
    pub fn gap(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        sink: &mut dyn FnMut(Input<'_>),
    ) {
        let Self { http, open, confirmed, lifted, wishes, .. } = self;
        http.gap(id, direction, bytes, cause, time, &mut |output| {
            hand_on(output, time, open, confirmed, lifted, wishes, sink);
        });
    }

    /// A connection has ended, and everything of it was pushed.
    pub fn close(&mut self, id: u64, time: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        let Self { http, open, confirmed, lifted, wishes, .. } = self;
        http.close(ConnectionId(id), time, &mut |output| {
            hand_on(output, time, open, confirmed, lifted, wishes, sink);
        });
        self.lifted.remove(&id);
        if let Some(connected) = self.open.remove(&id) {
            let client = key(&connected.client);
            if !self.open.values().any(|other| key(&other.client) == client) {
                self.without.insert(client);
            }
        }
    }

    /// Ends what clients said that have ended, or that have said nothing for long.
    pub fn tick(&mut self, time: Timestamp, sink: &mut dyn FnMut(Input<'_>)) {
        let Self { http, open, confirmed, lifted, without, wishes } = self;
        let mut forward =
            |output: HttpOutput<'_>| hand_on(output, time, open, confirmed, lifted, wishes, sink);
        without.retain(|client| {
            let lives = process::lives(client.0, client.1);
            if !lives {
                http.client_ended(*client, time, &mut forward);
            }
            lives
        });
        http.tick(time, &mut forward);
    }

    /// What is said in a conversation is known to be MCP: all its connections are captured as a whole.
    pub fn confirm(&mut self, link: ConnectionId) {
        self.confirmed.insert(link);
        for stream in self.http.streams(link) {
            if self.lifted.insert(stream.0) {
                self.wishes.push(Wish::Lift(stream.0));
            }
        }
    }

    /// What is said in a conversation is known to be no MCP.
    pub fn drop_link(&mut self, link: ConnectionId) {
        self.confirmed.remove(&link);
        self.wishes.extend(self.http.forget(link).into_iter().map(|stream| Wish::Drop(stream.0)));
    }

    /// What the kernel half is to do, since it was asked last.
    pub fn wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// Connections that are open.
    pub fn ids(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    /// What was refused or could not be read.
    pub fn counters(&self) -> HttpCounters {
        self.http.counters()
    }
}

fn key(process: &Process) -> Client {
    (process.pid, process.start_ns)
}

/// What was read, as the policy core wants it.
fn hand_on(
    output: HttpOutput<'_>,
    at: Timestamp,
    open: &HashMap<u64, Connected>,
    confirmed: &mut HashSet<ConnectionId>,
    lifted: &mut HashSet<u64>,
    wishes: &mut Vec<Wish>,
    sink: &mut dyn FnMut(Input<'_>),
) {
    match output {
        HttpOutput::Opened { link, time, stream, path, kind, .. } => {
            let Some(connected) = open.get(&stream.0).cloned() else { return };
            let Connected { client, address, declared } = connected;
            let path = path.to_owned();
            sink(Input::Reached(Reached { connection: link, time, client, address, path, kind, declared }));
        }
        HttpOutput::Frame { link, stream, direction, time, bytes, .. } => {
            if confirmed.contains(&link) && lifted.insert(stream.0) {
                wishes.push(Wish::Lift(stream.0));
            }
            sink(Input::Frame { connection: link, direction, time, bytes });
        }
        HttpOutput::Gap { link, direction, time, bytes, cause } => {
            let (connection, pid, offset) = (link, None, None);
            sink(Input::Gap { connection, direction, time, bytes, cause, pid, offset });
        }
        HttpOutput::NotMcp { stream } => wishes.push(Wish::Drop(stream.0)),
        HttpOutput::Closed { link, time } => {
            confirmed.remove(&link);
            sink(Input::Closed { connection: link, time });
        }
        HttpOutput::Refused { link, time, status, id, .. } => {
            sink(Input::Refused { connection: link, time, status, id });
        }
        HttpOutput::Uninspected { stream, link, why } => {
            let Some(connected) = open.get(&stream.0).cloned() else { return };
            let Connected { client, address, declared } = connected;
            let (connection, path, kind) = (link.unwrap_or(stream), "/".to_owned(), ServerType::Http);
            let reached = Reached { connection, time: at, client, address, path, kind, declared };
            sink(Input::Uninspected { reached, reason: why.to_string() });
        }
    }
}
