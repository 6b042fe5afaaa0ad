//! Rules of the configuration on servers and tools, compiled.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Glob, ServerRule, ToolRule};
use crate::glob::{GlobError, NameGlob};
use crate::guard::ToolFacts;
use crate::terms::Identity;

/// Globs of rules, compiled.
pub(super) fn globs<'a>(
    globs: impl Iterator<Item = &'a Glob>,
    config: &Config,
) -> Result<Vec<NameGlob>, GlobError> {
    globs.map(|glob| glob.compile(config.policy.case_sensitive)).collect()
}

/// The globs of rules on servers.
pub(super) fn server_globs(rules: &[ServerRule], config: &Config) -> Result<Vec<NameGlob>, GlobError> {
    globs(rules.iter().map(|rule| &rule.id), config)
}

/// The declared servers that a certain program must serve.
pub(super) fn demanding(config: &Config) -> BTreeSet<String> {
    let servers = config.servers.iter().filter(|server| server.executable.is_some());
    servers.map(|server| server.id.clone()).collect()
}

/// Whether a server has the id of one that another program must serve: anybody can be called so. What denies by that id
/// counts for it, what allows does not, but for what is said of every server.
pub(super) fn is_borrowed(demanding: &BTreeSet<String>, server: &str, identity: Identity) -> bool {
    identity != Identity::Declared && demanding.contains(server)
}

/// A rule on tools, compiled.
#[derive(Clone, Debug)]
pub(super) struct CompiledRule {
    pub(super) server: NameGlob,
    tool: NameGlob,
    /// 64 hexadecimal digits.
    pub(super) hash: Option<String>,
}

impl CompiledRule {
    pub(super) fn names(&self, server: &str, tool: &str) -> bool {
        self.tool.matches(tool) && self.server.matches(server)
    }

    /// Whether it is on this definition.
    pub(super) fn holds(&self, known: Option<&ToolFacts>) -> bool {
        self.hash.as_deref().is_none_or(|hash| known.is_some_and(|tool| tool.hash.eq_ignore_ascii_case(hash)))
    }

    pub(super) fn matches(&self, server: &str, tool: &str, known: Option<&ToolFacts>) -> bool {
        self.names(server, tool) && self.holds(known)
    }

    /// Whether this rule that allows is more than an exception to everything: what `deny` denies with a bare `*` it
    /// names. What is denied of a server by its name, only a rule of a server allows.
    pub(super) fn beats(&self, deny: &Self) -> bool {
        let by_server = !self.server.is_any();
        let by_tool = !self.tool.is_any() && (by_server || deny.server.is_any());
        deny.tool.is_any() && (by_tool || by_server && deny.server.is_any())
    }

    pub(super) fn describe(&self) -> String {
        format!("{}:{}", self.server.as_str(), self.tool.as_str())
    }
}

/// Rules on tools.
pub(super) fn tool_rules(rules: &[ToolRule], case_sensitive: bool) -> Result<Vec<CompiledRule>, GlobError> {
    let compile = |rule: &ToolRule| {
        Ok(CompiledRule {
            server: rule.server.compile(case_sensitive)?,
            tool: rule.tool.compile(case_sensitive)?,
            hash: rule.content_hash.as_ref().map(|hash| hash.digits().to_owned()),
        })
    };
    rules.iter().map(compile).collect()
}

/// What an entry of `servers:` says, compiled.
#[derive(Debug)]
pub(super) struct OwnRules {
    pub(super) allow: Vec<NameGlob>,
    pub(super) denied_tags: BTreeSet<String>,
}

/// What the entries of `servers:` say, by id.
pub(super) fn own_rules(config: &Config) -> Result<BTreeMap<String, OwnRules>, GlobError> {
    let mut compiled = BTreeMap::new();
    for server in &config.servers {
        let allow = globs(server.allow_tools.iter(), config)?;
        let denied_tags = server.deny_side_effect_tags.iter().cloned().collect();
        compiled.insert(server.id.clone(), OwnRules { allow, denied_tags });
    }
    Ok(compiled)
}
