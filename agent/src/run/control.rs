//! What the control socket asks for, done by the agent's one task.

use mcpwarden_policy::{
    Event, EventBody, ServerId,
    event::{BlockEnd, NetworkBlocked, NetworkUnblocked},
    network::Target,
};

use super::Agent;
use crate::{
    control::{Answer, Ask, BlockView, Blocks, Code, NewBlock, OldBlock, Refusal, Request},
    network::{self, BlockError, Standing, Who, Wish},
};

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
            Ask::Block(new) => self.block(&new, request.by),
            Ask::Unblock(old) => self.unblock(&old, request.by),
        };
        // Whoever asked may be gone; what was done is done, and said as an event.
        let _ = request.answer.send(answer.map_err(Refusal::from));
    }

    fn block(&mut self, new: &NewBlock, by: Who) -> Result<Answer, BlockError> {
        let target = self.network.target(&new.target, new.port)?;
        let period = new.period.map(|period| period.0);
        let wish = Wish { target, period, reason: new.reason.as_deref(), sure: new.yes, by };
        let block = self.network.block(wish, self.kernel.addresses(), &self.clock)?;
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
