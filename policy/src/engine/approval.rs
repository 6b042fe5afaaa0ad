//! Tools that are held until somebody approves them: asked for once, then granted, denied or given up.
//!
//! A tool is held by what guards say of its calls ([`Denial::awaits_approval`]). Where they speak against its definition
//! (detections, a change, a name that another server had first), somebody is asked when it is listed, so that the answer
//! can be there before the first call. Where nothing speaks for it yet (little trust in its server, first use that is not
//! trusted), that is when it is first called: most tools of a server never are.
//!
//! What was granted or denied is kept with the pin. That nobody answered is remembered here, as long as the agent runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::io::Output;
use super::record::tool_id;
use super::{Due, Engine, Place};
use crate::event::{Action, ApprovalRequested, ApprovalTimedOut, Severity, Whose};
use crate::guard::{Decision, Denial, GuardKind, Operation, Refusal};
use crate::registry::{Item, ItemKind, PinKey};
use crate::terms::{ConnectionId, ServerId, SessionId, Timestamp};

/// One request, by the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApprovalId(u64);

/// What is to be approved: this definition of this tool of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    hash: String,
    tool: String,
    key: PinKey,
}

#[derive(Debug)]
struct Request {
    wanted: Wanted,
    /// Where it was first held.
    place: Place,
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
pub(super) struct Approvals {
    requests: BTreeMap<ApprovalId, Request>,
    last: u64,
}

impl Approvals {
    fn find(&self, wanted: &Wanted) -> Option<(ApprovalId, &Request)> {
        let found = self.requests.iter().find(|(_, request)| request.wanted == *wanted);
        found.map(|(id, request)| (*id, request))
    }

    /// Those of servers of this name: whose, and where each was first held.
    pub(super) fn places<'a>(
        &'a self,
        server: &'a ServerId,
    ) -> impl Iterator<Item = (&'a PinKey, &'a Place)> {
        let of = self.requests.values().filter(move |request| request.wanted.key.server == *server);
        of.map(|request| (&request.wanted.key, &request.place))
    }

    /// Somebody has decided about this definition, or about every definition of the item: where it was held.
    pub(super) fn close(&mut self, key: &PinKey, item: &Item, hash: Option<&str>) -> Option<Place> {
        let is_meant = |wanted: &Wanted| {
            wanted.key == *key && wanted.tool == item.name && hash.is_none_or(|hash| wanted.hash == hash)
        };
        if item.kind != ItemKind::Tool {
            return None;
        }
        let closed = self.requests.extract_if(.., |_, request| is_meant(&request.wanted));
        closed.map(|(_, request)| request.place).last()
    }

    #[cfg(test)]
    pub(super) fn requests_len(&self) -> usize {
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

/// The guards that go by a tool's definition.
const OF_DEFINITIONS: [GuardKind; 3] =
    [GuardKind::ToolShadowing, GuardKind::RugPull, GuardKind::ToolPoisoning];

/// What the guards that go by definitions would say of calls of a tool.
#[derive(Debug, Default)]
pub(super) struct Review([Option<Decision>; OF_DEFINITIONS.len()]);

impl Review {
    /// What would come of a call, if these guards alone were asked; `None` where none of them is there.
    pub(super) fn action(&self, of: &[GuardKind]) -> Option<Action> {
        let asked = OF_DEFINITIONS.iter().zip(&self.0).filter(|(kind, _)| of.contains(kind));
        let action = |decision: &Decision| match decision {
            Decision::Allow => Action::Allow,
            Decision::Modify(_) => Action::Alert,
            Decision::Deny(_) => Action::Block,
        };
        asked.filter_map(|(_, decision)| decision.as_ref().map(action)).max()
    }

    /// Who holds the tool for its definition.
    fn hold(self) -> Option<(GuardKind, Denial)> {
        OF_DEFINITIONS.into_iter().zip(self.0).find_map(|(kind, decision)| match decision {
            // That it is new speaks neither for nor against it.
            Some(Decision::Deny(denial)) if kind == GuardKind::RugPull && denial.code != "tool_changed" => {
                None
            }
            Some(Decision::Deny(denial)) if denial.awaits_approval() => Some((kind, denial)),
            _ => None,
        })
    }
}

impl Engine {
    /// What the guards would say of calls of a tool that was just listed.
    pub(super) fn review(&mut self, place: &Place, time: Timestamp, tool: &str) -> Review {
        let reviewed = self.with_facts(place, Some(tool), |executor, facts| {
            let call = Operation::ToolInvoke { tool_name: tool, arguments: None };
            OF_DEFINITIONS.map(|kind| executor.would(kind, &call, facts, time))
        });
        reviewed.map(Review).unwrap_or_default()
    }

    /// Asks for the approval of a tool that its definition holds.
    pub(super) fn hold_listed(
        &mut self,
        place: &Place,
        time: Timestamp,
        tool: &str,
        review: Review,
        out: &mut Vec<Output>,
    ) {
        if let Some((guard, denial)) = review.hold() {
            self.request_approval(place, time, tool, (guard, &denial), out);
        }
    }

    /// Asks for the approval of a tool, if that was not done for this definition.
    pub(super) fn request_approval(
        &mut self,
        place: &Place,
        time: Timestamp,
        tool: &str,
        (guard, denial): (GuardKind, &Denial),
        out: &mut Vec<Output>,
    ) {
        let facts = self.connections.get(&place.connection).and_then(|known| known.tool(tool));
        let (Some(key), Some(facts)) = (self.registry.key(place.connection), facts) else { return };
        let wanted = Wanted { hash: facts.hash.to_string(), tool: tool.to_owned(), key: key.clone() };
        if facts.refusal.is_some() || self.approvals.find(&wanted).is_some() {
            return;
        }
        let limits = &self.config.limits;
        if !self.approvals.make_room(key.uid, limits.approvals, limits.approvals_per_user) {
            self.counters.approvals_refused += 1;
            return;
        }
        let expires = time.after(self.judge.approval_timeout());
        let requested = ApprovalRequested {
            tool_name: tool.to_owned(),
            tool_id: tool_id(&place.server, tool),
            tool_hash: facts.hash.to_string(),
            whose: Whose::from(key),
            guard,
            code: denial.code.clone(),
            reason: denial.message.clone(),
            shadows: facts.shadows.clone(),
            detections: facts.detections.clone(),
            max_severity: facts.max_severity,
            expires,
        };
        self.approvals.last += 1;
        let id = ApprovalId(self.approvals.last);
        let request = Request {
            wanted,
            place: place.clone(),
            guard,
            code: requested.code.clone(),
            reason: requested.reason.clone(),
            max_severity: requested.max_severity,
            requested: time,
            expires,
            timed_out: false,
        };
        self.approvals.requests.insert(id, request);
        self.due.insert((expires, Due::Approval(id)));
        self.counters.approvals_requested += 1;
        self.say(place.clone(), time, requested, out);
    }

    /// The tools whose approval was asked for and that nobody decided about, oldest first. A definition that its server
    /// has replaced since is none of them, unless it comes back.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingTool> {
        let open = self.approvals.requests.values().filter(|request| !self.is_replaced(&request.wanted));
        open.map(|request| {
            let Wanted { hash, tool, key } = &request.wanted;
            WaitingTool {
                server_id: key.server.clone(),
                session_id: request.place.session.clone(),
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
            }
        })
    }

    /// Whether connected servers offer the tool, and none of them by this definition.
    fn is_replaced(&self, wanted: &Wanted) -> bool {
        let of = self.registry.servers(&wanted.key.server).filter(|(_, key)| **key == wanted.key);
        let mut offered = of
            .filter_map(|(connection, _)| self.connections.get(&connection)?.tools.get(wanted.tool.as_str()))
            .peekable();
        offered.peek().is_some() && offered.all(|facts| *facts.hash != *wanted.hash)
    }

    /// Whether the approval of this definition was given up.
    pub(super) fn is_given_up(&self, connection: ConnectionId, tool: &str, hash: &str) -> bool {
        let given_up = |key: &PinKey| {
            self.approvals.requests.values().any(|request| {
                let Wanted { hash: of, tool: name, key: whose } = &request.wanted;
                request.timed_out && *of == hash && *name == tool && whose == key
            })
        };
        !self.approvals.requests.is_empty() && self.registry.key(connection).is_some_and(given_up)
    }

    /// Nobody answered in time.
    pub(super) fn give_up_approval(&mut self, id: ApprovalId, now: Timestamp, out: &mut Vec<Output>) {
        let Some(request) = self.approvals.requests.get_mut(&id) else { return };
        request.timed_out = true;
        let Wanted { hash, tool, key } = &request.wanted;
        for (connection, _) in self.registry.servers(&key.server).filter(|(_, whose)| *whose == key) {
            let known =
                self.connections.get_mut(&connection).and_then(|known| known.tools.get_mut(tool.as_str()));
            if let Some(facts) = known.filter(|facts| *facts.hash == **hash) {
                facts.refusal = Some(Refusal::TimedOut);
            }
        }
        let (place, timed_out) = (
            request.place.clone(),
            ApprovalTimedOut {
                tool_name: tool.clone(),
                tool_id: tool_id(&request.place.server, tool),
                tool_hash: hash.clone(),
                requested: request.requested,
            },
        );
        self.counters.approvals_timed_out += 1;
        self.say(place, now, timed_out, out);
    }
}
