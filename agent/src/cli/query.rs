//! What commands on what events tell of are told: servers, sessions, tools, calls, detections, connections.

use clap::{
    Args, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use mcpwarden_policy::{
    event::{Action, Category, Severity},
    guard::RiskLevel,
};

use super::{
    operator::{SESSIONS_EXAMPLES, Sessions},
    stored::Database,
    when::When,
    word::by_word,
};

/// How bad or risky something can be, the least first.
const LEVELS: [&str; 4] = ["low", "medium", "high", "critical"];

/// What is asked of the store.
#[derive(Subcommand, Debug)]
pub enum Query {
    /// List the servers that events tell of, with how they do.
    ///
    /// Errors are answers that say so. Health is judged by the last hour, whatever --since says: `unhealthy`, `degraded` or
    /// `healthy`, with the reasons in --json; `-` where nothing was seen of the server in it. docs/reference/commands.md says by what.
    ///
    /// Counted are the events that --session, --since and --until leave. Exit status 2 where the database cannot be read.
    Servers(ListOptions),
    /// List the sessions: what one client process did with its servers.
    ///
    /// Counted are the events that --server, --since and --until leave. Exit status 2 where the database cannot be read.
    #[command(after_long_help = SESSIONS_EXAMPLES)]
    Sessions(SessionsOptions),
    /// List the tools that servers offer, with what is known of each.
    ///
    /// A tool has a line for each user and program that serves it. Exit status 2 where a database cannot be read.
    Tools(ToolsOptions),
    /// Say what is known of tools.
    Registry {
        #[command(subcommand)]
        what: Registry,
    },
    /// List calls, each with its answer.
    ///
    /// The last --limit that match all that is asked for, oldest first; several of one option are alternatives. Answers are
    /// looked for up to an hour after the call. Exit status 2 where the database cannot be read.
    Calls(CallsOptions),
    /// List what the rules found, at or above `inspection.alert_threshold`.
    ///
    /// The last --limit that match all that is asked for, oldest first. Exit status 2 where the database cannot be read.
    Detections(DetectionsOptions),
    /// List connections to declared servers, to what is denied, and of servers' own processes.
    ///
    /// The last --limit that match all that is asked for, oldest first. Exit status 2 where the database cannot be read.
    Connections(ConnectionsOptions),
    /// Sum up what happened: servers, tools, what changed, what was found, what was blocked, and where servers connected to.
    ///
    /// HTML is one file that loads nothing. Exit status 2 where the database cannot be read.
    #[command(after_long_help = REPORT_EXAMPLES)]
    Report(ReportOptions),
}

const REPORT_EXAMPLES: &str = "\
Examples:
  mcpwarden report --since 7d
  mcpwarden report --session sess_5f2c09d1a3b7 --format html > session.html
  mcpwarden report --format json | jq .detections_by_severity
";

/// What `mcpwarden registry` does.
#[derive(Subcommand, Debug)]
pub enum Registry {
    /// The same as `mcpwarden tools`.
    List(ToolsOptions),
    /// Say everything of one tool: its definition, pin, approval, and what was found in it.
    ///
    /// Each user and program that serves it is said on its own. Exit status 2 where nothing is known of it, or a database
    /// cannot be read.
    Show {
        /// The tool, as its id has it behind `mcp:`; of a prompt or a resource template, its name; of instructions, nothing
        /// behind the colon.
        #[arg(value_name = "SERVER:TOOL")]
        tool: String,
        /// Print JSON, one line for each user and program.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
}

/// Which events.
#[derive(Args, Debug, Default)]
pub struct Which {
    /// Only those of this session.
    #[arg(long, value_name = "ID")]
    pub session: Vec<String>,
    /// Only those of the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Not before: a time (2026-01-31T10:00:00Z), a date, or how long ago (2h).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Before; as --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
}

/// How much is printed, and how.
#[derive(Args, Debug)]
pub struct Shown {
    /// The last so many; 0: all.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub limit: u64,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

/// What `mcpwarden sessions` is told.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsOptions {
    #[command(flatten)]
    pub list: ListOptions,
    #[command(subcommand)]
    pub what: Option<Sessions>,
}

/// What `mcpwarden servers` and `sessions` are told.
#[derive(Args, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub shown: Shown,
}

/// What `mcpwarden tools` is told.
#[derive(Args, Debug)]
pub struct ToolsOptions {
    /// Only those of the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only those whose definition is not the pinned one any more.
    #[arg(long)]
    pub changed: bool,
    /// Only those in whose definition something at least so bad was found.
    #[arg(long, value_parser = PossibleValuesParser::new(LEVELS).try_map(by_word::<Severity>))]
    pub severity: Option<Severity>,
    /// Only those that are at least so risky.
    #[arg(long, value_parser = PossibleValuesParser::new(LEVELS).try_map(by_word::<RiskLevel>))]
    pub risk: Option<RiskLevel>,
    /// Only those that have this effect, such as fs.write.
    #[arg(long, value_name = "TAG")]
    pub side_effect: Vec<String>,
    #[command(flatten)]
    pub shown: Shown,
}

/// What `mcpwarden calls` is told.
#[derive(Args, Debug)]
pub struct CallsOptions {
    #[command(flatten)]
    pub which: Which,
    /// Only those of the tool with this name.
    #[arg(long, value_name = "NAME")]
    pub tool: Vec<String>,
    /// Only those of which this came.
    #[arg(long, value_parser = PossibleValuesParser::new(["allow", "alert", "block"]).try_map(by_word::<Action>))]
    pub action: Vec<Action>,
    #[command(flatten)]
    pub shown: Shown,
}

/// What `mcpwarden detections` is told.
#[derive(Args, Debug)]
pub struct DetectionsOptions {
    #[command(flatten)]
    pub which: Which,
    /// Only those about the tool with this name.
    #[arg(long, value_name = "NAME")]
    pub tool: Vec<String>,
    /// Only those that are at least so bad.
    #[arg(long, value_parser = PossibleValuesParser::new(LEVELS).try_map(by_word::<Severity>))]
    pub severity: Option<Severity>,
    /// Only those of this category, such as credential_theft.
    #[arg(long, value_parser = |word: &str| by_word::<Category>(word.to_owned()))]
    pub category: Vec<Category>,
    #[command(flatten)]
    pub shown: Shown,
}

/// What `mcpwarden connections` is told.
#[derive(Args, Debug)]
pub struct ConnectionsOptions {
    #[command(flatten)]
    pub which: Which,
    /// Only those of which this came.
    #[arg(long, value_parser = PossibleValuesParser::new(["allow", "block"]).try_map(by_word::<Action>))]
    pub action: Vec<Action>,
    #[command(flatten)]
    pub shown: Shown,
}

/// What `mcpwarden report` is told.
#[derive(Args, Debug)]
pub struct ReportOptions {
    /// Only this session.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Not before: a time (2026-01-31T10:00:00Z), a date, or how long ago (2h).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Before; as --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// How it is written.
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,
    #[command(flatten)]
    pub database: Database,
}

/// What `report --format` can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// One file that loads nothing.
    Html,
    /// For a ticket or a wiki.
    Markdown,
}
