//! A learned scorer, above the rules: what wording, concepts and relations of a text together are worth.
//!
//! The model is linear, so that each feature's part of a score can be shown, and all of its arithmetic is on integers, so
//! that every machine scores alike. The score of a message is that of its worst window of up to three sentences, and what is
//! known of the whole message beside. `mcpwarden-train` makes the weights (docs/internals/detection.md).

mod concepts;
mod context;
mod features;
mod gate;
mod model;
mod scorer;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use context::Context;
pub use model::{MODEL_BYTES, Model, ModelError, Side, Subject};
pub use scorer::{Document, Explained, KINDS, LEARNED, Recorded, windows};
pub(crate) use scorer::{Finished, Scorer};
