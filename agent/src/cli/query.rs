//! Arguments of the commands that list servers, sessions, tools, calls, detections and connections.

use clap::{
    Args, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use mcpwarden_policy::{
    event::{Action, Category, Severity},
    guard::RiskLevel,
};

use super::{
    operator::{Agent, DETECTIONS_EXAMPLES, Detections, SESSIONS_EXAMPLES, Sessions},
    stored::Database,
    when::When,
    word::by_word,
};

/// Severities and risks, the lowest first.
const LEVELS: [&str; 4] = ["low", "medium", "high", "critical"];

/// Queries of the store.
#[derive(Subcommand, Debug)]
pub enum Query {
    /// List servers with their activity and health.
    ///
    /// Health covers the last hour, whatever --since is: `unhealthy`, `degraded` or `healthy`, with the reasons in --json;
    /// `-` if the server had no event in that hour. docs/reference/commands.md lists the criteria.
    ///
    /// The numbers cover the events that --session, --since and --until select. Exit status 2 if the database cannot be read.
    Servers(ListOptions),
    /// List sessions: the activity of one client process with its servers.
    ///
    /// The numbers cover the events that --server, --since and --until select. Exit status 2 if the database cannot be read.
    #[command(after_long_help = SESSIONS_EXAMPLES)]
    Sessions(SessionsOptions),
    /// List the tools of servers, with their pins, risk and detections.
    ///
    /// A tool has one line for each user and program that serves it. Exit status 2 if a database cannot be read.
    ///
    /// With --refresh, the running agent lists a declared server at an address (`type: http` or `sse`) now, and the command prints
    /// the number of its tools, and which are new, changed or gone. Only root and members of `control.admin_group` may do that.
    /// Exit status 2 if the server is not listed.
    Tools(ToolsOptions),
    /// List tools, or show everything about one tool.
    Registry {
        #[command(subcommand)]
        what: Registry,
    },
    /// List calls, each with its answer.
    ///
    /// Prints the last --limit calls that match every option, oldest first; repeated options are alternatives. An answer is
    /// found up to an hour after its call. Exit status 2 if the database cannot be read.
    Calls(CallsOptions),
    /// List detections at or above `inspection.alert_threshold`, or mute some.
    ///
    /// Prints the last --limit detections that match every option, oldest first; those that are muted only with --muted. Exit
    /// status 2 if the database cannot be read.
    #[command(after_long_help = DETECTIONS_EXAMPLES)]
    Detections(DetectionsOptions),
    /// List connections to declared servers, connections to denied addresses, and connections of servers.
    ///
    /// Prints the last --limit connections that match every option, oldest first. Exit status 2 if the database cannot be read.
    Connections(ConnectionsOptions),
    /// Summarise servers, tools, changes, detections, blocked calls and connections.
    ///
    /// The HTML report is one file that loads nothing. Exit status 2 if the database cannot be read.
    #[command(after_long_help = REPORT_EXAMPLES)]
    Report(ReportOptions),
}

const REPORT_EXAMPLES: &str = "\
Examples:
  mcpwarden report --since 7d
  mcpwarden report --session sess_5f2c09d1a3b7 --format html > session.html
  mcpwarden report --format json | jq .detections_by_severity
";

/// Subcommands of `mcpwarden registry`.
#[derive(Subcommand, Debug)]
pub enum Registry {
    /// List tools; the same as `mcpwarden tools`.
    List(ToolsOptions),
    /// Show everything about one tool: its definition, pin, approval and detections.
    ///
    /// Prints one section for each user and program that serves the tool. Exit status 2 if the tool is unknown, or a database
    /// cannot be read.
    Show {
        /// The tool as SERVER:TOOL; for a prompt or a resource template, its name in place of TOOL; for instructions, nothing
        /// after the colon.
        #[arg(value_name = "SERVER:TOOL")]
        tool: String,
        /// Print JSON, one line per user and program.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
}

/// Which events.
#[derive(Args, Debug, Default)]
pub struct Which {
    /// Only events of this session.
    #[arg(long, value_name = "ID")]
    pub session: Vec<String>,
    /// Only the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only from this time on: a time (2026-01-31T10:00:00Z), a date, or an age (2h).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Only before this time, in the forms of --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
}

/// How much is printed, and how.
#[derive(Args, Debug)]
pub struct Shown {
    /// Number of rows to print, the last ones; 0 prints all.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub limit: u64,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

/// Arguments of `mcpwarden sessions`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsOptions {
    #[command(flatten)]
    pub list: ListOptions,
    #[command(subcommand)]
    pub what: Option<Sessions>,
}

/// Arguments of `mcpwarden servers` and `sessions`.
#[derive(Args, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub shown: Shown,
}

/// Arguments of `mcpwarden tools`.
#[derive(Args, Debug)]
pub struct ToolsOptions {
    /// Only the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only definitions that differ from their pin.
    #[arg(long)]
    pub changed: bool,
    /// Only tools with a detection of at least this severity.
    #[arg(long, value_parser = PossibleValuesParser::new(LEVELS).try_map(by_word::<Severity>))]
    pub severity: Option<Severity>,
    /// Only tools of at least this risk.
    #[arg(long, value_parser = PossibleValuesParser::new(LEVELS).try_map(by_word::<RiskLevel>))]
    pub risk: Option<RiskLevel>,
    /// Only tools with this side effect, such as fs.write.
    #[arg(long, value_name = "TAG")]
    pub side_effect: Vec<String>,
    /// Have the running agent list this declared server now, and print what came of it.
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["server", "changed", "severity", "risk", "side_effect", "limit", "path"])]
    pub refresh: Option<String>,
    #[command(flatten)]
    pub shown: Shown,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden calls`.
#[derive(Args, Debug)]
pub struct CallsOptions {
    #[command(flatten)]
    pub which: Which,
    /// Only the tool with this name.
    #[arg(long, value_name = "NAME")]
    pub tool: Vec<String>,
    /// Only rows with this action.
    #[arg(long, value_parser = PossibleValuesParser::new(["allow", "alert", "block"]).try_map(by_word::<Action>))]
    pub action: Vec<Action>,
    #[command(flatten)]
    pub shown: Shown,
}

/// Arguments of `mcpwarden detections`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DetectionsOptions {
    #[command(flatten)]
    pub which: Which,
    /// Only the tool with this name.
    #[arg(long, value_name = "NAME")]
    pub tool: Vec<String>,
    /// Only detections of at least this severity.
    #[arg(long, value_parser = PossibleValuesParser::new(LEVELS).try_map(by_word::<Severity>))]
    pub severity: Option<Severity>,
    /// Only this category, such as credential_theft.
    #[arg(long, value_parser = |word: &str| by_word::<Category>(word.to_owned()))]
    pub category: Vec<Category>,
    /// List muted detections as well.
    #[arg(long)]
    pub muted: bool,
    #[command(flatten)]
    pub shown: Shown,
    #[command(subcommand)]
    pub what: Option<Detections>,
}

/// Arguments of `mcpwarden connections`.
#[derive(Args, Debug)]
pub struct ConnectionsOptions {
    #[command(flatten)]
    pub which: Which,
    /// Only rows with this action.
    #[arg(long, value_parser = PossibleValuesParser::new(["allow", "block"]).try_map(by_word::<Action>))]
    pub action: Vec<Action>,
    #[command(flatten)]
    pub shown: Shown,
}

/// Arguments of `mcpwarden report`.
#[derive(Args, Debug)]
pub struct ReportOptions {
    /// Only this session.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only from this time on: a time (2026-01-31T10:00:00Z), a date, or an age (2h).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Only before this time, in the forms of --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,
    #[command(flatten)]
    pub database: Database,
}

/// What `report --format` can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for a terminal.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// One HTML file that loads nothing.
    Html,
    /// Markdown for a ticket or a wiki.
    Markdown,
}
