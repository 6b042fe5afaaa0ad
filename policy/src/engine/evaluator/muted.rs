//! Mutes of operators: which server and which definition of a tool is meant; and tools that are held for detections which
//! are muted, or are muted no longer.

use std::sync::Arc;

use super::{Context, Evaluator, Scope, Seen};
use crate::engine::command::{ByHand, CommandError, Decide, Definitions, MuteDetections};
use crate::event::{Mute, MuteSource, Whose};
use crate::mutes::{MuteError, named};
use crate::registry::{Item, RegistryError, StoreError};
use crate::terms::{ConnectionId, Direction, Timestamp};

impl Evaluator {
    /// What an operator mutes: of a server that is named, for its owner; of a tool that is named, for the definition that it
    /// has now unless any is meant.
    ///
    /// # Errors
    /// Nobody knows the server or the tool, or several are called so; or the request contradicts itself.
    pub(in crate::engine) fn mute(
        &mut self,
        cx: &mut Context<'_>,
        new: &MuteDetections<'_>,
    ) -> Result<Mute, CommandError> {
        let MuteDetections { rule, server, uid, program, tool, any_definition, hash, until, reason, by } =
            *new;
        if any_definition && tool.is_none() {
            return Err(MuteError::NoTool.into());
        }
        if hash.is_some() && (any_definition || tool.is_none()) {
            return Err(MuteError::NoDefinition.into());
        }
        let (mut whose, mut tool_hash) = (Whose::default(), None);
        if let Some(server) = server {
            let what = match tool {
                Some(name) if !any_definition => Definitions::Tool { name, hash: None },
                _ => Definitions::All,
            };
            let decide = Decide { server, uid, program, what, by, decision: ByHand::Approve, limits: None };
            let (key, _, pins) = self.meant(cx, &decide)?;
            whose = Whose::from(&key);
            let item = tool.filter(|_| !any_definition).map(Item::tool);
            if let Some((item, record)) = item.and_then(|item| pins.get_key_value(&item)) {
                // Nobody mutes what they did not look at.
                if let Some(hash) = hash.filter(|hash| !record.knows(hash)) {
                    return Err(RegistryError::OtherHash {
                        server: server.to_string(),
                        name: item.name.clone(),
                        hash: hash.to_owned(),
                        current: record.current.clone(),
                    }
                    .into());
                }
                tool_hash = Some(hash.unwrap_or(&record.current).to_owned());
            }
        } else if tool.is_some() && !any_definition {
            return Err(MuteError::NoServer.into());
        }
        Ok(named(Mute {
            mute_id: String::new(),
            source: MuteSource::Operator,
            rule: rule.map(str::to_owned),
            server: server.map(ToString::to_string),
            whose,
            tool: tool.map(|tool| Item::tool(tool).name),
            tool_hash,
            until: Some(until),
            reason: reason.to_owned(),
            by: Some(by.to_owned()),
        }))
    }

    /// Keeps a mute of an operator, in place of another.
    ///
    /// # Errors
    /// The store failed.
    pub(in crate::engine) fn keep_mute(
        &mut self,
        mute: &Mute,
        replaced: Option<&str>,
    ) -> Result<(), StoreError> {
        self.registry.keep_mute(mute, replaced)
    }

    /// Forgets a mute of an operator.
    ///
    /// # Errors
    /// The store failed.
    pub(in crate::engine) fn forget_mute(&mut self, id: &str) -> Result<(), StoreError> {
        self.registry.forget_mute(id)
    }

    /// The mutes of operators that are kept. A store that fails was counted.
    pub(in crate::engine) fn kept_mutes(&mut self) -> Vec<Mute> {
        self.registry.mutes().unwrap_or_default()
    }

    /// Requests the approval of tools that their detections hold by now, and requests none any more of those that nothing holds.
    pub(in crate::engine) fn review_muted(&mut self, cx: &mut Context<'_>, now: Timestamp) {
        let ids: Vec<ConnectionId> = cx.connections.servers().map(|connection| connection.id).collect();
        for id in ids {
            let (Some(scope), Some(connection)) = (cx.connections.scope(id), cx.connections.get(id)) else {
                continue;
            };
            let found = connection.tools.values().filter(|tool| !tool.removed && !tool.detections.is_empty());
            let tools: Vec<Arc<str>> = found.map(|tool| Arc::clone(&tool.name)).collect();
            for tool in tools {
                self.review_again(cx, &scope, &tool, now);
            }
        }
    }

    fn review_again(&mut self, cx: &mut Context<'_>, scope: &Scope, tool: &str, now: Timestamp) {
        let seen = Seen::new(scope.connection, Direction::ServerToClient, 0, now, now);
        let review = self.review(cx, scope, seen, tool);
        if review.holds() {
            return self.hold_listed(cx, scope, seen, tool, review);
        }
        let hash = cx.connections.get(scope.connection).and_then(|known| known.tool(tool));
        let hash = hash.map(|facts| Arc::clone(&facts.hash));
        let (Some(key), Some(hash)) = (self.registry.key(scope.connection).cloned(), hash) else { return };
        if self.approvals.release(&key, tool, &hash) {
            self.set_refusal(cx, &key, (tool, &hash), None);
        }
    }
}
