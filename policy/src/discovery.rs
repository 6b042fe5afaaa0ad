//! Is this command an MCP server, and what is it called?

use crate::ids::ServerId;

/// Which command lines are MCP servers.
#[derive(Clone, Debug, Default)]
pub struct NamePatterns {}

/// Why a command line counts as an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The pattern, as it was written.
    pub pattern: String,
    /// What it matched.
    pub on: String,
    /// Whether the pattern is one of the user's.
    pub custom: bool,
}

/// A pattern that is no glob.
#[derive(Debug, thiserror::Error)]
#[error("discovery pattern {pattern:?} is not a valid glob: {source}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub source: globset::Error,
}

impl NamePatterns {
    /// Compiles patterns.
    pub fn new(server_patterns: &[String], custom: &[String]) -> Result<Self, PatternError> {
        let _ = (server_patterns, custom);
        Ok(Self {})
    }

    /// The first pattern that matches this command line.
    pub fn matches(&self, argv: &[String]) -> Option<Match> {
        let _ = argv;
        None
    }
}

/// The id of the server that this command line runs.
pub fn server_id(argv: &[String], cwd: Option<&str>) -> ServerId {
    let _ = (argv, cwd);
    ServerId(String::new())
}

/// How telling a command line is; higher wins in a chain.
pub fn specificity(argv: &[String]) -> u8 {
    let _ = argv;
    0
}
