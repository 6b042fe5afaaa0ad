//! What commands on what is stored are told.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};
use mcpwarden_policy::event::Severity;

use super::{
    operator::{DecisionOptions, Meant},
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

/// What `mcpwarden events` is told.
#[derive(Args, Debug)]
pub struct EventsOptions {
    /// Only those of this type, such as mcp_tool_called.
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Vec<String>,
    /// Only those of this session.
    #[arg(long, value_name = "ID")]
    pub session: Vec<String>,
    /// Only those of the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only those that are at least so bad; those that are neither good nor bad are left out.
    #[arg(long, value_parser = PossibleValuesParser::new(["low", "medium", "high", "critical"]).try_map(by_word::<Severity>))]
    pub severity: Option<Severity>,
    /// Not before: a time (2026-01-31T10:00:00Z), a date, or how long ago (2h).
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Before; as --since.
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// The last so many; 0: all.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub limit: u64,
    /// Then go on with those that come, until interrupted.
    #[arg(long, short, conflicts_with = "until")]
    pub follow: bool,
    /// Print the lines of JSON that are stored.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

/// What `mcpwarden pins` does.
#[derive(Subcommand, Debug)]
pub enum Pins {
    /// List what is pinned of each server: tools, prompts, resource templates, instructions.
    ///
    /// Exit status 2 where the database cannot be read.
    List(PinsList),
    /// Say what is different between the pinned definition and the one that was seen last, field by field.
    ///
    /// Exit status 0 where nothing is, 1 where something is, 2 where nothing of that name is pinned, or the database cannot
    /// be read.
    Diff(PinsDiff),
    /// Pin what a tool is now: the same as `mcpwarden approve`.
    Trust(DecisionOptions),
    /// Forget the pin of a tool, or with --all of everything that a server offers: what it lists next is first use again.
    ///
    /// Exit status 2 where nothing is forgotten.
    Reset(Meant),
}

/// What `mcpwarden pins list` is told.
#[derive(Args, Debug)]
pub struct PinsList {
    /// Only those of the server with this id.
    #[arg(long, value_name = "ID")]
    pub server: Vec<String>,
    /// Only those whose definition is not the pinned one any more.
    #[arg(long)]
    pub changed: bool,
    /// Print JSON, one line a pin.
    #[arg(long)]
    pub json: bool,
    /// The database: `registry.db` beside that of events.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/mcpwarden/registry.db")]
    pub path: PathBuf,
}

/// What `mcpwarden audit` does.
#[derive(Subcommand, Debug)]
pub enum Audit {
    /// Say whether every event is as it was stored, and none is missing.
    ///
    /// Each event has the hash of the one before it. What is gone for its age is vouched for by a signature of this host.
    /// docs/internals/store.md says what this proves.
    ///
    /// Exit status 0 where the chain holds; 1 where it does not, with the first link that is broken; 2 where the database
    /// cannot be read.
    Verify(AuditVerify),
    /// Print the events as they are stored, one line of JSON each: what `audit verify` verifies.
    ///
    /// Exit status 2 where the database cannot be read.
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

/// What `mcpwarden audit verify` is told.
#[derive(Args, Debug)]
pub struct AuditVerify {
    /// From this event on: its number, a time, a date, or how long ago (7d). Without it, from the oldest.
    #[arg(long, value_name = "EVENT")]
    pub from: Option<Bound>,
    /// Up to this event, which counts.
    #[arg(long, value_name = "EVENT")]
    pub to: Option<Bound>,
    /// What signatures are verified with: `audit.pub` beside the database, or a copy that was kept elsewhere.
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
}

/// What `mcpwarden audit export` is told.
#[derive(Args, Debug)]
pub struct AuditExport {
    /// From this event on: its number, a time, a date, or how long ago (7d).
    #[arg(long, value_name = "EVENT")]
    pub from: Option<Bound>,
    /// Up to this event, which counts.
    #[arg(long, value_name = "EVENT")]
    pub to: Option<Bound>,
    #[command(flatten)]
    pub database: Database,
}

/// What `mcpwarden pins diff` is told.
#[derive(Args, Debug)]
pub struct PinsDiff {
    /// The tool, as its id has it behind `mcp:`; of a prompt or a resource template, its name; of instructions, nothing
    /// behind the colon.
    #[arg(value_name = "SERVER:TOOL")]
    pub tool: String,
    /// Print JSON, one line for each user and program that has a pin.
    #[arg(long)]
    pub json: bool,
    /// The database: `registry.db` beside that of events.
    #[arg(long, value_name = "FILE", default_value = "/var/lib/mcpwarden/registry.db")]
    pub path: PathBuf,
    /// The database of events, which tells of definitions that are too long to be kept; `mcpwarden.db` beside that of pins.
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
}
