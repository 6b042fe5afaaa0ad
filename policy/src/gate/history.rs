//! The rules that go by the calls before, as the kernel half wants them.

use mcpwarden_gate::{
    CALLS, DOES_ANYTHING, DOES_NOTHING, DOES_PAY, DOES_READ, DOES_SEND, DOES_WRITE, LIMITS, Limit, Means,
    Rules,
};

use super::{GateError, GateOutcome};
use crate::config::{Config, Period, Rate};
use crate::guards::interval_and_slack;
use crate::terms::ToolCategory;

const TOO_MANY: GateError = GateError::Limits { most: LIMITS - 1 };

/// Limits by number; those that are alike have one.
#[derive(Default)]
pub(super) struct Limits(Vec<Limit>);

impl Limits {
    /// The number of a limit; 0 where there is none.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn number(&mut self, limit: Option<Limit>) -> Result<u16, GateError> {
        let Some(limit) = limit else { return Ok(0) };
        let place = self.0.iter().position(|known| *known == limit).unwrap_or_else(|| {
            self.0.push(limit);
            self.0.len() - 1
        });
        u16::try_from(place + 1).ok().filter(|number| usize::from(*number) < LIMITS).ok_or(TOO_MANY)
    }

    /// What an outcome means for the calls after it.
    ///
    /// # Errors
    /// There are too many limits.
    pub(super) fn means(&mut self, outcome: &GateOutcome) -> Result<Means, GateError> {
        let does = match outcome.category {
            _ if outcome.may_do_anything => DOES_ANYTHING,
            ToolCategory::Read => DOES_READ,
            ToolCategory::Write => DOES_WRITE,
            ToolCategory::Send => DOES_SEND,
            ToolCategory::Compute | ToolCategory::Unknown => DOES_NOTHING,
        };
        let limit = u8::try_from(self.number(outcome.limit)?).map_err(|_| TOO_MANY)?;
        Ok(Means { does: if outcome.pays { does | DOES_PAY } else { does }, limit })
    }

    /// All of them.
    pub(super) fn all(&self) -> [Limit; LIMITS] {
        let mut all = [Limit::default(); LIMITS];
        all.iter_mut().skip(1).zip(&self.0).for_each(|(slot, limit)| *slot = *limit);
        all
    }
}

/// A rate as a bucket.
pub(super) fn limit(rate: Rate) -> Limit {
    let (interval, slack) = interval_and_slack(rate).unwrap_or_default();
    Limit { interval, slack }
}

/// `cross_server` of a configuration.
///
/// # Errors
/// A burst of more calls than are remembered.
pub(super) fn rules(config: &Config) -> Result<Rules, GateError> {
    let cross = &config.cross_server;
    let (burst, flow) = (&cross.burst, &cross.cross_server_flow);
    // A rule whose window is nothing is not one that does not count.
    let nanos = |is_on: bool, period: Period| {
        if is_on { u64::try_from(period.0.as_nanos()).unwrap_or(u64::MAX).max(1) } else { 0 }
    };
    if burst.enabled && burst.max_calls as usize >= CALLS {
        return Err(GateError::Burst { most: CALLS - 1, calls: burst.max_calls });
    }
    let by_turns = flow.enabled && flow.same_turn_only;
    let longest = cross.read_then_send.window.0.max(burst.window.0).max(flow.window.0);
    Ok(Rules {
        read_then_send: nanos(cross.read_then_send.enabled, cross.read_then_send.window),
        burst: nanos(burst.enabled, burst.window),
        burst_calls: u64::from(burst.max_calls),
        flow: nanos(flow.enabled && !flow.same_turn_only, flow.window),
        turn_gap: nanos(by_turns, cross.turn_gap),
        turn_open: nanos(by_turns, Period(longest)),
    })
}
