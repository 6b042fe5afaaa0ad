//! The control socket: how an operator asks the running agent, and tells it what to do.
//!
//! HTTP/1.1 with JSON on a Unix socket; docs/reference/control-socket.md describes it for programs. Requests reach the agent's one task
//! through a bounded channel, each with a place for its one answer: nothing here holds any of the agent's state. Events are
//! followed without asking it.

mod blocks;
pub mod client;
mod followers;
mod listings;
mod mutes;
mod peer;
mod pins;
mod refusal;
mod server;
mod sessions;
mod socket;
mod status;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mcpwarden_policy::{config, event::ConfigReloaded};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::network::Who;
pub use blocks::{BlockView, Blocks, NewBlock, OldBlock};
pub use followers::{FollowerCounters, Followers};
pub use listings::{ListingView, Listings, NewListing, RequestedListing};
pub use mutes::{ChangedMute, Mutes, NewMute, OldMute};
pub use pins::{Decided, NewDecision, NewLimits, Waiting};
pub use refusal::{Code, Refusal};
use server::{Counts, Service};
pub use sessions::{NewSetting, SetSession};
use socket::{Socket, SocketError};
pub use status::{ConfigStatus, GateStatus, SinkStatus, Status, StoreStatus};

/// The socket's name in its directory.
pub const SOCKET: &str = "control.sock";
/// Where blocks are.
pub const BLOCKS: &str = "/v1/blocks";
/// Where what waits for a decision is.
pub const APPROVALS: &str = "/v1/approvals";
/// Where the agent says how it is.
pub const STATUS: &str = "/v1/status";
/// Where the configuration is read again.
pub const RELOAD: &str = "/v1/reload";
/// Where decisions are made.
pub const PINS: &str = "/v1/pins";
/// Where detections are muted.
pub const MUTES: &str = "/v1/mutes";
/// Where declared servers are listed.
pub const LISTINGS: &str = "/v1/listings";
/// Where something is set of a session.
pub const SESSIONS: &str = "/v1/sessions";
/// Where events are followed.
pub const EVENTS: &str = "/v1/events";
/// Requests that wait for the agent's task.
const WAITING: usize = 16;

/// What an operator requests.
#[derive(Debug)]
pub enum Operation {
    /// `GET /v1/blocks`
    Blocks,
    /// `POST /v1/blocks`
    Block(NewBlock),
    /// `DELETE /v1/blocks`
    Unblock(OldBlock),
    /// `GET /v1/approvals`
    Approvals,
    /// `POST /v1/pins`
    Decide(NewDecision),
    /// `GET /v1/mutes`
    Mutes,
    /// `POST /v1/mutes`
    Mute(NewMute),
    /// `DELETE /v1/mutes`
    Unmute(OldMute),
    /// `POST /v1/sessions`
    SetSession(NewSetting),
    /// `GET /v1/listings`
    Listings,
    /// `POST /v1/listings`
    List(NewListing),
    /// `POST /v1/reload`
    Reload,
    /// `GET /v1/status`
    Status,
}

/// What the agent answers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// All of them.
    Blocks(Blocks),
    /// The one that was made or lifted.
    Block(Box<BlockView>),
    /// All that wait.
    Waiting(Waiting),
    /// What was decided.
    Decided(Decided),
    /// All mutes.
    Mutes(Mutes),
    /// What was muted, or is no longer.
    Muted(Box<ChangedMute>),
    /// The last listing of each server.
    Listings(Listings),
    /// The one that was requested.
    Requested(RequestedListing),
    /// What was set of a session.
    SetSession(Box<SetSession>),
    /// What counts now.
    Reloaded(Box<ConfigReloaded>),
    /// How the agent is.
    Status(Box<Status>),
}

/// A question, from whom, and where the answer goes.
pub struct Request {
    /// What is requested.
    pub operation: Operation,
    /// By whom: they may.
    pub by: Who,
    /// Takes the answer. Whoever asked may be gone.
    pub answer: oneshot::Sender<Result<Answer, Refusal>>,
}

/// What came of requests, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// All that were read.
    pub requests: u64,
    /// Connections for which there was no place.
    pub connections_refused: u64,
    /// Requests of users who may not.
    pub forbidden: u64,
    /// Requests that were not understood, or too long.
    pub unusable: u64,
    /// Connections that took too long.
    pub timed_out: u64,
}

/// The socket, and what is asked there.
pub struct Control {
    requests: mpsc::Receiver<Request>,
    counts: Arc<Counts>,
    followers: Followers,
    /// Removed from its directory with this.
    _socket: Socket,
}

impl Control {
    /// Makes the socket and begins to take requests, which wait for [`Control::next`]. To be called within a runtime.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn start(config: &config::Control, runtime_dir: &Path) -> Result<Self, SocketError> {
        let path =
            config.socket.as_ref().map_or_else(|| runtime_dir.join(SOCKET), |path| path.as_str().into());
        let groups = peer::Groups::of(config);
        // Any other is one that the configuration names, and was warned of with it.
        if groups.read.is_none() && config.group == config::Control::default().group {
            let name = &config.group;
            tracing::warn!(
                "control: the group {name} does not exist on this host, so only root can query this agent (`groupadd --system {name}` \
                 creates it, or set control.group)"
            );
        }
        let (socket, listener) = Socket::make(path, runtime_dir, groups.read.as_ref())?;
        let (sender, requests) = mpsc::channel(WAITING);
        let counts = Arc::new(Counts::default());
        let followers = Followers::new();
        let service = Service { agent: sender, counts: Arc::clone(&counts), followers: followers.clone() };
        tokio::spawn(server::serve(listener, groups, service));
        Ok(Self { requests, counts, followers, _socket: socket })
    }

    /// The next request.
    pub async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// Those who follow events.
    pub fn followers(&self) -> Followers {
        self.followers.clone()
    }

    /// What came of requests so far.
    pub fn counters(&self) -> ControlCounters {
        self.counts.read()
    }
}

/// Where the socket is, where nobody says otherwise.
pub fn default_socket() -> PathBuf {
    Path::new("/run/mcpwarden").join(SOCKET)
}
