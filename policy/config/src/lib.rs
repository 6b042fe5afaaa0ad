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
//! | `finding` | something wrong with what was read, and its path |
//! | `written` | what stands in the file, and where, for whoever knows more |
//! | `values` | sizes, durations, addresses, globs … |
//! | `sections`, `inspection`, `judgement`, `guards`, `network`, `host` | the keys |

mod alias;
mod check;
mod finding;
mod guards;
mod host;
mod inspection;
mod judgement;
mod network;
mod problem;
mod rules;
mod sections;
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

pub use finding::{Finding, Step};
pub use guards::*;
pub use host::*;
pub use inspection::*;
pub use judgement::*;
pub use network::*;
pub use problem::{Level, MAX_PROBLEMS, Position, Problem};
pub use rules::check_ring;
pub use sections::*;
pub use tree::MAX_BYTES;
pub use values::{AbsolutePath, AllowDeny, Bytes, Fingerprint, Glob, HttpUrl, Pattern, Period, SecretFile};
pub use written::Written;

pub use mcpwarden_terms::{Address, Hash, Host, Mode, ServerType};
use problem::Problems;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is an MCP server.
    pub discovery: Discovery,
    /// Servers that are declared: they have the id given here, and are announced when they start.
    #[schemars(length(max = 10_000), extend("x-unique" = "id"))]
    pub servers: Vec<Server>,
    /// What clients' sessions may do. The first entry that matches a client counts.
    #[schemars(length(max = 1_000), extend("x-unique" = "name"))]
    pub sessions: Vec<Session>,
    /// What texts are searched for.
    pub inspection: Inspection,
    /// What is remembered of tools.
    pub registry: Registry,
    /// Which servers and tools may be used, and how often.
    pub policy: Policy,
    /// What tools do, where their names mislead.
    pub classifier: Classifier,
    /// What several servers of a session do together.
    pub cross_server: CrossServer,
    /// Amendments of guards.
    #[schemars(length(max = 64))]
    pub guards: Vec<GuardEntry>,
    /// Where processes may connect to: of several rules the most specific one counts, of equal ones `deny`.
    pub network: Network,
    /// What a denial does.
    pub enforcement: Enforcement,
    /// How much is captured and kept.
    pub capture: Capture,
    /// What is kept on this host.
    pub store: Store,
    /// Where events are sent, beside the store. See docs/guide/siem.md.
    #[schemars(length(max = 64))]
    pub sinks: Vec<Sink>,
    /// Where metrics are read. See docs/reference/metrics.md.
    pub metrics: Metrics,
    /// Who may ask and tell the running agent.
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
    let config = serde_json::from_value(root.to_json())
        .map_err(|error| Problem::error(Position::default(), "", format!("it cannot be read: {error}")))?;
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
