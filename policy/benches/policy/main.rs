//! `cargo xtask bench policy [-- framing | long | texts [PART OF A NAME] | DIR]`: what the policy core costs, in time and beside a plain parse of the same bytes.
//!
//! Every number is the median of several rounds, with the lowest and the highest. What is compared is run in turn in
//! each round and the ratio is taken there, so that a noisy machine disturbs both.

#[path = "../../tests/support/counting.rs"]
mod counting;
mod engine;
mod framing;
mod gate;
mod inspection;
mod long;
mod texts;

use std::env;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    // cargo adds `--bench`.
    let argument = env::args_os().nth(1);
    let part = |name: &str| argument.as_ref().is_some_and(|argument| argument == name);
    if part("engine") {
        return engine::run();
    } else if part("framing") {
        framing::run(&mut engine::Subject::new("")?);
        return Ok(());
    } else if part("long") {
        long::run(&mut engine::Subject::new("")?);
        return Ok(());
    } else if part("texts") {
        return texts::run(&env::args().nth(2).filter(|part| part != "--bench").unwrap_or_default());
    }
    engine::run()?;
    framing::run(&mut engine::Subject::new("")?);
    long::run(&mut engine::Subject::new("")?);
    texts::run("")?;
    gate::run()?;
    let corpus = argument.map(PathBuf::from).filter(|path| path.join("benign").is_dir());
    inspection::run(corpus.as_deref())
}
