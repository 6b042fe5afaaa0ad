//! What the control socket asks for, done by the agent's one task.

use mcpwarden_policy::{
    CommandError, Decide, Definitions, Event, EventBody, Input, OperatorCommand, Output, ProfileError,
    ServerId, SessionId,
    config::Config,
    event::{BlockEnd, CallsBlocked, CallsUnblocked, NetworkBlocked, NetworkUnblocked},
    guards::{Callee, ProfileChange, Setting},
    lint::{is_asked, known_side_effects},
    network::Target,
    registry::RegistryError,
};

use super::Agent;
use crate::{
    control::{
        Answer, Ask, BlockView, Blocks, Code, Decided, NewBlock, NewDecision, NewSetting, OldBlock, Refusal,
        Request, SetSession, Waiting,
    },
    network::{self, BlockError, BlockRequest, Standing, Who},
};

/// Who asks, in a word or two.
fn user(by: &Who) -> String {
    by.user.clone().unwrap_or_else(|| format!("user {}", by.uid))
}

/// Longest name of who decides. Bytes.
const MAX_BY_BYTES: usize = 128;
/// Longest id of a project. Bytes.
const MAX_PROJECT_BYTES: usize = 256;

/// Who decides: who asks, and in whose name.
fn in_whose_name(name: Option<&str>, by: &Who) -> Result<String, Refusal> {
    let user = user(by);
    match name {
        Some(name) if name.len() > MAX_BY_BYTES => {
            Err(Code::Unusable.because(format!("`by` is longer than {MAX_BY_BYTES} bytes")))
        }
        Some(name) => Ok(format!("{name} ({user})")),
        None => Ok(user),
    }
}

/// What the types of a setting let through and what would have no effect.
fn check_setting(setting: &Setting, config: &Config) -> Result<(), Refusal> {
    match setting {
        Setting::Project(Some(project)) if project.is_empty() || project.len() > MAX_PROJECT_BYTES => {
            Err(Code::Unusable.because(format!("the id of a project has 1 to {MAX_PROJECT_BYTES} bytes")))
        }
        Setting::Blacklist(tags) => {
            let known = known_side_effects(config);
            let Some(tag) = tags.iter().find(|tag| !known.contains(tag.as_str())) else { return Ok(()) };
            let known: Vec<&str> = known.into_iter().collect();
            let message =
                format!("no tool is known to have the side effect `{tag}`: there are {}", known.join(", "));
            Err(Code::Unusable.because(message))
        }
        _ => Ok(()),
    }
}

impl From<&RegistryError> for Refusal {
    fn from(error: &RegistryError) -> Self {
        let code = match error {
            RegistryError::Unknown { .. } => Code::NotFound,
            RegistryError::Ambiguous { .. } => Code::Ambiguous,
            RegistryError::OtherHash { .. } => Code::Unusable,
            RegistryError::Connections(_) => Code::Full,
            RegistryError::Store(_) => Code::Failed,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<&CommandError> for Refusal {
    fn from(error: &CommandError) -> Self {
        let code = match error {
            CommandError::Decision(error) => return error.into(),
            CommandError::Profile(ProfileError::NoSession(_)) => Code::NotFound,
            CommandError::Profile(ProfileError::Full(_)) => Code::Full,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<BlockError> for Refusal {
    fn from(error: BlockError) -> Self {
        let code = match &error {
            BlockError::Unusable(_) => Code::Unusable,
            BlockError::Sweeping(..) => Code::NeedsYes,
            BlockError::TooMany | BlockError::Table(_) => Code::Full,
            BlockError::NotBlocked(..) | BlockError::NoSession(_) => Code::NotFound,
            BlockError::NoGate(_) => Code::Failed,
        };
        Self { code, message: error.to_string() }
    }
}

impl Agent {
    /// Does what is asked, and says so.
    pub(super) fn obey(&mut self, request: Request) {
        let answer = match request.ask {
            Ask::Blocks => Ok(Answer::Blocks(Blocks {
                blocks: self.network.blocks().iter().map(|block| self.view(block)).collect(),
            })),
            Ask::Block(new) => self.block(&new, request.by).map_err(Refusal::from),
            Ask::Unblock(old) => self.unblock(&old, request.by).map_err(Refusal::from),
            Ask::Approvals => Ok(Answer::Waiting(Waiting { approvals: self.engine.waiting().collect() })),
            Ask::Decide(new) => self.decide(&new, &request.by),
            Ask::SetSession(new) => self.set_session(new, &request.by),
            Ask::Status => Ok(Answer::Status(Box::new(self.status()))),
            Ask::Reload => return self.reload(user(&request.by), Some(request.answer)),
        };
        // Whoever asked may be gone; what was done is done, and said as an event.
        let _ = request.answer.send(answer);
    }

    /// Decides about definitions, and says so.
    fn decide(&mut self, new: &NewDecision, by: &Who) -> Result<Answer, Refusal> {
        let NewDecision { server, tool, all, decision, uid, program, hash, by: name } = new;
        let what = match (tool, all) {
            (Some(name), false) => Definitions::Tool { name, hash: hash.as_deref() },
            (None, true) if hash.is_none() => Definitions::All,
            _ => return Err(Code::Unusable.because("either `tool` is needed, or `all`, which has no `hash`")),
        };
        let server = ServerId(server.as_str().into());
        let by = in_whose_name(name.as_deref(), by)?;
        let (uid, program, decision) = (*uid, program.as_deref(), *decision);
        let decide = Decide { server: &server, uid, program, what, by: &by, decision };
        let decided = self.command(OperatorCommand::Decide(decide))?;
        Ok(Answer::Decided(Decided { decided }))
    }

    /// Has the engine execute a command. What is reported of it.
    fn command(&mut self, command: OperatorCommand<'_>) -> Result<Vec<Event>, Refusal> {
        // Nothing else waits there: outputs are carried out as they come.
        self.engine.handle(Input::Operator(command), self.clock.now(), &mut self.outputs);
        let mut events = Vec::new();
        let mut failed = None;
        for output in &self.outputs {
            match output {
                Output::Event(event) => events.push(event.clone()),
                Output::Failed(error) => failed = Some(Refusal::from(error)),
                _ => {}
            }
        }
        self.carry_out();
        failed.map_or(Ok(events), Err)
    }

    /// Sets what a session's calls are judged by, and says so.
    fn set_session(&mut self, new: NewSetting, by: &Who) -> Result<Answer, Refusal> {
        let NewSetting { session, set, reset, by: name } = new;
        let (key, change) = match (set, reset) {
            (Some(setting), None) => (setting.key(), ProfileChange::Set(setting)),
            (None, Some(key)) => (key, ProfileChange::Reset(key)),
            _ => return Err(Code::Unusable.because("either `set` is needed, or `reset`")),
        };
        let config = self.reload.current().0;
        if let ProfileChange::Set(setting) = &change {
            check_setting(setting, config)?;
        }
        let guard = key.guard();
        let idle = (!is_asked(config, guard)).then(|| {
            let guard = guard.name();
            format!("the guard `{guard}` goes by it and is off; `kind: {guard}` in `guards` of the configuration turns it on")
        });
        let by = in_whose_name(name.as_deref(), by)?;
        let session = SessionId(session.into());
        let events = self.command(OperatorCommand::SetSession { session, change, by: &by })?;
        let set = events.into_iter().rfind(|event| matches!(event.body, EventBody::SessionSet(_)));
        let event = set.ok_or_else(|| Code::Failed.because("nothing was set".to_owned()))?;
        Ok(Answer::SetSession(Box::new(SetSession { event, idle })))
    }

    fn block(&mut self, new: &NewBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&new.target, new.port)?;
        if let Target::Calls(callee) = &target {
            self.can_block_calls(callee)?;
        }
        let period = new.period.map(|period| period.0);
        let request = BlockRequest { target, period, reason: new.reason.as_deref(), sure: new.yes, by };
        let block = self.network.block(request, self.kernel.addresses(), &self.clock);
        self.block_calls();
        if block.is_err() {
            self.block_was_refused();
        }
        let block = block?;
        let said = NetworkBlocked {
            target: network::text(&block.target),
            until: block.until(&self.clock),
            reason: block.reason.clone(),
            uid: block.by.uid,
            user: block.by.user.clone(),
        };
        match &block.target {
            Target::Calls(_) => self.say_of(&block.target, CallsBlocked(said)),
            Target::Address(_) | Target::Server(_) => self.say_of(&block.target, said),
        }
        Ok(Answer::Block(Box::new(self.view(&block))))
    }

    fn unblock(&mut self, old: &OldBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&old.target, old.port)?;
        let lifted = self.network.unblock(&target, self.kernel.addresses(), &self.clock)?;
        self.block_calls();
        self.say_unblocked(&lifted, BlockEnd::Unblocked, Some(by));
        Ok(Answer::Block(Box::new(self.view(&lifted))))
    }

    /// Says which blocks are over.
    pub(super) fn expire_blocks(&mut self) {
        let expired = self.network.expire(self.kernel.addresses(), &self.clock);
        self.block_calls();
        for block in expired {
            self.say_unblocked(&block, BlockEnd::Expired, None);
        }
    }

    /// Says that all blocks end with the agent.
    pub(super) fn end_blocks(&mut self) {
        let lifted = self.network.lift_all(self.kernel.addresses(), &self.clock);
        self.block_calls();
        for block in lifted {
            self.say_unblocked(&block, BlockEnd::AgentStopped, None);
        }
    }

    fn say_unblocked(&mut self, block: &Standing, reason: BlockEnd, by: Option<Who>) {
        let target = network::text(&block.target);
        let (uid, user) = by.map_or((None, None), |by| (Some(by.uid), by.user));
        let said = NetworkUnblocked { target, reason, uid, user };
        match &block.target {
            Target::Calls(_) => self.say_of(&block.target, CallsUnblocked(said)),
            Target::Address(_) | Target::Server(_) => self.say_of(&block.target, said),
        }
    }

    /// Says something of a target, which may be a server.
    fn say_of(&mut self, target: &Target, body: impl Into<EventBody>) {
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

    fn view(&self, block: &Standing) -> BlockView {
        let addresses = self.network.addresses_of(&block.target);
        BlockView {
            target: network::text(&block.target),
            server_type: self.network.kind_of(&block.target),
            since: block.since,
            until: block.until(&self.clock),
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
