//! Ids where a name alone is compared. A tool's id is `mcp:SERVER:TOOL`; neither a server nor a tool is called so.

use crate::config::{Config, Finding, Glob, ServerRule, Step, steps};

/// Globs on servers and on tools that have more of an id in them than is compared.
pub(super) fn ids(config: &Config) -> Vec<Finding> {
    let mut names = Names { config, found: Vec::new() };
    let policy = &config.policy;
    names.servers(steps!["policy", "allowed_servers"], &policy.allowed_servers);
    names.servers(steps!["policy", "denied_servers"], &policy.denied_servers);
    for (path, rule) in config.tool_rules() {
        names.tool(path, &rule.server, &rule.tool);
    }
    for glob in policy.rate_limits.per_server.keys() {
        names.server(steps!["policy", "rate_limits", "per_server", glob.as_str()], glob);
    }
    for text in policy.rate_limits.per_tool.keys() {
        let (server, tool) = text.server_and_tool();
        names.tool(steps!["policy", "rate_limits", "per_tool", text.as_str()], &server, &tool);
    }
    for (index, server) in config.servers.iter().enumerate() {
        for (at, glob) in server.allow_tools.iter().enumerate() {
            names.tool(steps!["servers", index, "allow_tools", at], &Glob::of("*"), glob);
        }
    }
    for (index, entry) in config.classifier.overrides.iter().enumerate() {
        names.tool(steps!["classifier", "overrides", index], &entry.server, &entry.tool);
    }
    for (index, entry) in config.guards.iter().enumerate() {
        for (at, glob) in entry.servers.iter().enumerate() {
            names.server(steps!["guards", index, "servers", at], glob);
        }
        let Some(own) = &entry.config else { continue };
        for (key, rules) in
            [("allowed_servers", &own.allowed_servers), ("denied_servers", &own.denied_servers)]
        {
            names.servers(steps!["guards", index, "config", key], rules.as_deref().unwrap_or_default());
        }
    }
    names.found
}

struct Names<'a> {
    config: &'a Config,
    found: Vec<Finding>,
}

impl Names<'_> {
    fn servers(&mut self, path: Vec<Step>, rules: &[ServerRule]) {
        for (index, rule) in rules.iter().enumerate() {
            self.server([&*path, &[index.into()]].concat(), &rule.id);
        }
    }

    fn server(&mut self, path: Vec<Step>, glob: &Glob) {
        let Some(name) = glob.as_str().strip_prefix("mcp:") else { return };
        // A host may be called so, and its port follows; and a declared server as somebody likes.
        let declared = || self.config.servers.iter().any(|server| server.id.starts_with("mcp:"));
        if !name.starts_with(|first: char| first.is_ascii_digit()) && !declared() {
            let message = format!("it matches no server: `mcp:` begins the ids of tools; write `{name}`");
            self.found.push(Finding::new(path, message));
        }
    }

    fn tool(&mut self, path: Vec<Step>, server: &Glob, tool: &Glob) {
        let full = tool.as_str();
        let behind_server = full.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix(':'));
        if full.starts_with("mcp:") || behind_server.is_some() {
            let name = full.rsplit(':').next().unwrap_or_default();
            let message = format!("it matches no tool: a tool's name has no server in it; write `{name}`");
            self.found.push(Finding::new(path, message));
        } else {
            self.server(path, server);
        }
    }
}
