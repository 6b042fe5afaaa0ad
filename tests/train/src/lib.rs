//! Makes the weights of the learned scorer: examples in, weights out, the same bits every time. Nothing that runs on a host
//! uses it.
//!
//! Logistic regression over the features of [`mcpwarden_detect::learned`], by AdaGrad with decay. The label is that of a whole
//! message, and the score that of its worst window (multiple-instance learning): in the first epochs all windows share the
//! gradient, later the worst ones have most of it. Floating-point arithmetic is that of IEEE 754 alone: additions,
//! multiplications, divisions and roots; `exp` is made of those here.

mod fit;
mod numbers;

pub use fit::{Options, fit};
pub use numbers::Random;

use mcpwarden_detect::learned::Document;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It is written to misuse the model.
    Attack,
    /// It is honest, and looks suspicious.
    Hard,
    /// It is honest, and from the world.
    Honest,
}

/// A message to learn from.
#[derive(Clone, Debug)]
pub struct Example {
    /// What it is.
    pub class: Class,
    /// Of an attack, which kind: an index into [`mcpwarden_detect::learned::KINDS`].
    pub kind: Option<usize>,
    /// Its features.
    pub document: Document,
}
