//! What somebody decides by hand about definitions: approved, denied, forgotten.

use std::collections::BTreeMap;

use super::{Context, Evaluator, Scope};
use crate::config::{ArgumentTest, Pointer};
use crate::engine::command::{ByHand, Decide, Definitions};
use crate::engine::recorder::tool_id;
use crate::engine::timers::Due;
use crate::event::{
    ApprovalDenied, ApprovalGranted, DefinitionApproved, EventBody, GrantLimits, PinsReset, Whose,
};
use crate::registry::{Approval, ApprovalLimits, Item, ItemKind, PinKey, PinRecord, RegistryError};
use crate::terms::Timestamp;

/// Whose definitions are meant, where the server is, and their pins.
pub(super) type Targets = (PinKey, Option<Scope>, BTreeMap<Item, PinRecord>);

impl Evaluator {
    /// Does what somebody has decided, and reports it.
    ///
    /// # Errors
    /// Why it is not done.
    pub(in crate::engine) fn decide(
        &mut self,
        cx: &mut Context<'_>,
        decide: Decide<'_>,
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        let (key, scope, pins) = self.meant(cx, &decide)?;
        if decide.decision == ByHand::Forget {
            return self.forget_pins(cx, &decide, (key, scope, pins), now);
        }
        for (item, record) in pins {
            let hash = match decide.what {
                Definitions::Tool { hash, .. } => hash.unwrap_or(&record.current),
                Definitions::All if needs(&item, &record, decide.decision) => &record.current,
                Definitions::All => continue,
            };
            self.decide_one(cx, &decide, (&key, scope.as_ref()), (item, hash), now)?;
        }
        Ok(())
    }

    fn decide_one(
        &mut self,
        cx: &mut Context<'_>,
        decide: &Decide<'_>,
        (key, scope): (&PinKey, Option<&Scope>),
        (item, hash): (Item, &str),
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        let grant = decide.decision == ByHand::Approve;
        let limits = decide.limits.filter(|limits| grant && !limits.is_unlimited());
        if let Some(limits) = limits {
            let said = Approval { by: decide.by.to_owned(), at: now };
            self.registry.approve_limited(key, &item, hash, limits.clone(), said)?;
            cx.reporter.counters.approvals_granted += 1;
            if let Some(until) = limits.until {
                cx.timers.set(until, Due::LimitedApprovals);
            }
        } else if grant {
            self.registry.approve(key, &item, hash, decide.by, now)?;
            cx.reporter.counters.approvals_granted += 1;
        } else {
            self.registry.deny(key, &item, hash, decide.by, now)?;
            cx.reporter.counters.approvals_denied += 1;
        }
        // Calls with other arguments wait on.
        let is_answer = limits.is_none_or(|limits| limits.arguments.is_empty());
        let closed = if is_answer { self.approvals.close(key, &item, Some(hash)) } else { None };
        if limits.is_some() && is_answer {
            // When it ends, somebody is asked again.
            self.set_refusal(cx, key, (&item.name, hash), None);
        }
        let scope = closed.or(scope.cloned());
        let limits = limits.map(GrantLimits::from);
        let (tool_name, by, tool_hash) = (item.name, decide.by.to_owned(), hash.to_owned());
        let whose = Whose::from(key);
        let tool_id = tool_id(&key.server, &tool_name);
        let body: EventBody = match (item.kind, grant) {
            (ItemKind::Tool, true) => {
                ApprovalGranted { tool_name, tool_id, tool_hash, whose, by, limits }.into()
            }
            (ItemKind::Tool, false) => ApprovalDenied { tool_name, tool_id, tool_hash, whose, by }.into(),
            (kind, _) => DefinitionApproved { kind, name: tool_name, hash: tool_hash, whose, by }.into(),
        };
        cx.reporter.report_of_server(&key.server, scope, now, body);
        cx.reporter.gate_is_stale(Some(now));
        Ok(())
    }

    fn forget_pins(
        &mut self,
        cx: &mut Context<'_>,
        decide: &Decide<'_>,
        (key, scope, pins): Targets,
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        let items: Vec<Item> = pins.into_keys().collect();
        let pins = self.registry.reset(&key, &items)? as u64;
        for item in &items {
            self.approvals.close(&key, item, None);
        }
        let tool_name = match decide.what {
            Definitions::Tool { name, .. } => Some(Item::tool(name).name),
            Definitions::All => None,
        };
        let whose = Whose::from(&key);
        let reset = PinsReset { tool_name, pins, whose, by: decide.by.to_owned() };
        cx.reporter.report_of_server(&key.server, scope, now, reset.into());
        cx.reporter.gate_is_stale(Some(now));
        Ok(())
    }

    /// Whose definitions are meant. A look-alike is never approved with the server that it looks like: where several have
    /// offered the tool, it must be reported which.
    pub(super) fn meant(
        &mut self,
        cx: &mut Context<'_>,
        decide: &Decide<'_>,
    ) -> Result<Targets, RegistryError> {
        let mut meant: BTreeMap<PinKey, Option<Scope>> = BTreeMap::new();
        meant.extend(self.registry.pinned(decide.server)?.into_iter().map(|key| (key, None)));
        let waiting = self.approvals.scopes(decide.server);
        meant.extend(waiting.map(|(key, scope)| (key.clone(), Some(scope.clone()))));
        for (connection, key) in self.registry.servers(decide.server) {
            meant.insert(key.clone(), cx.connections.scope(connection));
        }
        meant.retain(|key, _| {
            decide.uid.is_none_or(|uid| key.uid == Some(uid))
                && decide.program.is_none_or(|program| key.program == program)
        });
        let mut offered = Vec::new();
        for (key, scope) in meant {
            let mut pins = self.registry.pins(&key)?;
            if let Definitions::Tool { name, .. } = decide.what {
                let tool = Item::tool(name);
                pins.retain(|item, _| *item == tool);
            }
            if !pins.is_empty() {
                offered.push((key, scope, pins));
            }
        }
        if offered.len() > 1 {
            let identities = offered.iter().map(|(key, ..)| match key.uid {
                Some(uid) => format!("user {uid}, {}", key.program),
                None => key.program.clone(),
            });
            let (server, identities) = (decide.server.to_string(), identities.collect());
            return Err(RegistryError::Ambiguous { server, identities });
        }
        offered.pop().ok_or_else(|| RegistryError::Unknown {
            server: decide.server.to_string(),
            name: match decide.what {
                Definitions::Tool { name, .. } => Item::tool(name).name,
                Definitions::All => "anything".to_owned(),
            },
        })
    }
}

impl From<&ApprovalLimits> for GrantLimits {
    fn from(limits: &ApprovalLimits) -> Self {
        let test = |(pointer, test): (&Pointer, &ArgumentTest)| {
            (pointer.as_str().to_owned(), serde_json::to_value(test).unwrap_or_default())
        };
        Self {
            arguments: limits.arguments.iter().map(test).collect(),
            once: limits.once,
            until: limits.until,
        }
    }
}

/// Whether a decision about everything changes anything for this.
fn needs(item: &Item, record: &PinRecord, decision: ByHand) -> bool {
    let is_approved = record.approved.is_some() && record.hash == record.current && !record.denies_current();
    record.listed
        && match decision {
            ByHand::Approve => !is_approved,
            _ => item.kind == ItemKind::Tool && !record.denies_current(),
        }
}
