//! `mcpwarden match`: whether a command counts as an MCP server, by which pattern, under which id.

use std::path::Path;

use anyhow::Result;
use mcpwarden_policy::discovery::{is_declared, server_id};
use mcpwarden_policy::settings;
use serde_json::json;

use crate::{
    config,
    output::{clean, print_json_line, print_line},
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
        print_json_line(&answer);
        return Ok(counts);
    }
    match (declared, found) {
        (Some(server), _) => {
            print_line(format!("yes: declared in the configuration as {}", clean(&server.id.0)))
        }
        (None, Some(found)) => {
            print_line(format!("yes: the pattern {} matches {}", clean(&found.pattern), clean(&found.on)));
            print_line(format!("server id: {}", clean(&id)));
        }
        (None, None) => {
            print_line("no pattern matches; it counts once its first request is one of MCP's");
            print_line(format!("server id then: {}", clean(&id)));
            print_line(
                "to count it by name, add to the configuration: discovery: { custom_servers: [\"…\"] }",
            );
        }
    }
    Ok(counts)
}
