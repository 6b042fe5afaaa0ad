//! Arguments of the commands that read the store.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};
use mcpwarden_policy::event::Severity;

use super::{
    operator::{ApproveOptions, Selection},
    when::When,
    word::by_word,
};

pub(super) const EVENTS_EXAMPLES: &str = "\
Examples:
  mcpwarden events --since 2h
  mcpwarden events --type mcp_detection --severity high --since 2026-01-31
  mcpwarden events --follow --type mcp_tool_called --type mcp_detection
  mcpwarden events --json --limit 0 --server files | jq .tool_name
";

/// Where events are stored.
#[derive(Args, Debug)]
pub struct Database {
    /// The database: `store.path` of the configuration.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/mcpwarden/mcpwarden.db")]
    pub path: PathBuf,
}

/// Arguments of `mcpwarden events`.
#[derive(Args, Debug)]
pub struct EventsOptions {
    /// Only events of this type, such as mcp_tool_called.
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Vec<String>,
    /// Only events of this session.
    #[arg(long, value_name = "ID")]
    pub session: Vec<String>,
    /// Only the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only events of at least this severity; events without a severity are left out.
    #[arg(long, value_parser = PossibleValuesParser::new(["low", "medium", "high", "critical"]).try_map(by_word::<Severity>))]
    pub severity: Option<Severity>,
    /// Only from this time on: a time (2026-01-31T10:00:00Z), a date, or an age (2h).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Only before this time, in the forms of --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// Number of rows to print, the last ones; 0 prints all.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub limit: u64,
    /// Continue with new events until interrupted.
    #[arg(long, short, conflicts_with = "until")]
    pub follow: bool,
    /// Print the stored lines of JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

/// Subcommands of `mcpwarden pins`.
#[derive(Subcommand, Debug)]
pub enum Pins {
    /// List the pinned definitions of each server: tools, prompts, resource templates, instructions.
    ///
    /// Exit status 2 if the database cannot be read.
    List(PinsList),
    /// Compare the pinned definition with the current one, field by field.
    ///
    /// Exit status 0 without a difference, 1 with one, 2 if there is no such pin, or the database cannot be read.
    Diff(PinsDiff),
    /// Pin the current definition of a tool; the same as `mcpwarden approve`.
    Trust(ApproveOptions),
    /// Reset the pin of a tool or, with --all, all pins of a server: the next listing is treated as first use.
    ///
    /// Exit status 2 if no pin is reset.
    Reset(Selection),
}

/// Arguments of `mcpwarden pins list`.
#[derive(Args, Debug)]
pub struct PinsList {
    /// Only the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only definitions that differ from their pin.
    #[arg(long)]
    pub changed: bool,
    /// Print JSON, one line per pin.
    #[arg(long)]
    pub json: bool,
    /// The database of pins: `registry.db` beside the database of events.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/mcpwarden/registry.db")]
    pub path: PathBuf,
}

/// Subcommands of `mcpwarden audit`.
#[derive(Subcommand, Debug)]
pub enum Audit {
    /// Verify that no stored event was changed or removed.
    ///
    /// Each event has the hash of the event before it. A signature of this host covers events that retention has removed.
    /// docs/internals/store.md describes what the verification proves.
    ///
    /// Exit status 0 if the chain is intact; 1 if it is broken, with the first broken link; 2 if the database cannot be
    /// read.
    Verify(AuditVerify),
    /// Export the stored events, one line of JSON each: the lines that `audit verify` verifies.
    ///
    /// Exit status 2 if the database cannot be read.
    Export(AuditExport),
}

/// An event, by its number or its time.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// That with this number.
    Seq(u64),
    /// The first at or after.
    Time(When),
}

impl std::str::FromStr for Bound {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::Seq).or_else(|_| text.parse().map(Self::Time))
    }
}

/// Arguments of `mcpwarden audit verify`.
#[derive(Args, Debug)]
pub struct AuditVerify {
    /// First event: its number, a time, a date, or an age (7d). Default: the oldest event.
    #[arg(long, value_name = "EVENT")]
    pub from: Option<Bound>,
    /// Last event, inclusive.
    #[arg(long, value_name = "EVENT")]
    pub to: Option<Bound>,
    /// Public key of the signatures: `audit.pub` beside the database, or a copy of it.
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

/// Arguments of `mcpwarden audit export`.
#[derive(Args, Debug)]
pub struct AuditExport {
    /// First event: its number, a time, a date, or an age (7d).
    #[arg(long, value_name = "EVENT")]
    pub from: Option<Bound>,
    /// Last event, inclusive.
    #[arg(long, value_name = "EVENT")]
    pub to: Option<Bound>,
    #[command(flatten)]
    pub database: Database,
}

/// Arguments of `mcpwarden pins diff`.
#[derive(Args, Debug)]
pub struct PinsDiff {
    /// The tool as SERVER:TOOL; for a prompt or a resource template, its name in place of TOOL; for instructions, nothing after
    /// the colon.
    #[arg(value_name = "SERVER:TOOL")]
    pub tool: String,
    /// Print JSON, one line per user and program with a pin.
    #[arg(long)]
    pub json: bool,
    /// The database of pins: `registry.db` beside the database of events.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/mcpwarden/registry.db")]
    pub path: PathBuf,
    /// The database of events, for definitions that are too long for the database of pins; default: `mcpwarden.db` beside it.
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
}
