//! The command line.

mod operator;
mod query;
pub mod refused;
mod stored;
mod when;
mod word;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};

use mcpwarden_policy::config::{Hash, Period};

pub use operator::{
    Approvals, ApprovalsList, BlockOptions, BlocksOptions, DecisionOptions, Meant, ReloadOptions,
    SessionSetOptions, Sessions, StatusOptions, TopOptions, UnblockOptions,
};
pub use query::{
    CallsOptions, ConnectionsOptions, DetectionsOptions, ListOptions, Query, Registry, ReportFormat,
    ReportOptions, SessionsOptions, Shown, ToolsOptions, Which,
};
use stored::Database;
pub use stored::{Audit, AuditExport, AuditVerify, Bound, EventsOptions, Pins, PinsDiff, PinsList};
pub use when::When;
use word::by_word;

use crate::{config::Backend, log, output::Output};

/// Watches every MCP server on this host from the kernel.
///
/// With eBPF it sees each MCP (Model Context Protocol) server start, the tools it offers and the calls it gets,
/// without a proxy and without a change to any client or server.
#[derive(Parser, Debug)]
#[command(name = "mcpwarden", version, max_term_width = 100, after_long_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sudo mcpwarden run                      watch the host, one readable line an event
  sudo mcpwarden run --output json | jq   the same for machines
  sudo mcpwarden doctor                   what works on this machine, and how to turn on what does not
  mcpwarden match -- npx -y @modelcontextprotocol/server-filesystem /srv
";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Watch this host until a signal ends it.
    ///
    /// Prints one event a line: readable on a terminal (NO_COLOR is respected), JSON elsewhere. Arguments and
    /// results are redacted, leaf by leaf, to type, length and a hash that is keyed with a secret of this host.
    Run(RunOptions),
    /// Say what works on this machine, what does not, why, and how to turn it on.
    ///
    /// Exit status 1 where capture is impossible. Leaves nothing behind in the kernel.
    Doctor {
        /// Print JSON: one object, whose `rows` are `works`, `off` (capture does without), `broken` (it does not) or a `fact`.
        #[arg(long)]
        json: bool,
    },
    /// Say whether a command counts as an MCP server, by which pattern, and under which id.
    ///
    /// A program whose name says nothing still counts once its first request is one of MCP's. Exit status 1 where
    /// the command does not count by its name, 2 where the configuration cannot be used.
    Match {
        /// Configuration file with patterns and declared servers.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The command and its arguments.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Look for what is written to misuse the model in definitions of tools.
    ///
    /// FILE is a definition, an array of them, what a server says of itself (its answer to tools/list or initialize, or all
    /// of that in one object), or a client's configuration (mcp.json), of which the servers are listed, or with --start,
    /// started and inspected. COMMAND is a server to start, --server the address
    /// of one: tools, prompts, resource templates and instructions are listed, and the server is ended.
    ///
    /// Servers run as the user who inspects; under sudo, as the user who called it, not as root.
    ///
    /// Exit status 0: nothing at or above `inspection.alert_threshold`; 1: something; 2: the input cannot be used, or a
    /// server not be inspected.
    #[command(after_long_help = INSPECT_EXAMPLES)]
    Inspect(InspectOptions),
    /// Say what the policy would say of a call: every guard that is asked, in order, with its answer.
    ///
    /// The tool is taken to be listed by its server, as pinned, with nothing found in its definition. Exit status 1 where
    /// the call is denied, 2 where the question cannot be answered.
    Decide(DecideOptions),
    /// Put recorded frames through the policy core and print the events.
    ///
    /// One JSON object a line: {"t": seconds, "session": "s1", "server": "a", "dir": "c2s" or "s2c", "frame": "…"}, or
    /// {"t": …, "server": "a", "event": "exec", "argv": […]}, which may say "program", the path of the executable or script
    /// that serves, and "uid", "executable" and "cgroup" of the client, by which it gets its entry of `sessions` in the
    /// configuration. A frame may say its "turn", the model's request that it
    /// belongs to. What somebody decides by hand is {"t": …, "server": "a", "event": "approve" or "deny", "tool": "t",
    /// "by": "who"}, with "hash", "uid" or "program" where only one of several is meant.
    /// "event": "forget" resets the pin of that tool, or, without it, all pins of the server. {"t": …, "event": "block" or
    /// "unblock", "target": "server=ID" or "session=ID"} blocks calls, a block with "until" and "reason" where it has them.
    /// {"t": …, "event": "set", "session": "s1", "set": {"key": "mode", "value": "planning"}, "by": "who"} sets something of a
    /// session, with "reset": "mode" in place of "set" the configuration decides it again.
    ///
    /// The same input gives the same output, byte for byte.
    ///
    /// After the last line time goes on until nothing is waited for: an approval that nobody gave in the recording expires,
    /// and is printed with the time at which it does.
    ///
    /// Exit status 0 where all of it was replayed, 2 where a line is no record: events of the lines before it are printed.
    Replay(ReplayOptions),
    /// Deny all connections to something, or all calls, at once, whatever `enforcement` says.
    ///
    /// TARGET is an address (192.0.2.1), a block of them (10.0.0.0/8), a name, each with a port behind a colon or without,
    /// or the id of a declared server: the addresses of names are followed. What is open to it is closed.
    /// Of servers over stdio it is whose calls are stopped, on kernels that have a gate (`mcpwarden doctor`): everybody's to a server
    /// (server=ID, or the id of a declared one), or a session's to any (session=ID).
    /// A block ends after --for, when it is unblocked, or when the agent ends. A second block of the same takes the place
    /// of the first.
    ///
    /// Exit status 2 where it is not blocked.
    #[command(after_long_help = operator::BLOCK_EXAMPLES)]
    Block(BlockOptions),
    /// Lift a block: connections are judged by the configuration again.
    ///
    /// Exit status 2 where it is not lifted, or was not blocked.
    Unblock(UnblockOptions),
    /// List what is blocked by hand.
    Blocks(BlocksOptions),
    /// Detach what an agent left attached: connections are judged by nobody then.
    ///
    /// With `enforcement.persist: true` what denies connections stays when the agent ends or is killed, until the next agent
    /// takes over, or this. Where an agent runs it is not lifted: stop that first.
    ///
    /// Exit status 0 where nothing is left attached, 2 where that is not so.
    Detach(DetachOptions),
    /// Propose the `egress` of servers: where they connected to.
    ///
    /// By what is stored, whether an agent runs or not; or by FILE, which holds events as `run --output json` prints them, one
    /// a line. Servers are those of which anything was seen in the time that is asked for. What was denied is left out. The
    /// proposal is YAML that the configuration can take: with names where the events have some, and with how often and when
    /// each destination was seen.
    ///
    /// Exit status 2 where the database cannot be read, or a line is no event.
    #[command(after_long_help = LEARN_EXAMPLES)]
    Learn(LearnOptions),
    /// Say how the running agent is: what it watches, what counts, what is wrong.
    ///
    /// Exit status 0 where all is well, 1 where something is wrong, 2 where no agent answers.
    Status(StatusOptions),
    /// Show the running agent live: servers, sessions, calls, what was found, what was lost.
    ///
    /// What was counted in the last hour is there from the start. 1-5 and Tab show the lists, arrows select, Enter tells all of
    /// a row, `/` filters, `s` sorts, `?` says all keys, `q` ends. In a detail `a` approves the selected tool, as `mcpwarden approve`
    /// does, and `b` blocks the selected address or the server, as `mcpwarden block` does; both ask first. Where the agent ends, it
    /// is said, and another is waited for. NO_COLOR is respected.
    ///
    /// Exit status 2 where no agent answers, what it stores cannot be read, or standard output is no terminal.
    Top(TopOptions),
    /// Have the agent read its configuration again.
    ///
    /// It does so by itself when the file changes, and on SIGHUP. A file with an error changes nothing: the configuration of
    /// before still counts.
    ///
    /// Exit status 2 where it is not reloaded.
    Reload(ReloadOptions),
    /// Trust what a tool is now: its definition is pinned, and whatever held it (detections, a change, another server's name,
    /// little trust in its server) counts no more.
    ///
    /// Exit status 2 where it is not approved.
    #[command(after_long_help = operator::APPROVE_EXAMPLES)]
    Approve(DecisionOptions),
    /// Say which tools wait for approval, and decide about them.
    Approvals {
        #[command(subcommand)]
        what: Approvals,
    },
    /// Print stored events, whether an agent runs or not.
    ///
    /// Those of the last --limit that match all that is asked for, oldest first; several of one option are alternatives.
    /// Readable lines, or with --json those that are stored.
    ///
    /// Exit status 2 where the database cannot be read.
    #[command(after_long_help = stored::EVENTS_EXAMPLES)]
    Events(EventsOptions),
    #[command(flatten)]
    Query(Query),
    /// Say what is pinned.
    Pins {
        #[command(subcommand)]
        what: Pins,
    },
    /// Verify the audit trail, or copy it.
    Audit {
        #[command(subcommand)]
        what: Audit,
    },
    /// Say everything that is wrong with a configuration file, and with what it names on this host.
    ///
    /// Exit status 0 where nothing is, or only warnings; 1 for warnings with --strict; 2 for errors.
    CheckConfig {
        /// Configuration file (YAML); `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print the file with everything filled in that holds where it says nothing.
        #[arg(long)]
        effective: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Do not let warnings pass.
        #[arg(long)]
        strict: bool,
    },
    /// Print the JSON Schema of events.
    Schema {
        /// The one of the configuration file, in place of it.
        #[arg(long)]
        config: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff) of a command: mcpwarden man events | man -l -
    ///
    /// Exit status 2 where there is no such command.
    Man(ManOptions),
}

/// What `mcpwarden run` is told.
#[derive(Args, Debug)]
pub struct RunOptions {
    /// Configuration file (YAML). Without it the embedded defaults apply.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How events are printed.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Report every message, not only tool calls and their results.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print arguments and results as they are. They may hold secrets.
    #[arg(long)]
    pub show_payloads: bool,
    /// Which of the agent's own messages are written to standard error: `error`, `warn`, `info`, `debug`, `trace` or `off`,
    /// for all of it or for parts such as `network=debug`.
    #[arg(long, value_name = "LEVEL|TARGET=LEVEL,…")]
    pub log: Option<log::Filter>,
    /// How bytes are captured; overrides the configuration.
    #[arg(long, value_parser = PossibleValuesParser::new(["auto", "trampolines", "tracepoints"]).try_map(by_word::<Backend>))]
    pub backend: Option<Backend>,
    /// Bytes of the ring between the kernel and the agent: a power of two; overrides the configuration.
    #[arg(long, value_name = "BYTES")]
    pub ring_bytes: Option<u32>,
    /// Where the lock lies that keeps a second agent away.
    #[arg(long, value_name = "DIR", default_value = "/run/mcpwarden")]
    pub runtime_dir: PathBuf,
    /// Where the secrets of this host lie, and, without `store.path`, the database.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/mcpwarden")]
    pub state_dir: PathBuf,
}

/// What `mcpwarden detach` is told.
#[derive(Args, Debug)]
pub struct DetachOptions {
    /// The `--runtime-dir` of the agent that left it.
    #[arg(long, value_name = "DIR", default_value = "/run/mcpwarden")]
    pub runtime_dir: PathBuf,
    /// Print JSON: how much was detached, and what nobody had read of it.
    #[arg(long)]
    pub json: bool,
}

/// What `mcpwarden man` is told.
#[derive(Args, Debug)]
pub struct ManOptions {
    /// The command, such as `registry show`; without one, the program.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write the pages of all commands to this directory, as files.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub to: Option<PathBuf>,
}

const LEARN_EXAMPLES: &str = "\
Examples:
  mcpwarden learn --since 7d
  mcpwarden learn --since 2026-01-05 --until 2026-01-12 --server weather
  mcpwarden learn events.jsonl
";

/// What `mcpwarden learn` is told.
#[derive(Args, Debug)]
pub struct LearnOptions {
    /// A recording, instead of what is stored; `-` is standard input.
    #[arg(conflicts_with = "path")]
    pub file: Option<PathBuf>,
    /// Only what happened since: a time (2026-01-31T10:00:00Z), a date, or how long ago that was (7d).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Only what happened before; as --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// Only the server with this id; may be given several times.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Print JSON, one line a server, with each destination's number of connections and the first and last of them.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

const INSPECT_EXAMPLES: &str = "\
Examples:
  mcpwarden inspect -- npx -y @modelcontextprotocol/server-filesystem /srv
  mcpwarden inspect --server https://mcp.example.com/mcp --header Authorization:@token.txt
  mcpwarden inspect --start ~/.cursor/mcp.json
  mcpwarden inspect --json tools.json | jq 'select(.max_severity)'

JSON, one line a definition:
  {\"server\": …, \"kind\": \"tool\"|\"prompt\"|\"resource_template\"|\"instructions\", \"name\": …, \"hash\": …,
   \"max_severity\": …, \"detections\": [{\"pattern\", \"category\", \"severity\", \"field\", \"matches\", …}]}
Of a client's configuration whose servers are not started, a line is {\"name\": …, \"command\": […], \"server_id\": …},
with the last two of these where its name is nearly another's. `server` is missing where a file was inspected. What a server's own name has against it has the kind \"server\" and
no name or hash; a server that could not be inspected is {\"server\": …, \"error\": …}.
";

/// What `mcpwarden inspect` is told.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["file", "server", "command"]))]
pub struct InspectOptions {
    /// The file; `-` is standard input.
    pub file: Option<PathBuf>,
    /// Address of a server that speaks streamable HTTP, or HTTP with server-sent events as it was before.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Start the servers that the file declares, one after the other, and inspect each.
    #[arg(long, requires = "file", conflicts_with_all = ["server", "command"])]
    pub start: bool,
    /// Send this header with each request over HTTP; @FILE in place of the value reads it from a file, which keeps it out
    /// of the list of processes.
    #[arg(long, value_name = "NAME:VALUE", requires = "server", conflicts_with_all = ["file", "command"])]
    pub header: Vec<String>,
    /// Trust certificates that these authorities have signed (PEM), beside those that the system trusts.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Give each server so long, from its start to its last answer.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub timeout: Period,
    /// Do not show what servers print on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// Let servers run as root, where that is who inspects.
    #[arg(long)]
    pub as_root: bool,
    /// Configuration file (YAML) with patterns, categories and the threshold.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON, one line a definition.
    #[arg(long)]
    pub json: bool,
    /// The server to start, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What `mcpwarden decide` is told.
#[derive(Args, Debug)]
pub struct DecideOptions {
    /// Id of the server.
    #[arg(long)]
    pub server: String,
    /// Name of the tool.
    #[arg(long)]
    pub tool: String,
    /// Hash of the tool's definition, as events have it, which rules with `content_hash` go by. Without it, the definition is
    /// none that they know.
    #[arg(long, value_name = "HASH")]
    pub hash: Option<Hash>,
    /// Arguments of the call: a JSON object. They are searched for secrets and paths that hold some.
    #[arg(long, value_name = "JSON")]
    pub arguments: Option<String>,
    /// The client's entry of `sessions` in the configuration, by its name or its number from 0. Without it, the client is
    /// one of which nothing is known: only an entry without `match` fits it.
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Configuration file (YAML). Without it the embedded defaults apply.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What `mcpwarden replay` is told.
#[derive(Args, Debug)]
pub struct ReplayOptions {
    /// The recording; `-` is standard input.
    pub file: PathBuf,
    /// Configuration file (YAML). Without it the embedded defaults apply.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How events are printed.
    #[arg(long, value_enum, default_value_t = Output::Json)]
    pub output: Output,
    /// Report every message, not only tool calls and their results.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print arguments and results as they are.
    #[arg(long)]
    pub show_payloads: bool,
}
