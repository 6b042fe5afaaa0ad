//! What the guards say of names: they are asked as the engine asks them, without those that go by the calls before.

use std::collections::HashMap;
use std::sync::Arc;

use mcpwarden_gate::{
    DENY, LONG_NAME_BYTES, METHOD_OTHER, METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL, OUTCOME_NUMBERS,
    UNDECIDED,
};
use serde_json::Value;

use super::{GateError, GateOutcome, GateSubject, GateVerdict, Methods};
use crate::classify::{Classifier, side_effect_tags};
use crate::config::{Config, Glob, ToolRule};
use crate::detect::{Detector, ToolNames};
use crate::glob::NameGlob;
use crate::guard::{Facts, GuardKind, Operation, PinState, RiskLevel, ToolCategory, ToolFacts, Verdict};
use crate::guards::{Executor, Outcome, Question, build};
use crate::hash::bounded_name;
use crate::ids::{SessionId, Timestamp};

/// What the kernel half cannot know from a table: how often was called, and what was called before.
pub(crate) const BY_HISTORY: [GuardKind; 2] = [GuardKind::RateLimit, GuardKind::CrossServer];

/// Asks.
pub(super) struct Asker {
    executor: Executor,
    classifier: Arc<Classifier>,
    /// Globs on names of tools, each with the servers that it is for.
    globs: Vec<(NameGlob, NameGlob)>,
    /// Whether the rules across servers want to know what tools do.
    categories: bool,
    session: SessionId,
    no_names: ToolNames,
    now: Timestamp,
    outcomes: Vec<GateOutcome>,
    numbers: HashMap<GateOutcome, u16>,
}

impl Asker {
    pub(super) fn new(
        config: &Config,
        detector: &Arc<Detector>,
        classifier: &Arc<Classifier>,
        now: Timestamp,
    ) -> Result<Self, GateError> {
        let mut executor = build(config, detector, classifier)?;
        executor.leave_out(&BY_HISTORY);
        Ok(Self {
            executor,
            classifier: Arc::clone(classifier),
            globs: globs(config)?,
            categories: config.cross_server.enabled,
            session: SessionId("gate".into()),
            no_names: ToolNames::default(),
            now,
            outcomes: Vec::new(),
            numbers: HashMap::new(),
        })
    }

    /// Everything by which the policy tells names of a subject apart: globs, and the tools that it knows.
    pub(super) fn patterns(&self, subject: &GateSubject) -> Vec<String> {
        let globs = self.globs.iter().filter(|(server, _)| server.matches(&subject.server.0));
        let mut patterns: Vec<String> = globs.map(|(_, tool)| tool.expression()).collect();
        patterns.sort_unstable();
        patterns.dedup();
        // Longer names are told nothing of, known or not.
        let names = subject.tools.keys().filter(|name| name.len() <= usize::from(LONG_NAME_BYTES));
        patterns.extend(names.map(|name| regex::escape(name)));
        patterns
    }

    /// What is said of every message with a method, by method.
    pub(super) fn methods(&mut self, subject: &GateSubject) -> Result<Methods, GateError> {
        let mut all = Methods::default();
        for (method, slot) in
            [METHOD_OTHER, METHOD_TOOL, METHOD_PROMPT, METHOD_RESOURCE].into_iter().zip(&mut all)
        {
            let request = |method| Operation::Request { method, params: None };
            let verdict = match method {
                METHOD_PROMPT => {
                    let prompt = Operation::PromptRequest { name: "", arguments: None };
                    self.ask(subject, &[request("prompts/get"), prompt], None)
                }
                METHOD_RESOURCE => {
                    let resource = Operation::ResourceRequest { uri: "" };
                    self.ask(subject, &[request("resources/read"), resource], None)
                }
                METHOD_TOOL => self.ask(subject, &[request("tools/call")], None),
                _ => self.ask(subject, &[request("ping")], None),
            };
            *slot = self.outcome(&verdict, ToolCategory::Unknown)?;
        }
        Ok(all)
    }

    /// What is said of a call of this tool, and of all whose names match the same patterns.
    pub(super) fn name(&mut self, subject: &GateSubject, name: &str) -> Result<u16, GateError> {
        if let Some(known) = subject.tools.get(name) {
            let verdict = self.call(subject, name, Some(known));
            return self.outcome(&verdict, known.category);
        }
        let verdict = self.call(subject, name, None);
        let told = self.classifier.given(&subject.server.0, name);
        let category = told.and_then(|told| told.category).unwrap_or_default();
        // The words of an unknown name say how risky it is and what it does, and other names with the same patterns have
        // other words: the guards are asked for the least and the most that words can say.
        let told = |risk, tags: &mut dyn Iterator<Item = &str>| ToolFacts {
            risk: told.and_then(|told| told.risk_level).unwrap_or(risk),
            side_effects: match told.and_then(|told| told.side_effect_tags.as_ref()) {
                Some(tags) => tags.clone(),
                None => tags.map(str::to_owned).collect(),
            },
            // No guard that goes by a definition objects to one that is pinned, as to none; it is not listed.
            pin: PinState::Pinned,
            removed: true,
            ..ToolFacts::default()
        };
        let least = told(RiskLevel::Low, &mut std::iter::empty());
        let most = told(RiskLevel::Critical, &mut side_effect_tags());
        let [least, most] =
            [least, most].map(|facts| self.call(subject, name, Some(&facts)).denied.is_some());
        if least != most {
            let (verdict, code) = (GateVerdict::Undecided, "unlisted_tool".to_owned());
            return self.number(GateOutcome { verdict, guard: None, code, category });
        }
        self.outcome(&verdict, category)
    }

    fn call(&mut self, subject: &GateSubject, tool_name: &str, known: Option<&ToolFacts>) -> Verdict {
        let operations = [
            Operation::Request { method: "tools/call", params: None },
            Operation::ToolInvoke { tool_name, arguments: None },
        ];
        self.ask(subject, &operations, known)
    }

    fn ask(
        &mut self,
        subject: &GateSubject,
        operations: &[Operation<'_>],
        tool: Option<&ToolFacts>,
    ) -> Verdict {
        let facts = Facts {
            server: &subject.server,
            identity: subject.identity,
            enabled: subject.enabled,
            trust: subject.trust,
            listing: subject.listing,
            session: &self.session,
            uid: None,
            turn: None,
            tool,
            tool_names: &self.no_names,
            profile: &subject.profile,
            metadata: &Value::Null,
        };
        match self.executor.ask(&Question { operations, facts: &facts, now: self.now }, None) {
            Outcome::Decided(verdict) => verdict,
            // No built-in guard asks somebody else.
            Outcome::Waiting { ticket, .. } => {
                self.executor.forget(ticket);
                Verdict::default()
            }
        }
    }

    fn outcome(&mut self, verdict: &Verdict, category: ToolCategory) -> Result<u16, GateError> {
        let (verdict, guard, code) = match &verdict.denied {
            Some((guard, denial)) => (GateVerdict::Deny, Some(*guard), denial.code.clone()),
            None => (GateVerdict::Allow, None, String::new()),
        };
        // What is let through matters to the rules across servers alone.
        let category = if self.categories { category } else { ToolCategory::Unknown };
        self.number(GateOutcome { verdict, guard, code, category })
    }

    /// Whether the name of a tool is denied that is too long to be kept, of which nothing else is known.
    pub(super) fn denies_long(&mut self, subject: &GateSubject) -> bool {
        let name = bounded_name(&"x".repeat(4 * usize::from(LONG_NAME_BYTES)));
        self.call(subject, &name, None).denied.is_some()
    }

    /// What is said of a form of messages that cannot be told, where this is the worst that is said of any.
    pub(super) fn form(&mut self, code: &str, worst: u16) -> Result<u16, GateError> {
        let (verdict, category) = (super::verdict(worst), ToolCategory::Unknown);
        match verdict {
            GateVerdict::Allow => Ok(0),
            verdict => self.number(GateOutcome { verdict, guard: None, code: code.to_owned(), category }),
        }
    }

    fn number(&mut self, outcome: GateOutcome) -> Result<u16, GateError> {
        let flag = match outcome.verdict {
            GateVerdict::Allow if outcome.category == ToolCategory::Unknown => return Ok(0),
            GateVerdict::Allow => 0,
            GateVerdict::Undecided => UNDECIDED,
            GateVerdict::Deny => DENY,
        };
        let next = self.outcomes.len() + 1;
        let number = match self.numbers.get(&outcome) {
            Some(number) => *number,
            None => {
                let number = u16::try_from(next).ok().filter(|number| *number <= OUTCOME_NUMBERS);
                let number = number.ok_or(GateError::Outcomes(next))?;
                self.numbers.insert(outcome.clone(), number);
                self.outcomes.push(outcome);
                number
            }
        };
        Ok(number | flag)
    }

    pub(super) fn into_outcomes(self) -> Vec<GateOutcome> {
        self.outcomes
    }
}

/// Every glob on names of tools in a configuration, with that of the servers that it is for.
fn globs(config: &Config) -> Result<Vec<(NameGlob, NameGlob)>, GateError> {
    let (policy, case) = (&config.policy, config.policy.case_sensitive);
    let settings = || config.guards.iter().filter_map(|entry| entry.config.as_ref());
    let lists =
        [&policy.allowed_tools, &policy.denied_tools, &policy.disabled_tools, &policy.requires_admin_token];
    let given = settings().flat_map(|given| [&given.allowed_tools, &given.denied_tools, &given.tools]);
    let rules = lists.into_iter().chain(given.flatten()).flatten();
    let mut globs = Vec::new();
    for ToolRule { server, tool, .. } in rules {
        globs.push((server.compile(case)?, tool.compile(case)?));
    }
    for server in &config.servers {
        // Its id is no glob.
        let own = |_: &Glob| NameGlob::plain(&server.id);
        for glob in &server.allow_tools {
            globs.push((own(glob), glob.compile(case)?));
        }
    }
    for entry in &config.classifier.overrides {
        globs.push((entry.server.compile(case)?, entry.tool.compile(case)?));
    }
    Ok(globs)
}
