//! `mcpwarden_fuzz::http2` under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| mcpwarden_fuzz::http2::run(input));
