//! Requests that take several tries: which state a server gave for which of them, and how they began.

use serde_json::Value;

use super::fingerprint::Fingerprint;
use super::ledger::{Bounds, Digest, Ledger};
use super::memory::User;
use crate::guard::DenialCode;
use crate::terms::{ConnectionId, GuardKind, SessionId, Timestamp};

/// Most tries that count as one request; one after them is a request of its own. The official Python client gives up after ten.
pub(super) const MAX_ROUNDS: u32 = 32;

/// Which guard denies, and why.
pub(super) type Denied = Option<(GuardKind, DenialCode)>;

/// Whose something is: the user of the client, and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) user: User,
    pub(super) server: Digest,
}

/// What a request asks for, whichever try it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asks {
    /// Method and params.
    pub(super) request: Fingerprint,
    /// The method, and what it is about: a tool, a prompt, a resource.
    pub(super) about: Digest,
}

/// The first try of a request.
#[derive(Clone, Debug)]
pub(super) struct First {
    /// Its id, as it is recorded.
    pub(super) id: Value,
    pub(super) time: Timestamp,
    /// Tries that followed.
    pub(super) rounds: u32,
    /// What guards said of it.
    pub(super) denied: Denied,
    /// Whether a limited approval let it pass.
    pub(super) approved: bool,
}

/// A request as one of several tries.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// What it asks for; `None` where it belongs to a revision without rounds.
    pub(super) asks: Option<Asks>,
    /// How it began.
    pub(super) first: Option<Box<First>>,
    /// The task that it is about.
    pub(super) task: Option<Digest>,
}

impl Attempt {
    /// It is a first try, unless it goes on with another one.
    pub(super) fn begin(&mut self, id: &Value, time: Timestamp, denied: Denied, approved: bool) {
        if self.asks.is_some() && self.first.is_none() {
            self.first = Some(Box::new(First { id: id.clone(), time, rounds: 0, denied, approved }));
        }
    }

    /// Memory that it takes beside itself, about.
    pub(super) fn heap_bytes(&self) -> usize {
        let id = |first: &First| first.id.as_str().map_or(0, str::len);
        self.first.as_ref().map_or(0, |first| size_of::<First>() + id(first))
    }
}

/// How a state comes back that was not given for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misuse {
    /// Nobody was given it.
    NeverGiven,
    /// It came back before.
    Reused,
    OtherArguments,
    OtherTool,
    OtherUser,
    OtherServer,
}

impl Misuse {
    /// In words, as the evidence has it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NeverGiven => "never given",
            Self::Reused => "used before",
            Self::OtherArguments => "given for other arguments",
            Self::OtherTool => "given for another request",
            Self::OtherUser => "given to another user",
            Self::OtherServer => "given by another server",
        }
    }
}

/// A state that was given.
#[derive(Debug)]
struct Given {
    owner: Owner,
    connection: ConnectionId,
    asks: Option<Asks>,
    /// How often it was given and has not come back.
    unused: u32,
    /// The session of the request that goes on with it, and how that began.
    goes_on: Option<(SessionId, First)>,
}

/// The states that were given.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    given: Ledger<Given>,
    /// When the first request was seen that may be one of several tries.
    since: Option<Timestamp>,
}

/// Who comes back with a state, or was given one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) owner: Owner,
    pub(super) session: &'a SessionId,
    pub(super) connection: ConnectionId,
}

impl Holder<'_> {
    /// What stands for the state where a server gives none: its request, by this client.
    pub(super) fn stateless(&self, asks: &Asks) -> Digest {
        let user = self.owner.user.map_or([0; 5], |user| {
            let [a, b, c, d] = user.to_le_bytes();
            [1, a, b, c, d]
        });
        let session = self.session.0.as_bytes();
        Digest::of(&[b"no state", &user, self.owner.server.bytes(), session, asks.request.bytes()])
    }
}

impl Rounds {
    /// Notes that requests are seen, and for how long by `now`.
    pub(super) fn seen_for(&mut self, now: Timestamp) -> u64 {
        now.nanos_since(*self.since.get_or_insert(now))
    }

    /// A server gave a state; `first`: the request goes on with it. How many were put out for room.
    pub(super) fn give(
        &mut self,
        holder: &Holder<'_>,
        state: Digest,
        asks: Option<Asks>,
        first: Option<First>,
        bounds: Bounds,
    ) -> u64 {
        let Holder { owner, session, connection } = *holder;
        let goes_on = first.map(|first| (session.clone(), first));
        let same = |given: &&mut Given| given.owner == owner && given.asks == asks;
        if let Some(given) = self.given.get_mut(state).find(same) {
            given.unused = given.unused.saturating_add(1);
            (given.connection, given.goes_on) = (connection, goes_on.or(given.goes_on.take()));
            return 0;
        }
        self.given.insert(owner.user, state, Given { owner, connection, asks, unused: 1, goes_on }, bounds)
    }

    /// A client comes back with a state: how the request began that goes on, and what is wrong with the state. `is_related`:
    /// whether a connection is part of one with the holder's, such as one behind a relay.
    pub(super) fn take(
        &mut self,
        holder: &Holder<'_>,
        state: Digest,
        asks: &Asks,
        is_related: impl Fn(ConnectionId) -> bool,
    ) -> Result<Option<First>, Misuse> {
        let owner = holder.owner;
        let is_own = |given: &Given| given.owner == owner || is_related(given.connection);
        let fits = |given: &Given| is_own(given) && given.asks.is_none_or(|own| own.request == asks.request);
        let found = self.given.get_mut(state).find(|given| fits(given) && given.unused > 0);
        if let Some(given) = found {
            given.unused -= 1;
            let goes_on = given.goes_on.take_if(|(session, _)| session == holder.session);
            return Ok(goes_on.map(|(_, first)| first));
        }
        Err(self.misuse(owner, state, asks, (is_own, fits)))
    }

    fn misuse(
        &self,
        owner: Owner,
        state: Digest,
        asks: &Asks,
        (is_own, fits): (impl Fn(&Given) -> bool, impl Fn(&Given) -> bool),
    ) -> Misuse {
        let any = |is: &dyn Fn(&Given) -> bool| self.given.get(state).any(is);
        let about = |given: &Given| given.asks.is_some_and(|own| own.about == asks.about);
        if any(&fits) {
            Misuse::Reused
        } else if any(&|given| is_own(given) && about(given)) {
            Misuse::OtherArguments
        } else if any(&is_own) {
            Misuse::OtherTool
        } else if any(&|given| given.owner.server == owner.server) {
            Misuse::OtherUser
        } else if any(&|_| true) {
            Misuse::OtherServer
        } else {
            Misuse::NeverGiven
        }
    }

    /// Whether a state of this user may have been forgotten.
    pub(super) fn has_lost(&self, user: User) -> bool {
        self.given.has_lost(user)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.given.len()
    }
}
