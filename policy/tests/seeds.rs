//! The fuzz targets' seeds, as ordinary tests: each input goes through its target as it would under libFuzzer, and so does each
//! beginning of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here is a failed test")]

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// So many beginnings of one seed, at most.
const CUTS: usize = 16;

fn run(target: &str, input: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let seed = fs::read(entry.unwrap().path()).unwrap();
        input(&seed);
        for cut in (0..seed.len()).step_by(seed.len() / CUTS + 1) {
            input(&seed[..cut]);
        }
        count += 1;
    }
    assert!(count > 0, "{} has no seeds", directory.display());
}

#[test]
fn config_fuzz_seeds_run_clean() {
    run("config", targets::config::run);
}

#[test]
fn detector_fuzz_seeds_run_clean() {
    run("detector", targets::detector::run);
}

#[test]
fn gate_fuzz_seeds_run_clean() {
    run("gate", targets::gate::run);
}

#[test]
fn http_fuzz_seeds_run_clean() {
    run("http", targets::http::run);
}

#[test]
fn http2_fuzz_seeds_run_clean() {
    run("http2", targets::http2::run);
}

#[test]
fn intent_fuzz_seeds_run_clean() {
    run("intent", targets::intent::run);
}

#[test]
fn normaliser_fuzz_seeds_run_clean() {
    run("normaliser", targets::normaliser::run);
}

#[test]
fn protocol_fuzz_seeds_run_clean() {
    run("protocol", targets::protocol::run);
}

#[test]
fn replay_fuzz_seeds_run_clean() {
    run("replay", targets::replay::run);
}

#[test]
fn wire_fuzz_seeds_run_clean() {
    run("wire", targets::wire::run);
}
