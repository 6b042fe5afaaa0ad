//! Lines that block and unblock calls.

use super::{Line, Replay, ReplayError, timestamp};
use crate::engine::{OperatorCommand, Output};
use crate::guard::CallBlock;
use crate::terms::Callee;

impl Replay<'_> {
    pub(super) fn block(&mut self, line: Line, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let callee = callee(&line)?;
        let until = line.until.map(timestamp).transpose()?;
        self.blocks.retain(|block| block.callee != callee);
        self.blocks.push(CallBlock { callee, until, reason: line.reason });
        self.command(OperatorCommand::BlockCalls(self.blocks.clone()), out)
    }

    pub(super) fn unblock(&mut self, line: &Line, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let callee = callee(line)?;
        if line.until.is_some() || line.reason.is_some() {
            return Err(ReplayError::Block);
        }
        self.blocks.retain(|block| block.callee != callee);
        self.command(OperatorCommand::BlockCalls(self.blocks.clone()), out)
    }
}

/// Whose calls a line blocks or does not.
fn callee(line: &Line) -> Result<Callee, ReplayError> {
    let is_mixed = line.is_of_stream() || line.is_of_decision() || line.is_of_setting();
    let is_other =
        line.session.is_some() || line.server.is_some() || line.uid.is_some() || line.program.is_some();
    let callee = line.target.as_deref().and_then(Callee::parse);
    callee.filter(|_| !is_mixed && !is_other).ok_or(ReplayError::Block)
}
