//! Tools that are held until somebody approves them: asked for once, then granted, denied or given up.
//!
//! A tool is held by what guards decideds calls ([`Denial::awaits_approval`]). Where they speak against its definition
//! (detections, a change, a name that another server had first), somebody is asked when it is listed, so that the answer
//! can be there before the first call. Where nothing speaks for it yet (little trust in its server, first use that is not
//! trusted), that is when it is first called: most tools of a server never are.
//!
//! What was granted or denied is kept with the pin. That nobody answered is remembered here, as long as the agent runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Scope;
use crate::engine::config::EngineLimits;
use crate::engine::ids::ApprovalId;
use crate::event::{ApprovalRequested, Severity, Whose};
use crate::guard::GuardKind;
use crate::registry::{Item, ItemKind, PinKey};
use crate::terms::{ServerId, SessionId, Timestamp};

/// What is to be approved: this definition of this tool of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) hash: String,
    pub(super) tool: String,
    pub(super) key: PinKey,
}

impl Wanted {
    fn is(&self, key: &PinKey, tool: &str, hash: &str) -> bool {
        self.hash == hash && self.tool == tool && self.key == *key
    }
}

#[derive(Debug)]
struct Request {
    wanted: Wanted,
    /// Where it was first held.
    scope: Scope,
    guard: GuardKind,
    code: String,
    reason: String,
    max_severity: Option<Severity>,
    requested: Timestamp,
    expires: Timestamp,
    timed_out: bool,
}

/// A tool whose calls are denied until somebody approves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingTool {
    /// Whose tool.
    pub server_id: ServerId,
    /// Where it was first held.
    pub session_id: SessionId,
    /// Its name.
    pub tool_name: String,
    /// Hash of the definition that waits.
    pub tool_hash: String,
    /// Whose server it is of.
    #[serde(flatten)]
    pub whose: Whose,
    /// Which guard holds it.
    pub guard: GuardKind,
    /// Why, for machines.
    pub code: String,
    /// Why, in words.
    pub reason: String,
    /// The worst that was found in the definition.
    pub max_severity: Option<Severity>,
    /// When it was asked for.
    pub requested: Timestamp,
    /// When it is given up, or was.
    pub expires: Timestamp,
    /// Whether it was: calls stay denied, and it can be approved all the same.
    pub timed_out: bool,
}

/// The requests that nobody answered yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct Approvals {
    requests: BTreeMap<ApprovalId, Request>,
    last: u64,
}

impl Approvals {
    /// Those of servers of this name: whose, and where each was first held.
    pub(super) fn scopes<'a>(
        &'a self,
        server: &'a ServerId,
    ) -> impl Iterator<Item = (&'a PinKey, &'a Scope)> {
        let of = self.requests.values().filter(move |request| request.wanted.key.server == *server);
        of.map(|request| (&request.wanted.key, &request.scope))
    }

    /// Somebody has decided about this definition, or about every definition of the item: where it was held.
    pub(super) fn close(&mut self, key: &PinKey, item: &Item, hash: Option<&str>) -> Option<Scope> {
        let is_meant = |wanted: &Wanted| {
            wanted.key == *key && wanted.tool == item.name && hash.is_none_or(|hash| wanted.hash == hash)
        };
        if item.kind != ItemKind::Tool {
            return None;
        }
        let closed = self.requests.extract_if(.., |_, request| is_meant(&request.wanted));
        closed.map(|(_, request)| request.scope).last()
    }

    /// Requests the approval of a tool, which is given up at `expires`. `None`: nobody is asked, since too many wait.
    pub(super) fn request(
        &mut self,
        scope: &Scope,
        key: &PinKey,
        request: &ApprovalRequested,
        time: Timestamp,
        limits: &EngineLimits,
    ) -> Option<ApprovalId> {
        if !self.make_room(key.uid, limits.approvals, limits.approvals_per_user) {
            return None;
        }
        self.last += 1;
        let id = ApprovalId(self.last);
        let (hash, tool) = (request.tool_hash.clone(), request.tool_name.clone());
        let request = Request {
            wanted: Wanted { hash, tool, key: key.clone() },
            scope: scope.clone(),
            guard: request.guard,
            code: request.code.clone(),
            reason: request.reason.clone(),
            max_severity: request.max_severity,
            requested: time,
            expires: request.expires,
            timed_out: false,
        };
        self.requests.insert(id, request);
        Some(id)
    }

    /// Whether the approval of this definition was requested, and nobody decided.
    pub(super) fn is_requested(&self, key: &PinKey, tool: &str, hash: &str) -> bool {
        self.requests.values().any(|request| request.wanted.is(key, tool, hash))
    }

    /// Takes back the request for this definition that its detections were the reason of: they are muted. Whether there was one.
    pub(super) fn release(&mut self, key: &PinKey, tool: &str, hash: &str) -> bool {
        let is_it = |request: &Request| {
            request.guard == GuardKind::ToolPoisoning && request.wanted.is(key, tool, hash)
        };
        self.requests.extract_if(.., |_, request| is_it(request)).count() > 0
    }

    /// Whether the approval of this definition was given up.
    pub(super) fn is_given_up(&self, key: &PinKey, tool: &str, hash: &str) -> bool {
        self.requests.values().any(|request| request.timed_out && request.wanted.is(key, tool, hash))
    }

    /// Nobody answered in time. What was wanted, where it was held, and since when.
    pub(super) fn time_out(&mut self, id: ApprovalId) -> Option<(Wanted, Scope, Timestamp)> {
        let request = self.requests.get_mut(&id)?;
        request.timed_out = true;
        Some((request.wanted.clone(), request.scope.clone(), request.requested))
    }

    /// Those that nobody decided about, oldest first, each with what is wanted.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Wanted, WaitingTool)> {
        self.requests.values().map(|request| {
            let Wanted { hash, tool, key } = &request.wanted;
            let waiting = WaitingTool {
                server_id: key.server.clone(),
                session_id: request.scope.session.clone(),
                tool_name: tool.clone(),
                tool_hash: hash.clone(),
                whose: Whose::from(key),
                guard: request.guard,
                code: request.code.clone(),
                reason: request.reason.clone(),
                max_severity: request.max_severity,
                requested: request.requested,
                expires: request.expires,
                timed_out: request.timed_out,
            };
            (&request.wanted, waiting)
        })
    }

    #[cfg(test)]
    pub(in crate::engine) fn requests_len(&self) -> usize {
        self.requests.len()
    }

    /// Makes sure that there is room for one more of this user's: one that was given up can be asked for again.
    /// Whether there is.
    fn make_room(&mut self, user: Option<u32>, limit: usize, limit_per_user: usize) -> bool {
        let of_user = |request: &Request| request.wanted.key.uid == user;
        let full = self.requests.values().filter(|request| of_user(request)).count() >= limit_per_user;
        if !full && self.requests.len() < limit {
            return true;
        }
        let given_up = |request: &Request| request.timed_out && (!full || of_user(request));
        let oldest = self.requests.iter().find(|(_, request)| given_up(request)).map(|(id, _)| *id);
        oldest.and_then(|id| self.requests.remove(&id)).is_some()
    }
}
