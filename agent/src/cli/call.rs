//! Arguments of `mcpwarden call`.

use std::path::PathBuf;

use clap::Args;
use mcpwarden_policy::config::Period;

use super::{operator::Agent, stored::Database};

pub(super) const CALL_EXAMPLES: &str = "\
Examples:
  mcpwarden call mcp:files:read_file --arguments '{\"path\": \"/srv/notes.txt\"}'
  mcpwarden call mcp:crm:find_customer --arguments @customer.json --profile nightly --timeout 2m
  mcpwarden call mcp:files:delete_all --dry-run
  mcpwarden call mcp:crm:export --json | jq -r '.result.content[].text'

JSON, one object:
  {\"outcome\": \"result\"|\"tool_error\"|\"allowed\"|\"denied\"|\"timed_out\", \"tool_id\": …, \"server_id\": …, \"tool_name\": …, \"trace_id\": …,
   \"tool\": {\"definition\", \"hash\", \"pin\", \"category\", \"risk_level\", \"side_effect_tags\", \"detections\", …},
   \"decision\": {\"action\", \"guard\", \"code\", \"reason\", \"warnings\", …}, \"result\": …, \"error\": …, \"result_decision\": …}
`result` is the result as the server sent it. A tool that is not reached because its server is denied has no `tool`.
";

/// Arguments of `mcpwarden call`.
#[derive(Args, Debug)]
pub struct CallOptions {
    /// The tool. SERVER is the id of a server in `servers` of the configuration; if several ids fit, the longest one counts,
    /// and all that follows it is the name of the tool, colons included.
    #[arg(value_name = "mcp:SERVER:TOOL")]
    pub tool: String,
    /// The arguments: a JSON object, or @FILE to read it from a file (@- reads standard input).
    #[arg(long, value_name = "JSON|@FILE")]
    pub arguments: Option<String>,
    /// Judge the call as one of a client with this entry of `sessions`, by its name or its number from 0. Without it, the
    /// entry that matches this process applies.
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Print the definition of the tool and the decision, and do not call the tool.
    #[arg(long)]
    pub dry_run: bool,
    /// Time limit for the server to start and to list its tools, and again for its answer. Without it, 30s for the first, and
    /// for the answer `timeout_ms` of the server's declaration.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Period>,
    /// Hide the standard error of the server.
    #[arg(long, short)]
    pub quiet: bool,
    /// Let the server run as root if the current user is root.
    #[arg(long)]
    pub as_root: bool,
    /// Configuration file (YAML) with the server and the policy.
    #[arg(long, value_name = "FILE", default_value = "/etc/mcpwarden/config.yaml")]
    pub config: PathBuf,
    /// Print JSON: one object with the result, the decision and the ids.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub database: Database,
    #[command(flatten)]
    pub agent: Agent,
}
