//! Guards as components, from their bytes to their verdicts.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed test")]

mod cache;
mod hostile;
mod loading;
mod support;
mod verdicts;
mod wasi;
