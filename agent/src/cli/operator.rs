//! What commands that ask a running agent are told.

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use mcpwarden_policy::{config::Period, guards::ProfileKey};

use super::word::by_word;
use crate::control;

/// The agent that is asked.
#[derive(Args, Debug)]
pub struct Agent {
    /// Socket of the agent: `control.socket` of its configuration.
    #[arg(long, value_name = "PATH", default_value_os_t = control::default_socket())]
    pub socket: PathBuf,
}

pub(super) const BLOCK_EXAMPLES: &str = "\
Examples:
  sudo mcpwarden block crm --for 10m --reason 'ticket 4711'
  sudo mcpwarden block 203.0.113.7
  sudo mcpwarden block mcp.example.com --port 443
  sudo mcpwarden block server=server-filesystem --for 1h
  sudo mcpwarden block session=1a2b3c4d
  sudo mcpwarden unblock mcp.example.com:443
";

/// What `mcpwarden block` is told.
#[derive(Args, Debug)]
pub struct BlockOptions {
    /// What is blocked.
    pub target: String,
    /// The port, where TARGET names none. Without one, all are.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// For so long: 90s, 10m, 8h, 30d. Without it, until it is unblocked.
    #[arg(long = "for", value_name = "DURATION")]
    pub period: Option<Period>,
    /// Why, for events and for who lists the blocks.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Block even most of the network, or all of the loopback.
    #[arg(long, short)]
    pub yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// What `mcpwarden unblock` is told.
#[derive(Args, Debug)]
pub struct UnblockOptions {
    /// What is blocked, as it was said to `block`, or as `blocks` lists it.
    pub target: String,
    /// The port, where TARGET names none.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// What `mcpwarden blocks` is told.
#[derive(Args, Debug)]
pub struct BlocksOptions {
    /// Print JSON: a list.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// What `mcpwarden status` is told.
#[derive(Args, Debug)]
pub struct StatusOptions {
    /// Print JSON: with everything that is counted.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// What `mcpwarden top` is told.
#[derive(Args, Debug)]
pub struct TopOptions {
    #[command(flatten)]
    pub agent: Agent,
}

/// What `mcpwarden reload` is told.
#[derive(Args, Debug)]
pub struct ReloadOptions {
    /// Print JSON: the event.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

pub(super) const APPROVE_EXAMPLES: &str = "\
Examples:
  sudo mcpwarden approvals list
  sudo mcpwarden approve files:read_file --by ann
  sudo mcpwarden approve --server files --all
  sudo mcpwarden approvals deny mail:send_all
";

/// Meant definitions are meant.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["tool", "all"]))]
pub struct Meant {
    /// The tool, as SERVER:TOOL; its name alone, where --server says whose.
    pub tool: Option<String>,
    /// Id of the server.
    #[arg(long, value_name = "ID")]
    pub server: Option<String>,
    /// Everything that the server offers.
    #[arg(long, requires = "server")]
    pub all: bool,
    /// User id that the server runs as, where several users have one of this name.
    #[arg(long)]
    pub uid: Option<u32>,
    /// The server's program, where several have this name.
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// In whose name; it is noted beside the user who asks.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Print JSON: an event a line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// What `mcpwarden approve` is told, and `approvals deny`.
#[derive(Args, Debug)]
pub struct DecisionOptions {
    #[command(flatten)]
    pub which: Meant,
    /// Only if this is the hash of the definition: the one that was looked at.
    #[arg(long, value_name = "SHA256", conflicts_with = "all")]
    pub hash: Option<String>,
}

/// What `mcpwarden approvals` does.
#[derive(Subcommand, Debug)]
pub enum Approvals {
    /// List the tools that wait for somebody's approval, and those for which nobody came in time.
    ///
    /// Exit status 2 where no agent answers.
    List(ApprovalsList),
    /// Approve a tool: the same as `mcpwarden approve`.
    Grant(DecisionOptions),
    /// Deny a tool: its calls are denied while it has this definition.
    ///
    /// Exit status 2 where it is not denied.
    Deny(DecisionOptions),
}

/// What `mcpwarden approvals list` is told.
#[derive(Args, Debug)]
pub struct ApprovalsList {
    /// Print JSON, one line a tool.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

pub(super) const SESSIONS_EXAMPLES: &str = "\
Examples:
  mcpwarden sessions --since 2h
  sudo mcpwarden sessions set sess_0123456789ab mode planning
  sudo mcpwarden sessions set sess_0123456789ab project billing --by ann
  sudo mcpwarden sessions set sess_0123456789ab mode --reset
";

/// What `mcpwarden sessions` does beside listing.
#[derive(Subcommand, Debug)]
pub enum Sessions {
    /// Say what a running session's calls are judged by, in place of `sessions` in the configuration.
    ///
    /// It counts at once, for all servers of the session, and as long as the agent and the client run. Only root and members
    /// of `control.admin_group` may. Exit status 2 where nothing is set.
    Set(SessionSetOptions),
}

/// What `mcpwarden sessions set` is told.
#[derive(Args, Debug)]
pub struct SessionSetOptions {
    /// Id of the session, as `mcpwarden sessions` lists it.
    pub session: String,
    /// What is set: the mode, the project, the frozen specification, the side effects that no tool may have, or whether
    /// tools that need an administrator's token may be called.
    #[arg(value_parser = PossibleValuesParser::new(["mode", "project", "spec", "blacklist", "admin-token"])
        .map(|key| key.replace('-', "_")).try_map(by_word::<ProfileKey>))]
    pub key: ProfileKey,
    /// `planning` or `execution`; the project's id; the specification's hash; tags such as fs.write,payments; `true` or
    /// `false`. `none`: no project, no frozen specification, no tags.
    #[arg(required_unless_present = "reset", conflicts_with = "reset")]
    pub value: Option<String>,
    /// Go by the configuration again.
    #[arg(long)]
    pub reset: bool,
    /// In whose name; it is noted beside the user who asks.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Print JSON: the event.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}
