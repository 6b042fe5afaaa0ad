//! The requests of operators at the control socket, executed by the agent's one task.

use mcpwarden_policy::{
    ByHand, Decide, Definitions, Event, EventBody, Input, OperatorCommand, Output, ServerId, SessionId,
    WaitingTool,
    config::{ArgumentTests, Config, argument_tests},
    event::{BlockEnd, CallsBlocked, CallsUnblocked, NetworkBlocked, NetworkUnblocked},
    guards::{Callee, ProfileChange, Setting},
    lint::{is_asked, known_side_effects},
    network::Target,
    registry::ApprovalLimits,
};
use serde_json::Value;

use super::Agent;
use crate::{
    config::StdioEnforcement,
    control::{
        Answer, BlockView, Blocks, Code, Decided, NewBlock, NewDecision, NewLimits, NewSetting, OldBlock,
        Operation, Refusal, Request, SetSession, Waiting,
    },
    network::{self, BlockError, BlockRequest, Standing, Who},
};

/// The operator who sent a request, by name.
fn user(by: &Who) -> String {
    by.user.clone().unwrap_or_else(|| format!("user {}", by.uid))
}

/// Longest name of the person who decides. Bytes.
const MAX_BY_BYTES: usize = 128;
/// Longest id of a project. Bytes.
const MAX_PROJECT_BYTES: usize = 256;

/// The person who decides: the operator, and the person that they name.
pub(super) fn on_behalf_of(name: Option<&str>, by: &Who) -> Result<String, Refusal> {
    let user = user(by);
    match name {
        Some(name) if name.len() > MAX_BY_BYTES => {
            Err(Code::Unusable.because(format!("`by` is longer than {MAX_BY_BYTES} bytes")))
        }
        Some(name) => Ok(format!("{name} ({user})")),
        None => Ok(user),
    }
}

/// Refuses settings that their types allow and that would have no effect.
fn check_setting(setting: &Setting, config: &Config) -> Result<(), Refusal> {
    match setting {
        Setting::Project(Some(project)) if project.is_empty() || project.len() > MAX_PROJECT_BYTES => {
            Err(Code::Unusable.because(format!("the id of a project has 1 to {MAX_PROJECT_BYTES} bytes")))
        }
        Setting::Blacklist(tags) => {
            let known = known_side_effects(config);
            let Some(tag) = tags.iter().find(|tag| !known.contains(tag.as_str())) else { return Ok(()) };
            let known: Vec<&str> = known.into_iter().collect();
            let message = format!(
                "no tool has the side effect `{tag}`; the known side effects are {}",
                known.join(", ")
            );
            Err(Code::Unusable.because(message))
        }
        _ => Ok(()),
    }
}

/// Most tests, and most bytes of them, of a limited approval, which is kept with the pin.
const MAX_TESTS: usize = 16;
const MAX_TEST_BYTES: usize = 4 << 10;

/// Refuses limits of an approval that limit nothing, or that hold for no call.
fn check_limits(new: &NewLimits) -> Result<ArgumentTests, Refusal> {
    let unusable = |message: String| Err(Code::Unusable.because(message));
    if *new == NewLimits::default() {
        return unusable("`limits` needs `arguments`, `once` or `for`".to_owned());
    }
    if new.period.is_some_and(|period| period.0.is_zero()) {
        return unusable("`for` must be longer than 0".to_owned());
    }
    let json = serde_json::to_string(&new.arguments).unwrap_or_default();
    if new.arguments.len() > MAX_TESTS || json.len() > MAX_TEST_BYTES {
        return unusable(format!(
            "`arguments` has at most {MAX_TESTS} tests, of {MAX_TEST_BYTES} bytes in all"
        ));
    }
    argument_tests(&Value::Object(new.arguments.clone())).or_else(unusable)
}

impl Agent {
    /// Executes a request, reports it as an event, and answers it.
    pub(super) fn execute_request(&mut self, request: Request) {
        let answer = match request.operation {
            Operation::Blocks => Ok(Answer::Blocks(Blocks {
                blocks: self.network.blocks().iter().map(|block| self.view(block)).collect(),
            })),
            Operation::Block(new) => self.block(&new, request.by).map_err(Refusal::from),
            Operation::Unblock(old) => self.unblock(&old, request.by).map_err(Refusal::from),
            Operation::Approvals => {
                let printed = |mut tool: WaitingTool| {
                    tool.requested = self.clock.printed(tool.requested);
                    tool.expires = self.clock.printed(tool.expires);
                    tool
                };
                Ok(Answer::Waiting(Waiting { approvals: self.engine.waiting().map(printed).collect() }))
            }
            Operation::Decide(new) => self.decide(&new, &request.by),
            Operation::Mutes => Ok(Answer::Mutes(self.mutes())),
            Operation::Mute(new) => self.mute(&new, &request.by),
            Operation::Unmute(old) => self.unmute(&old, &request.by),
            Operation::SetSession(new) => self.set_session(new, &request.by),
            Operation::Listings => Ok(Answer::Listings(self.listed())),
            Operation::List(new) => self.list(new),
            Operation::Status => Ok(Answer::Status(Box::new(self.status()))),
            Operation::Reload => return self.reload(user(&request.by), Some(request.answer)),
        };
        // Whoever requested it may be gone; what was done is reported as an event.
        let _ = request.answer.send(answer);
    }

    /// Decides about definitions.
    fn decide(&mut self, new: &NewDecision, by: &Who) -> Result<Answer, Refusal> {
        let NewDecision { server, tool, all, decision, uid, program, hash, by: name, limits } = new;
        let what = match (tool, all) {
            (Some(name), false) => Definitions::Tool { name, hash: hash.as_deref() },
            (None, true) if hash.is_none() => Definitions::All,
            _ => {
                return Err(
                    Code::Unusable.because("the request needs either `tool`, or `all` without a `hash`")
                );
            }
        };
        let limits = limits.as_ref().map(|limits| self.limits(limits, what, *decision)).transpose()?;
        let server = ServerId(server.as_str().into());
        let by = on_behalf_of(name.as_deref(), by)?;
        let (uid, program, decision) = (*uid, program.as_deref(), *decision);
        let decide =
            Decide { server: &server, uid, program, what, by: &by, decision, limits: limits.as_ref() };
        let decided = self.command(OperatorCommand::Decide(decide))?;
        Ok(Answer::Decided(Decided { decided }))
    }

    /// The limits of an approval, checked.
    fn limits(
        &self,
        new: &NewLimits,
        what: Definitions<'_>,
        decision: ByHand,
    ) -> Result<ApprovalLimits, Refusal> {
        if decision != ByHand::Approve || matches!(what, Definitions::All) {
            return Err(Code::Unusable.because("`limits` belong to the approval of one tool"));
        }
        let arguments = check_limits(new)?;
        let until = new.period.map(|period| self.clock.now().after(period.0));
        Ok(ApprovalLimits { arguments, once: new.once, until })
    }

    /// Has the engine execute a command. The events of it.
    pub(super) fn command(&mut self, command: OperatorCommand<'_>) -> Result<Vec<Event>, Refusal> {
        // Nothing else waits there: outputs are carried out as they come.
        self.handle(Input::Operator(command));
        let mut events = Vec::new();
        let mut failed = None;
        for output in &self.pending.outputs {
            match output {
                Output::Event(event) => {
                    let mut event = event.clone();
                    self.clock.print(&mut event);
                    events.push(event);
                }
                Output::Failed(error) => failed = Some(Refusal::from(error)),
                _ => {}
            }
        }
        self.execute();
        self.gate.forget_idle_endpoints();
        failed.map_or(Ok(events), Err)
    }

    /// Changes the profile by which a session's calls are judged.
    fn set_session(&mut self, new: NewSetting, by: &Who) -> Result<Answer, Refusal> {
        let NewSetting { session, set, reset, by: name } = new;
        let (key, change) = match (set, reset) {
            (Some(setting), None) => (setting.key(), ProfileChange::Set(setting)),
            (None, Some(key)) => (key, ProfileChange::Reset(key)),
            _ => return Err(Code::Unusable.because("the request needs either `set` or `reset`")),
        };
        let config = self.reload.config();
        if let ProfileChange::Set(setting) = &change {
            check_setting(setting, config)?;
        }
        let guard = key.guard();
        let idle = (!is_asked(config, guard)).then(|| {
            let guard = guard.name();
            format!("the guard `{guard}`, which uses this setting, is off; `kind: {guard}` in `guards` of the configuration turns it on")
        });
        let by = on_behalf_of(name.as_deref(), by)?;
        let session = SessionId(session.into());
        let events = self.command(OperatorCommand::SetSession { session, change, by: &by })?;
        let set = events.into_iter().rfind(|event| matches!(event.body, EventBody::SessionSet(_)));
        let event = set.ok_or_else(|| Code::Failed.because("the setting was not changed".to_owned()))?;
        Ok(Answer::SetSession(Box::new(SetSession { event, idle })))
    }

    fn block(&mut self, new: &NewBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&new.target, new.port)?;
        if let Target::Calls(callee) = &target {
            self.gate.can_block(callee, self.reload.config(), &self.engine, &mut self.kernel)?;
        }
        let period = new.period.map(|period| period.0);
        let request = BlockRequest { target, period, reason: new.reason.as_deref(), sure: new.yes, by };
        let block = self.network.block(request, self.kernel.addresses(), &self.clock);
        self.block_calls();
        if block.is_err() {
            self.gate.block_was_refused(self.reload.config(), &mut self.kernel);
        }
        let block = block?;
        let blocked = NetworkBlocked {
            target: network::text(&block.target),
            until: block.until(&self.clock),
            reason: block.reason.clone(),
            uid: block.by.uid,
            user: block.by.user.clone(),
        };
        match &block.target {
            Target::Calls(_) => self.report_of(&block.target, CallsBlocked(blocked)),
            Target::Address(_) | Target::Server(_) => self.report_of(&block.target, blocked),
        }
        Ok(Answer::Block(Box::new(self.view(&block))))
    }

    fn unblock(&mut self, old: &OldBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&old.target, old.port)?;
        let lifted = self.network.unblock(&target, self.kernel.addresses(), &self.clock)?;
        self.block_calls();
        self.report_unblocked(&lifted, BlockEnd::Unblocked, Some(by));
        Ok(Answer::Block(Box::new(self.view(&lifted))))
    }

    /// Lifts blocks that are over, and reports them.
    pub(super) fn expire_blocks(&mut self) {
        let expired = self.network.expire(self.kernel.addresses(), &self.clock);
        self.block_calls();
        for block in expired {
            self.report_unblocked(&block, BlockEnd::Expired, None);
        }
    }

    /// Lifts all blocks, which end with the agent, and reports them.
    pub(super) fn end_blocks(&mut self) {
        let lifted = self.network.lift_all(self.kernel.addresses(), &self.clock);
        self.block_calls();
        for block in lifted {
            self.report_unblocked(&block, BlockEnd::AgentStopped, None);
        }
    }

    fn report_unblocked(&mut self, block: &Standing, reason: BlockEnd, by: Option<Who>) {
        let target = network::text(&block.target);
        let (uid, user) = by.map_or((None, None), |by| (Some(by.uid), by.user));
        let unblocked = NetworkUnblocked { target, reason, uid, user };
        match &block.target {
            Target::Calls(_) => self.report_of(&block.target, CallsUnblocked(unblocked)),
            Target::Address(_) | Target::Server(_) => self.report_of(&block.target, unblocked),
        }
    }

    /// Reports an event about a target, which may be a server.
    fn report_of(&mut self, target: &Target, body: impl Into<EventBody>) {
        let (server, session) = match target {
            Target::Server(id) | Target::Calls(Callee::Server(id)) => (Some(id.clone()), None),
            Target::Calls(Callee::Session(id)) => (None, Some(id.clone())),
            Target::Address(_) => (None, None),
        };
        let event = Event {
            server_id: server,
            session_id: session,
            server_type: self.network.kind_of(target),
            ..Event::agent(self.clock.now(), body.into())
        };
        self.emit(event);
    }

    /// Brings the policy core and the gate up to the calls that are blocked by hand, at once.
    fn block_calls(&mut self) {
        let blocks = self.network.blocked_calls(&self.clock);
        if !self.gate.set_blocks(&blocks) {
            return;
        }
        self.handle(Input::Operator(OperatorCommand::BlockCalls(blocks)));
        self.execute();
        let config = self.reload.config();
        if config.enforcement.stdio == StdioEnforcement::Observe {
            self.gate.configure(config, &mut self.kernel);
        }
        self.renew_gate();
    }

    fn view(&self, block: &Standing) -> BlockView {
        let addresses = self.network.addresses_of(&block.target);
        BlockView {
            target: network::text(&block.target),
            server_type: self.network.kind_of(&block.target),
            since: self.clock.printed(block.since),
            until: block.until(&self.clock).map(|until| self.clock.printed(until)),
            reason: block.reason.clone(),
            uid: block.by.uid,
            user: block.by.user.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            connections: match &block.target {
                Target::Calls(callee) => Some(self.engine.connections_of(callee)),
                Target::Address(_) | Target::Server(_) => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_name_the_operator_and_their_principal() {
        let long = "x".repeat(MAX_BY_BYTES + 1);
        for (name, user, expected) in [
            (None, None, Some("user 7")),
            (None, Some("ann"), Some("ann")),
            (Some("Bob"), Some("ann"), Some("Bob (ann)")),
            (Some("Bob"), None, Some("Bob (user 7)")),
            (Some(&long[1..]), None, Some(&*format!("{} (user 7)", &long[1..]))),
            (Some(&*long), None, None),
        ] {
            let by = Who { uid: 7, user: user.map(str::to_owned) };
            assert_eq!(on_behalf_of(name, &by).ok().as_deref(), expected, "{name:?} {user:?}");
        }
    }

    #[test]
    fn limits_of_an_approval_are_checked() {
        for (json, expected) in [
            (r#"{"once":true}"#, None),
            (r#"{"for":"1h"}"#, None),
            (r#"{"arguments":{"/path":{"below":"/srv"}}}"#, None),
            ("{}", Some("`limits` needs")),
            (r#"{"once":false,"arguments":{}}"#, Some("`limits` needs")),
            (r#"{"for":"0s"}"#, Some("longer than 0")),
            (r#"{"arguments":{"/path":{}}}"#, Some("must not be empty")),
            (r#"{"arguments":{"/path":{"not":{"below":"srv"}}}}"#, Some("does not begin with /")),
            (
                &format!(r#"{{"arguments":{{"/a":{{"prefix":"{}"}}}}}}"#, "x".repeat(MAX_TEST_BYTES)),
                Some("at most"),
            ),
        ] {
            let refusal = check_limits(&serde_json::from_str(json).unwrap()).err();
            let message = refusal.map(|refusal| refusal.message);
            assert!(
                message.is_some() == expected.is_some()
                    && message.clone().unwrap_or_default().contains(expected.unwrap_or_default()),
                "{json}: {message:?}"
            );
        }
    }

    #[test]
    fn settings_without_effect_are_refused() {
        let (config, _) = mcpwarden_policy::config::parse(b"").unwrap();
        let known = *known_side_effects(&config).first().unwrap();
        let project = |text: &str| Setting::Project(Some(text.to_owned()));
        let tags = |all: &[&str]| Setting::Blacklist(all.iter().map(|tag| (*tag).to_owned()).collect());
        for (name, setting, is_refused) in [
            ("no project", Setting::Project(None), false),
            ("a project", project("p"), false),
            ("the empty project", project(""), true),
            ("the longest project", project(&"p".repeat(MAX_PROJECT_BYTES)), false),
            ("a project that is too long", project(&"p".repeat(MAX_PROJECT_BYTES + 1)), true),
            ("a known side effect", tags(&[known]), false),
            ("an unknown side effect", tags(&[known, "no.such"]), true),
        ] {
            let refusal = check_setting(&setting, &config).err().map(|refusal| refusal.code);
            assert_eq!(refusal, is_refused.then_some(Code::Unusable), "{name}");
        }
    }
}
