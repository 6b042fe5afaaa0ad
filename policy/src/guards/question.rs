//! What guards are asked.

use crate::guard::{Facts, Operation};
use crate::terms::Timestamp;

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
