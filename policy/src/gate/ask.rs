//! What the guards say of names: they are asked as the engine asks them, without those that go by the calls before.

mod choose;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mcpwarden_gate::{
    ACROSS_JUDGED, ACROSS_REMEMBERED, Choice, DENY, LONG_NAME_BYTES, Limit, METHOD_OTHER, METHOD_PROMPT,
    METHOD_RESOURCE, METHOD_TOOL, OUTCOME_NUMBERS, UNDECIDED,
};
use serde_json::Value;

use choose::Known;

use super::alphabet::Alphabet;
use super::history::limit;
use super::{GateError, GateOutcome, GateSubject, GateVerdict, Methods};
use crate::classify::{Classification, Classifier};
use crate::config::{Config, Glob, ToolRule};
use crate::definition::bounded_name;
use crate::detect::{Detector, ToolNames};
use crate::glob::NameGlob;
use crate::guard::{Conditions, Facts, Operation, ToolFacts, Verdict};
use crate::guards::{Asked, Executor, Limiter, Question, build};
use crate::terms::{ConnectionId, GuardKind, Phase, PinState, RiskLevel, SessionId, Timestamp, ToolCategory};

/// Who goes by the calls before, which a table does not know: the kernel half counts them itself.
const BY_HISTORY: [GuardKind; 2] = [GuardKind::RateLimit, GuardKind::CrossServer];

/// Asks.
pub(super) struct Asker {
    executor: Executor,
    classifier: Arc<Classifier>,
    /// Globs on names of tools, each with the servers that it is for.
    globs: Vec<(NameGlob, NameGlob)>,
    /// Whether rules go by the arguments of calls.
    has_conditions: bool,
    limiter: Limiter,
    session: SessionId,
    no_names: ToolNames,
    now: Timestamp,
    outcomes: Vec<GateOutcome>,
    numbers: HashMap<GateOutcome, u16>,
    pub(super) choices: Vec<Choice>,
}

impl Asker {
    pub(super) fn new(
        config: &Config,
        detector: &Arc<Detector>,
        classifier: &Arc<Classifier>,
    ) -> Result<Self, GateError> {
        let mut executor = build(config, detector, classifier)?;
        executor.leave_out(&BY_HISTORY);
        let limiter = Limiter::new(&config.policy.rate_limits, config.policy.case_sensitive)?;
        Ok(Self {
            executor,
            classifier: Arc::clone(classifier),
            globs: globs(config)?,
            has_conditions: config.tool_rules().any(|(_, rule)| rule.has_conditions()),
            limiter,
            session: SessionId("gate".into()),
            no_names: ToolNames::default(),
            now: Timestamp::default(),
            outcomes: Vec::new(),
            numbers: HashMap::new(),
            choices: Vec::new(),
        })
    }

    /// From now on it is this time.
    pub(super) fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Everything by which the policy tells names of a subject apart: globs, and, unless it is `crowded`, the tools that it
    /// knows.
    pub(super) fn patterns(&self, subject: &GateSubject, crowded: bool) -> Vec<String> {
        let globs = self.globs.iter().filter(|(server, _)| subject.names().any(|name| server.matches(name)));
        let mut patterns: Vec<String> = globs.map(|(_, tool)| tool.expression()).collect();
        patterns.sort_unstable();
        patterns.dedup();
        if crowded {
            return patterns;
        }
        let denied = subject.standing.iter().filter_map(|denial| denial.subject.tool());
        let mut names: BTreeSet<&str> = denied.chain(subject.tools.keys().map(|name| &**name)).collect();
        // Longer names are told nothing of, known or not.
        names.retain(|name| name.len() <= usize::from(LONG_NAME_BYTES));
        patterns.extend(names.into_iter().map(regex::escape));
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
                    self.ask(subject, &[request("prompts/get"), prompt], None, Conditions::OfCall, None)
                }
                METHOD_RESOURCE => {
                    let resource = Operation::ResourceRequest { uri: "", is_listed: false };
                    self.ask(subject, &[request("resources/read"), resource], None, Conditions::OfCall, None)
                }
                METHOD_TOOL => self.ask(subject, &[request("tools/call")], None, Conditions::OfCall, None),
                _ => self.ask(subject, &[request("ping")], None, Conditions::OfCall, None),
            };
            *slot = self.outcome(&verdict, Consequences::default())?;
        }
        Ok(all)
    }

    /// What is said of a call of this tool, and of all whose names match the same patterns. `alphabet`: what of arguments can be
    /// told; without one, nothing.
    pub(super) fn name(
        &mut self,
        subject: &GateSubject,
        name: &str,
        alphabet: Option<&mut Alphabet>,
    ) -> Result<u16, GateError> {
        let limit = self.tool_limit(subject, name);
        if let Some(known) = subject.tools.get(name) {
            let consequences = self.consequences(subject, Some(known.category), limit);
            if known.approved_for.is_some() {
                return self.choose_approved(subject, name, known, consequences, alphabet);
            }
            if self.goes_by_arguments(subject, name, Some(known)) {
                let known = Known::Listed(known);
                return self.by_arguments(subject, name, known, consequences, alphabet);
            }
            return self.called(subject, name, Some(known), Conditions::Lenient, consequences);
        }
        let told = self.classifier.given(&subject.server.0, name);
        let consequences = self.consequences(subject, told.and_then(|told| told.category), limit);
        // The words of an unknown name say how risky it is and what it does, and other names with the same patterns have
        // other words: the guards are asked for the least and the most that words can say.
        let told = |told: Classification| ToolFacts {
            risk: told.risk,
            side_effects: told.side_effects,
            may_do_anything: told.may_do_anything,
            // No guard that goes by a definition objects to one that is pinned, as to none; it is not listed.
            pin: PinState::Pinned,
            removed: true,
            ..ToolFacts::default()
        };
        let bounds = self.classifier.bounds(&subject.server.0, name).map(told);
        let mut asked = [false; 2];
        for (facts, is_denied) in bounds.iter().zip(&mut asked) {
            let conditions = Conditions::Strictest;
            *is_denied = self.call(subject, name, Some(facts), conditions, None).denied.is_some();
        }
        let [least, most] = asked;
        if least != most {
            return self.number(consequences.of(GateVerdict::Undecided, None, "unlisted_tool"));
        }
        if self.goes_by_arguments(subject, name, None) {
            return self.by_arguments(subject, name, Known::Unlisted(&bounds), consequences, alphabet);
        }
        self.called(subject, name, None, Conditions::Lenient, consequences)
    }

    fn by_arguments(
        &mut self,
        subject: &GateSubject,
        name: &str,
        known: Known<'_>,
        consequences: Consequences,
        alphabet: Option<&mut Alphabet>,
    ) -> Result<u16, GateError> {
        match alphabet {
            Some(alphabet) => self.choose(subject, name, known, consequences, alphabet),
            None => self.number(consequences.of(GateVerdict::Undecided, None, "arguments")),
        }
    }

    /// The same of a server that lists more than there is room for: what is denied whatever the tool is, and nothing else.
    pub(super) fn name_of_many(&mut self, subject: &GateSubject, name: &str) -> Result<u16, GateError> {
        let harmless = ToolFacts { pin: PinState::Pinned, risk: RiskLevel::Low, ..ToolFacts::default() };
        let consequences = self.consequences(subject, None, self.tool_limit(subject, name));
        if self.call(subject, name, Some(&harmless), Conditions::Lenient, None).denied.is_some() {
            return self.called(subject, name, Some(&harmless), Conditions::Lenient, consequences);
        }
        self.number(consequences.of(GateVerdict::Undecided, None, "large_listing"))
    }

    /// Whether arguments decide about a call of a tool.
    fn goes_by_arguments(&mut self, subject: &GateSubject, name: &str, known: Option<&ToolFacts>) -> bool {
        self.has_conditions
            && self.call(subject, name, known, Conditions::Strictest, None).denied.is_some()
            && self.call(subject, name, known, Conditions::Lenient, None).denied.is_none()
    }

    pub(super) fn call(
        &mut self,
        subject: &GateSubject,
        tool_name: &str,
        known: Option<&ToolFacts>,
        conditions: Conditions<'_>,
        trace: Option<&mut Vec<Asked>>,
    ) -> Verdict {
        let operations = [
            Operation::Request { method: "tools/call", params: None },
            Operation::ToolInvoke { tool_name, arguments: None },
        ];
        self.ask(subject, &operations, known, conditions, trace)
    }

    /// What is said of a call: what a guard does, or what it means for those after it.
    pub(super) fn called(
        &mut self,
        subject: &GateSubject,
        name: &str,
        known: Option<&ToolFacts>,
        conditions: Conditions<'_>,
        consequences: Consequences,
    ) -> Result<u16, GateError> {
        let mut trace = self.is_limited(subject).then(Vec::new);
        let verdict = self.call(subject, name, known, conditions, trace.as_mut());
        let is_late = verdict.denied.as_ref().is_some_and(|(kind, _)| !kind.is_across_servers());
        let pays = is_late && trace.is_some_and(|trace| self.pays(subject, &trace));
        let consequences = match &verdict.denied {
            // Nor does it where the calls before are what denies it: the rules across servers come first.
            Some(_) if pays => Consequences { pays, may_do_anything: false, ..consequences },
            Some(_) => Consequences::default(),
            None => consequences,
        };
        self.outcome(&verdict, consequences)
    }

    /// Whether a call takes its tokens before the last of those who were asked has denied it.
    fn pays(&self, subject: &GateSubject, trace: &[Asked]) -> bool {
        let asked = |phase| trace.iter().filter(|asked| asked.phase == phase).count();
        trace.last().is_some_and(|last| {
            let (server, nth) = (subject.called(), asked(last.phase) - 1);
            last.phase == Phase::ToolInvoke
                && self.executor.comes_before(GuardKind::RateLimit, last.phase, server, nth)
        })
    }

    fn ask(
        &mut self,
        subject: &GateSubject,
        operations: &[Operation<'_>],
        tool: Option<&ToolFacts>,
        conditions: Conditions<'_>,
        trace: Option<&mut Vec<Asked>>,
    ) -> Verdict {
        let facts = Facts {
            server: &subject.server,
            also: &subject.also,
            identity: subject.identity,
            enabled: subject.enabled,
            trust: subject.trust,
            listing: subject.listing,
            session: &self.session,
            connection: ConnectionId(0),
            jsonrpc_id: None,
            host: None,
            uid: None,
            turn: None,
            is_retry: false,
            lists_resource: false,
            tool,
            tool_names: &self.no_names,
            ahead: None,
            conditions,
            profile: &subject.profile,
            block: subject.block.as_ref(),
            standing: &subject.standing,
            mutes: crate::mutes::MutesOf::default(),
            metadata: &Value::Null,
        };
        self.executor.ask(&Question { operations, facts: &facts, now: self.now }, trace)
    }

    fn outcome(&mut self, verdict: &Verdict, consequences: Consequences) -> Result<u16, GateError> {
        match &verdict.denied {
            Some((guard, denial)) => {
                self.number(consequences.of(GateVerdict::Deny, Some(*guard), denial.code.name()))
            }
            None => self.number(consequences.of(GateVerdict::Allow, None, "")),
        }
    }

    /// What the rules across servers are to a server: they remember what is called on each, and some are judged by them.
    pub(super) fn across(&self, subject: &GateSubject) -> u16 {
        let kind = GuardKind::CrossServer;
        let is_judged = self.executor.has(kind, Phase::ToolInvoke, subject.called());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.executor.has_any(kind), ACROSS_REMEMBERED) | flag(is_judged, ACROSS_JUDGED)
    }

    fn is_limited(&self, subject: &GateSubject) -> bool {
        self.executor.has(GuardKind::RateLimit, Phase::ToolInvoke, subject.called())
    }

    /// How often a server may be called.
    pub(super) fn server_limit(&self, subject: &GateSubject) -> Option<Limit> {
        self.is_limited(subject).then(|| limit(self.limiter.server_limit(&subject.server.0)))
    }

    fn tool_limit(&self, subject: &GateSubject, name: &str) -> Option<Limit> {
        self.is_limited(subject)
            .then(|| self.limiter.tool_limit(&subject.server.0, name).map(limit))
            .flatten()
    }

    /// What a call is to those after it, if its tool does that; with `None` nobody knows what it does.
    fn consequences(
        &self,
        subject: &GateSubject,
        does: Option<ToolCategory>,
        limit: Option<Limit>,
    ) -> Consequences {
        match does {
            _ if self.across(subject) == 0 => Consequences { limit, ..Consequences::default() },
            Some(category) => Consequences { category, limit, ..Consequences::default() },
            None => Consequences { may_do_anything: true, limit, ..Consequences::default() },
        }
    }

    /// A name that is too long to be kept, and to be told.
    fn long_name() -> String {
        bounded_name(&"x".repeat(4 * usize::from(LONG_NAME_BYTES)))
    }

    /// Whether the name of a tool is denied that is too long to be kept, of which nothing else is known.
    pub(super) fn denies_long(&mut self, subject: &GateSubject) -> bool {
        self.call(subject, &Self::long_name(), None, Conditions::Strictest, None).denied.is_some()
    }

    /// What is said of a name that is too long, where this is the worst that is said of any.
    pub(super) fn long(&mut self, subject: &GateSubject, worst: u16) -> Result<u16, GateError> {
        let limit = self.tool_limit(subject, &Self::long_name());
        let consequences = match super::verdict(worst) {
            GateVerdict::Deny => Consequences::default(),
            _ => self.consequences(subject, None, limit),
        };
        self.number(consequences.of(super::verdict(worst), None, "undecidable_name"))
    }

    /// What is said of a form of messages that cannot be told, where this is the worst that is said of any.
    pub(super) fn form(&mut self, code: &str, worst: u16) -> Result<u16, GateError> {
        self.number(Consequences::default().of(super::verdict(worst), None, code))
    }

    pub(super) fn number(&mut self, outcome: GateOutcome) -> Result<u16, GateError> {
        let flag = match outcome.verdict {
            GateVerdict::Allow if outcome.has_no_consequences() => return Ok(0),
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

    /// What the numbers mean that it gave, from 1.
    pub(super) fn outcomes(&self) -> &[GateOutcome] {
        &self.outcomes
    }

    /// Gives numbers anew.
    pub(super) fn forget(&mut self) {
        self.outcomes.clear();
        self.numbers.clear();
        self.choices.clear();
    }
}

/// What a call that is let through is to those after it.
#[derive(Clone, Copy, Default)]
pub(super) struct Consequences {
    category: ToolCategory,
    may_do_anything: bool,
    limit: Option<Limit>,
    pays: bool,
}

impl Consequences {
    pub(super) fn of(self, verdict: GateVerdict, guard: Option<GuardKind>, code: &str) -> GateOutcome {
        let Self { category, may_do_anything, limit, pays } = self;
        GateOutcome { verdict, guard, code: code.to_owned(), category, may_do_anything, limit, pays }
    }
}

impl GateOutcome {
    fn has_no_consequences(&self) -> bool {
        let is_harmless = matches!(self.category, ToolCategory::Unknown | ToolCategory::Compute);
        is_harmless && !self.may_do_anything && self.limit.is_none()
    }
}

/// Every glob on names of tools in a configuration, with that of the servers that it is for.
fn globs(config: &Config) -> Result<Vec<(NameGlob, NameGlob)>, GateError> {
    let case = config.policy.case_sensitive;
    let mut globs = Vec::new();
    for (_, ToolRule { server, tool, .. }) in config.tool_rules() {
        globs.push((server.compile(case)?, tool.compile(case)?));
    }
    for server in &config.servers {
        // Its id is no glob.
        let own = |_: &Glob| NameGlob::plain(&server.id);
        for glob in &server.allow_tools {
            globs.push((own(glob), glob.compile(case)?));
        }
    }
    for limited in config.policy.rate_limits.per_tool.keys() {
        let (server, tool) = limited.server_and_tool();
        globs.push((server.compile(case)?, tool.compile(case)?));
    }
    for entry in &config.classifier.overrides {
        globs.push((entry.server.compile(case)?, entry.tool.compile(case)?));
    }
    Ok(globs)
}
