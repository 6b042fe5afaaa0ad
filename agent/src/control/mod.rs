//! The control socket: how an operator asks the running agent, and tells it what to do.
//!
//! HTTP/1.1 with JSON on a Unix socket; docs/reference/control-socket.md describes it for programs. Requests reach the agent's one task
//! through a bounded channel, each with a place for its one answer: nothing here holds any of the agent's state. Events are
//! followed without asking it.

mod blocks;
pub mod client;
mod followers;
mod peer;
mod pins;
mod server;
mod sessions;
mod socket;
mod status;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use mcpwarden_policy::{Event, config, event::ConfigReloaded};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::network::Who;
pub use blocks::{BlockView, Blocks, NewBlock, OldBlock};
pub use followers::{FollowerCounters, Followers};
pub use pins::{Decided, NewDecision, Waiting};
use server::{Asked, Counts};
pub use sessions::{NewSetting, SetSession};
use socket::{Socket, SocketError};
pub use status::{ConfigStatus, SinkStatus, Status, StoreStatus};

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
/// Where something is set of a session.
pub const SESSIONS: &str = "/v1/sessions";
/// Where events are followed.
pub const EVENTS: &str = "/v1/events";
/// Requests that wait for the agent's task.
const WAITING: usize = 16;

/// What the agent is asked.
#[derive(Debug)]
pub enum Ask {
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
    /// `POST /v1/sessions`
    SetSession(NewSetting),
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
    /// What was set of a session.
    SetSession(Box<SetSession>),
    /// What counts now.
    Reloaded(Box<ConfigReloaded>),
    /// How the agent is.
    Status(Box<Status>),
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs; one of [`Code`].
    pub code: Code,
    /// For people.
    pub message: String,
}

/// Why something is not done, in one word. Each has its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// 400: the request is not understood, or something in it is wrong.
    Unusable,
    /// 403: this user may not.
    Forbidden,
    /// 404: there is no such thing.
    NotFound,
    /// 405: that cannot be done with it.
    Method,
    /// 409: it is done with `"yes": true` alone.
    NeedsYes,
    /// 409: it is not said which of several is meant.
    Ambiguous,
    /// 413: the request is too long.
    TooLong,
    /// 503: the agent starts, ends, or has too much to do.
    Busy,
    /// 500: the agent could not: what it keeps things in failed.
    Failed,
    /// 507: there is no room.
    Full,
}

impl Code {
    fn status(self) -> u16 {
        match self {
            Self::Unusable => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Method => 405,
            Self::NeedsYes | Self::Ambiguous => 409,
            Self::TooLong => 413,
            Self::Busy => 503,
            Self::Failed => 500,
            Self::Full => 507,
        }
    }

    /// A refusal with this code.
    pub fn because(self, message: impl Into<String>) -> Refusal {
        Refusal { code: self, message: message.into() }
    }
}

/// A question, from whom, and where the answer goes.
pub struct Request {
    /// What is asked.
    pub ask: Ask,
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
                "control: there is no group {name} on this host, so only root asks this agent (`groupadd --system {name}` \
                 makes it, or set control.group)"
            );
        }
        let (socket, listener) = Socket::make(path, runtime_dir, groups.read.as_ref())?;
        let (sender, requests) = mpsc::channel(WAITING);
        let counts = Arc::new(Counts::default());
        let followers = Followers::new();
        let asked = Asked { agent: sender, counts: Arc::clone(&counts), followers: followers.clone() };
        tokio::spawn(server::serve(listener, groups, asked));
        Ok(Self { requests, counts, followers, _socket: socket })
    }

    /// The next request.
    pub async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// Hands an event, whose line of JSON is `text`, to those who follow. Never waits.
    pub fn offer(&self, event: &Event, text: &[u8]) {
        self.followers.offer(event, text);
    }

    /// Nothing more will be said: who follows gets what waits, and the end. Waits until they have it.
    pub async fn end_following(&self) {
        self.followers.end();
        self.followers.gone().await;
    }

    /// What came of events for those who follow.
    pub fn followers(&self) -> FollowerCounters {
        self.followers.counters()
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
