//! Which events a sink gets.

use mcpwarden_policy::{
    Event,
    config::SinkFilter,
    event::{EventBody, Severity},
    glob::{GlobError, NameGlob},
};

/// Types and severities.
#[derive(Debug)]
pub struct Filter {
    types: Vec<NameGlob>,
    severity: Severity,
}

impl Filter {
    /// That of a configuration.
    ///
    /// # Errors
    /// A type is no glob, which the configuration does not let through.
    pub fn of(filter: &SinkFilter) -> Result<Self, GlobError> {
        let types = filter.types.iter().map(|glob| NameGlob::new(glob.as_str(), true));
        Ok(Self { types: types.collect::<Result<_, _>>()?, severity: filter.severity })
    }

    /// Whether it lets an event through. What is muted is no alert: only a filter that lets everything through lets it through.
    pub fn passes(&self, event: &Event) -> bool {
        if matches!(&event.body, EventBody::Detected(found) if found.muted) {
            let is_every = self.types.is_empty() || self.types.iter().any(NameGlob::is_any);
            return is_every && self.severity == Severity::Low;
        }
        (self.types.is_empty() || self.types.iter().any(|glob| glob.matches(event.kind())))
            && event.body.severity().is_none_or(|severity| severity >= self.severity)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: &str, fields: Value) -> Event {
        let mut event = json!({"type": kind, "timestamp": "2026-01-06T10:30:00.000000000Z"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn sink_filter_passes_by_type_and_severity() {
        let found = |severity: &str| {
            let found = json!({"pattern": "p", "category": "custom", "severity": severity, "field": "/", "matches": [],
                               "score": 1, "form": "raw"});
            event("mcp_detection", json!({"subject": "result", "action": "alert", "detection": found}))
        };
        let muted = |severity: &str| {
            let mut muted = json!(found(severity));
            muted["muted"] = true.into();
            serde_json::from_value::<Event>(muted).unwrap()
        };
        let loss = event("agent_loss", json!({"counter": "c", "count": 1, "total": 1, "meaning": "m"}));
        for (filter, event, passes) in [
            ("{}", &loss, true),
            ("{}", &found("low"), true),
            ("{}", &muted("critical"), true),
            ("{ severity: low }", &muted("critical"), true),
            ("{ severity: medium }", &muted("critical"), false),
            ("{ types: [mcp_detection] }", &muted("critical"), false),
            ("{ types: [\"*\"] }", &muted("critical"), true),
            ("{ types: [\"mcp_*\"] }", &muted("critical"), false),
            ("{ types: [mcp_detection] }", &loss, false),
            ("{ types: [\"mcp_*\", agent_loss] }", &loss, true),
            ("{ types: [\"MCP_*\"] }", &found("high"), false),
            ("{ severity: high }", &found("medium"), false),
            ("{ severity: high }", &found("high"), true),
            ("{ severity: high }", &found("critical"), true),
            ("{ severity: critical }", &loss, true),
            ("{ types: [agent_loss], severity: low }", &found("critical"), false),
        ] {
            let text = format!("sinks: [{{ kind: stdout, filter: {filter} }}]");
            let config = mcpwarden_policy::config::parse(text.as_bytes()).unwrap().0;
            assert_eq!(
                Filter::of(&config.sinks[0].filter).unwrap().passes(event),
                passes,
                "{filter} {event:?}"
            );
        }
    }
}
