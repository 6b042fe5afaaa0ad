//! Arguments of the commands that talk to a running agent.

use std::{path::PathBuf, str::FromStr};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use mcpwarden_policy::{
    config::{Moment, Period},
    guards::ProfileKey,
};
use serde_json::{Map, Value, json};

use super::word::by_word;
use crate::control;

/// The running agent.
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

/// Arguments of `mcpwarden block`.
#[derive(Args, Debug)]
pub struct BlockOptions {
    /// The target to block.
    pub target: String,
    /// The port, if TARGET has none. Without a port, all ports are blocked.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Duration of the block: 90s, 10m, 8h, 30d. Without it, the block lasts until `mcpwarden unblock`.
    #[arg(long = "for", value_name = "DURATION")]
    pub period: Option<Period>,
    /// Reason of the block, for events and for `mcpwarden blocks`.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Confirm a block of most of the network, or of all loopback addresses.
    #[arg(long, short)]
    pub yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden unblock`.
#[derive(Args, Debug)]
pub struct UnblockOptions {
    /// The blocked target, as given to `block`, or as `blocks` lists it.
    pub target: String,
    /// The port, if TARGET has none.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden blocks`.
#[derive(Args, Debug)]
pub struct BlocksOptions {
    /// Print JSON: a list.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden status`.
#[derive(Args, Debug)]
pub struct StatusOptions {
    /// Print JSON, with all counters.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden top`.
#[derive(Args, Debug)]
pub struct TopOptions {
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden reload`.
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
  sudo mcpwarden approve files:delete --once
  sudo mcpwarden approve files:delete --arguments-match '/path=/tmp/*' --for 1h
  sudo mcpwarden approvals deny mail:send_all
";

/// Which definitions a decision is about.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["tool", "all"]))]
pub struct Selection {
    /// The tool as SERVER:TOOL, or its name alone with --server.
    pub tool: Option<String>,
    /// Id of the server.
    #[arg(long, value_name = "ID")]
    pub server: Option<String>,
    /// All definitions of the server.
    #[arg(long, requires = "server")]
    pub all: bool,
    /// User id of the server, if several users run a server with this id.
    #[arg(long)]
    pub uid: Option<u32>,
    /// Program of the server, if several programs have this id.
    #[arg(long, value_name = "PATH")]
    pub program: Option<String>,
    /// Name of the person who decides; events have it beside the calling user.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Print JSON, one event per line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden approve`, and `approvals deny`.
#[derive(Args, Debug)]
pub struct DecisionOptions {
    #[command(flatten)]
    pub which: Selection,
    /// Decide only if the current definition has this hash, the hash of the reviewed definition.
    #[arg(long, value_name = "SHA256", conflicts_with = "all")]
    pub hash: Option<String>,
}

/// Arguments of `mcpwarden approve`.
#[derive(Args, Debug)]
pub struct ApproveOptions {
    #[command(flatten)]
    pub decision: DecisionOptions,
    /// Approve only calls whose arguments match: a JSON Pointer and a glob, or tests as in rules on tools, in YAML or JSON.
    /// Repeated: all must match.
    #[arg(long, value_name = "POINTER=GLOB|TESTS", conflicts_with = "all")]
    pub arguments_match: Vec<ArgumentsMatch>,
    /// Approve one call: the approval ends with it.
    #[arg(long, conflicts_with = "all")]
    pub once: bool,
    /// Duration of the approval: 90s, 10m, 8h, 30d. Without it, the approval lasts as long as the definition.
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "all")]
    pub period: Option<Period>,
}

/// Tests of arguments, as a person writes them; the agent checks them.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentsMatch(pub Map<String, Value>);

impl FromStr for ArgumentsMatch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((pointer, glob)) = text.split_once('=').filter(|_| text.starts_with('/')) {
            return Ok(Self([(pointer.to_owned(), json!({ "glob": glob }))].into_iter().collect()));
        }
        let tests = serde_saphyr::from_str(text).map(Self);
        tests.map_err(|_| {
            "it is neither POINTER=GLOB, such as '/path=/srv/*', nor tests, such as '{/path: {below: /srv}}'"
                .to_owned()
        })
    }
}

/// Subcommands of `mcpwarden approvals`.
#[derive(Subcommand, Debug)]
pub enum Approvals {
    /// List the tools that wait for approval, and the approvals that expired.
    ///
    /// Exit status 2 if no agent answers.
    List(ApprovalsList),
    /// Approve a tool; the same as `mcpwarden approve`.
    Grant(ApproveOptions),
    /// Deny a tool: its calls are denied while it has this definition.
    ///
    /// Exit status 2 if the tool is not denied.
    Deny(DecisionOptions),
}

/// Arguments of `mcpwarden approvals list`.
#[derive(Args, Debug)]
pub struct ApprovalsList {
    /// Print JSON, one line per tool.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

pub(super) const DETECTIONS_EXAMPLES: &str = "\
Examples:
  mcpwarden detections --severity high --since 7d
  sudo mcpwarden detections mute learned_scorer --server files --tool read_file --for 30d --reason 'reviewed, ticket 4711'
  sudo mcpwarden detections mute 'shadow_*' --server mail --until 2027-01-31 --reason 'two mail servers on purpose'
  sudo mcpwarden detections muted
  sudo mcpwarden detections unmute 0123456789ab
";

/// What `mcpwarden detections` does beside listing.
#[derive(Subcommand, Debug)]
pub enum Detections {
    /// Mute detections: the agent records them with `muted: true`, and they are no alerts.
    ///
    /// Muted detections reach no sink with a filter, have no effect on calls (`inspection.on_detection`), and do not count for
    /// the severity of a tool. A mute of a server is for the server of one user and program. A mute of a tool is for the
    /// current definition of the tool: if the definition changes, its detections are alerts again. With --any-definition the
    /// mute is for all definitions of the tool, those to come as well.
    ///
    /// A mute survives a restart of the agent. It ends at its time, or with `unmute`. A second mute of the same rule, server and
    /// tool replaces the first. `inspection.muted` in the configuration mutes without a command. Only root and members of
    /// `control.admin_group` may mute. Exit status 2 if nothing is muted.
    Mute(Box<MuteOptions>),
    /// End a mute: the detections are alerts again.
    ///
    /// Exit status 2 if there is no such mute.
    Unmute(UnmuteOptions),
    /// List the mutes of operators and of the configuration.
    ///
    /// Exit status 2 if no agent answers.
    Muted(MutedOptions),
}

/// Arguments of `mcpwarden detections mute`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("end").required(true).args(["period", "until"]))]
pub struct MuteOptions {
    /// The rule, as `pattern` of a detection names it, or a glob. `*` is every rule, and needs --server or --tool.
    pub rule: String,
    /// Only detections of the server with this id, which must have been seen.
    #[arg(long, value_name = "ID")]
    pub server: Option<String>,
    /// User id of the server, if several users run a server with this id.
    #[arg(long, requires = "server")]
    pub uid: Option<u32>,
    /// Program of the server, if several programs have this id.
    #[arg(long, value_name = "PATH", requires = "server")]
    pub program: Option<String>,
    /// Only detections about the tool with this name: in its current definition, in its calls and in its results. Needs --server
    /// or --any-definition.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Mute any definition of the tool, and not only the current one.
    #[arg(long, requires = "tool")]
    pub any_definition: bool,
    /// Mute only if the tool has had a definition with this hash, the hash of the reviewed definition; the mute is for it.
    #[arg(long, value_name = "SHA256", requires = "tool", conflicts_with = "any_definition")]
    pub hash: Option<String>,
    /// Duration of the mute: 90s, 10m, 8h, 30d.
    #[arg(long = "for", value_name = "DURATION")]
    pub period: Option<Period>,
    /// End of the mute: a date (2027-01-31, midnight in UTC) or a time (2027-01-31T10:00:00Z).
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,
    /// Reason of the mute, for events and for `mcpwarden detections muted`.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Name of the person who decides; events have it beside the calling user.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Print JSON: the event.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden detections unmute`.
#[derive(Args, Debug)]
pub struct UnmuteOptions {
    /// Id of the mute, as `muted` lists it.
    pub id: String,
    /// Name of the person who decides; events have it beside the calling user.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Print JSON: the event.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

/// Arguments of `mcpwarden detections muted`.
#[derive(Args, Debug)]
pub struct MutedOptions {
    /// Print JSON, one line per mute.
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
    /// Set a value of a running session's profile, in place of its entry of `sessions` in the configuration.
    ///
    /// The value applies at once, to all servers of the session, while the agent and the client run. Only root and members
    /// of `control.admin_group` may set values. Exit status 2 if nothing is set.
    Set(SessionSetOptions),
}

/// Arguments of `mcpwarden sessions set`.
#[derive(Args, Debug)]
pub struct SessionSetOptions {
    /// Id of the session, as `mcpwarden sessions` lists it.
    pub session: String,
    /// The value to set: the mode, the project, the frozen specification, the side effects that no tool may have, or whether
    /// the session may call tools that need an administrator's token.
    #[arg(value_parser = PossibleValuesParser::new(["mode", "project", "spec", "blacklist", "admin-token"])
        .map(|key| key.replace('-', "_")).try_map(by_word::<ProfileKey>))]
    pub key: ProfileKey,
    /// `planning` or `execution`; the project's id; the specification's hash; tags such as fs.write,payments; `true` or
    /// `false`. `none`: no project, no frozen specification, no tags.
    #[arg(required_unless_present = "reset", conflicts_with = "reset")]
    pub value: Option<String>,
    /// Restore the value of the configuration.
    #[arg(long)]
    pub reset: bool,
    /// Name of the person who decides; events have it beside the calling user.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
    /// Print JSON: the event.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub agent: Agent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_arguments_are_read_in_both_forms() {
        for (text, expected) in [
            ("/path=/srv/*", Some(json!({ "/path": { "glob": "/srv/*" } }))),
            ("/query=a=b", Some(json!({ "/query": { "glob": "a=b" } }))),
            ("{/path: {below: /srv}}", Some(json!({ "/path": { "below": "/srv" } }))),
            (
                r#"{"/n": {"max": 5}, "/m": {"exists": true}}"#,
                Some(json!({ "/n": { "max": 5 }, "/m": { "exists": true } })),
            ),
            ("path=/srv/*", None),
            ("/path", None),
            ("[1]", None),
        ] {
            let read = text.parse::<ArgumentsMatch>().ok().map(|tests| Value::Object(tests.0));
            assert_eq!(read, expected, "{text}");
        }
    }
}
