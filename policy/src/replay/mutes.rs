//! Lines that mute and unmute detections.

use super::{Line, Replay, ReplayError, timestamp};
use crate::engine::{MuteDetections, OperatorCommand, Output};
use crate::terms::ServerId;

impl Line {
    /// Whether detections are muted or not.
    pub(super) fn is_of_mute(&self) -> bool {
        self.rule.is_some() || self.any_definition || self.mute.is_some()
    }

    /// Whether it says what belongs to neither of these lines.
    fn is_of_no_mute(&self) -> bool {
        self.is_of_stream()
            || self.is_of_setting()
            || self.is_of_answer()
            || self.session.is_some()
            || self.target.is_some()
            || self.arguments.is_some()
            || self.once
    }
}

impl Replay<'_> {
    pub(super) fn mute(&mut self, line: &Line, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let until = line.until.map(timestamp).transpose()?;
        let (Some(by), Some(until), Some(reason), None, false) =
            (&line.by, until, &line.reason, &line.mute, line.is_of_no_mute())
        else {
            return Err(ReplayError::Mute);
        };
        let server = line.server.as_deref().map(|server| ServerId(server.into()));
        let mute = MuteDetections {
            rule: line.rule.as_deref(),
            server: server.as_ref(),
            uid: line.uid,
            program: line.program.as_deref(),
            tool: line.tool.as_deref(),
            any_definition: line.any_definition,
            hash: line.hash.as_deref(),
            until,
            reason,
            by,
        };
        self.command(OperatorCommand::MuteDetections(mute), out)
    }

    pub(super) fn unmute(&mut self, line: &Line, out: &mut Vec<Output>) -> Result<(), ReplayError> {
        let is_mixed = line.is_of_no_mute()
            || line.is_of_block()
            || line.rule.is_some()
            || line.any_definition
            || line.tool.is_some()
            || line.hash.is_some()
            || line.server.is_some();
        let (Some(id), Some(by), false) = (&line.mute, &line.by, is_mixed) else {
            return Err(ReplayError::Mute);
        };
        self.command(OperatorCommand::UnmuteDetections { id, by }, out)
    }
}
