//! The configuration file. No file at all is a good configuration.
//!
//! Unknown keys are errors, so a misspelt one is never silently without effect.

use std::{fs, path::Path};

use mcpwarden_policy::{Declared, Inspect, NamePatterns, ServerId, discovery::BUILT_IN};
use serde::Deserialize;

use crate::capture::CaptureLimits;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no YAML, or has a key or value that does not belong there.
    #[error("{path}:{line}:{column}: {reason}")]
    Parse {
        /// Which file.
        path: String,
        /// Line, from 1; 0 where it is not known.
        line: u64,
        /// Column, from 1; 0 where it is not known.
        column: u64,
        /// What was found and what was expected.
        reason: String,
    },
    /// A value is outside its range.
    #[error("{path}: {reason}")]
    Value {
        /// Which file.
        path: String,
        /// Which key, and what it can be.
        reason: String,
    },
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What is an MCP server.
    pub discovery: Discovery,
    /// Servers that are declared.
    pub servers: Vec<Server>,
    /// How much is captured and kept.
    pub capture: Capture,
}

/// What is an MCP server (globs on the command line and on the package, script or module in it).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// In place of the built-in patterns.
    pub server_patterns: Option<Vec<String>>,
    /// Beside them.
    pub custom_servers: Vec<String>,
}

/// A declared server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its id in events and policy.
    pub id: String,
    /// Its program.
    pub command: String,
    /// Its arguments, all of them.
    #[serde(default)]
    pub args: Vec<String>,
}

/// Which backend captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The best one that works here.
    #[default]
    Auto,
    /// System call tracepoints: everywhere, a little on every system call.
    Tracepoints,
}

/// What is recorded of arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payloads {
    /// Each leaf as type, length and keyed hash.
    #[default]
    Redacted,
    /// Everything, secrets included.
    Full,
}

/// How much is captured and kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capture {
    /// See [`Backend`].
    pub backend: Backend,
    /// Bytes of the ring between the kernel and the agent: a power of two, 4 KiB to 1 GiB.
    pub ring_bytes: u32,
    /// Longest message. Bytes.
    pub max_message_bytes: usize,
    /// Unfinished messages of all servers together, and all else that waits to be whole. Bytes.
    pub reassembly_bytes: usize,
    /// The same of one user's servers. Bytes.
    pub per_uid_bytes: usize,
    /// See [`Payloads`].
    pub payloads: Payloads,
}

impl Default for Capture {
    fn default() -> Self {
        let limits = CaptureLimits::default();
        Self {
            backend: Backend::Auto,
            ring_bytes: 32 << 20,
            max_message_bytes: limits.message_bytes,
            reassembly_bytes: limits.reassembly_bytes,
            per_uid_bytes: limits.per_uid_bytes,
            payloads: Payloads::Redacted,
        }
    }
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: name.clone(), source })?;
        Self::parse(&name, &text)
    }

    /// Parses the text of the file called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        if text.lines().all(|line| line.trim_start().starts_with('#') || line.trim().is_empty()) {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location();
            ConfigError::Parse {
                path: name.to_owned(),
                line: place.map_or(0, |place| place.line()),
                column: place.map_or(0, |place| place.column()),
                reason: error.without_snippet().to_string(),
            }
        })?;
        config.check().map_err(|reason| ConfigError::Value { path: name.to_owned(), reason })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        check_ring(self.capture.ring_bytes)?;
        for (key, bytes) in [
            ("capture.max_message_bytes", self.capture.max_message_bytes),
            ("capture.reassembly_bytes", self.capture.reassembly_bytes),
            ("capture.per_uid_bytes", self.capture.per_uid_bytes),
        ] {
            if bytes < 1024 {
                return Err(format!("{key} is {bytes}; the least is 1024"));
            }
        }
        for server in &self.servers {
            if server.id.is_empty() || server.command.is_empty() {
                return Err("servers: id and command must not be empty".into());
            }
        }
        self.patterns().map(|_| ())
    }

    /// The patterns that name MCP servers.
    pub fn patterns(&self) -> Result<NamePatterns, String> {
        let built_in = || BUILT_IN.map(str::to_owned).to_vec();
        let patterns = self.discovery.server_patterns.clone().unwrap_or_else(built_in);
        NamePatterns::new(&patterns, &self.discovery.custom_servers).map_err(|error| error.to_string())
    }

    /// The declared servers, for the policy core.
    pub fn declared(&self) -> Vec<Declared> {
        self.servers
            .iter()
            .map(|server| Declared {
                id: ServerId(server.id.clone()),
                command: server.command.clone(),
                args: server.args.clone(),
            })
            .collect()
    }

    /// The bounds of capture.
    pub fn limits(&self) -> CaptureLimits {
        CaptureLimits {
            message_bytes: self.capture.max_message_bytes,
            reassembly_bytes: self.capture.reassembly_bytes,
            per_uid_bytes: self.capture.per_uid_bytes,
            ..CaptureLimits::default()
        }
    }
}

/// What is looked for in definitions, arguments and results.
///
/// # Errors
/// A rule does not compile.
pub fn inspection() -> anyhow::Result<Inspect> {
    Inspect::built_in().map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the detection rules cannot be used: {}", errors.join("; "))
    })
}

/// A ring's size is a power of two and at least a page.
pub fn check_ring(bytes: u32) -> Result<(), String> {
    if bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes) {
        Ok(())
    } else {
        Err(format!("the ring's size is {bytes} bytes; it must be a power of two from 4096 to 1073741824"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_files() {
        let cases = [
            ("", Config::default()),
            ("# nothing\n", Config::default()),
            ("capture: { ring_bytes: 65536 }", {
                let mut config = Config::default();
                config.capture.ring_bytes = 65536;
                config
            }),
            ("servers:\n  - id: files\n    command: npx\n    args: [\"x\"]\n", {
                let mut config = Config::default();
                config.servers.push(Server {
                    id: "files".into(),
                    command: "npx".into(),
                    args: vec!["x".into()],
                });
                config
            }),
        ];
        for (text, expected) in cases {
            assert_eq!(Config::parse("x.yaml", text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn bad_files_say_where() {
        for (text, start, part) in [
            ("capture:\n  rings: 1\n", "x.yaml:2:3: ", "rings"),
            ("capture:\n  backend: magic\n", "x.yaml:2:12: ", "magic"),
            ("capture: [", "x.yaml:1:", ""),
            ("capture:\n  ring_bytes: 5000\n", "x.yaml: ", "power of two"),
            ("servers:\n  - id: a\n", "x.yaml:2:", "command"),
            ("discovery: { custom_servers: [\"a[\"] }", "x.yaml: ", "a["),
        ] {
            let error = Config::parse("x.yaml", text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text:?} gives {error}");
            assert!(error.contains(part), "{text:?} gives {error}");
        }
    }

    #[test]
    fn the_documented_file_is_one() {
        let page = include_str!("../../docs/configuration.md");
        let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let config = Config::parse("docs/configuration.md", yaml).unwrap();
        // What it shows of `capture` are the defaults.
        assert_eq!(config.capture, Capture::default());
        assert_eq!(config.servers.len(), 1);
    }
}
