//! What the gate is to know of a connection: the facts that guards are asked with, before anything is called.

use std::sync::Arc;

use super::Engine;
use crate::gate::GateSubject;
use crate::ids::ConnectionId;
use crate::registry::ItemKind;

impl Engine {
    /// All that is known of the server and the client of a connection, and of every tool that is listed there or remembered.
    /// `None`: there is no such connection.
    pub fn gate_subject(&mut self, id: ConnectionId) -> Option<GateSubject> {
        let place = self.place(id)?;
        let connection = self.connections.get(&id)?;
        let mut names: Vec<Arc<str>> = connection.tools.keys().cloned().collect();
        // A client remembers lists, and calls at once when it is back.
        if let Some(key) = self.registry.key(id).cloned() {
            // A store that fails says so elsewhere; what it does not tell is not listed.
            let pins = self.registry.pins(&key).unwrap_or_default();
            let tools = pins.into_keys().filter(|item| item.kind == ItemKind::Tool);
            names.extend(tools.map(|item| Arc::from(item.name)));
        }
        names.sort_unstable();
        names.dedup();
        let mut subject = self.with_facts(&place, None, |_, facts| GateSubject {
            server: facts.server.clone(),
            identity: facts.identity,
            enabled: facts.enabled,
            trust: facts.trust,
            listing: facts.listing,
            profile: facts.profile.clone(),
            tools: std::collections::BTreeMap::new(),
        })?;
        for name in names {
            if let Some(Some(known)) = self.with_facts(&place, Some(&name), |_, facts| facts.tool.cloned()) {
                subject.tools.insert(name, known);
            }
        }
        Some(subject)
    }
}
