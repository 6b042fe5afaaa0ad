//! Mutes of detections, as operators request them at the control socket.

use mcpwarden_policy::{
    EventBody, MuteDetections, OperatorCommand, ServerId, Timestamp, config::Period, event::Mute,
};

use super::{Agent, requests::on_behalf_of};
use crate::{
    control::{Answer, ChangedMute, Code, Mutes, NewMute, OldMute, Refusal},
    network::Who,
};

/// When a mute ends, on the steady timeline, of which the wall clock was moved by so many nanoseconds.
fn end(
    period: Option<Period>,
    until: Option<Timestamp>,
    now: Timestamp,
    moved_ns: i64,
) -> Result<Timestamp, Refusal> {
    let end = match (period, until) {
        (Some(period), None) => now.after(period.0),
        (None, Some(until)) => until.moved(moved_ns.saturating_neg()),
        _ => return Err(Code::Unusable.because("the request needs either `for` or `until`")),
    };
    if end > now { Ok(end) } else { Err(Code::Unusable.because("the mute would be over at once")) }
}

impl Agent {
    /// All mutes that are in force.
    pub(super) fn mutes(&self) -> Mutes {
        let printed =
            |mute: &Mute| Mute { until: mute.until.map(|until| self.clock.printed(until)), ..mute.clone() };
        Mutes { mutes: self.engine.mutes().map(printed).collect() }
    }

    /// Mutes detections.
    pub(super) fn mute(&mut self, new: &NewMute, by: &Who) -> Result<Answer, Refusal> {
        let NewMute {
            rule,
            server,
            uid,
            program,
            tool,
            any_definition,
            hash,
            period,
            until,
            reason,
            by: name,
        } = new;
        let until = end(*period, *until, self.clock.now(), self.clock.moved_ns())?;
        let by = on_behalf_of(name.as_deref(), by)?;
        let server = server.as_deref().map(|server| ServerId(server.into()));
        self.change_mutes(OperatorCommand::MuteDetections(MuteDetections {
            rule: rule.as_deref(),
            server: server.as_ref(),
            uid: *uid,
            program: program.as_deref(),
            tool: tool.as_deref(),
            any_definition: *any_definition,
            hash: hash.as_deref(),
            until,
            reason,
            by: &by,
        }))
    }

    /// Has muted detections be alerts again.
    pub(super) fn unmute(&mut self, old: &OldMute, by: &Who) -> Result<Answer, Refusal> {
        let by = on_behalf_of(old.by.as_deref(), by)?;
        self.change_mutes(OperatorCommand::UnmuteDetections { id: &old.id, by: &by })
    }

    fn change_mutes(&mut self, command: OperatorCommand<'_>) -> Result<Answer, Refusal> {
        let events = self.command(command)?;
        // The calls that are held no longer pass, and those that are held again do not, before the answer.
        self.renew_gate();
        let changed = events.into_iter().rfind(|event| {
            matches!(event.body, EventBody::DetectionMuted(_) | EventBody::DetectionUnmuted(_))
        });
        let event = changed.ok_or_else(|| Code::Failed.because("nothing was changed"))?;
        Ok(Answer::Muted(Box::new(ChangedMute { event })))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn mute_ends_on_the_steady_timeline() {
        let (now, second) = (Timestamp(1_000_000_000_000), 1_000_000_000_i64);
        for (period, until, moved, expected) in [
            (Some(5), None, 0, Some(1_005)),
            (Some(5), None, 7, Some(1_005)),
            (None, Some(1_020), 0, Some(1_020)),
            (None, Some(1_020), 7, Some(1_013)),
            (None, Some(1_020), -7, Some(1_027)),
            (None, Some(1_000), 0, None),
            (None, Some(1_020), 30, None),
            (Some(0), None, 0, None),
            (None, None, 0, None),
            (Some(5), Some(1_020), 0, None),
        ] {
            let at = |seconds: u64| Timestamp(seconds * 1_000_000_000);
            let period = period.map(|seconds| Period(Duration::from_secs(seconds)));
            let found = end(period, until.map(at), now, moved * second).ok();
            assert_eq!(found, expected.map(at), "{period:?} {until:?} {moved}");
        }
    }
}
