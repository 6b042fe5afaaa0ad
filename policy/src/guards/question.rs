//! What guards are asked, and what comes of it.

use serde_json::Value;

use crate::guard::{Facts, Operation, Verdict};
use crate::terms::{GuardKind, Timestamp};

/// What is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// One operation, in each of its phases: [`Operation::Request`] and [`Operation::ToolInvoke`] of one call.
    pub operations: &'a [Operation<'a>],
    /// What is known of it.
    pub facts: &'a Facts<'a>,
    /// When it was.
    pub now: Timestamp,
}

/// A question that a guard has put to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What came of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All guards have answered, or one has denied.
    Decided(Verdict),
    /// A guard asks somebody else, and the guards after it wait.
    Waiting {
        /// To be given to [`Executor::answer`](super::Executor::answer).
        ticket: Ticket,
        /// Which guard.
        kind: GuardKind,
        /// What it asks.
        question: Value,
        /// The last moment at which an answer counts.
        deadline: Timestamp,
    },
}
