//! What is known of a tool that a connection does not list: from earlier lists with the same pins, its own or others'.

use super::{Connections, Context, EngineConfig, Evaluator, Scope};
use crate::event::Detection;
use crate::guard::{Refusal, ToolFacts};
use crate::registry::{Item, PinRecord};
use crate::terms::ConnectionId;

impl Evaluator {
    /// Has the connection know of a tool that it does not list how it stood where it was seen last with the same pins, and what
    /// is found in its definition of then. A client remembers lists, and calls at once when it is back; and a server that
    /// lists a tool no more can be asked to run it nonetheless.
    pub(super) fn recall_tool(&mut self, cx: &mut Context<'_>, scope: &Scope, tool: &str) {
        let Some(connection) = cx.connections.get(scope.connection) else { return };
        if connection.tools.contains_key(tool) {
            return;
        }
        let Some(record) = self.registry.pin(scope.connection, &Item::tool(tool)) else { return };
        let known = connection.unlisted.get(tool);
        let is_new = known.is_none();
        if known.is_none_or(|known| *known.hash != *record.current) {
            if is_new && connection.unlisted.len() >= cx.config.limits.tools {
                cx.reporter.counters.tools_overflow += 1;
                return;
            }
            let record = record.clone();
            let mut facts = self.recall(cx.config, scope, tool, &record);
            if !facts.detections.is_empty() {
                cx.mark(scope, (Some(tool), Some(&facts.hash)), &mut facts.detections);
                facts.max_severity = Detection::worst(&facts.detections);
            }
            if let Some(connection) = cx.connections.get_mut(scope.connection) {
                connection.know_unlisted(facts);
            }
        }
        self.bring_up_to_date(cx.connections, scope.connection, tool);
    }

    /// What is remembered of a tool stands as its pin does by now. Asked at each call: nothing is copied.
    fn bring_up_to_date(&mut self, connections: &mut Connections, id: ConnectionId, tool: &str) {
        let is_listed = self.registry.is_listed(id);
        let Some(connection) = connections.get(id) else { return };
        let Some(known) = connection.unlisted.get(tool) else { return };
        let given_up = self.is_given_up(id, tool, &known.hash);
        let Some(record) = self.registry.pin(id, &Item::tool(tool)) else { return };
        let Some(facts) = connections.get_mut(id).and_then(|connection| connection.unlisted.get_mut(tool))
        else {
            return;
        };
        facts.pin = record.state_of(&record.current);
        facts.approved = record.approved.is_some() && record.hash == record.current;
        facts.refusal = if record.denies_current() {
            Some(Refusal::Denied)
        } else {
            given_up.then_some(Refusal::TimedOut)
        };
        facts.removed = !record.listed || is_listed;
    }

    /// What the definition of a tool that was seen last says of it, inspected anew: rules may be others by now.
    fn recall(&mut self, config: &EngineConfig, scope: &Scope, tool: &str, record: &PinRecord) -> ToolFacts {
        let json = self.registry.definition(&record.current).unwrap_or_default();
        let mut facts = self.classify(scope, tool, &json);
        facts.hash = record.current.as_str().into();
        // Of a definition that was too large to be kept this is all that is known.
        facts.max_severity = record.max_severity;
        if !json.is_empty() {
            let detector = config.inspection.as_ref().map(|inspection| &*inspection.detector);
            let known = self.definitions.know_tool(detector, &scope.server.0, &json);
            facts.detections.clone_from(&known.found.detections);
            facts.max_severity = known.found.max_severity();
        }
        facts
    }
}
