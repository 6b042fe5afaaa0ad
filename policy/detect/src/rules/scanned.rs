//! Rules that another engine runs, and how they join the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcpwarden_terms::{Category, Severity};

use super::{Examples, Rule, RuleError, RuleSet, Scope};
use crate::scanner::Scanner;
use crate::severity::score_of;

/// A rule that another engine runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ScannedRule {
    /// Its id, unique among all rules.
    pub id: String,
    /// The name of its file.
    pub file: String,
    /// Where it stands there, from 1.
    pub line: u64,
    /// What it finds, in a few words.
    pub title: String,
    /// The kind of attack.
    pub category: Category,
    /// How bad a match is, whatever else is found beside it.
    pub severity: Severity,
    /// What it looks at: [`Scope::Definition`], [`Scope::Result`] and [`Scope::Argument`].
    pub scopes: BTreeSet<Scope>,
}

impl RuleSet {
    /// Adds rules that another engine runs. One engine has all of them.
    pub fn add_scanned(&mut self, rules: Vec<ScannedRule>, scanner: Arc<dyn Scanner>) -> Vec<RuleError> {
        let mut errors = Vec::new();
        for ScannedRule { id, file, line, title, category, severity, scopes } in rules {
            let rule = Rule {
                at: (line, 1),
                title,
                why: String::new(),
                references: Vec::new(),
                category,
                weights: scopes.into_iter().map(|scope| (scope, score_of(severity))).collect(),
                support: BTreeSet::new(),
                secret: false,
                affirmative: false,
                plain: true,
                scanned: true,
                patterns: Vec::new(),
                compiled: Vec::new(),
                structure: None,
                examples: Examples::default(),
                id,
            };
            match self.rules.iter().any(|other| other.id == rule.id) {
                true => errors.push(rule.error(&file, format!("second rule {:?}", rule.id), "unique ids")),
                false => self.rules.push(rule),
            }
        }
        self.scanner = Some(scanner);
        errors
    }
}
