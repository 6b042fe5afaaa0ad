//! The words that everything else is written in: ids, kinds, severities, addresses, and texts of one form. Plain data, that
//! knows nothing of what is made of it.

mod address;
mod callee;
mod detection;
mod gap;
mod guard;
mod id;
mod json;
mod pin;
mod server;
mod session;
mod text;
mod tool;

pub use address::{Address, Host, Names, Prefix, reached};
pub use callee::Callee;
pub use detection::{Category, Detection, Form, Match, Severity};
pub use gap::GapCause;
pub use guard::{GuardKind, Phase};
pub use id::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
pub use json::Json;
pub use pin::{ItemKind, PinKey, PinState};
pub use server::{Identity, ServerType, Trust};
pub use session::{Mode, ProfileKey};
pub use text::{Hash, hexadecimal};
pub(crate) use text::{as_text, checked_text};
pub use tool::{RiskLevel, ToolCategory};
