//! The seeds of the fuzz target, as ordinary tests: each input goes through it, and so do its beginnings.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here is a failed test")]

use std::{fs, path::Path};

#[path = "../../../fuzz/src/tls.rs"]
mod tls;

/// So many beginnings of one seed, at most.
const CUTS: usize = 64;

#[test]
fn tls_fuzz_seeds_run_clean() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/tls");
    let mut count = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let seed = fs::read(entry.unwrap().path()).unwrap();
        tls::run(&seed);
        (0..seed.len()).step_by(seed.len() / CUTS + 1).for_each(|cut| tls::run(&seed[..cut]));
        count += 1;
    }
    assert!(count > 0, "{} has no seeds", directory.display());
}
