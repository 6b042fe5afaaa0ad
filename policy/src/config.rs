//! The configuration: one YAML file, all of its keys, and everything that is wrong with it at once.
//!
//! [`parse`] reads a file's bytes into a [`Config`], plain data that the other modules make their own settings of. Each
//! key is described where its field is, and only there: the [`schema`] is generated from the types, and the file is
//! checked against that schema with a place for every mistake. No file at all is a good configuration.
//!
//! | module | job |
//! |---|---|
//! | `tree` | text into a tree with places, bounded |
//! | `alias` | other names of keys |
//! | `check` | the tree against the schema |
//! | `rules` | what no schema says: keys that need or exclude each other |
//! | `warnings` | what does not do what it seems to |
//! | `effective` | what holds where a file says nothing |
//! | `values` | sizes, durations, addresses, globs … |
//! | `sections`, `inspection`, `judgement`, `guards`, `network`, `host` | the keys |

mod alias;
mod check;
mod effective;
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
mod warnings;

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

pub use guards::*;
pub use host::*;
pub use inspection::*;
pub use judgement::*;
pub use network::*;
pub use problem::{Level, MAX_PROBLEMS, Place, Problem};
pub use rules::{Finding, Step, check_ring};
pub use sections::*;
pub use tree::MAX_BYTES;
pub use values::{AbsolutePath, Bytes, Fingerprint, Glob, Hash, HttpUrl, Pattern, Period, SecretFile};
pub use warnings::{is_asked, known_side_effects, unenforceable};

use crate::NamePatterns;
use crate::detect::{self, DetectConfig};
use crate::discovery::{BUILT_IN, Declared};
use crate::engine::Remote;
use crate::event::Category;
use crate::glob::GlobError;
use crate::guard::GuardKind;
use crate::ids::ServerId;
pub use crate::network::{Address, Host};
use crate::registry::RegistrySettings;
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
    match check(file, |_| Vec::new()) {
        (Some(config), warnings) => Ok((config, warnings)),
        (None, problems) => Err(problems),
    }
}

/// Reads a file, and has it looked at by somebody who knows more, such as the users of a host: `more` is given what of
/// the file is right, and what it finds is said with the rest, in the order of the file. There is no configuration
/// where one problem is an error.
pub fn check(
    file: &[u8],
    more: impl FnOnce(&Config) -> Vec<(Level, Finding)>,
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
    more: impl FnOnce(&Config) -> Vec<(Level, Finding)>,
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
        .map_err(|error| Problem::error(Place::default(), "", format!("it cannot be read: {error}")))?;
    rules::check(&config, &root, problems);
    for (level, finding) in more(&config) {
        rules::place(&root, level, finding, problems);
    }
    Ok(config)
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Config).to_value());

/// The JSON Schema of the file (draft 2020-12). Editors complete from it.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// What the detector calls a pattern of a guard: by the entry of `guards` and the number in it.
fn guard_pattern([guard, index]: [usize; 2]) -> String {
    format!("guards[{guard}].custom_patterns[{index}]")
}

impl Config {
    /// The file that says all of this, defaults included. YAML.
    ///
    /// # Errors
    /// None that is known: everything in it has a form in YAML.
    pub fn to_yaml(&self) -> Result<String, serde_saphyr::ser_error::Error> {
        serde_saphyr::to_string(self)
    }

    /// The patterns that name MCP servers.
    ///
    /// # Errors
    /// A pattern is no glob, which [`parse`] does not let through.
    pub fn patterns(&self) -> Result<NamePatterns, GlobError> {
        let texts = |globs: &[Glob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect::<Vec<_>>();
        let built_in = || BUILT_IN.map(str::to_owned).to_vec();
        let patterns = self.discovery.server_patterns.as_deref().map_or_else(built_in, texts);
        NamePatterns::new(&patterns, &texts(&self.discovery.custom_servers))
    }

    /// What is looked for, besides the rules in files.
    pub fn detect(&self) -> DetectConfig {
        let section = &self.inspection;
        let own = section.custom_patterns.iter().map(|own| detect::CustomPattern {
            name: own.name.clone(),
            pattern: own.pattern.as_str().to_owned(),
            severity: own.severity,
            description: own.description.clone(),
        });
        DetectConfig {
            disabled: self.switched_off().collect(),
            custom_patterns: own.collect(),
            of_servers: self.patterns_of_guards(),
        }
    }

    /// The patterns of the entries for `tool_poisoning`. The first that names a server is the one for it, whether it has
    /// patterns or not.
    fn patterns_of_guards(&self) -> Vec<detect::ServerPatterns> {
        let pattern =
            |place: [usize; 2], GuardPattern { pattern, severity }: &GuardPattern| detect::CustomPattern {
                name: guard_pattern(place),
                pattern: pattern.as_str().to_owned(),
                severity: *severity,
                description: "custom_patterns of a tool_poisoning under guards".to_owned(),
            };
        let entries = self.guards.iter().enumerate();
        let entries = entries.filter(|(_, entry)| entry.kind == GuardKind::ToolPoisoning);
        let patterns = entries.map(|(guard, entry)| {
            let settings = entry.config.as_ref().filter(|_| entry.enabled);
            let own = settings.and_then(|settings| settings.custom_patterns.as_deref()).unwrap_or_default();
            detect::ServerPatterns {
                servers: entry.servers.iter().map(|glob| glob.as_str().to_owned()).collect(),
                case_sensitive: self.policy.case_sensitive,
                patterns: own.iter().enumerate().map(|(index, own)| pattern([guard, index], own)).collect(),
            }
        });
        patterns.collect()
    }

    /// Where the pattern stands that the detector knows by the name that is meant.
    pub fn place_of_pattern(&self, is_meant: impl Fn(&str) -> bool) -> Option<Vec<Step>> {
        let own = self.inspection.custom_patterns.iter().position(|own| is_meant(&own.name));
        let of_inspection =
            |index: usize| vec!["inspection".into(), "custom_patterns".into(), index.into(), "name".into()];
        let of_guards = || {
            let settings = self.guards.iter().map(|entry| entry.config.as_ref()?.custom_patterns.as_ref());
            let places = settings
                .enumerate()
                .flat_map(|(guard, own)| (0..own.map_or(0, Vec::len)).map(move |index| [guard, index]));
            let [guard, index] = places.into_iter().find(|place| is_meant(&guard_pattern(*place)))?;
            Some(vec!["guards".into(), guard.into(), "config".into(), "custom_patterns".into(), index.into()])
        };
        own.map(of_inspection).or_else(of_guards)
    }

    /// What is pinned, and when names are nearly the same.
    pub fn registry_settings(&self) -> RegistrySettings {
        let Registry { pin_on_first_use, alert_on_change, persistent } = self.registry;
        let similarity_threshold = self.inspection.similarity_threshold;
        RegistrySettings {
            pin_on_first_use,
            alert_on_change,
            persistent,
            similarity_threshold,
            switched_off: self.switched_off().collect(),
            ..RegistrySettings::default()
        }
    }

    /// The categories of what is found that are switched off.
    fn switched_off(&self) -> impl Iterator<Item = Category> {
        self.inspection.builtin.iter().filter(|(_, on)| !**on).map(|(category, _)| *category)
    }

    /// The declared servers that are at addresses.
    pub fn remote(&self) -> Vec<Remote> {
        let remote = |server: &Server| {
            let url = server.url.as_ref()?;
            Some(Remote {
                id: ServerId(server.id.as_str().into()),
                address: url.address()?.to_string(),
                path: url.path().to_owned(),
                tls: !url.is_plain(),
            })
        };
        self.servers.iter().filter_map(remote).collect()
    }

    /// The declared servers that are programs.
    pub fn declared(&self) -> Vec<Declared> {
        let declared = |server: &Server| {
            server.command.as_ref().map(|command| Declared {
                id: ServerId(server.id.as_str().into()),
                command: command.clone(),
                args: server.args.clone(),
                executables: server.executable.iter().map(|path| path.as_str().to_owned()).collect(),
            })
        };
        self.servers.iter().filter_map(declared).collect()
    }
}
