//! A server that answers as another once did.

use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpwarden_tests::replay::{Line, Replay};

/// Plays the server's side of a recorded conversation: a line in, and the lines that followed it out.
#[derive(Parser)]
struct Cli {
    /// Where `c2s.jsonl` and `s2c.jsonl` are
    directory: PathBuf,
}

fn main() -> Result<()> {
    let replay = Replay::read(&Cli::parse().directory)?;
    let mut stdin = io::stdin().lock();
    for (_, answers) in &replay.turns {
        if stdin.read_until(b'\n', &mut Vec::new()).context("cannot read standard input")? == 0 {
            break;
        }
        say(answers)?;
    }
    say(&replay.rest)
}

fn say(lines: &[Line]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    for line in lines {
        stdout.write_all(&[line.as_slice(), b"\n"].concat()).context("cannot write standard output")?;
        stdout.flush().context("cannot write standard output")?;
    }
    Ok(())
}
