//! A small, harmless MCP server: `add` and `echo`.

use anyhow::Result;
use clap::Parser;
use mcpwarden_tests::mini_server::{MiniServer, ServerOptions, benign_tools};

/// A small, harmless MCP server over standard input and output: the tools `add` and `echo`.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: ServerOptions,
}

fn main() -> Result<()> {
    MiniServer::new("benign-server", Cli::parse().options, benign_tools()).serve()
}
