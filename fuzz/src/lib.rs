//! What the fuzz targets do with an input: each function takes any bytes, and panics where what must hold does not.
//!
//! The targets in `fuzz_targets` call these under libFuzzer; `policy/tests/seeds.rs` runs the seeds through them as ordinary tests.

pub mod config;
mod connection;
pub mod detector;
pub mod gate;
pub mod http;
pub mod http2;
pub mod intent;
pub mod normaliser;
pub mod protocol;
pub mod replay;
pub mod wire;
