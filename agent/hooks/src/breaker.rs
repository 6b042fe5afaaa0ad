//! A circuit breaker: after some failures in a row, a service gets no requests for a while, then one trial.
//!
//! The breaker has no clock and does no I/O: each call takes the time as an argument. [`Breaker::admit`] either refuses a
//! request or hands out a [`Ticket`], and [`Breaker::record`] takes the ticket back with the outcome. Every ticket must come
//! back, or a trial stays open for ever.

use std::time::{Duration, Instant};

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// So many failures in a row open it. At least 1.
    pub failures: u32,
    /// The first pause. It doubles with each trial that fails.
    pub pause: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(10), longest: Duration::from_secs(300) }
    }
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// Requests are refused.
    Open {
        /// When it opened; failed trials do not change this.
        since: Instant,
        /// From then on one request passes as a trial.
        until: Instant,
    },
    /// A trial is under way; all other requests are refused.
    HalfOpen {
        /// When it opened.
        since: Instant,
    },
}

/// A change that an operator should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerChange {
    /// It opened, or a trial failed and it stays open.
    Opened {
        /// How long it refuses requests from now on.
        pause: Duration,
    },
    /// A trial succeeded.
    Closed {
        /// How long it was open.
        after: Duration,
    },
}

/// What became of an admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The service answered.
    Success,
    /// It did not, or not with an answer.
    Failure,
    /// The request was not sent, or nobody waited for the answer: nothing is known of the service.
    Abandoned,
}

/// An admitted request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ticket that is not recorded leaves a trial open"]
pub struct Ticket {
    /// Of the period between two changes of state. The outcome of a request from an earlier period says nothing.
    period: u64,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pause is not over.
    Paused {
        /// How long it goes on.
        remaining: Duration,
    },
    /// The trial is under way.
    Trial,
}

/// The breaker of one service.
#[derive(Debug)]
pub struct Breaker {
    config: BreakerConfig,
    state: BreakerState,
    /// The pause that the next failed trial doubles.
    pause: Duration,
    period: u64,
}

impl Breaker {
    /// A closed one.
    pub fn new(config: BreakerConfig) -> Self {
        Self { config, state: BreakerState::Closed { failures: 0 }, pause: Duration::ZERO, period: 0 }
    }

    /// Its state. An open breaker whose pause is over stays open until the next request.
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Admits a request or refuses it.
    ///
    /// # Errors
    /// The breaker is open, or its trial is under way.
    pub fn admit(&mut self, now: Instant) -> Result<Ticket, Refusal> {
        match self.state {
            BreakerState::Closed { .. } => {}
            BreakerState::HalfOpen { .. } => return Err(Refusal::Trial),
            BreakerState::Open { until, .. } if now < until => {
                return Err(Refusal::Paused { remaining: until.saturating_duration_since(now) });
            }
            BreakerState::Open { since, .. } => self.enter(BreakerState::HalfOpen { since }),
        }
        Ok(Ticket { period: self.period })
    }

    /// Takes back a ticket.
    pub fn record(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) -> Option<BreakerChange> {
        if ticket.period != self.period {
            return None;
        }
        match (self.state, outcome) {
            (BreakerState::Closed { .. }, Outcome::Success) => {
                self.state = BreakerState::Closed { failures: 0 };
                None
            }
            (BreakerState::Closed { failures }, Outcome::Failure) => {
                let failures = failures.saturating_add(1);
                if failures < self.config.failures {
                    self.state = BreakerState::Closed { failures };
                    return None;
                }
                Some(self.open(now, now, self.config.pause))
            }
            (BreakerState::HalfOpen { since }, Outcome::Success) => {
                self.enter(BreakerState::Closed { failures: 0 });
                Some(BreakerChange::Closed { after: now.saturating_duration_since(since) })
            }
            (BreakerState::HalfOpen { since }, Outcome::Failure) => {
                Some(self.open(since, now, self.pause.saturating_mul(2)))
            }
            // The trial did not take place: the next request is one.
            (BreakerState::HalfOpen { since }, Outcome::Abandoned) => {
                self.enter(BreakerState::Open { since, until: now });
                None
            }
            (BreakerState::Closed { .. }, Outcome::Abandoned) | (BreakerState::Open { .. }, _) => None,
        }
    }

    fn open(&mut self, since: Instant, now: Instant, pause: Duration) -> BreakerChange {
        self.pause = pause.min(self.config.longest);
        // A pause that no clock can hold is none; the configuration bounds it to days.
        let until = now.checked_add(self.pause).unwrap_or(now);
        self.enter(BreakerState::Open { since, until });
        BreakerChange::Opened { pause: self.pause }
    }

    fn enter(&mut self, state: BreakerState) {
        self.state = state;
        self.period = self.period.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is done to a breaker, and what must come of it. Times are in seconds.
    enum Step {
        /// A request at this time, and how it ends at that time: the change reported.
        Request(u64, Outcome, u64, Option<BreakerChange>),
        /// A request that is refused, with the seconds that remain; none in a trial.
        Refused(u64, Option<u64>),
        /// A request that stays under way, kept under this name.
        Begin(u64, &'static str),
        /// Its end.
        End(&'static str, Outcome, u64, Option<BreakerChange>),
        /// The state, with times counted from the begin.
        State(&'static str),
    }
    use Outcome::{Abandoned, Failure, Success};
    use Step::{Begin, End, Refused, Request, State};

    fn opened(seconds: u64) -> Option<BreakerChange> {
        Some(BreakerChange::Opened { pause: Duration::from_secs(seconds) })
    }

    fn closed(seconds: u64) -> Option<BreakerChange> {
        Some(BreakerChange::Closed { after: Duration::from_secs(seconds) })
    }

    /// Three failures open it; pauses of 10, 20, 40 and at most 60 s.
    #[test]
    fn breaker_follows_the_table() {
        let fail = |at| Request(at, Failure, at, None);
        let cases: Vec<(&str, Vec<Step>)> = vec![
            (
                "success resets the count",
                vec![
                    fail(0),
                    fail(1),
                    State("closed 2"),
                    Request(2, Success, 2, None),
                    State("closed 0"),
                    fail(3),
                    fail(4),
                    State("closed 2"),
                ],
            ),
            (
                "abandoned requests do not count",
                vec![
                    fail(0),
                    fail(1),
                    Request(2, Abandoned, 2, None),
                    State("closed 2"),
                    Request(3, Failure, 3, opened(10)),
                ],
            ),
            (
                "failures in a row open it",
                vec![
                    fail(0),
                    fail(0),
                    Request(0, Failure, 5, opened(10)),
                    State("open 5 15"),
                    Refused(5, Some(10)),
                    Refused(14, Some(1)),
                ],
            ),
            (
                "one trial after the pause",
                vec![
                    fail(0),
                    fail(0),
                    Request(0, Failure, 0, opened(10)),
                    Begin(10, "trial"),
                    State("trial 0"),
                    Refused(10, None),
                    Refused(1000, None),
                    End("trial", Success, 12, closed(12)),
                    State("closed 0"),
                    Request(12, Success, 12, None),
                ],
            ),
            (
                "failed trials double the pause up to the longest",
                vec![
                    fail(0),
                    fail(0),
                    Request(0, Failure, 0, opened(10)),
                    Request(10, Failure, 11, opened(20)),
                    State("open 0 31"),
                    Refused(30, Some(1)),
                    Request(31, Failure, 31, opened(40)),
                    Request(71, Failure, 71, opened(60)),
                    Request(131, Failure, 131, opened(60)),
                    Request(191, Success, 200, closed(200)),
                ],
            ),
            (
                "the pause starts anew after it closed",
                vec![
                    fail(0),
                    fail(0),
                    Request(0, Failure, 0, opened(10)),
                    Request(10, Failure, 10, opened(20)),
                    Request(30, Success, 30, closed(30)),
                    fail(31),
                    fail(31),
                    Request(31, Failure, 31, opened(10)),
                ],
            ),
            (
                "an abandoned trial gives way to the next",
                vec![
                    fail(0),
                    fail(0),
                    Request(0, Failure, 0, opened(10)),
                    Request(10, Abandoned, 11, None),
                    State("open 0 11"),
                    Request(11, Success, 11, closed(11)),
                ],
            ),
            (
                "late outcomes of an earlier period say nothing",
                vec![
                    Begin(0, "slow success"),
                    Begin(0, "slow failure"),
                    fail(0),
                    fail(0),
                    Request(0, Failure, 0, opened(10)),
                    End("slow success", Success, 1, None),
                    End("slow failure", Failure, 2, None),
                    State("open 0 10"),
                    Refused(3, Some(7)),
                ],
            ),
            (
                "a late failure does not fail the trial",
                vec![
                    Begin(0, "slow"),
                    fail(0),
                    fail(0),
                    Request(0, Failure, 0, opened(10)),
                    Begin(10, "trial"),
                    End("slow", Failure, 11, None),
                    State("trial 0"),
                    End("trial", Success, 12, closed(12)),
                ],
            ),
        ];
        let config =
            BreakerConfig { failures: 3, pause: Duration::from_secs(10), longest: Duration::from_secs(60) };
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        for (name, steps) in cases {
            let mut breaker = Breaker::new(config);
            let mut open: Vec<(&str, Ticket)> = Vec::new();
            for (index, step) in steps.into_iter().enumerate() {
                let here = format!("{name}, step {index}");
                match step {
                    Request(from, outcome, to, expected) => {
                        let ticket = breaker.admit(at(from)).unwrap_or_else(|why| panic!("{here}: {why:?}"));
                        assert_eq!(breaker.record(ticket, outcome, at(to)), expected, "{here}");
                    }
                    Refused(from, seconds) => {
                        let remaining = seconds.map(Duration::from_secs);
                        let refusal =
                            remaining.map_or(Refusal::Trial, |remaining| Refusal::Paused { remaining });
                        assert_eq!(breaker.admit(at(from)), Err(refusal), "{here}");
                    }
                    Begin(from, ticket) => open.push((ticket, breaker.admit(at(from)).unwrap())),
                    End(ticket, outcome, to, expected) => {
                        let position = open.iter().position(|(name, _)| *name == ticket).unwrap();
                        let (_, ticket) = open.remove(position);
                        assert_eq!(breaker.record(ticket, outcome, at(to)), expected, "{here}");
                    }
                    State(expected) => {
                        let seconds = |time: Instant| (time - begin).as_secs();
                        let found = match breaker.state() {
                            BreakerState::Closed { failures } => format!("closed {failures}"),
                            BreakerState::Open { since, until } => {
                                format!("open {} {}", seconds(since), seconds(until))
                            }
                            BreakerState::HalfOpen { since } => format!("trial {}", seconds(since)),
                        };
                        assert_eq!(found, expected, "{here}");
                    }
                }
            }
        }
    }
}
