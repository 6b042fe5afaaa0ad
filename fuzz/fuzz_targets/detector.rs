//! `mcpwarden_fuzz::detector` under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| mcpwarden_fuzz::detector::run(input));
