//! A question to a guard that others wrote.

use std::sync::Arc;
use std::time::Duration;

use crate::terms::Timestamp;
use crate::terms::contract::{GuardName, GuardRequest};

/// What a guard that others wrote is to be asked. The answer is an [`Input::Answered`](crate::Input::Answered) with this id.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardQuestion {
    /// Of the guard and the request: the same for the same.
    pub id: Arc<str>,
    /// Whom.
    pub guard: Arc<GuardName>,
    /// The account of the server that it is about, where that is known.
    pub owner: Option<u32>,
    /// What.
    pub request: Arc<GuardRequest>,
    /// How long it has.
    pub timeout: Duration,
    /// When the operation was.
    pub time: Timestamp,
}
