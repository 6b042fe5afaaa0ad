//! Connections of sockets that clients have with servers: from bytes to what the two say to each other.

mod connected;
mod framing;
mod models;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use mcpwarden_abi::{SOCKET, SoFar};
use mcpwarden_policy::{
    ConnectionId, Direction, GapCause, Input, Process, ServerAddress, Timestamp,
    event::ServerType,
    http::{Http, HttpCounters, HttpLimits, HttpOutput, Peers},
    network,
};

use crate::{
    output::{KernelAction, Output, Sink},
    over_tls::{OverTls, TlsCounters},
    process::Processes,
};

pub use connected::Connected;
pub use framing::Framing;
use models::Models;

/// How long after its last connection a client's conversation counts as over.
const IDLE: Duration = Duration::from_secs(300);

/// A client: its process, and when that started.
type Client = (u32, u64);

/// Connections that are known to be servers'.
#[derive(Default)]
struct Lifted {
    connections: HashSet<u64>,
    /// How often one came or went.
    changes: u64,
}

impl Lifted {
    /// Whether it is new.
    fn insert(&mut self, id: u64) -> bool {
        let is_new = self.connections.insert(id);
        self.changes += u64::from(is_new);
        is_new
    }

    fn remove(&mut self, id: u64) {
        self.changes += u64::from(self.connections.remove(&id));
    }
}

/// All connections of sockets.
pub struct Sockets {
    http: Http,
    /// Most connections at once, and of one user.
    most: usize,
    most_of_user: usize,
    by_user: HashMap<Option<u32>, usize>,
    refused: u64,
    open: HashMap<u64, Connected>,
    /// How those are read over which something has gone.
    framings: HashMap<u64, Framing>,
    /// How many of these each client has.
    counts: HashMap<Client, usize>,
    /// Conversations with what is known to be a server.
    confirmed: HashSet<ConnectionId>,
    /// Connections whose capture has no bounds any more.
    lifted: Lifted,
    /// What is known of those over TLS.
    over_tls: OverTls,
    models: Models,
    /// Clients without a connection that may have ended.
    without: HashSet<Client>,
    outside: &'static dyn Processes,
}

impl Sockets {
    /// None yet.
    pub fn new(
        message_bytes: usize,
        held_bytes: usize,
        streams: usize,
        outside: &'static dyn Processes,
    ) -> Self {
        let limits = HttpLimits {
            frame_bytes: message_bytes,
            held_bytes,
            streams,
            idle: IDLE,
            ..HttpLimits::default()
        };
        Self {
            http: Http::new(limits),
            most: streams,
            most_of_user: streams / 4,
            by_user: HashMap::new(),
            refused: 0,
            open: HashMap::new(),
            framings: HashMap::new(),
            counts: HashMap::new(),
            confirmed: HashSet::new(),
            lifted: Lifted::default(),
            over_tls: OverTls::default(),
            models: Models::default(),
            without: HashSet::new(),
            outside,
        }
    }

    /// A connection was made.
    pub fn open(&mut self, id: u64, connected: Connected, sink: &mut Sink<'_>) {
        let client = key(&connected.client);
        // There must be room for servers over stdio, whoever makes how many connections.
        let key_of_kernel = connected.key;
        let crowded = self.open.len() >= self.most || self.of_user(connected.client.uid) >= self.most_of_user;
        if crowded {
            self.refused += 1;
            sink(Output::Kernel(KernelAction::Drop { key: key_of_kernel, number: id }));
            return;
        }
        *self.by_user.entry(connected.client.uid).or_default() += 1;
        self.without.remove(&client);
        if self.open.insert(id, connected).is_none() {
            *self.counts.entry(client).or_default() += 1;
        }
    }

    /// There is no capacity for a connection.
    pub fn refuse(&mut self, id: u64, key: u64, sink: &mut Sink<'_>) {
        self.refused += 1;
        sink(Output::Kernel(KernelAction::Drop { key, number: id }));
    }

    /// How a connection is read: as its first bytes say, where that is not known yet. They are `None` where they are missing.
    pub fn framing(
        &mut self,
        id: ConnectionId,
        first: Option<&[u8]>,
        time: Timestamp,
        sink: &mut Sink<'_>,
    ) -> Option<Framing> {
        if let Some(known) = self.framings.get(&id.0) {
            return Some(*known);
        }
        let connected = self.open.get(&id.0)?;
        let framing = match first {
            _ if connected.is_in_lines => Framing::Lines,
            Some(bytes) => Framing::of(bytes)?,
            None => Framing::Http,
        };
        let begun = match (framing, &connected.address) {
            (Framing::Lines, address) => {
                let kind = match address {
                    ServerAddress::Internet(_) => ServerType::Tcp,
                    ServerAddress::Unix(_) => ServerType::Unix,
                };
                let reached = connected.clone().reached(id, time, None, String::new(), kind);
                sink(Input::Reached(reached).into());
                true
            }
            (_, ServerAddress::Internet(address)) => {
                let server = network::Endpoint { address: *address, netns: connected.netns };
                let known = !connected.declared.is_empty();
                self.http.open(
                    id,
                    Peers { client: key(&connected.client), server, known, others: connected.is_model },
                    time,
                )
            }
            // HTTP over Unix sockets is not read.
            (_, ServerAddress::Unix(_)) => false,
        };
        let framing = if begun { framing } else { Framing::Unwanted };
        if !begun {
            sink(Output::Kernel(KernelAction::Drop { key: connected.key, number: id.0 }));
        }
        self.framings.insert(id.0, framing);
        Some(framing)
    }

    /// Bytes of a connection that speaks HTTP, in order.
    pub fn push(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        bytes: &[u8],
        time: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        self.read(time, sink, |http, sink| http.push(id, direction, bytes, time, sink));
    }

    /// Has HTTP be read, and hands on what comes of that.
    fn read(
        &mut self,
        time: Timestamp,
        sink: &mut Sink<'_>,
        work: impl FnOnce(&mut Http, &mut dyn FnMut(HttpOutput<'_>)),
    ) {
        let Self { http, open, confirmed, lifted, models, .. } = self;
        let mut known = Known { open, confirmed, lifted, models };
        work(http, &mut |output| hand_on(output, time, &mut known, sink));
        for stream in self.models.take_new() {
            self.http.want_others(stream);
            // What models answer is longer than what tells a server from others.
            if let Some(connected) = self.open.get(&stream.0)
                && self.lifted.insert(stream.0)
            {
                sink(Output::Kernel(KernelAction::Lift(connected.key)));
            }
        }
    }

    /// The gate has overwritten some of the request that is in progress on a connection.
    pub fn neutralized(&mut self, id: ConnectionId) {
        self.http.neutralized(id);
    }

    /// The gate has refused a write of these bytes to a connection that speaks HTTP.
    pub fn write_refused(&mut self, id: ConnectionId, bytes: &[u8], time: Timestamp, sink: &mut Sink<'_>) {
        self.read(time, sink, |http, sink| http.refused(id, bytes, time, sink));
    }

    /// The conversation that something went over a connection of last.
    pub fn link_of(&self, id: ConnectionId) -> Option<ConnectionId> {
        self.http.link_of(id)
    }

    /// The connections that something of a conversation went over.
    pub fn streams(&self, link: ConnectionId) -> impl Iterator<Item = ConnectionId> {
        self.http.streams(link)
    }

    /// How often connections that are known to be servers' came and went.
    pub fn changes(&self) -> u64 {
        self.lifted.changes
    }

    /// Bytes of a connection are missing.
    pub fn gap(
        &mut self,
        id: ConnectionId,
        direction: Direction,
        bytes: u64,
        cause: GapCause,
        time: Timestamp,
        sink: &mut Sink<'_>,
    ) {
        self.read(time, sink, |http, sink| http.gap(id, direction, bytes, cause, time, sink));
    }

    /// A connection has ended, and everything of it was pushed.
    pub fn close(&mut self, id: u64, time: Timestamp, sink: &mut Sink<'_>) {
        self.read(time, sink, |http, sink| http.close(ConnectionId(id), time, sink));
        self.models.close(ConnectionId(id), time, sink);
        self.lifted.remove(id);
        sink(Output::Kernel(KernelAction::Ended(id)));
        if self.framings.remove(&id) == Some(Framing::Lines) {
            sink(Input::Closed { connection: ConnectionId(id), time }.into());
        }
        self.over_tls.forget(id);
        let Some(connected) = self.open.remove(&id) else { return };
        if let Some(count) = self.by_user.get_mut(&connected.client.uid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_user.remove(&connected.client.uid);
            }
        }
        let client = key(&connected.client);
        let left = self.counts.get(&client).map_or(0, |count| count.saturating_sub(1));
        if left > 0 {
            self.counts.insert(client, left);
            return;
        }
        self.counts.remove(&client);
        self.over_tls.note(client.0, None);
        if self.http.is_linked(client) {
            self.without.insert(client);
        }
    }

    /// Why the TLS of a process is not read; `None` where it is.
    pub fn note_tls(&mut self, pid: u32, unread: Option<String>) {
        if self.counts.keys().any(|client| client.0 == pid) {
            self.over_tls.note(pid, unread);
        }
    }

    /// What was counted of connections over TLS.
    pub fn tls_counters(&self) -> TlsCounters {
        self.over_tls.counters()
    }

    /// How far a connection is: of one over TLS, what passed unread is reported.
    pub fn look_at_tls(&mut self, id: u64, now: &SoFar, is_over: bool, at: Timestamp, sink: &mut Sink<'_>) {
        let Some(connected) = self.open.get(&id).filter(|connected| connected.is_over_tls) else { return };
        let Some(reason) = self.over_tls.look(id, connected.client.pid, now, is_over) else { return };
        let path = "/".to_owned();
        let reached = connected.clone().reached(ConnectionId(id), at, None, path, ServerType::Http);
        sink(Input::Uninspected { reached, reason }.into());
    }

    /// Ends what clients said that have ended, or that have said nothing for long.
    pub fn tick(&mut self, time: Timestamp, sink: &mut Sink<'_>) {
        let (mut without, outside) = (std::mem::take(&mut self.without), self.outside);
        self.read(time, sink, |http, sink| {
            without.retain(|client| {
                let lives = outside.lives(client.0, client.1);
                if !lives {
                    http.client_ended(*client, time, sink);
                }
                lives && http.is_linked(*client)
            });
            http.tick(time, sink);
        });
        self.without = without;
    }

    /// What is said in a conversation is known to be MCP: all its connections are captured as a whole.
    pub fn confirm(&mut self, link: ConnectionId, sink: &mut Sink<'_>) {
        if link.0 & SOCKET != 0 {
            if let Some(connected) = self.open.get(&link.0)
                && self.lifted.insert(link.0)
            {
                sink(Output::Kernel(KernelAction::Lift(connected.key)));
            }
            return;
        }
        self.confirmed.insert(link);
        for stream in self.http.streams(link) {
            if let Some(connected) = self.open.get(&stream.0)
                && self.lifted.insert(stream.0)
            {
                sink(Output::Kernel(KernelAction::Lift(connected.key)));
                sink(Output::Kernel(KernelAction::Found(connected.endpoint, true)));
            }
        }
    }

    /// What is said in a conversation is known to be no MCP.
    pub fn drop_link(&mut self, link: ConnectionId, sink: &mut Sink<'_>) {
        if link.0 & SOCKET != 0 {
            if let Some(Connected { key, .. }) = self.open.get(&link.0) {
                self.framings.insert(link.0, Framing::Unwanted);
                sink(Output::Kernel(KernelAction::Drop { key: *key, number: link.0 }));
            }
            return;
        }
        self.confirmed.remove(&link);
        for ConnectionId(number) in self.http.forget(link) {
            if let Some(Connected { key, .. }) = self.open.get(&number) {
                sink(Output::Kernel(KernelAction::Drop { key: *key, number }));
            }
        }
    }

    /// Whether a connection was open before the agent started.
    pub fn is_adopted(&self, id: ConnectionId) -> bool {
        self.open.get(&id.0).is_some_and(|connected| connected.adopted)
    }

    /// The key of a connection that is open.
    pub fn key(&self, id: u64) -> Option<u64> {
        self.open.get(&id).map(|connected| connected.key)
    }

    /// Connections that were refused, since there are many or this user has many.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn of_user(&self, uid: Option<u32>) -> usize {
        self.by_user.get(&uid).copied().unwrap_or(0)
    }

    /// What was refused or could not be read.
    pub fn counters(&self) -> HttpCounters {
        self.http.counters()
    }
}

fn key(process: &Process) -> Client {
    (process.pid, process.start_ns)
}

/// A connection carries messages of a conversation: of one that is MCP, it is captured as a whole.
fn lift(
    link: ConnectionId,
    stream: ConnectionId,
    open: &HashMap<u64, Connected>,
    confirmed: &HashSet<ConnectionId>,
    lifted: &mut Lifted,
    sink: &mut Sink<'_>,
) {
    if confirmed.contains(&link)
        && let Some(connected) = open.get(&stream.0)
        && lifted.insert(stream.0)
    {
        sink(Output::Kernel(KernelAction::Lift(connected.key)));
    }
}

/// What is known of connections, while something is read of one.
struct Known<'a> {
    open: &'a HashMap<u64, Connected>,
    confirmed: &'a mut HashSet<ConnectionId>,
    lifted: &'a mut Lifted,
    models: &'a mut Models,
}

/// What was read, as the policy core wants it.
fn hand_on(output: HttpOutput<'_>, at: Timestamp, known: &mut Known<'_>, sink: &mut Sink<'_>) {
    let Known { open, confirmed, lifted, models } = known;
    match output {
        HttpOutput::Opened { link, time, stream, host, path, kind, .. } => {
            let Some(connected) = open.get(&stream.0).cloned() else { return };
            let (host, path) = (host.map(str::to_owned), path.to_owned());
            sink(Input::Reached(connected.reached(link, time, host, path, kind)).into());
        }
        HttpOutput::Frame { link, stream, direction, time, bytes, meta } => {
            lift(link, stream, open, confirmed, lifted, sink);
            sink(
                Input::Frame { connection: link, direction, time, bytes, http: Some(meta), turn: None }
                    .into(),
            );
        }
        HttpOutput::Stopped { link, stream, time, bytes, is_refused } => {
            lift(link, stream, open, confirmed, lifted, sink);
            sink(Input::Stopped { connection: link, time, bytes, is_refused }.into());
        }
        HttpOutput::Gap { link, direction, time, bytes, cause } => {
            let (connection, pid, offset) = (link, None, None);
            sink(Input::Gap { connection, direction, time, bytes, cause, pid, offset }.into());
        }
        HttpOutput::NotMcp { stream: ConnectionId(number) } => {
            if let Some(Connected { key, endpoint, .. }) = open.get(&number) {
                sink(Output::Kernel(KernelAction::Drop { key: *key, number }));
                sink(Output::Kernel(KernelAction::Found(*endpoint, false)));
            }
        }
        HttpOutput::Closed { link, time } => {
            confirmed.remove(&link);
            sink(Input::Closed { connection: link, time }.into());
        }
        HttpOutput::Refused { link, time, status, id, .. } => {
            sink(Input::Refused { connection: link, time, status, id }.into());
        }
        HttpOutput::OtherRequest { stream, exchange, time, host, bytes } => {
            if let Some(connected) = open.get(&stream.0) {
                models.request(connected, (stream, exchange), (host, bytes), time, sink);
            }
        }
        HttpOutput::OtherAnswer { .. } | HttpOutput::OtherEnd { .. } => models.answer(&output, sink),
        HttpOutput::Uninspected { stream, link, why } => {
            let Some(connected) = open.get(&stream.0).cloned() else { return };
            let connection = link.unwrap_or(stream);
            let reached = connected.reached(connection, at, None, "/".to_owned(), ServerType::Http);
            sink(Input::Uninspected { reached, reason: why.to_string() }.into());
        }
    }
}

#[cfg(test)]
mod tests;
