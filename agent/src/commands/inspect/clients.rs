//! Where clients' configurations declare servers.
//!
//! | members | clients |
//! |---|---|
//! | `mcpServers`, as a mapping or a list with names | Claude, Cursor, Windsurf, Cline, Gemini CLI, Cherry Studio, Continue |
//! | `projects.DIR.mcpServers` | Claude Code (`~/.claude.json`) |
//! | `servers`, `mcp.servers`, `customizations.vscode.mcp.servers` | VS Code and development containers |
//! | `mcp.NAME` | opencode, Crush |
//! | `mcp_servers` | Codex |
//! | `context_servers` | Zed |
//! | `amp.mcpServers` | Amp |
//! | `extensions` | Goose |
//! | `packages` and `remotes` beside `name` | an entry of the MCP registry (`server.json`) |

use std::collections::HashSet;

use anyhow::{Context as _, Result};
use mcpwarden_policy::protocol::{decode_str, members};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::pairs::Pairs;

/// Lists of names of servers that are switched off.
const SWITCHED_OFF: [&str; 3] = ["disabledMcpServers", "disabledMcpjsonServers", "excludeMCPServers"];

/// A server as a configuration declares it.
#[derive(Debug)]
pub struct Found {
    /// The directory of the project that has it; `None` for all projects.
    pub project: Option<String>,
    /// What the client calls it.
    pub name: String,
    /// Its entry.
    pub json: Box<RawValue>,
    /// Whether it is switched off by a list of names.
    pub is_off: bool,
}

/// The servers that a configuration declares, in the order of the file; `None` where it is no client's.
///
/// # Errors
/// Something that is to hold servers is no mapping of them.
pub fn servers(whole: &RawValue) -> Result<Option<Vec<Found>>> {
    let mut all = Vec::new();
    let is_client = of_client(whole, None, &mut all)? | of_projects(whole, &mut all)?;
    if is_client {
        return Ok(Some(all));
    }
    Ok(of_registry(whole))
}

fn member<'a>(of: &'a RawValue, path: &[&str]) -> Option<&'a RawValue> {
    path.iter().try_fold(of, |of, name| {
        let [member] = members(of.get(), [*name]);
        member.filter(|member| member.get() != "null")
    })
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// What a configuration, or a project's part of one, declares. Whether it is one.
fn of_client(of: &RawValue, project: Option<&str>, all: &mut Vec<Found>) -> Result<bool> {
    let mut places: Vec<&RawValue> = [
        &["mcpServers"][..],
        &["servers"],
        &["mcp", "servers"],
        &["mcp", "mcpServers"],
        &["customizations", "vscode", "mcp", "servers"],
        &["customizations", "vscode", "settings", "mcp", "servers"],
        &["mcp_servers"],
        &["context_servers"],
        &["amp.mcpServers"],
    ]
    .iter()
    .filter_map(|path| member(of, path))
    .collect();
    // Names of servers stand there beside settings.
    let loose = [member(of, &["mcp"]), member(of, &["extensions"])].into_iter().flatten();
    let loose: Vec<&RawValue> =
        loose.filter(|value| is_object(value) && places.is_empty() && has_entry(value)).collect();
    places.extend(loose);
    let off = names_off(of);
    let only = names(member(of, &["mcp", "allowed"]));
    for place in &places {
        for (name, json) in entries(place)? {
            let is_off = off.contains(&name) || !only.is_empty() && !only.contains(&name);
            all.push(Found { project: project.map(str::to_owned), name, json: json.to_owned(), is_off });
        }
    }
    Ok(!places.is_empty())
}

/// Whether something in a mapping looks like the entry of a server.
fn has_entry(value: &RawValue) -> bool {
    let is_entry = |entry: &&RawValue| {
        let found = members(entry.get(), ["command", "cmd", "url", "uri"]);
        is_object(entry) && found.iter().any(Option::is_some)
    };
    serde_json::from_str(value.get()).is_ok_and(|Pairs(pairs)| pairs.iter().any(|(_, entry)| is_entry(entry)))
}

/// The entries of a mapping by name, or of a list whose entries have names.
fn entries(place: &RawValue) -> Result<Vec<(String, &RawValue)>> {
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(place.get()) {
        let named = |(index, entry): (usize, &'_ RawValue)| {
            let [name] = members(entry.get(), ["name"]);
            name.and_then(|name| decode_str(name.get()))
                .map_or_else(|| index.to_string(), |name| name.into_owned())
        };
        return Ok(list
            .into_iter()
            .enumerate()
            .map(|(index, entry)| (named((index, entry)), entry))
            .collect());
    }
    let Pairs(pairs) = serde_json::from_str(place.get()).context("the servers are no mapping")?;
    Ok(pairs)
}

fn names_off(of: &RawValue) -> HashSet<String> {
    let mut off = names(member(of, &["mcp", "excluded"]));
    off.extend(SWITCHED_OFF.iter().flat_map(|list| names(member(of, &[list]))));
    off
}

fn names(list: Option<&RawValue>) -> HashSet<String> {
    list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
}

fn of_projects(whole: &RawValue, all: &mut Vec<Found>) -> Result<bool> {
    let Some(projects) = member(whole, &["projects"]) else { return Ok(false) };
    let Ok(Pairs(projects)) = serde_json::from_str(projects.get()) else { return Ok(false) };
    let mut is_client = false;
    for (directory, project) in projects {
        if is_object(project) {
            let of_project = of_client(project, Some(&directory), all);
            is_client |=
                of_project.with_context(|| format!("project {}", crate::output::clean(&directory)))?;
        }
    }
    Ok(is_client)
}

/// What an entry of the MCP registry offers to start or to reach.
fn of_registry(whole: &RawValue) -> Option<Vec<Found>> {
    let server: Value = serde_json::from_str(whole.get()).ok()?;
    let list = |name: &str| server[name].as_array().filter(|list| list.iter().all(Value::is_object));
    let (packages, remotes) = (list("packages"), list("remotes"));
    let name = server["name"].as_str()?;
    if packages.is_none() && remotes.is_none() || !server["inputSchema"].is_null() {
        return None;
    }
    let kind = |of: &Value, member: &str| of[member].as_str().unwrap_or("?").to_owned();
    let packages = packages.into_iter().flatten().map(|of| (kind(of, "registryType"), package(of)));
    let remotes = remotes.into_iter().flatten().map(|of| (kind(of, "type"), remote(of)));
    let all: Vec<(String, Value)> = packages.chain(remotes).collect();
    let is_one = all.len() == 1;
    let found = |(kind, entry): (String, Value)| {
        // One server in several forms: each has a name of its own.
        let name = if is_one { name.to_owned() } else { format!("{name} ({kind})") };
        Some(Found { project: None, name, json: to_raw_value(&entry).ok()?, is_off: false })
    };
    Some(all.into_iter().filter_map(found).collect())
}

/// How a package is started by the usual runner of its registry; without a command where there is none.
fn package(package: &Value) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let (identifier, version) = (text("identifier"), text("version"));
    let versioned = |separator: &str| match version {
        "" => identifier.to_owned(),
        version => format!("{identifier}{separator}{version}"),
    };
    let (runner, options, what): (_, &[&str], _) = match text("registryType") {
        "npm" => ("npx", &["-y"], versioned("@")),
        "pypi" => ("uvx", &[], versioned("==")),
        "nuget" => ("dnx", &["--yes"], versioned("@")),
        "oci" => ("docker", &["run", "-i", "--rm"], identifier.to_owned()),
        _ => return json!({}),
    };
    let fixed =
        |name: &str| package[name].as_array().into_iter().flatten().flat_map(argument).collect::<Vec<_>>();
    let options = options.iter().map(ToString::to_string);
    let args: Vec<String> =
        options.chain(fixed("runtimeArguments")).chain([what]).chain(fixed("packageArguments")).collect();
    let command = package["runtimeHint"].as_str().unwrap_or(runner);
    json!({ "command": command, "args": args, "env": variables(&package["environmentVariables"]) })
}

fn argument(argument: &Value) -> Vec<String> {
    let words = [
        &argument["name"],
        if argument["value"].is_null() { &argument["default"] } else { &argument["value"] },
    ];
    words.into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn remote(remote: &Value) -> Value {
    json!({ "url": remote["url"], "headers": variables(&remote["headers"]) })
}

/// Those of which a value is given.
fn variables(list: &Value) -> Value {
    let value = |entry: &Value| {
        if entry["value"].is_null() { entry["default"].clone() } else { entry["value"].clone() }
    };
    let pairs = list.as_array().into_iter().flatten();
    pairs
        .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), value(entry))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
