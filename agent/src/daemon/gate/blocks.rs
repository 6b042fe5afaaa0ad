//! Calls that an operator blocks by hand: for them the gate is attached also where nothing else is enforced.

use mcpwarden_policy::{Input, OperatorCommand, guards::Callee};

use super::Agent;
use crate::{config::StdioEnforcement, network::BlockError, output::escaped};

impl Agent {
    /// Whether calls can be stopped here that these are.
    ///
    /// # Errors
    /// There is no gate, or no such session.
    pub(in crate::daemon) fn can_block_calls(&mut self, callee: &Callee) -> Result<(), BlockError> {
        if let Callee::Session(id) = callee
            && self.engine.connections_of(callee) == 0
        {
            return Err(BlockError::NoSession(escaped(&id.0)));
        }
        if let Some(why) = &self.gate.unusable {
            return Err(BlockError::NoGate(why.clone()));
        }
        // Whether it runs here shows when it is attached.
        if !self.gate.is_wanted(self.reload.current().0) {
            self.kernel.attach_gate().map_err(BlockError::NoGate)?;
        }
        Ok(())
    }

    /// A block for which the gate was attached was refused: it goes where nothing else is to be stopped.
    pub(in crate::daemon) fn block_was_refused(&mut self) {
        if !self.gate.is_wanted(self.reload.current().0) {
            self.let_gate_go();
        }
    }

    /// Brings the gate up to what is blocked by hand, at once.
    pub(in crate::daemon) fn block_calls(&mut self) {
        let blocks = self.network.blocked_calls(&self.clock);
        if blocks == self.gate.blocks {
            return;
        }
        self.gate.blocks.clone_from(&blocks);
        let command = OperatorCommand::BlockCalls(blocks);
        self.engine.handle(Input::Operator(command), self.clock.now(), &mut self.outputs);
        self.carry_out();
        let config = self.reload.current().0.clone();
        if config.enforcement.stdio == StdioEnforcement::Observe {
            self.set_gate(&config);
        }
        self.renew_gate();
    }
}
