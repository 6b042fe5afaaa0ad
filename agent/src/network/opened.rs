//! Connections that are open: those that were when the agent started, whose they are, and those to what became denied, which
//! are closed.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc, time::Duration};

use mcpwarden_abi::{self as abi, Member};
use mcpwarden_policy::{
    Connect, ConnectionId, Timestamp,
    event::{NetworkClosed, Protocol},
    network::{Entry, Judgement, Table, Verdict},
};

use super::{
    Network, index,
    sockets::{self, Closed, Connected, Skipped},
};
use crate::host::{clock::Clock, process};

/// How long a connection may take from being judged to being listed.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// Connections that were open when the agent started and of which something is said, at most; and those since then that are
/// told from them.
const ADOPTED: usize = 16_384;

/// Who connected to what.
pub(super) type Flow = (u32, SocketAddr, Protocol);

/// Which processes belong to servers, and whose rules hold for them.
#[derive(Debug, Default)]
pub struct Belonging {
    /// What each process (tgid) belongs to.
    pub members: HashMap<u32, Member>,
    /// The connections that are servers', and the set of rules of each.
    pub sets: HashMap<u64, u32>,
}

/// What was open.
#[derive(Debug, Default)]
pub struct Opened {
    /// When the agent started, and said of nobody yet.
    pub adopted: Vec<Connect>,
    /// To denied addresses.
    pub closed: Vec<NetworkClosed>,
    /// Of `adopted`: for which there was no room.
    unreported: u64,
    skipped: Skipped,
}

impl Network {
    /// Begins to look for what was open when the agent started, and closes what is denied of it.
    ///
    /// Where only a part of the cgroups is watched, nothing is looked for: whose socket one is would not be known.
    pub fn adopt(&mut self, belonging: Belonging, clock: &Clock) {
        let Some((generation, table)) = self.tables.back() else { return };
        if self.partial {
            return;
        }
        self.closed_for = *generation;
        let (table, now, loopback) = (Arc::clone(table), clock.now(), self.loopback());
        let own = self.netns_cookie;
        self.looking = Some(tokio::task::spawn_blocking(move || {
            std::thread::sleep(UNDER_WAY);
            let judging = Judging { table: &table, now, loopback, own };
            judging.adopted(&belonging)
        }));
    }

    /// Begins to close what is open to what the latest table denies, unless that was done or the same is still being
    /// done for the table before.
    ///
    /// Where only a part of the cgroups is watched, nothing is closed: whose socket one is would not be known.
    pub fn close(&mut self, clock: &Clock) {
        let Some((generation, table)) = self.tables.back() else { return };
        // What was open before is closed when it is known whose it is.
        let at_start = self.since_start.is_some();
        if self.partial || at_start || self.looking.is_some() || self.closed_for == *generation {
            return;
        }
        self.closed_for = *generation;
        let denies = |entry: &Entry| entry.set == 0 && (entry.enforced || entry.blocked_until.is_some());
        if !table.entries().iter().any(denies) {
            return;
        }
        let (table, now, loopback) = (Arc::clone(table), clock.now(), self.loopback());
        let own = self.netns_cookie;
        self.looking = Some(tokio::task::spawn_blocking(move || {
            std::thread::sleep(UNDER_WAY);
            let judging = Judging { table: &table, now, loopback, own };
            judging.closed()
        }));
    }

    /// What was found, without what the kernel half has told already.
    pub(super) fn looked(&mut self, opened: Option<io::Result<Opened>>) -> Opened {
        let since = self.since_start.take().unwrap_or_default();
        let mut opened = match opened {
            Some(Ok(opened)) => opened,
            failed => {
                let why =
                    failed.and_then(Result::err).map_or_else(|| "it failed".into(), |why| why.to_string());
                tracing::error!(
                    "network: cannot list open connections: {why}; connections to denied addresses may stay open"
                );
                self.counters.closings_failed += 1;
                return Opened::default();
            }
        };
        let Skipped { namespaces, why } = &opened.skipped;
        if let Some(why) = why {
            tracing::warn!("network: cannot list open connections in {namespaces} network namespaces: {why}");
            self.counters.closings_failed += namespaces;
        }
        self.counters.adopted_unreported += opened.unreported;
        let is_reported = |connect: &Connect| {
            let remote = SocketAddr::new(connect.address, connect.port);
            since.contains(&(connect.process.pid, remote, connect.protocol))
        };
        opened.adopted.retain(|connect| !is_reported(connect));
        opened
    }

    /// Remembers what is connected while it is not known what was open before.
    pub(super) fn connected_since(&mut self, flow: Flow) {
        if let Some(since) = self.since_start.as_mut().filter(|since| since.len() < ADOPTED) {
            since.insert(flow);
        }
    }

    /// The network namespace whose loopback the rules mean; `None`: that of every one.
    pub(super) fn loopback(&self) -> Option<u64> {
        (self.flags & abi::NETWORK_ANY_NETNS == 0).then_some(self.netns_cookie)
    }
}

/// What sockets are judged by.
struct Judging<'a> {
    table: &'a Table,
    now: Timestamp,
    /// The network namespace whose loopback the rules mean; `None`: that of every one.
    loopback: Option<u64>,
    /// That of the agent.
    own: u64,
}

impl Judging<'_> {
    /// Closes what is open to what is denied to everybody.
    fn closed(&self) -> io::Result<Opened> {
        let mut closed = Closed::new();
        let skipped = sockets::each(&mut |diag, socket| {
            let Some(judgement) = self.judge(None, socket).filter(|judgement| judgement.enforced) else {
                return;
            };
            diag.destroy(socket, self.table.reason(None, judgement), &mut closed);
        })?;
        Ok(Opened { closed: closed.into_values().collect(), skipped, ..Opened::default() })
    }

    /// Finds out whose each open socket is, and closes what is denied to whoever that is.
    fn adopted(&self, belonging: &Belonging) -> io::Result<Opened> {
        let holders = process::holders_of_sockets();
        let (mut opened, mut closed) = (Opened::default(), Closed::new());
        let skipped = sockets::each(&mut |diag, socket| {
            let holder = holders.get(&socket.inode).and_then(|pids| belonging.nearest(pids));
            let Some(found) = self.whose(belonging, holder, socket) else { return };
            let reason = self.table.reason(found.set, found.judgement);
            let gone = found.judgement.enforced && diag.destroy(socket, reason.clone(), &mut closed);
            let Some(pid) = holder.filter(|pid| *pid != std::process::id() && found.is_reportable()) else {
                return;
            };
            if opened.adopted.len() >= ADOPTED {
                opened.unreported += 1;
                return;
            }
            opened.adopted.push(self.connect(pid, socket, &found, reason, gone));
        })?;
        Ok(Opened { closed: closed.into_values().collect(), skipped, ..opened })
    }

    /// What is said of a destination to processes that go by a set of rules. `None`: it is the loopback of a network
    /// namespace that no rule means.
    fn judge(&self, set: Option<u32>, socket: &Connected) -> Option<Judgement> {
        let (ip, port) = (socket.remote.ip(), socket.remote.port());
        let elsewhere = ip.is_loopback() && self.loopback.is_some_and(|own| own != socket.netns);
        let everywhere = (!elsewhere).then(|| self.table.look_up(set, ip, port, self.now));
        if everywhere.is_some_and(|judgement| judgement.verdict == Verdict::Deny) {
            return everywhere;
        }
        self.table.look_up_in(socket.netns, ip, port).or(everywhere)
    }

    /// As the kernel half decides (`ask_server` of ebpf/src/connect.rs): by the rules of the nearest server, or of one above it
    /// that denies.
    fn whose(&self, belonging: &Belonging, pid: Option<u32>, socket: &Connected) -> Option<Found> {
        let member = pid.and_then(|pid| belonging.members.get(&pid)).copied().unwrap_or_default();
        let mut nearest = None;
        for connection in member.connections.into_iter().filter(|id| *id != 0) {
            let Some(set) = belonging.sets.get(&connection).copied() else { continue };
            let found = Found { connection, set: Some(set), judgement: self.judge(Some(set), socket)? };
            if found.judgement.verdict == Verdict::Deny {
                return Some(found);
            }
            nearest.get_or_insert(found);
        }
        let [candidate, ..] = member.connections;
        let nobodys =
            || Some(Found { connection: candidate, set: None, judgement: self.judge(None, socket)? });
        nearest.or_else(nobodys)
    }

    fn connect(
        &self,
        pid: u32,
        socket: &Connected,
        found: &Found,
        reason: Option<String>,
        gone: bool,
    ) -> Connect {
        let Found { connection, judgement, .. } = *found;
        let server = index(judgement.server).and_then(|place| self.table.servers().get(place));
        let server = server.filter(|server| !server.is_model);
        Connect {
            time: self.now,
            connection: (connection != 0).then_some(ConnectionId(connection)),
            process: process::of(pid),
            address: socket.remote.ip(),
            port: socket.remote.port(),
            protocol: socket.protocol,
            family: socket.family,
            name: None,
            server: server.map(|server| (server.id.clone(), server.kind)),
            verdict: judgement.verdict,
            enforced: gone,
            reason,
            adopted: true,
            netns: (socket.netns != self.own).then_some(socket.netns),
        }
    }
}

/// Whose a socket is, and what is said of it.
struct Found {
    /// Of the server; 0: of none.
    connection: u64,
    set: Option<u32>,
    judgement: Judgement,
}

impl Found {
    /// Whether there is anything to say: the same that the kernel half tells of.
    fn is_reportable(&self) -> bool {
        self.connection != 0 || self.judgement.server != 0 || self.judgement.verdict == Verdict::Deny
    }
}

impl Belonging {
    /// Of those that hold a socket the one that belongs to a server, the first where there are several.
    fn nearest(&self, pids: &[u32]) -> Option<u32> {
        pids.iter().copied().min_by_key(|pid| (!self.members.contains_key(pid), *pid))
    }
}
