//! Rules of the configuration on servers and tools, compiled.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Glob, ServerRule};
use crate::glob::{GlobError, NameGlob};
use crate::terms::Identity;

pub(super) use crate::guard::rule::{CompiledRule, tool_rules};

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
