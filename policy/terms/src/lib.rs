//! The words that everything in mcpwarden is written in: ids, kinds, severities, addresses, globs, counters, and texts of
//! one form. Plain data and how it is written: nothing here reads a stream, a file or a clock, and nothing knows what is
//! made of it. Its two most important types are [`ServerId`], what a server is called, and [`Detection`], what a rule
//! found in a text.

mod address;
mod callee;
pub mod contract;
mod counters;
mod detection;
mod era;
mod gap;
pub mod glob;
mod guard;
mod id;
mod json;
mod moment;
mod pin;
mod server;
mod session;
mod text;
mod tool;

pub use address::{Address, Endpoint, Host, Names, Prefix, reached};
pub use callee::Callee;
pub use detection::{Category, Detection, Form, Match, Severity};
pub use era::Era;
pub use gap::GapCause;
pub use guard::{GuardKind, Phase};
pub use id::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
pub use json::{Json, escape_pointer};
pub use moment::Moment;
pub use pin::{ItemKind, PinKey, PinState};
pub use server::{Identity, ServerType, Trust};
pub use session::{Mode, ProfileKey};
pub use text::{Hash, hexadecimal};
pub use tool::{RiskLevel, ToolCategory};
