//! Events and what strangers wrote, as text that deceives nobody: JSON lines for machines, readable lines for people.
//!
//! Everything that is stored, sent or printed goes through here: [`write_json`] for a value on one line, [`write_line`]
//! and [`summary`] for an event, [`describe_mute`] for a mute, [`clean`] and [`escaped`] for a name or a text of somebody else's.

mod escape;
mod line;
mod mark;
mod mute;
mod words;

pub use escape::write_json;
pub use line::{Shown, summary, write as write_line};
pub use mute::what as describe_mute;
pub use words::{clean, escaped, one_line, word};
