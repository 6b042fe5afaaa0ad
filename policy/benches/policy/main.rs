//! `cargo xtask bench policy`: what the policy core costs, in time and beside a plain parse of the same bytes.
//!
//! Every number is the median of several rounds, with the lowest and the highest. What is compared is run in turn in
//! each round and the ratio is taken there, so that a noisy machine disturbs both.

#[path = "../../tests/support/counting.rs"]
mod counting;
mod engine;
mod gate;
mod inspection;

use std::env;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    engine::run()?;
    gate::run()?;
    // cargo adds `--bench`.
    let corpus = env::args_os().nth(1).map(PathBuf::from).filter(|path| path.join("benign").is_dir());
    inspection::run(corpus.as_deref())
}
