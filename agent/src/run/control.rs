//! What the control socket asks for, done by the agent's one task.

use mcpwarden_policy::{
    Decide, Definitions, Event, EventBody, Input, Output, ServerId,
    event::{BlockEnd, NetworkBlocked, NetworkUnblocked},
    network::Target,
    registry::RegistryError,
};

use super::Agent;
use crate::{
    control::{
        Answer, Ask, BlockView, Blocks, Code, Decided, NewBlock, NewDecision, OldBlock, Refusal, Request,
        Waiting,
    },
    network::{self, BlockError, BlockRequest, Standing, Who},
};

/// Who asks, in a word or two.
fn user(by: &Who) -> String {
    by.user.clone().unwrap_or_else(|| format!("user {}", by.uid))
}

/// Longest name of who decides. Bytes.
const MAX_BY_BYTES: usize = 128;

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

impl From<BlockError> for Refusal {
    fn from(error: BlockError) -> Self {
        let code = match &error {
            BlockError::Unusable(_) => Code::Unusable,
            BlockError::Sweeping(..) => Code::NeedsYes,
            BlockError::TooMany | BlockError::Table(_) => Code::Full,
            BlockError::NotBlocked(..) => Code::NotFound,
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
        let user = user(by);
        let by = match name {
            Some(name) if name.len() > MAX_BY_BYTES => {
                return Err(Code::Unusable.because(format!("`by` is longer than {MAX_BY_BYTES} bytes")));
            }
            Some(name) => format!("{name} ({user})"),
            None => user,
        };
        let (uid, program, decision) = (*uid, program.as_deref(), *decision);
        // Nothing else waits there: outputs are carried out as they come.
        let decide = Decide { server: &server, uid, program, what, by: &by, decision };
        self.engine.handle(Input::Decide(decide), self.clock.now(), &mut self.outputs);
        let mut decided = Vec::new();
        let mut failed = None;
        for output in &self.outputs {
            match output {
                Output::Event(event) => decided.push(event.clone()),
                Output::Failed(error) => failed = Some(Refusal::from(error)),
                _ => {}
            }
        }
        self.carry_out();
        failed.map_or(Ok(Answer::Decided(Decided { decided })), Err)
    }

    fn block(&mut self, new: &NewBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&new.target, new.port)?;
        let period = new.period.map(|period| period.0);
        let request = BlockRequest { target, period, reason: new.reason.as_deref(), sure: new.yes, by };
        let block = self.network.block(request, self.kernel.addresses(), &self.clock)?;
        self.say_of(
            &block.target,
            NetworkBlocked {
                target: network::text(&block.target),
                until: block.until(&self.clock),
                reason: block.reason.clone(),
                uid: block.by.uid,
                user: block.by.user.clone(),
            },
        );
        Ok(Answer::Block(Box::new(self.view(&block))))
    }

    fn unblock(&mut self, old: &OldBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&old.target, old.port)?;
        let lifted = self.network.unblock(&target, self.kernel.addresses(), &self.clock)?;
        self.say_unblocked(&lifted, BlockEnd::Unblocked, Some(by));
        Ok(Answer::Block(Box::new(self.view(&lifted))))
    }

    /// Says which blocks are over.
    pub(super) fn expire_blocks(&mut self) {
        for block in self.network.expire(self.kernel.addresses(), &self.clock) {
            self.say_unblocked(&block, BlockEnd::Expired, None);
        }
    }

    /// Says that all blocks end with the agent.
    pub(super) fn end_blocks(&mut self) {
        for block in self.network.blocks().to_vec() {
            self.say_unblocked(&block, BlockEnd::AgentStopped, None);
        }
    }

    fn say_unblocked(&mut self, block: &Standing, reason: BlockEnd, by: Option<Who>) {
        let target = network::text(&block.target);
        let (uid, user) = by.map_or((None, None), |by| (Some(by.uid), by.user));
        self.say_of(&block.target, NetworkUnblocked { target, reason, uid, user });
    }

    /// Says something of a target, which may be a server.
    fn say_of(&mut self, target: &Target, body: impl Into<EventBody>) {
        let server: Option<ServerId> = match target {
            Target::Server(id) => Some(id.clone()),
            Target::Address(_) => None,
        };
        let event = Event {
            server_id: server,
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
        }
    }
}
