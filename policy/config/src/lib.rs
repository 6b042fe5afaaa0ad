//! The configuration: one YAML file, all of its keys, and everything that is wrong with it at once. It opens no file, and
//! does not know what comes of a key: what guards make of it, and what of it comes to nothing, others say (see [`check`]).
//! Its two most important types are [`Config`], plain data, and [`Problem`], one thing that is wrong with a file.
//!
//! Each key is described where its field is, and only there: the [`schema`] is generated from the types, and the file is
//! checked against that schema with a place for every mistake. No file at all is a good configuration.
//!
//! | module | job |
//! |---|---|
//! | `tree` | text into a tree with places, bounded |
//! | `alias` | other names of keys |
//! | `check` | the tree against the schema |
//! | `rules` | what no schema says: keys that need or exclude each other |
//! | `path`, `finding` | the path of a key; something wrong there with what was read |
//! | `written` | what stands in the file, and where, for whoever knows more |
//! | `values` | sizes, durations, addresses, globs … |
//! | `sections`, `inspection`, `muted`, `judgement`, `guards`, `network`, `host` | the keys |

mod alias;
mod arguments;
mod check;
mod expression;
mod finding;
mod guards;
mod host;
mod inspection;
mod judgement;
mod muted;
mod network;
mod path;
mod problem;
mod rules;
mod sections;
mod texts;
mod tree;
mod values;
mod written;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use arguments::*;
pub use expression::Expression;
pub use finding::Finding;
pub use guards::*;
pub use host::*;
pub use inspection::*;
pub use judgement::*;
pub use muted::{MAX_MUTED, MutedDetections, is_every_rule, is_too_broad};
pub use network::*;
pub use path::{KeyPath, Step};
pub use problem::{Level, MAX_PROBLEMS, Position, Problem, without_passwords};
pub use rules::check_ring;
pub use sections::*;
pub use texts::{Directory, HostGlob, Pointer};
pub use tree::MAX_BYTES;
pub use values::{
    AbsolutePath, AllowDeny, Bytes, Fingerprint, Glob, HttpUrl, Moment, Pattern, Period, SecretFile,
};
pub use written::Written;

pub use mcpwarden_terms::{Address, Hash, Host, Mode, ServerType};
use problem::Problems;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The rules by which the agent recognises MCP servers.
    pub discovery: Discovery,
    /// Declared servers. A declared server has the id given here, and the agent reports its start at once.
    #[schemars(length(max = 10_000), extend("x-unique" = "id"))]
    pub servers: Vec<Server>,
    /// Profiles of client sessions. The first entry that matches a client applies.
    #[schemars(length(max = 1_000), extend("x-unique" = "name"))]
    pub sessions: Vec<Session>,
    /// The search for prompt injection and tool poisoning.
    pub inspection: Inspection,
    /// The memory of tool definitions: pins.
    pub registry: Registry,
    /// The servers and tools that clients may use, and the number of calls.
    pub policy: Policy,
    /// The effects of tools with misleading names.
    pub classifier: Classifier,
    /// Rules on calls to several servers of one session.
    pub cross_server: CrossServer,
    /// Settings of single guards, for some or all servers.
    #[schemars(length(max = 64))]
    pub guards: Vec<GuardEntry>,
    /// The destinations that processes may connect to. Of several matching rules the most specific applies; of equally
    /// specific rules, `deny` applies.
    pub network: Network,
    /// The effect of a denial.
    pub enforcement: Enforcement,
    /// The amount of data that the agent captures and records.
    pub capture: Capture,
    /// The databases on this host.
    pub store: Store,
    /// Outputs of events besides the store. See docs/guide/siem.md.
    #[schemars(length(max = 64))]
    pub sinks: Vec<Sink>,
    /// The metrics endpoint. See docs/reference/metrics.md.
    pub metrics: Metrics,
    /// The users that may query and operate the running agent.
    pub control: Control,
}

/// Reads a file: the configuration and its warnings.
///
/// # Errors
/// Everything that is wrong with it, warnings included, in the order of the file.
pub fn parse(file: &[u8]) -> Result<(Config, Vec<Problem>), Vec<Problem>> {
    match check(file, |_, _| Vec::new()) {
        (Some(config), warnings) => Ok((config, warnings)),
        (None, problems) => Err(problems),
    }
}

/// Reads a file, and has it looked at by somebody who knows more, such as what guards do or the users of a host: `more` is
/// given what of the file is right, and what it finds is said with the rest, in the order of the file. There is no configuration
/// where one problem is an error.
pub fn check(
    file: &[u8],
    more: impl FnOnce(&Config, &Written<'_>) -> Vec<(Level, Finding)>,
) -> (Option<Config>, Vec<Problem>) {
    let mut problems = Problems::default();
    let config = read(file, more, &mut problems).map_err(|problem| problems.add(problem)).ok();
    (config.filter(|_| !problems.any_error()), problems.finish())
}

/// Everything in which a YAML file is not as a schema says that `schemars` made of plain data.
pub fn misshapen(schema: &Value, file: &[u8]) -> Vec<Problem> {
    let mut problems = Problems::default();
    match tree::parse(file, &mut problems) {
        Ok(mut root) => check::check(schema, &mut root, &mut problems),
        Err(problem) => problems.add(problem),
    }
    problems.finish()
}

/// What of the file is right. It is only good where no problem is an error.
fn read(
    file: &[u8],
    more: impl FnOnce(&Config, &Written<'_>) -> Vec<(Level, Finding)>,
    problems: &mut Problems,
) -> Result<Config, Problem> {
    let mut root = tree::parse(file, problems)?;
    if root.is_null() {
        return Ok(Config::default());
    }
    alias::resolve(&mut root, problems);
    check::check(&SCHEMA, &mut root, problems);
    if root.bad {
        return Ok(Config::default());
    }
    // The types accept all that the schema accepts (a property test); if ever not, that is an error as any other.
    let config = serde_json::from_value(root.to_json()).map_err(|error| {
        Problem::error(Position::default(), KeyPath::default(), format!("it cannot be read: {error}"))
    })?;
    rules::check(&config, &root, problems);
    for (level, finding) in more(&config, &Written::new(&root)) {
        rules::place(&root, level, finding, problems);
    }
    Ok(config)
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Config).to_value());

/// The JSON Schema of the file (draft 2020-12). Editors complete from it.
pub fn schema() -> &'static Value {
    &SCHEMA
}

impl Config {
    /// The file that says all of this, defaults included. YAML.
    ///
    /// # Errors
    /// None that is known: everything in it has a form in YAML.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser_error::Error> {
        serde_saphyr::to_string(self)
    }
}
