//! Guards behind HTTP: services that others write, and that the agent requests judgements from.
//!
//! [`Hook`] is one such service: [`Hook::ask`] posts one [`GuardRequest`] and returns the decision, or the reason why there
//! is none. [`HookConfig`] is everything that the operator sets. A service is not trusted with the agent's time or memory:
//! each request has one timeout for all of it, the answer has a size limit, and a circuit [`breaker`] and a rate limit keep
//! a service that fails from being flooded. No error, log line or `Debug` output contains a secret or the URL.
//!
//! What a request costs, and why one was refused, is counted in [`Counters`].
//!
//! This crate decides nothing: the caller chooses which operations are sent, in which phase, and what a failure means
//! (fail open or fail closed). It also redacts nothing. A request contains arguments and results of tools, which may hold
//! personal data and credentials; the caller must remove what the operator does not want to share (the configuration's
//! `share`) before it calls [`Hook::ask`].
//!
//! [`GuardRequest`]: mcpwarden_terms::contract::GuardRequest

mod answer;
pub mod breaker;
mod bucket;
mod config;
mod error;
mod hook;
mod secret;
mod sign;
mod tls;
mod transport;
mod wire;

pub use breaker::{BreakerChange, BreakerConfig, BreakerState};
pub use config::{Authentication, HookConfig};
pub use error::HookError;
pub use hook::{Counters, Hook, HookState, MAX_ANSWER_BYTES, Told};
pub use secret::{Secret, SecretSource};
