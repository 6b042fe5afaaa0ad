//! The configuration file: read, and made settings of. What can stand in it is `mcpwarden_policy::config`'s.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, anyhow};
use mcpwarden_policy::config::{self, Level, MAX_BYTES, Problem};
pub use mcpwarden_policy::config::{Backend, Config, Payloads, check_ring};
use mcpwarden_policy::detect::Detector;
use mcpwarden_policy::engine::Judge;
use mcpwarden_policy::guards::denied_servers;
use mcpwarden_policy::network::NetworkRules;
use mcpwarden_policy::{Engine, EngineConfig, Inspect, Payloads as Shown};

use crate::{capture::CaptureLimits, host, output::escaped};

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
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
    let file = file.map_err(|source| ConfigError::Read { path: path.display().to_string(), source })?;
    Ok((bytes, file.and_then(|file| host::ours_alone(path, &file).err())))
}

/// Reads a file, and says on standard error what in it does not do what it seems to.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn read(path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    let (bytes, exposed) = bytes(path)?;
    if let Some(exposed) = exposed {
        anstream::eprintln!("mcpwarden: warning: {}: {}", escaped(&name), escaped(&exposed));
    }
    match config::parse(&bytes) {
        Ok((config, warnings)) => {
            for warning in warnings {
                let (at, text) = (warning.at, escaped(&warning.to_string()));
                anstream::eprintln!("mcpwarden: warning: {name}:{}:{}: {text}", at.line, at.column);
            }
            Ok(config)
        }
        Err(problems) => {
            let mut errors = problems.into_iter().filter(|problem| problem.level == Level::Error);
            // There is one: that is why it was refused.
            let Some(first) = errors.next() else { return Ok(Config::default()) };
            Err(ConfigError::Refused { path: name, first: Box::new(first), more: errors.count() })
        }
    }
}

/// An engine that goes by this configuration.
///
/// # Errors
/// A rule or a guard cannot be made of it.
pub fn engine(config: &Config, key: [u8; 32], verbose: bool, show_payloads: bool) -> anyhow::Result<Engine> {
    let (settings, judge) = settings(config, key, verbose, show_payloads)?;
    Ok(Engine::new(settings).with_judge(judge))
}

/// What an engine goes by.
///
/// # Errors
/// A rule or a guard cannot be made of it.
pub fn settings(
    config: &Config,
    key: [u8; 32],
    verbose: bool,
    show_payloads: bool,
) -> anyhow::Result<(EngineConfig, Judge)> {
    let detector = detector(config)?;
    let full = show_payloads || config.capture.payloads == Payloads::Full;
    let inspect =
        Inspect { detector: Arc::clone(&detector), alert_threshold: config.inspection.alert_threshold };
    let settings = EngineConfig {
        payloads: if full { Shown::Full } else { Shown::Redacted },
        verbose,
        patterns: config.patterns()?,
        declared: host::declared(config),
        remote: config.remote(),
        inspection: config.inspection.enabled.then_some(inspect),
        registry: config.registry_settings(),
        ..EngineConfig::new(key)
    };
    Ok((settings, judge(config, &detector)?))
}

/// The guards that this configuration asks for. What has no effect on this host is said on standard error.
///
/// # Errors
/// It names a user who is not there.
pub fn judge(config: &Config, detector: &Arc<Detector>) -> anyhow::Result<Judge> {
    for idle in host::idle(config) {
        anstream::eprintln!("mcpwarden: warning: {}", escaped(&idle.to_string()));
    }
    Ok(Judge::new(config, host::sessions(config)?, detector)?)
}

/// The rules that this configuration asks for, compiled.
///
/// # Errors
/// A rule file or a pattern of the user's cannot be used.
pub fn detector(config: &Config) -> anyhow::Result<Arc<Detector>> {
    let (rules, unusable) = host::rules(config);
    unusable.check().context("the detection rules cannot be used")?;
    let detector = Detector::new(rules, &config.detect()).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(|error| escaped(&error.to_string())).collect();
        anyhow!("the detection rules cannot be used: {}", errors.join("; "))
    });
    Ok(Arc::new(detector?))
}

/// Where processes may connect, by this configuration.
///
/// # Errors
/// A glob of it is none.
pub fn network_rules(config: &Config) -> anyhow::Result<NetworkRules> {
    Ok(config.network_rules(&denied_servers(config)?))
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
mod tests {
    use super::*;

    #[test]
    fn bad_files_say_where_in_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.yaml");
        for (text, place, part) in [
            ("capture:\n  rings: 1\n", ":2:3: ", "rings"),
            ("capture:\n  backend: magic\n", ":2:12: ", "magic"),
            ("capture: [", ":1:", "YAML"),
            ("capture:\n  ring_bytes: 5000\n", ":2:15: ", "power of two"),
            ("servers:\n  - id: a\n", ":2:5: ", "command"),
            ("discovery: { custom_servers: [\"a[\"] }", ":1:31: ", "a["),
            ("a: 1\nb: 2\nc: 3\n", ":1:1: ", "(and 2 more: see `mcpwarden check-config`)"),
            ("\"\\u202e\": 1\n", ":1:1: ", "no such key"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}{place}", path.display())), "{text:?} gives {error}");
            assert!(error.contains(part), "{text:?} gives {error}");
            assert!(!error.contains(['\n', '\u{202e}']), "{text:?} gives {error}");
        }
    }

    #[test]
    fn the_defaults_of_the_file_are_those_of_capture() {
        let (file, capture) = (limits(&Config::default()), CaptureLimits::default());
        assert_eq!(format!("{file:?}"), format!("{capture:?}"));
    }

    #[test]
    fn the_documented_file_is_one() {
        let page = include_str!("../../docs/configuration.md");
        let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let (config, warnings) = config::parse(yaml.as_bytes()).unwrap();
        // What it shows of `capture` are the defaults.
        assert_eq!(config.capture, Config::default().capture);
        assert_eq!((config.servers.len(), warnings), (1, Vec::new()));
    }
}
