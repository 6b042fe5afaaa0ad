//! The command line.

mod call;
mod guard;
mod help;
mod operator;
mod query;
pub mod refused;
mod stored;
mod when;
mod word;

use std::path::PathBuf;

use clap::{
    Args, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser, builder::TypedValueParser as _,
};

use mcpwarden_policy::config::{Hash, Period};

pub use call::CallOptions;
pub use guard::{GuardBuild, GuardCommand, GuardLanguage, GuardNew, GuardTest};
pub use operator::{
    Approvals, ApprovalsList, ApproveOptions, BlockOptions, BlocksOptions, DecisionOptions, Detections,
    MuteOptions, MutedOptions, ReloadOptions, Selection, SessionSetOptions, Sessions, StatusOptions,
    TopOptions, UnblockOptions, UnmuteOptions,
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
    /// Watch every MCP server on this host until a signal ends the agent.
    ///
    /// Prints one event per line: readable text on a terminal (NO_COLOR is respected), JSON elsewhere. The agent redacts
    /// arguments and results, leaf by leaf, to type, length and a hash that is keyed with a secret of this host.
    Run(RunOptions),
    /// Check which features work on this machine, and explain how to enable the others.
    ///
    /// Exit status 1 if capture is impossible. Leaves nothing behind in the kernel.
    ///
    /// With `--tls`: reports which TLS libraries a program has, and which of their functions can be read. Exit status 1 if not all of
    /// them can be read in both directions, 2 if there is no such program.
    Doctor {
        /// Search this program, or all files of this process, for TLS.
        #[arg(long, value_name = "PID|PATH")]
        tls: Option<String>,
        /// Print JSON: one object; each of its `rows` is `works`, `off` (capture works without it), `broken` (capture needs it) or a `fact`.
        #[arg(long)]
        json: bool,
    },
    /// Check whether a command line is recognised as an MCP server, by which pattern, and under which id.
    ///
    /// The agent also recognises a program with any other name once its first request is an MCP request. Exit status 1 if
    /// the command line is not recognised, 2 if the configuration is invalid.
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
    /// Search tool definitions for prompt injection and tool poisoning.
    ///
    /// FILE is a definition, an array of definitions, a server's answer to tools/list, initialize or server/discover (or all in one object),
    /// or a client's configuration (JSON, TOML or YAML): its servers are listed or, with --start, started and inspected. COMMAND starts
    /// a server, --server is the address of a server: its tools, prompts, resource templates and instructions are inspected.
    /// A started server is ended afterwards.
    ///
    /// Servers run as the current user; under sudo, as the user who called sudo, not as root.
    ///
    /// Exit status 0: nothing at or above `inspection.alert_threshold`; 1: at least one detection; 2: the input is invalid, or
    /// a server could not be inspected.
    #[command(after_long_help = INSPECT_EXAMPLES)]
    Inspect(InspectOptions),
    /// Explain the score of one text: what rules match, and what each feature of the learned scorer weighs.
    ///
    /// FILE is the definition of a tool (a JSON object), a result (a JSON object with `content`), or plain text, which is read
    /// as a description, or with --result as the text of a result.
    Explain(ExplainOptions),
    /// Evaluate the policy for one call, and print the decision of each guard in order.
    ///
    /// The command assumes that the server lists the tool, that its definition is the pinned one, and that the definition has
    /// no detection. Exit status 1 if the call is denied, 2 if the arguments or the configuration are invalid.
    Decide(DecideOptions),
    /// Call a tool of a declared server, if the policy allows it.
    ///
    /// Starts or reaches a server of `servers`, lists its tools, and judges the call as the agent judges a client's: by the
    /// configuration, by the pins and decisions in the agent's database, by the blocks of a running agent, and by guards of your
    /// own, whose answers it awaits. Then it calls the tool, judges the result, and prints it; all else is on standard error.
    ///
    /// A server over stdio runs as the current user; under sudo, as the user who called sudo, not as root. It is ended afterwards.
    /// A running agent sees the call as that of any other client; its events have the `trace_id` of the call in `traceparent`.
    ///
    /// Exit status 0: the tool has a result; 1: the tool or the server reports an error; 2: anything else failed; 3: the call
    /// or its result is denied; 4: the server took too long.
    #[command(after_long_help = call::CALL_EXAMPLES)]
    Call(CallOptions),
    /// Replay recorded frames through the policy core and print the events.
    ///
    /// One JSON object per line: {"t": seconds, "session": "s1", "server": "a", "dir": "c2s" or "s2c", "frame": "…"}, or
    /// {"t": …, "server": "a", "event": "exec", "argv": […]}, with optional "program", the path of the server's executable
    /// or script, and "uid", "executable" and "cgroup" of the client, which select its entry of `sessions` in the
    /// configuration. A frame may have a "turn": the request of the model that it belongs to. A decision of an operator is {"t": …, "server": "a", "event": "approve" or "deny", "tool": "t",
    /// "by": "who"}, with "hash", "uid" or "program" to select one of several.
    /// "event": "forget" resets the pin of that tool, or, without it, all pins of the server. {"t": …, "event": "block" or
    /// "unblock", "target": "server=ID" or "session=ID"} blocks calls, with optional "until" and "reason".
    /// {"t": …, "event": "set", "session": "s1", "set": {"key": "mode", "value": "planning"}, "by": "who"} changes a
    /// session; "reset": "mode" in place of "set" restores the value of the configuration. {"t": …, "event": "mute", "rule": "r",
    /// "server": "a", "tool": "t", "until": seconds, "reason": "why", "by": "who"} mutes detections, with optional
    /// "any_definition", "hash", "uid" and "program"; "event": "unmute" ends the mute with the id "mute".
    ///
    /// The same input gives the same output, byte for byte.
    ///
    /// After the last line, time advances until no timer is pending: an approval that the recording does not grant expires,
    /// and the event has the time at which it expires.
    ///
    /// Exit status 0 if every line was replayed, 2 if a line is invalid: the events of the lines before it are printed.
    Replay(ReplayOptions),
    /// Block all connections or all calls to a target at once, whatever `enforcement` is set to.
    ///
    /// TARGET is an address (192.0.2.1), a network (10.0.0.0/8) or a host name, each with an optional port after a colon,
    /// or the id of a declared server. The agent follows the addresses of names, and closes open connections to the target.
    /// For servers over stdio, or in lines over a socket, TARGET selects the calls to block, on kernels that have a gate
    /// (`mcpwarden doctor`): all calls to a server (server=ID, or the id of a declared server), or all calls of a session
    /// (session=ID).
    /// A block ends after --for, with `mcpwarden unblock`, or when the agent ends. A second block of the same target replaces
    /// the first.
    ///
    /// Exit status 2 if the target is not blocked.
    #[command(after_long_help = operator::BLOCK_EXAMPLES)]
    Block(BlockOptions),
    /// Lift a block: the configuration applies again.
    ///
    /// Exit status 2 if the block is not lifted, or the target was not blocked.
    Unblock(UnblockOptions),
    /// List the targets that operators have blocked.
    Blocks(BlocksOptions),
    /// Detach the programs that an agent left attached; no policy applies to connections afterwards.
    ///
    /// With `enforcement.persist: true` the programs that deny connections stay attached when the agent ends or is killed,
    /// until the next agent takes over, or this command detaches them. It refuses while an agent runs: stop the agent first.
    ///
    /// Exit status 0 if nothing is left attached, 2 otherwise.
    Detach(DetachOptions),
    /// Propose `egress` rules from the connections that servers made.
    ///
    /// Reads the store, with or without a running agent, or FILE with events as `run --output json` prints them, one per line.
    /// The proposal covers every server with events in the requested time, and leaves out denied connections. It is YAML for
    /// the configuration: host names where the events have them, and for each destination how often and when it was used.
    ///
    /// Exit status 2 if the database cannot be read, or a line is not an event.
    #[command(after_long_help = LEARN_EXAMPLES)]
    Learn(LearnOptions),
    /// Show the state of the running agent: what it watches, which settings are in force, and its problems.
    ///
    /// Exit status 0 if there is no problem, 1 if there is one, 2 if no agent answers.
    Status(StatusOptions),
    /// Show a live view of the running agent: servers, sessions, calls, detections, losses.
    ///
    /// The view starts with the numbers of the last hour. 1-5 and Tab switch lists, arrows select a row, Enter shows its details,
    /// `/` filters, `s` sorts, `?` lists all keys, `q` quits. In the details, `a` approves the selected tool, as `mcpwarden approve`
    /// does, and `b` blocks the selected address or server, as `mcpwarden block` does; both ask for confirmation. If the agent ends,
    /// the view reports it and waits for the next agent. NO_COLOR is respected.
    ///
    /// Exit status 2 if no agent answers, its store cannot be read, or standard output is not a terminal.
    Top(TopOptions),
    /// Reload the configuration of the running agent.
    ///
    /// The agent also reloads when the file changes, and on SIGHUP. A file with an error changes nothing: the previous
    /// configuration stays in force.
    ///
    /// Exit status 2 if the configuration is not reloaded.
    Reload(ReloadOptions),
    /// Approve the current definition of a tool.
    ///
    /// Pins the definition. The reasons that held the tool (detections, a changed definition, a name that another server uses,
    /// low trust in its server) no longer apply.
    ///
    /// Exit status 2 if the tool is not approved.
    #[command(after_long_help = operator::APPROVE_EXAMPLES)]
    Approve(ApproveOptions),
    /// List, grant and deny approvals of tools.
    Approvals {
        #[command(subcommand)]
        what: Approvals,
    },
    /// List stored events, with or without a running agent.
    ///
    /// Prints the last --limit events that match every option, oldest first; repeated options are alternatives. Prints readable
    /// lines or, with --json, the stored lines.
    ///
    /// Exit status 2 if the database cannot be read.
    #[command(after_long_help = stored::EVENTS_EXAMPLES)]
    Events(EventsOptions),
    #[command(flatten)]
    Query(Query),
    /// List, compare and reset pinned definitions.
    Pins {
        #[command(subcommand)]
        what: Pins,
    },
    /// Verify or export the audit log.
    Audit {
        #[command(subcommand)]
        what: Audit,
    },
    /// Check a configuration file, and the files and names on this host that it refers to.
    ///
    /// Reports every mistake with its position. Exit status 0 without errors; 1 for warnings with --strict; 2 for errors.
    CheckConfig {
        /// Configuration file (YAML); `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print the configuration with all defaults filled in.
        #[arg(long)]
        effective: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Exit with status 1 if there are warnings.
        #[arg(long)]
        strict: bool,
    },
    /// Write, build and test a guard of your own: a WebAssembly component.
    #[command(after_long_help = guard::EXAMPLES)]
    Guard {
        #[command(subcommand)]
        what: GuardCommand,
    },
    /// Print the JSON Schema of events, or of the configuration.
    Schema {
        /// Print the schema of the configuration file instead.
        #[arg(long)]
        config: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff) of a command: mcpwarden man events | man -l -
    ///
    /// Exit status 2 if there is no such command.
    Man(ManOptions),
}

/// Arguments of `mcpwarden run`.
#[derive(Args, Debug)]
pub struct RunOptions {
    /// Configuration file (YAML). Without it the embedded defaults apply.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Format of printed events.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// Report every message, not only tool calls and their results.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print arguments and results as they are. They may hold secrets.
    #[arg(long)]
    pub show_payloads: bool,
    /// Level of the agent's own messages on standard error: `error`, `warn`, `info`, `debug`, `trace` or `off`,
    /// for the whole agent or for parts such as `network=debug`.
    #[arg(long, value_name = "LEVEL|TARGET=LEVEL,…")]
    pub log: Option<log::Filter>,
    /// How bytes are captured; overrides the configuration.
    #[arg(long, value_parser = PossibleValuesParser::new(["auto", "trampolines", "tracepoints"]).try_map(by_word::<Backend>))]
    pub backend: Option<Backend>,
    /// Bytes of the ring between the kernel and the agent: a power of two; overrides the configuration.
    #[arg(long, value_name = "BYTES")]
    pub ring_bytes: Option<u32>,
    /// Directory of the lock that refuses a second agent, and of the control socket.
    #[arg(long, value_name = "DIR", default_value = "/run/mcpwarden")]
    pub runtime_dir: PathBuf,
    /// Directory of the secrets of this host and, without `store.path`, of the database.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/mcpwarden")]
    pub state_dir: PathBuf,
}

/// Arguments of `mcpwarden detach`.
#[derive(Args, Debug)]
pub struct DetachOptions {
    /// The `--runtime-dir` of the agent that left the programs attached.
    #[arg(long, value_name = "DIR", default_value = "/run/mcpwarden")]
    pub runtime_dir: PathBuf,
    /// Print JSON: the number of detached programs, and of records that no agent has read.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mcpwarden man`.
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

/// Arguments of `mcpwarden learn`.
#[derive(Args, Debug)]
pub struct LearnOptions {
    /// A recording, instead of what is stored; `-` is standard input.
    #[arg(conflicts_with = "path")]
    pub file: Option<PathBuf>,
    /// Only events since this time: a time (2026-01-31T10:00:00Z), a date, or an age (7d).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Only events before this time, in the forms of --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// Only the server with this id; may be given several times.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Print JSON, one line per server, with each destination's number of connections and the first and last of them.
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

JSON, one line per definition:
  {\"server\": …, \"kind\": \"tool\"|\"prompt\"|\"resource_template\"|\"instructions\"|\"interface\", \"name\": …, \"hash\": …,
   \"max_severity\": …, \"detections\": [{\"pattern\", \"category\", \"severity\", \"field\", \"matches\", …}]}
For a client's configuration without --start, a line is {\"name\": …, \"command\": […], \"server_id\": …},
and has the last two if its name resembles the name of another server. Lines of an inspected file have no `server`. Detections
in the name of a server have the kind \"server\" and no name or hash; a server that could not be inspected is {\"server\": …, \"error\": …}.
";

/// Arguments of `mcpwarden inspect`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["file", "server", "command"]))]
pub struct InspectOptions {
    /// The file; `-` is standard input.
    pub file: Option<PathBuf>,
    /// Address of a server over streamable HTTP, or over the older HTTP with server-sent events.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Start the servers that the file declares, one after the other, and inspect each.
    #[arg(long, requires = "file", conflicts_with_all = ["server", "command"])]
    pub start: bool,
    /// Send this header with each request over HTTP; @FILE in place of the value reads it from a file, which keeps it out
    /// of the list of processes.
    #[arg(long, value_name = "NAME:VALUE", requires = "server", conflicts_with_all = ["file", "command"])]
    pub header: Vec<String>,
    /// Trust these certificate authorities (PEM) in addition to those of the system.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Time limit of each server, from its start to its last answer.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub timeout: Period,
    /// Hide the standard error of servers.
    #[arg(long, short)]
    pub quiet: bool,
    /// Let servers run as root if the current user is root.
    #[arg(long)]
    pub as_root: bool,
    /// Configuration file (YAML) with patterns, categories and the threshold.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON, one line per definition.
    #[arg(long)]
    pub json: bool,
    /// The server to start, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of `mcpwarden explain`.
#[derive(Args, Debug)]
pub struct ExplainOptions {
    /// The file; `-` is standard input.
    pub file: PathBuf,
    /// Read plain text, or any JSON, as the result of a call.
    #[arg(long)]
    pub result: bool,
    /// Configuration file (YAML) with rules, categories and the model.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mcpwarden decide`.
#[derive(Args, Debug)]
pub struct DecideOptions {
    /// Id of the server.
    #[arg(long)]
    pub server: String,
    /// Name of the tool.
    #[arg(long)]
    pub tool: String,
    /// Hash of the tool's definition, as in events, for rules with `content_hash`. Without it, no such rule matches.
    #[arg(long, value_name = "HASH")]
    pub hash: Option<Hash>,
    /// Arguments of the call: a JSON object. The guards search them for secrets and for paths of secrets.
    #[arg(long, value_name = "JSON")]
    pub arguments: Option<String>,
    /// Time of the call, for rules that depend on it: a time (`2026-01-31T10:00:00Z`), or how long ago (`12h`). Without it,
    /// now.
    #[arg(long, value_name = "TIME")]
    pub at: Option<when::When>,
    /// The client's entry of `sessions` in the configuration, by its name or its number from 0. Without it, the client is
    /// unknown: only an entry without `match` applies.
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Configuration file (YAML). Without it the embedded defaults apply.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Who answers questions to guards that others wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplayGuards {
    /// The recording.
    Recorded,
    /// The recording, and the guards themselves.
    Live,
}

/// Arguments of `mcpwarden replay`.
#[derive(Args, Debug)]
pub struct ReplayOptions {
    /// The recording; `-` is standard input.
    pub file: PathBuf,
    /// Who answers questions to guards that others wrote: the `answer` lines of the recording, or the guards themselves
    /// where there is no such line.
    #[arg(long, value_enum, default_value_t = ReplayGuards::Recorded)]
    pub guards: ReplayGuards,
    /// Write the answers of `--guards live` to this file, as lines to put before the recording.
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Configuration file (YAML). Without it the embedded defaults apply.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Format of printed events.
    #[arg(long, value_enum, default_value_t = Output::Json)]
    pub output: Output,
    /// Report every message, not only tool calls and their results.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print arguments and results as they are.
    #[arg(long)]
    pub show_payloads: bool,
}
