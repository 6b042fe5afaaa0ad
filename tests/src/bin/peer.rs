//! The client of a test, told by it what to do: see [`mcpwarden_tests::client_process`].

use std::path::PathBuf;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let socket = std::env::args_os().nth(1).map(PathBuf::from).context("usage: peer SOCKET")?;
    mcpwarden_tests::client_process::serve(&socket)
}
