//! The sections of the file as settings of what goes by them.
//!
//! The guards' own settings have the file's key names, so a section is handed over as it would be written; a test holds
//! that whatever [`super::parse`] lets through is understood there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Config, Server};
use crate::classify::ClassifierConfig;
use crate::detect::{CustomPattern, DetectConfig, Detector};
use crate::engine::{Judge, ServerStanding};
use crate::glob::Problem;
use crate::guards::config::{FirstUse, GuardEntry, GuardsConfig, ServerTools};
use crate::guards::custom_patterns;
use crate::registry::RegistrySettings;

/// A section, read as the settings of the same keys.
fn told<T: DeserializeOwned + Default>(section: &impl Serialize, at: &str, problems: &mut Vec<Problem>) -> T {
    let read = serde_json::to_value(section).and_then(serde_json::from_value);
    read.unwrap_or_else(|error| {
        problems.push(Problem::new(at, error.to_string()));
        T::default()
    })
}

impl Config {
    /// What is looked for, besides the rules in files.
    pub fn detect(&self) -> DetectConfig {
        let section = &self.inspection;
        let disabled = section.builtin.iter().filter(|(_, on)| !**on).map(|(category, _)| *category);
        let own = section.custom_patterns.iter().map(|own| CustomPattern {
            name: own.name.clone(),
            pattern: own.pattern.as_str().to_owned(),
            severity: own.severity,
            description: own.description.clone(),
        });
        let of_guards = custom_patterns(&self.guard_entries(&mut Vec::new()));
        DetectConfig { disabled: disabled.collect(), custom_patterns: own.chain(of_guards).collect() }
    }

    /// What is pinned, and when names are nearly the same.
    pub fn registry_settings(&self) -> RegistrySettings {
        RegistrySettings {
            pin_on_first_use: self.registry.pin_on_first_use,
            alert_on_change: self.registry.alert_on_change,
            ..RegistrySettings::default()
        }
    }

    /// The guards that this file asks for.
    ///
    /// # Errors
    /// Everything that is wrong, with its place; nothing of what [`super::parse`] lets through is.
    pub fn judge(&self, detector: &Arc<Detector>) -> Result<Judge, Vec<Problem>> {
        let mut problems = Vec::new();
        let classifier: ClassifierConfig = told(&self.classifier, "classifier", &mut problems);
        let guards = self.guards_config(&mut problems);
        let standing = |server: &Server| ServerStanding {
            enabled: server.enabled,
            trust: server.trust,
            timeout_ms: server.timeout_ms.map(|ms| u32::try_from(ms).unwrap_or(u32::MAX)),
            max_concurrent: server.max_concurrent,
        };
        let standings: BTreeMap<String, ServerStanding> =
            self.servers.iter().map(|server| (server.id.clone(), standing(server))).collect();
        match Judge::new(&guards, &classifier, detector, standings) {
            Ok(judge) if problems.is_empty() => Ok(judge),
            Ok(_) => Err(problems),
            Err(more) => Err(problems.into_iter().chain(more).collect()),
        }
    }

    fn guards_config(&self, problems: &mut Vec<Problem>) -> GuardsConfig {
        let tools = |server: &Server| ServerTools {
            allow_tools: server.allow_tools.iter().map(|glob| glob.as_str().to_owned()).collect(),
            deny_side_effect_tags: server.deny_side_effect_tags.iter().cloned().collect(),
        };
        let mut config = GuardsConfig {
            policy: told(&self.policy, "policy", problems),
            cross_server: told(&self.cross_server, "cross_server", problems),
            first_use: if self.registry.pin_on_first_use { FirstUse::Trust } else { FirstUse::Approve },
            servers: self.servers.iter().map(|server| (server.id.clone(), tools(server))).collect(),
            guards: self.guard_entries(problems),
            ..GuardsConfig::default()
        };
        config.inspection.alert_threshold = self.inspection.alert_threshold;
        config.inspection.on_detection =
            told(&self.inspection.on_detection, "inspection.on_detection", problems);
        config
    }

    fn guard_entries(&self, problems: &mut Vec<Problem>) -> Vec<GuardEntry> {
        let mut entries = Vec::new();
        for (index, entry) in self.guards.iter().enumerate() {
            let mut read = GuardEntry::new(entry.kind);
            read.servers = entry.servers.iter().map(|glob| glob.as_str().to_owned()).collect();
            (read.enabled, read.priority) = (entry.enabled, entry.priority);
            read.timeout_ms = entry.timeout_ms;
            read.runs_on.clone_from(&entry.runs_on);
            read.failure_mode = told(&entry.failure_mode, &format!("guards[{index}].failure_mode"), problems);
            read.config = serde_json::to_value(&entry.config)
                .ok()
                .filter(|config| config.as_object().is_some_and(|config| !config.is_empty()));
            entries.push(read);
        }
        entries
    }
}
