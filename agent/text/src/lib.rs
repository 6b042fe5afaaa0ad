//! Events and what strangers wrote, as text that deceives nobody: JSON lines for machines, readable lines for people.
//!
//! Everything that is stored, sent or printed goes through here: [`write_json`] for a value on one line, [`write_line`]
//! and [`summary`] for an event, [`clean`] and [`escaped`] for a name or a text of somebody else's.

mod escape;
mod line;
mod mark;
mod words;

pub use escape::write_json;
pub use line::{Shown, summary, write as write_line};
pub use words::{clean, escaped, one_line, word};
