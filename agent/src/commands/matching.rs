//! `mcpwarden match`: whether a command counts as an MCP server, by which pattern, under which id.

use std::path::Path;

use anyhow::Result;
use mcpwarden_policy::discovery::{is_declared, server_id};
use mcpwarden_policy::settings;
use serde_json::json;

use crate::{
    config,
    output::{clean, say, say_json},
};

/// Prints the answer. Returns whether the command counts by its name or its declaration.
pub fn run(config: Option<&Path>, json: bool, command: &[String]) -> Result<bool> {
    let config = config::read(config)?.config;
    let servers = settings::declared(&config);
    let declared = servers.iter().find(|server| is_declared(&server.command, &server.args, command, None));
    let found = settings::patterns(&config)?.matches(command);
    let id = declared.map_or_else(|| server_id(command, None).0, |server| server.id.0.clone());
    let counts = declared.is_some() || found.is_some();
    if json {
        let answer = json!({
            "server": counts,
            "server_id": id,
            "declared": declared.is_some(),
            "pattern": found.as_ref().map(|found| &found.pattern),
            "matched_on": found.as_ref().map(|found| &found.on),
        });
        say_json(&answer);
        return Ok(counts);
    }
    match (declared, found) {
        (Some(server), _) => say(format!("yes: declared in the configuration as {}", clean(&server.id.0))),
        (None, Some(found)) => {
            say(format!("yes: the pattern {} matches {}", clean(&found.pattern), clean(&found.on)));
            say(format!("server id: {}", clean(&id)));
        }
        (None, None) => {
            say("no pattern matches; it counts once its first request is one of MCP's");
            say(format!("server id then: {}", clean(&id)));
            say("to count it by name, add to the configuration: discovery: { custom_servers: [\"…\"] }");
        }
    }
    Ok(counts)
}
