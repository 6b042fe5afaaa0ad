//! Who asks the guards, in which order, and what follows from their answers.

mod changed;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::blocked;
use super::question::Question;
use super::trace::{Asked, GuardOutcome, describe, note};
use crate::config::FailureMode;
use crate::glob::NameGlob;
use crate::guard::{
    Decision, Denial, DenialCode, DenialDetails, Facts, Guard, GuardError, Operation, TurnState, Verdict,
};
use crate::terms::{ConnectionId, GuardKind, Phase, ServerId, SessionId, Timestamp};
use changed::Changed;
use mcpwarden_terms::counters;

pub use changed::redact;

/// How much of an operation a guard of this process may read for each millisecond of its `timeout_ms`. Bytes. The
/// slowest of them read more than that.
pub const WORK_BYTES_PER_MS: usize = 100_000;
/// Longest message of a panic that is passed on. Bytes.
const MAX_PANIC_BYTES: usize = 256;

/// A guard's place among the others.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Index into the guards that the executor is made of. Several seats can share a guard, and so what it keeps.
    pub guard: usize,
    /// Which servers it is asked about. Empty: every one.
    pub servers: Vec<NameGlob>,
    /// Which of those it is not asked about, since an entry before this one is.
    pub except: Vec<NameGlob>,
    /// 0 to 100, the lowest is asked first.
    pub priority: u8,
    /// How long it may take.
    pub timeout_ms: u32,
    /// What it means if it fails.
    pub failure_mode: FailureMode,
    /// In which phases it is asked.
    pub phases: Vec<Phase>,
}

impl Seat {
    fn is_for(&self, server: &str) -> bool {
        (self.servers.is_empty() || self.servers.iter().any(|glob| glob.matches(server)))
            && !self.except.iter().any(|glob| glob.matches(server))
    }

    /// Whether it is for a server that is also called so: what is for every server says nothing of it.
    fn is_for_also(&self, server: &str) -> bool {
        self.servers.iter().any(|glob| !glob.is_any() && glob.matches(server)) && self.is_for(server)
    }

    fn is_for_any(&self, (server, also): (&ServerId, &[ServerId])) -> bool {
        self.is_for(&server.0) || also.iter().any(|id| self.is_for_also(&id.0))
    }
}

counters! { GuardCounters {
    /// Answers of guards.
    asked,
    /// Denials of guards.
    denied,
    /// Guards that failed, timeouts and panics included.
    failed,
    /// Guards that had no answer in time, or too much to read.
    timeouts,
    /// Guards that panicked.
    panics,
}}

/// How far a question has come.
#[derive(Debug, Default)]
struct Progress {
    verdict: Verdict,
    changed: Changed,
}

impl Progress {
    /// Takes a denial, and says whether it ends the question.
    fn deny(&mut self, kind: GuardKind, denial: Denial) -> bool {
        let Verdict { denied, also, .. } = &mut self.verdict;
        if denied.is_none() {
            *denied = Some((kind, denial));
        } else {
            also.push((kind, denial));
        }
        !kind.is_across_servers()
    }

    fn decided(self) -> Verdict {
        Verdict { recorded: self.changed.recorded(), ..self.verdict }
    }
}

/// Asks the guards. By default there are none.
#[derive(Debug, Default)]
pub struct Executor {
    guards: Vec<Box<dyn Guard>>,
    /// By priority.
    seats: Vec<Seat>,
    /// Of each phase, the seats that are asked.
    by_phase: [Vec<usize>; Phase::ALL.len()],
    counters: GuardCounters,
}

impl Executor {
    /// Puts guards into their seats, which are given in the order of the configuration.
    pub fn new(guards: Vec<Box<dyn Guard>>, mut seats: Vec<Seat>) -> Self {
        seats.retain(|seat| seat.guard < guards.len());
        let is_across =
            |seat: &Seat| guards.get(seat.guard).is_some_and(|guard| guard.kind().is_across_servers());
        seats.sort_by_key(|seat| (!is_across(seat), seat.priority));
        let by_phase = Phase::ALL.map(|phase| {
            seats
                .iter()
                .enumerate()
                .filter(|(_, seat)| seat.phases.contains(&phase))
                .map(|(index, _)| index)
                .collect()
        });
        let counters = GuardCounters::default();
        Self { guards, seats, by_phase, counters }
    }

    /// Never asks guards of these kinds.
    pub(crate) fn leave_out(&mut self, kinds: &[GuardKind]) {
        let guards = &self.guards;
        let is_left = |index: &usize| {
            let guard = self.seats.get(*index).and_then(|seat| guards.get(seat.guard));
            guard.is_some_and(|guard| !kinds.contains(&guard.kind()))
        };
        self.by_phase.iter_mut().for_each(|seats| seats.retain(is_left));
    }

    /// Whether there is a guard of this kind to be asked in a phase, of this server, left out or not.
    pub(crate) fn has(&self, kind: GuardKind, phase: Phase, server: (&ServerId, &[ServerId])) -> bool {
        self.seats.iter().any(|seat| self.is_asked(seat, kind, phase, server))
    }

    /// Whether there is a guard of this kind at all.
    pub(crate) fn has_any(&self, kind: GuardKind) -> bool {
        self.seats.iter().any(|seat| self.is_of(seat, kind))
    }

    /// Whether a guard of this kind has this seat.
    fn is_of(&self, seat: &Seat, kind: GuardKind) -> bool {
        self.guards.get(seat.guard).is_some_and(|guard| guard.kind() == kind)
    }

    /// Whether one of this kind, that is asked about a server in a phase, has this seat.
    fn is_asked(&self, seat: &Seat, kind: GuardKind, phase: Phase, server: (&ServerId, &[ServerId])) -> bool {
        seat.phases.contains(&phase) && seat.is_for_any(server) && self.is_of(seat, kind)
    }

    /// Whether a guard of this kind has its seat before the one that is asked as the `nth` about a server in a phase.
    pub(crate) fn comes_before(
        &self,
        kind: GuardKind,
        phase: Phase,
        server: (&ServerId, &[ServerId]),
        nth: usize,
    ) -> bool {
        let asked = self.by_phase.get(phase as usize).map(Vec::as_slice).unwrap_or_default();
        let is_asked = |index: &&usize| self.seats.get(**index).is_some_and(|seat| seat.is_for_any(server));
        let Some(last) = asked.iter().filter(is_asked).nth(nth) else { return false };
        self.seats.iter().take(*last).any(|seat| self.is_asked(seat, kind, phase, server))
    }

    /// What the guards know of a session's turn.
    pub(crate) fn turn(&self, session: &SessionId) -> Option<TurnState> {
        self.guards.iter().find_map(|guard| guard.turn(session))
    }

    /// Tells the guards that answers of a connection of a session were not captured.
    pub(crate) fn lost(&mut self, session: &SessionId, connection: ConnectionId, now: Timestamp) {
        self.guards.iter_mut().for_each(|guard| guard.lost(session, connection, now));
    }

    /// Takes the place of another, whose guards tell those of their kind what they remember: the first the first, the second
    /// the second. Where there are fewer guards now, memories are given up.
    pub fn succeed(&mut self, mut before: Self) {
        self.counters = before.counters;
        let mut taken = vec![false; before.guards.len()];
        for guard in &mut self.guards {
            let mut candidates = before.guards.iter_mut().zip(&mut taken);
            let found = candidates.find(|(old, taken)| !**taken && old.kind() == guard.kind());
            if let Some((old, taken)) = found {
                *taken = true;
                guard.succeed(old.as_mut());
            }
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> &GuardCounters {
        &self.counters
    }

    /// Who is asked in which phases, by priority. One guard in several seats is named as often.
    pub fn phases(&self) -> impl Iterator<Item = (GuardKind, &[Phase])> {
        self.seats
            .iter()
            .filter_map(|seat| Some((self.guards.get(seat.guard)?.kind(), seat.phases.as_slice())))
    }

    /// Bounds that guards reached so far, by name; several guards of one kind together.
    pub fn bounds(&self) -> BTreeMap<String, u64> {
        let mut bounds = BTreeMap::new();
        for (name, count) in self.guards.iter().flat_map(|guard| guard.counters()) {
            *bounds.entry(name.to_owned()).or_default() += count;
        }
        bounds
    }

    /// Asks the guards in order: those across servers, those of [`Phase::Request`], those of the specific phase, those of
    /// [`Phase::Response`], each by priority. The first denial ends it, but for one of a guard across servers: what others say
    /// besides is told, too. A guard sees what those before it changed. Everybody who was asked is added to `trace`.
    /// Of what an operator blocks by hand only guards across servers are asked: `server_access` denies it, whether there is
    /// such a guard or not.
    pub fn ask(&mut self, question: &Question<'_>, mut trace: Option<&mut Vec<Asked>>) -> Verdict {
        let mut progress = Progress::default();
        let Question { operations, facts, now } = *question;
        for stage in Stage::ALL {
            if stage == Stage::Request
                && let Some(denial) = facts.block.and_then(|block| blocked::denial(block, question))
            {
                let kind = GuardKind::ServerAccess;
                note(&mut trace, kind, Phase::Request, GuardOutcome::Deny, || Some(denial.message.clone()));
                progress.deny(kind, denial);
                return progress.decided();
            }
            for operation in operations {
                let phase = operation.phase();
                for &index in self.by_phase.get(phase as usize).map(Vec::as_slice).unwrap_or_default() {
                    let Some(seat) =
                        self.seats.get(index).filter(|seat| seat.is_for_any((facts.server, facts.also)))
                    else {
                        continue;
                    };
                    let Some(guard) = self.guards.get_mut(seat.guard) else { continue };
                    let kind = guard.kind();
                    // What is denied already takes no token.
                    let is_spared = kind == GuardKind::RateLimit && progress.verdict.denied.is_some();
                    if Stage::of(kind, phase) != stage || is_spared {
                        continue;
                    }
                    let seen = progress.changed.view(operation);
                    let decided = ask_one(guard.as_mut(), seat, &seen, facts, now, &mut self.counters);
                    self.counters.asked += 1;
                    let applied = decided.and_then(|decision| {
                        if let Decision::Modify(modification) = &decision {
                            progress.changed.apply(operation, modification)?;
                        }
                        Ok(decision)
                    });
                    match applied {
                        Ok(Decision::Allow) => {
                            let why = || guard.why(&progress.changed.view(operation), facts, now);
                            note(&mut trace, kind, phase, GuardOutcome::Allow, why);
                        }
                        Ok(Decision::Modify(modification)) => {
                            note(&mut trace, kind, phase, GuardOutcome::Modify, || {
                                Some(describe(&modification))
                            });
                            progress.verdict.modifications.push((kind, modification));
                        }
                        Ok(Decision::Deny(denial)) => {
                            note(&mut trace, kind, phase, GuardOutcome::Deny, || {
                                Some(denial.message.clone())
                            });
                            self.counters.denied += 1;
                            if progress.deny(kind, denial) {
                                return progress.decided();
                            }
                        }
                        Err(error) => {
                            self.counters.failed += 1;
                            self.counters.timeouts += u64::from(error == GuardError::Timeout);
                            let closed = seat.failure_mode == FailureMode::FailClosed;
                            let said = if closed { GuardOutcome::FailClosed } else { GuardOutcome::FailOpen };
                            note(&mut trace, kind, phase, said, || Some(error.to_string()));
                            if !closed {
                                progress.verdict.failed_open.push((kind, error));
                                continue;
                            }
                            self.counters.denied += 1;
                            if progress.deny(kind, failed(kind, &error)) {
                                return progress.decided();
                            }
                        }
                    }
                }
            }
        }
        progress.decided()
    }

    /// Tells every guard what became of an operation. `verdict.enforced` says whether a denial stopped it.
    pub fn settle(&mut self, question: &Question<'_>, verdict: &Verdict) {
        for guard in &mut self.guards {
            for operation in question.operations {
                let settled = || guard.settled(operation, question.facts, verdict, question.now);
                if catch_unwind(AssertUnwindSafe(settled)).is_err() {
                    self.counters.failed += 1;
                    self.counters.panics += 1;
                }
            }
        }
    }

    /// What the guard of this kind alone would say of an operation, if it is asked about such.
    /// Nothing is remembered of it: guards that count calls are not for this.
    pub fn would(
        &mut self,
        kind: GuardKind,
        operation: &Operation<'_>,
        facts: &Facts<'_>,
        now: Timestamp,
    ) -> Option<Decision> {
        let asked = self.by_phase.get(operation.phase() as usize)?;
        let seats = asked.iter().filter_map(|index| self.seats.get(*index));
        for seat in seats.filter(|seat| seat.is_for_any((facts.server, facts.also))) {
            let Some(guard) = self.guards.get_mut(seat.guard).filter(|guard| guard.kind() == kind) else {
                continue;
            };
            return ask_one(guard.as_mut(), seat, operation, facts, now, &mut self.counters).ok();
        }
        None
    }
}

/// The order in which guards are asked about one operation, before all priorities.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    AcrossServers,
    Request,
    Specific,
    Response,
}

impl Stage {
    const ALL: [Self; 4] = [Self::AcrossServers, Self::Request, Self::Specific, Self::Response];

    /// When a guard is asked in a phase.
    fn of(kind: GuardKind, phase: Phase) -> Self {
        match phase {
            _ if kind.is_across_servers() => Self::AcrossServers,
            Phase::Request => Self::Request,
            Phase::Response => Self::Response,
            _ => Self::Specific,
        }
    }
}

fn ask_one(
    guard: &mut dyn Guard,
    seat: &Seat,
    operation: &Operation<'_>,
    facts: &Facts<'_>,
    now: Timestamp,
    counters: &mut GuardCounters,
) -> Result<Decision, GuardError> {
    let budget = WORK_BYTES_PER_MS.saturating_mul(seat.timeout_ms as usize);
    let asked = catch_unwind(AssertUnwindSafe(|| {
        if guard.work(operation) > budget {
            return Err(GuardError::Timeout);
        }
        guard.check(operation, facts, now)
    }));
    asked.unwrap_or_else(|panic| {
        counters.panics += 1;
        Err(GuardError::Internal(format!("panicked: {}", panic_message(panic.as_ref()))))
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let message = match (panic.downcast_ref::<&'static str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message.as_str(),
        (None, None) => "without a message",
    };
    message.get(..message.floor_char_boundary(MAX_PANIC_BYTES)).unwrap_or_default()
}

/// The denial that a failed guard is under `fail_closed`.
fn failed(kind: GuardKind, error: &GuardError) -> Denial {
    let code = match error {
        GuardError::Timeout => DenialCode::GuardTimeout,
        GuardError::Config(_) | GuardError::Internal(_) => DenialCode::GuardError,
    };
    Denial {
        code,
        message: format!("the guard {} failed, which denies: {error}", kind.name()),
        details: Some(DenialDetails::Failure { failure_mode: FailureMode::FailClosed }),
    }
}

#[cfg(test)]
mod tests;
