//! The configuration file: read, and made settings of. What can stand in it is `mcpwarden_policy::config`'s.

use std::{
    collections::HashSet,
    fs::{File, Metadata},
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use mcpwarden_capture::CaptureLimits;
use mcpwarden_policy::config::{self, Finding, Level, MAX_BYTES, Problem};
pub use mcpwarden_policy::config::{
    AllowDeny, Backend, Config, Fallback, Payloads, StdioEnforcement, check_ring,
};
use mcpwarden_policy::detect::learned::Model;
use mcpwarden_policy::detect::{DetectConfig, Detector, RuleError, RulePlace, RuleSet, ScorerModel};
use mcpwarden_policy::engine::Judge;
use mcpwarden_policy::guards::denied_servers;
use mcpwarden_policy::network::NetworkRules;
use mcpwarden_policy::settings::PatternPlace;
use mcpwarden_policy::{Engine, EngineConfig, Inspect, Payloads as Shown, lint, settings as policy_settings};
use mcpwarden_system::owner::ours_alone;

use crate::{
    external::{self, Externals},
    host,
    output::escaped,
};

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {reason}")]
    Read {
        /// Which file.
        path: String,
        /// Why. It is part of the message, and no source, which would be printed after it.
        reason: io::Error,
    },
    /// There are errors in it.
    #[error("{path}:{}:{}: {}{}", .first.at.line, .first.at.column, escaped(&.first.to_string()), and_more(*.more))]
    Refused {
        /// Which file.
        path: String,
        /// The first error.
        first: Box<Problem>,
        /// How many follow.
        more: usize,
    },
}

fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" (and {more} more: see `mcpwarden check-config`)"),
    }
}

/// SHA-256 of a configuration, defaults included.
pub fn hash(config: &Config) -> String {
    config.to_yaml().map(|text| mcpwarden_policy::hash::text_hash(&text)).unwrap_or_default()
}

/// The bytes of a file, or of standard input for `-`, as many as a configuration may have and one more; and why somebody
/// else than root decides what they are, if so.
///
/// # Errors
/// It cannot be read.
pub fn bytes(path: &Path) -> Result<(Vec<u8>, Option<String>), ConfigError> {
    let mut bytes = Vec::new();
    let mut read = || {
        if path == Path::new("-") {
            io::stdin().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
            return Ok(None);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(Some(metadata).filter(Metadata::is_file))
    };
    let file: io::Result<Option<Metadata>> = read();
    let file = file.map_err(|reason| ConfigError::Read { path: path.display().to_string(), reason })?;
    Ok((bytes, file.and_then(|file| ours_alone(path, &file).err())))
}

/// A configuration, and the file that it stands in: what only shows when something is made of it is said with its place.
#[derive(Debug, Default)]
pub struct Source {
    /// What the file says.
    pub config: Config,
    /// Its path, and what stands in it.
    file: Option<(String, Vec<u8>)>,
}

impl From<Config> for Source {
    /// One of no file.
    fn from(config: Config) -> Self {
        Self { config, file: None }
    }
}

impl Source {
    /// The configuration is refused for what was found.
    fn refused(&self, found: Vec<Finding>) -> anyhow::Error {
        let Some((path, bytes)) = &self.file else {
            let found: Vec<String> = found.iter().map(|finding| escaped(&finding.to_string())).collect();
            return anyhow!("invalid configuration: {}", found.join("; "));
        };
        let found = found.into_iter().map(|finding| (Level::Error, finding)).collect();
        let (_, problems) = lint::check(bytes, |_| found);
        match refused(path, problems) {
            Some(error) => error.into(),
            None => anyhow!("{} is refused, and not known for what", escaped(path)),
        }
    }
}

/// The first error among the problems of a file.
fn refused(path: &str, problems: Vec<Problem>) -> Option<ConfigError> {
    let mut errors = problems.into_iter().filter(|problem| problem.level == Level::Error);
    let first = Box::new(errors.next()?);
    Some(ConfigError::Refused { path: path.to_owned(), first, more: errors.count() })
}

/// Reads a file, and says on standard error what in it does not do what it seems to. Without a file, the defaults hold.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn read(path: Option<&Path>) -> Result<Source, ConfigError> {
    let Some(path) = path else { return Ok(Source::default()) };
    let (source, warnings) = read_file(path)?;
    let name = path.display();
    for warning in warnings {
        let (at, text) = (warning.at, escaped(&warning.to_string()));
        tracing::warn!("{name}:{}:{}: {text}", at.line, at.column);
    }
    Ok(source)
}

/// Reads a file, and says nothing of what in it has no effect in an agent: for whoever is none.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn read_quietly(path: &Path) -> Result<Source, ConfigError> {
    read_file(path).map(|(source, _)| source)
}

fn read_file(path: &Path) -> Result<(Source, Vec<Problem>), ConfigError> {
    let name = path.display().to_string();
    let (bytes, exposed) = bytes(path)?;
    if let Some(exposed) = exposed {
        tracing::warn!("{}: {}", escaped(&name), escaped(&exposed));
    }
    match lint::parse(&bytes) {
        Ok((config, warnings)) => Ok((Source { config, file: Some((name, bytes)) }, warnings)),
        // There is an error: that is why it was refused.
        Err(problems) => refused(&name, problems).map_or_else(|| Ok((Source::default(), Vec::new())), Err),
    }
}

/// An engine that goes by this configuration.
///
/// # Errors
/// A rule or a guard cannot be made of it.
pub fn engine(source: &Source, key: [u8; 32], verbose: bool, show_payloads: bool) -> anyhow::Result<Engine> {
    let (settings, judge) = settings(source, key, verbose, show_payloads)?;
    Ok(Engine::new(settings).with_judge(judge))
}

/// What an engine goes by.
///
/// # Errors
/// A rule or a guard cannot be made of it.
pub fn settings(
    source: &Source,
    key: [u8; 32],
    verbose: bool,
    show_payloads: bool,
) -> anyhow::Result<(EngineConfig, Judge)> {
    let detector = detector(source)?;
    let settings = engine_config(source, &detector, key, verbose, show_payloads)?;
    Ok((settings, judge(source, &detector)?))
}

fn engine_config(
    source: &Source,
    detector: &Arc<Detector>,
    key: [u8; 32],
    verbose: bool,
    show_payloads: bool,
) -> anyhow::Result<EngineConfig> {
    let config = &source.config;
    let full = show_payloads || config.capture.payloads == Payloads::Full;
    let inspect =
        Inspect { detector: Arc::clone(detector), alert_threshold: config.inspection.alert_threshold };
    Ok(EngineConfig {
        payloads: if full { Shown::Full } else { Shown::Redacted },
        verbose,
        patterns: policy_settings::patterns(config)?,
        declared: host::declared(config),
        remote: policy_settings::remote(config),
        inspection: config.inspection.enabled.then_some(inspect),
        muted: policy_settings::muted(config),
        registry: policy_settings::registry(config),
        ..EngineConfig::new(key)
    })
}

/// An engine that goes by this configuration for one client of one declared server: as the entry of `sessions` with this index has
/// it, or, without one, the entry that is the client's. Of several declarations with one command line, this one is meant.
///
/// # Errors
/// A rule or a guard cannot be made of it.
pub fn engine_of_call(source: &Source, server: &str, profile: Option<usize>) -> anyhow::Result<Engine> {
    let detector = detector(source)?;
    let mut settings = engine_config(source, &detector, [0; 32], false, false)?;
    settings.declared.retain(|declared| *declared.id.0 == *server);
    Ok(Engine::new(settings).with_judge(judge_of_profile(source, &detector, profile)?))
}

/// The guards that this configuration asks for. What has no effect on this host is said on standard error.
///
/// # Errors
/// It names a user who is not there.
pub fn judge(source: &Source, detector: &Arc<Detector>) -> anyhow::Result<Judge> {
    judge_of_profile(source, detector, None)
}

fn judge_of_profile(
    source: &Source,
    detector: &Arc<Detector>,
    profile: Option<usize>,
) -> anyhow::Result<Judge> {
    let config = &source.config;
    for idle in host::idle(config) {
        tracing::warn!("{}", escaped(&idle.to_string()));
    }
    let mut sessions = host::sessions(config).map_err(|unusable| source.refused(unusable.findings))?;
    if let Some(index) = profile.filter(|index| *index < sessions.len()) {
        sessions = vec![sessions.swap_remove(index).of_everybody()];
    }
    Ok(Judge::new(config, sessions, detector)?)
}

/// The entry of `sessions` with this name, or else with this number.
///
/// # Errors
/// There is none.
pub fn profile(config: &Config, profile: &str) -> anyhow::Result<usize> {
    let named = config.sessions.iter().position(|entry| entry.name.as_deref() == Some(profile));
    let numbered = || profile.parse().ok().filter(|number| *number < config.sessions.len());
    named.or_else(numbered).ok_or_else(|| {
        let entries = config.sessions.iter().enumerate();
        let known: Vec<String> =
            entries.map(|(number, entry)| entry.name.clone().unwrap_or_else(|| number.to_string())).collect();
        match known.as_slice() {
            [] => anyhow!("there is no profile {profile:?}: the configuration has no `sessions`"),
            known => {
                anyhow!("there is no profile {profile:?}; the entries of `sessions` are {}", known.join(", "))
            }
        }
    })
}

/// The guards that others wrote, loaded. `state_dir`: where compiled components are kept.
///
/// # Errors
/// One cannot be used.
pub fn externals(
    source: &Source,
    state_dir: Option<&Path>,
    secrets: external::Secrets,
) -> anyhow::Result<Externals> {
    let loaded = external::load(&source.config, state_dir, secrets);
    loaded.map_err(|findings| source.refused(findings))
}

/// The rules that this configuration asks for, compiled.
///
/// # Errors
/// A rule file or a pattern of the user's cannot be used.
pub fn detector(source: &Source) -> anyhow::Result<Arc<Detector>> {
    let config = &source.config;
    let (rules, unusable) = host::rules(config);
    if unusable.rule_files.is_empty() && !unusable.findings.is_empty() {
        return Err(source.refused(unusable.findings));
    }
    unusable.check().context("invalid detection rules")?;
    let mut detect = policy_settings::detect(config);
    detect.scorer = host::scorer(config).map_err(|finding| source.refused(vec![finding]))?;
    let detector = Detector::new(rules, &detect);
    let detector = detector.map_err(|_| source.refused(pattern_errors(config, host::rules(config).0)))?;
    Ok(Arc::new(detector))
}

/// The model of the learned scorer that is in force: the beginning of its digest, or `none`.
pub fn scorer_id(config: &Config) -> String {
    let model = match host::scorer(config) {
        Ok(ScorerModel::BuiltIn) => Model::built_in(),
        Ok(ScorerModel::Given(model)) => Some(model),
        Ok(ScorerModel::Off) | Err(_) => None,
    };
    model.map_or_else(|| "none".to_owned(), |model| model.id().to_owned())
}

/// Everything that is wrong with the user's patterns beside these rules.
pub fn pattern_errors(config: &Config, rules: RuleSet) -> Vec<Finding> {
    let mut detect = policy_settings::detect(config);
    // That two have one name was said where the second stands.
    let mut names = HashSet::new();
    detect.custom_patterns.retain(|own| names.insert(own.name.clone()));
    let of_servers = std::mem::take(&mut detect.of_servers).into_iter().map(|own| {
        let own = DetectConfig { custom_patterns: own.patterns, ..DetectConfig::default() };
        (RuleSet::default(), own)
    });
    let errors = of_servers
        .chain([(rules, detect)])
        .flat_map(|(rules, patterns)| Detector::new(rules, &patterns).err().unwrap_or_default());
    let finding = |error: RuleError| {
        let place = match &error.at {
            RulePlace::Pattern(name) => policy_settings::place_of_pattern(config, name),
            RulePlace::File { .. } => None,
        };
        let message = match place {
            // What stands in an entry of `guards` has no name but its place, which is reported.
            Some(PatternPlace::Guard(..)) => format!("{}; expected {}", error.what, error.expected),
            Some(PatternPlace::Inspection(_)) | None => error.to_string(),
        };
        Finding::new(place.map(PatternPlace::path).unwrap_or_default(), message)
    };
    errors.map(finding).collect()
}

/// Where processes may connect, by this configuration.
///
/// # Errors
/// A glob of it is none.
pub fn network_rules(config: &Config) -> anyhow::Result<NetworkRules> {
    Ok(policy_settings::network_rules(config, &denied_servers(config)?))
}

/// The bounds of capture.
pub fn limits(config: &Config) -> CaptureLimits {
    let bytes = |bytes: config::Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
    CaptureLimits {
        message_bytes: bytes(config.capture.max_message_bytes),
        reassembly_bytes: bytes(config.capture.reassembly_bytes),
        per_uid_bytes: bytes(config.capture.per_uid_bytes),
        ..CaptureLimits::default()
    }
}

#[cfg(test)]
mod tests;
