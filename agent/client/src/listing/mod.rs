//! Declared servers at addresses, listed by the agent itself, so that what they offer is known before a client asks.
//!
//! A thread of its own asks them, since what a server sends takes time to read, and the reader of the ring must not wait
//! for it. What was said comes to the agent's one task through a bounded channel and goes on to the policy core as a
//! conversation like any other, whose client is the agent.
//!
//! That it can be listed is also what is known of a server's health while no client speaks to it: a server that answers the
//! handshake and its lists is there, so nothing else is sent to find out.

pub(crate) mod credentials;
pub(crate) mod server;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mcpwarden_abi::SOCKET;
use mcpwarden_policy::{
    ConnectionId, Process, ServerId,
    config::{self, Config},
    event::{EventBody, ServerReachable, ServerType, ServerUnreachable, Severity, TlsMismatch},
    guards::denied_servers,
    http::LINK,
};
use tokio::sync::mpsc;

pub use server::Trouble;
use server::{Declared, Listed, Wake};

/// Set in the numbers of these conversations: of the others, links have the one and connections of the kernel half the
/// other, and none has both.
const OWN: u64 = LINK | SOCKET;
/// Most servers that are listed: each stays known to the policy core as long as the agent runs.
const MAX_SERVERS: usize = 256;
/// Reports that wait for the agent's task.
const WAITING: usize = 4;

/// Whether a conversation is the agent's own.
pub fn is_own(connection: ConnectionId) -> bool {
    connection.0 & OWN == OWN
}

/// What came of listing a server once.
pub struct Report {
    /// Which.
    pub server: ServerId,
    /// How it is declared to be reached.
    pub kind: ServerType,
    /// Where it is declared to be, without the query.
    pub url: String,
    /// The conversation's number.
    pub connection: ConnectionId,
    /// The last request of [`Listing::refresh`] that it answers; 0: none.
    pub request: u64,
    /// What was said, or why nothing was.
    pub outcome: Result<Listed, Trouble>,
}

/// What was done, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListingCounters {
    /// Times that a server was listed.
    pub listed: u64,
    /// Times that one could not be.
    pub failed: u64,
    /// Servers beyond `MAX_SERVERS`.
    pub left_out: u64,
}

/// Listing, as the agent's task sees it.
pub struct Listing {
    /// What it goes by.
    plan: Plan,
    /// Conversations that have a number.
    numbered: u64,
    /// Requests to list a server.
    requests: u64,
    /// None where nothing is listed.
    reports: Option<mpsc::Receiver<Report>>,
    /// What has each server be listed before its time.
    wakes: BTreeMap<ServerId, Arc<Wake>>,
    /// This process, the client.
    client: Process,
    /// Of each server: what was said to be wrong with it; `None`: that it was reached.
    reported: HashMap<ServerId, Option<Trouble>>,
    counters: ListingCounters,
}

impl Listing {
    /// Starts to list the declared servers that may be used. `client`: this process, as events name it.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(config: &Config, client: Process) -> Result<Self> {
        Self::begin(Plan::of(config)?, (0, 0), client)
    }

    /// Lists what this configuration declares from now on. Where that is what is listed, nothing happens.
    ///
    /// # Errors
    /// There is no thread for it; what was listed still is.
    pub fn configure(&mut self, config: &Config) -> Result<()> {
        let plan = Plan::of(config)?;
        if plan != self.plan {
            let counters = self.counters;
            *self = Self::begin(plan, (self.numbered, self.requests), self.client.clone())?;
            self.counters = ListingCounters { left_out: self.counters.left_out, ..counters };
        }
        Ok(())
    }

    /// `numbered`: how many conversations have a number already; `requests`: how many were made, which the first listing of each
    /// server answers.
    fn begin(plan: Plan, (numbered, requests): (u64, u64), client: Process) -> Result<Self> {
        let mut servers = plan.numbered(numbered);
        let numbered = numbered + servers.len() as u64;
        let left_out = left_out(servers.len());
        if left_out > 0 {
            tracing::warn!(
                "listing: {left_out} declared servers are not listed: they are more than {MAX_SERVERS}; what clients say \
                 to them is inspected all the same"
            );
            servers.truncate(MAX_SERVERS);
        }
        let wakes: BTreeMap<_, _> =
            servers.iter().map(|server| (server.id().clone(), server.wake())).collect();
        wakes.values().for_each(|wake| wake.answers(requests));
        let mut reports = None;
        if !servers.is_empty() {
            let (sender, receiver) = mpsc::channel(WAITING);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (runtime, every) = (runtime.context("cannot start the runtime")?, plan.every);
            std::thread::Builder::new()
                .name("listing".into())
                .spawn(move || runtime.block_on(server::list_all(servers, every, sender)))
                .context("cannot start the thread that lists servers")?;
            reports = Some(receiver);
        }
        let counters = ListingCounters { left_out: left_out as u64, ..ListingCounters::default() };
        Ok(Self { plan, numbered, requests, reports, wakes, client, reported: HashMap::new(), counters })
    }

    /// Has a server be listed now. The number of the request: the report of it, or of a later one, has seen it. `None`: the server
    /// is none of those that are listed.
    pub fn refresh(&mut self, server: &ServerId) -> Option<u64> {
        let wake = self.wakes.get(server)?;
        self.requests += 1;
        wake.request(self.requests);
        Some(self.requests)
    }

    /// Waits for the next report; for ever where nothing is listed.
    pub async fn next(&mut self) -> Option<Report> {
        match &mut self.reports {
            Some(reports) => reports.recv().await,
            None => std::future::pending().await,
        }
    }

    /// This process, as the client that it is.
    pub fn client(&self) -> Process {
        self.client.clone()
    }

    /// Takes note of a report. What is to be said of it: how the server does, once until that is another.
    pub fn take_note(&mut self, report: &Report) -> Option<EventBody> {
        let trouble = report.outcome.as_ref().err().cloned();
        match trouble {
            None => self.counters.listed += 1,
            Some(_) => self.counters.failed += 1,
        }
        if self.reported.insert(report.server.clone(), trouble.clone()).as_ref() == Some(&trouble) {
            return None;
        }
        let url = report.url.clone();
        Some(match trouble {
            None => ServerReachable { url }.into(),
            Some(Trouble::Unreachable(failure)) => {
                ServerUnreachable { url, reason: failure.why, status: failure.status }.into()
            }
            Some(Trouble::Mismatch(mismatch)) => {
                let (severity, expected, found) = (Severity::Critical, mismatch.expected, mismatch.found);
                TlsMismatch { url, severity, expected, found }.into()
            }
        })
    }

    /// What was done so far, by name.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let ListingCounters { listed, failed, left_out } = self.counters;
        BTreeMap::from([
            ("listing_listed", listed),
            ("listing_failed", failed),
            ("listing_servers_left_out", left_out),
        ])
    }
}

/// How many of so many servers are not listed.
fn left_out(servers: usize) -> usize {
    servers.saturating_sub(MAX_SERVERS)
}

/// Which servers are listed, and how often.
#[derive(Debug, PartialEq)]
struct Plan {
    servers: Vec<config::Server>,
    every: Duration,
}

impl Plan {
    /// The declared servers that may be used.
    fn of(config: &Config) -> Result<Self> {
        let denied = denied_servers(config)?;
        let usable = config.servers.iter().filter(|server| {
            let id = ServerId(server.id.as_str().into());
            server.enabled && server.kind != ServerType::Stdio && !denied.contains_key(&id)
        });
        let servers = if config.discovery.list_declared { usable.cloned().collect() } else { Vec::new() };
        Ok(Self { servers, every: config.discovery.list_every.0 })
    }

    /// Each with the number of its conversation, from this on.
    fn numbered(&self, from: u64) -> Vec<Declared> {
        let numbered = self.servers.iter().zip(from..);
        numbered.filter_map(|(server, number)| Declared::new(server, ConnectionId(OWN | number))).collect()
    }
}

#[cfg(test)]
mod tests;
