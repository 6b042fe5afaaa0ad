//! `tls::run` under libFuzzer. It is no module of the library: `policy/tests/seeds.rs` runs that one, and knows no crate of the agent.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/tls.rs"]
mod tls;

fuzz_target!(|input: &[u8]| tls::run(input));
