//! `mcpwarden_fuzz::protocol` under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| mcpwarden_fuzz::protocol::run(input));
