//! Where clients' configurations declare servers.
//!
//! | members | clients |
//! |---|---|
//! | `mcpServers`, as a mapping or a list with names | Claude, Cursor, Windsurf, Cline, Gemini CLI, Cherry Studio, Continue, Amazon Q |
//! | `projects.DIR.mcpServers` | Claude Code (`~/.claude.json`) |
//! | `servers`, `mcp.servers` (also as one name), `settings.mcp.servers`, `customizations.vscode.mcp.servers` | VS Code, its workspaces, and development containers |
//! | `mcp.NAME` | opencode, Crush |
//! | `mcp_servers` | Codex, Mistral Vibe |
//! | `experimental.modelContextProtocolServers` | Continue, in its older form |
//! | `server.mcp_config` | a desktop extension (`manifest.json`) |
//! | names of servers and nothing else, or a list of servers | Warp |
//! | `context_servers` | Zed |
//! | `amp.mcpServers` | Amp |
//! | `extensions` | Goose |
//! | `mcp.targets` | fast-agent |
//! | `mcp.serverCommand` | Gemini CLI |
//! | a member named like `mcpServers`, wherever it stands | extensions of editors, agents, profiles, lists of plugins |
//!
//! What is named like `allowedMcpServers` has rules on servers, and none itself.
//!
//! | members | clients |
//! |---|---|
//! | `packages` and `remotes` beside `name` | an entry of the MCP registry (`server.json`) |

use std::borrow::Cow;
use std::collections::HashSet;

use anyhow::{Context as _, Result};
use mcpwarden_policy::protocol::{decode_str, members};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::entry::Entry;
use super::pairs::Pairs;

/// Lists of names of servers that are switched off.
const SWITCHED_OFF: [&str; 3] = ["disabledMcpServers", "disabledMcpjsonServers", "excludeMCPServers"];

/// A server as a configuration declares it.
#[derive(Debug)]
pub struct Found {
    /// The directory of the project that has it; `None` for all projects.
    pub project: Option<String>,
    /// What the client calls it; in a list without names, its id, or its number.
    pub name: String,
    /// Its entry.
    pub json: Box<RawValue>,
    /// Whether it is switched off by a list of names.
    pub is_off: bool,
}

impl Found {
    /// One of all projects, which no list switches off.
    fn of_all(name: String, json: Box<RawValue>) -> Self {
        Self { project: None, name, json, is_off: false }
    }
}

/// The servers that a configuration declares, in the order of the file; `None` where it is no client's.
///
/// # Errors
/// Something that is to hold servers is no mapping of them.
pub fn servers(whole: &RawValue) -> Result<Option<Vec<Found>>> {
    // The servers of an interface are none of MCP (spec.openapis.org, asyncapi.com).
    let versions = members(whole.get(), ["openapi", "swagger", "asyncapi"]);
    let is_text =
        |value: &Option<&RawValue>| value.is_some_and(|value| value.get().starts_with(['"', '2', '3']));
    let has_servers =
        ["mcpServers", "mcp", "mcp_servers"].iter().any(|name| !each(whole, &[name]).is_empty());
    if versions.iter().any(is_text) && !has_servers {
        return Ok(None);
    }
    let mut all = Vec::new();
    let is_client =
        of_client(whole, None, &mut all)? | of_projects(whole, &mut all)? | of_extension(whole, &mut all);
    if is_client || has_rules(whole) {
        return Ok(Some(all));
    }
    if is_bare(whole) {
        let found = |(name, json): (String, &RawValue)| Found::of_all(name, json.to_owned());
        return Ok(Some(entries(whole)?.into_iter().map(found).collect()));
    }
    Ok(of_registry(whole))
}

/// All that stands at a path, but for `null`. Of what stands there twice a client takes one, and names may be in any case.
fn each<'a>(of: &'a RawValue, path: &[&str]) -> Vec<&'a RawValue> {
    let step = |of: Vec<&'a RawValue>, name: &&str| {
        let pairs = of.into_iter().filter_map(|of| serde_json::from_str(of.get()).ok());
        let members = pairs.flat_map(|Pairs(pairs): Pairs<'a>| pairs);
        let found = members.filter(|(key, value)| key.eq_ignore_ascii_case(name) && value.get() != "null");
        found.map(|(_, value)| value).collect()
    };
    path.iter().fold(vec![of], step)
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// What a configuration, or a project's part of one, declares. Whether it is one.
fn of_client(of: &RawValue, project: Option<&str>, all: &mut Vec<Found>) -> Result<bool> {
    let mut places: Vec<&RawValue> = [
        &["mcpServers"][..],
        &["servers"],
        &["mcp.servers"],
        &["settings", "mcp.servers"],
        &["settings", "mcp", "servers"],
        &["mcp", "servers"],
        &["mcp", "mcpServers"],
        &["mcp", "targets"],
        &["customizations", "vscode", "mcp", "servers"],
        &["customizations", "vscode", "settings", "mcp", "servers"],
        &["mcp_servers"],
        &["context_servers"],
        &["amp.mcpServers"],
        &["experimental", "modelContextProtocolServers"],
    ]
    .iter()
    .flat_map(|path| each(of, path))
    .collect();
    // What extensions and other clients have in a file, they have in members of the same names.
    nested(of, 0, &mut places);
    let found = all.len();
    let mut add = |(name, json): (String, &RawValue), is_off: bool| {
        all.push(Found { project: project.map(str::to_owned), name, json: json.to_owned(), is_off });
    };
    // opencode: an entry may be nothing but a switch for a server that another file has.
    if places.is_empty() {
        places.extend(each(of, &["mcp"]).into_iter().filter(|place| has_switch(place)));
    }
    // Names of servers stand there beside settings, and beside other lists.
    for place in ["mcp", "extensions"].into_iter().flat_map(|name| each(of, &[name])) {
        if places.iter().any(|known| std::ptr::eq(known.get(), place.get())) {
            continue;
        }
        if places.is_empty() && has_entry(place) {
            places.push(place);
        } else if let Ok(Pairs(pairs)) = serde_json::from_str(place.get()) {
            let others = pairs.into_iter().filter(|(_, entry)| is_entry(entry));
            others.for_each(|entry| add(entry, false));
        }
    }
    for command in each(of, &["mcp", "serverCommand"]) {
        let entry = format!(r#"{{"target":{}}}"#, command.get());
        let entry: Box<RawValue> = RawValue::from_string(entry)?;
        add(("mcp.serverCommand".to_owned(), &entry), false);
    }
    let off = names_off(of);
    let only = names(each(of, &["mcp", "allowed"]));
    for place in &places {
        for (name, json) in entries(place)? {
            let is_off = off.contains(&name) || !only.is_empty() && !only.contains(&name);
            add((name, json), is_off);
        }
    }
    Ok(!places.is_empty() || all.len() > found)
}

/// Most members that are one in another, in which servers are looked for.
const MAX_DEPTH: usize = 8;

/// Adds the places in a configuration that are named as servers are and have some, whatever they are part of, but for projects.
fn nested<'a>(of: &'a RawValue, depth: usize, places: &mut Vec<&'a RawValue>) {
    if depth >= MAX_DEPTH {
        return;
    }
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(of.get()) {
        return list.into_iter().for_each(|inner| nested(inner, depth + 1, places));
    }
    let Ok(Pairs(members)) = serde_json::from_str::<Pairs<'a>>(of.get()) else { return };
    for (name, value) in members {
        let is_known = places.iter().any(|place| std::ptr::eq(place.get(), value.get()));
        if is_known || depth == 0 && name == "projects" || name == "inputSchema" || names_rules(&name, value)
        {
            continue;
        } else if names_servers(&name) && has_entry(value) {
            places.push(value);
        } else {
            nested(value, depth + 1, places);
        }
    }
}

/// Words in the names of members that say which servers may be used: Claude Code's `allowedMcpServers` and `deniedMcpServers`
/// (code.claude.com/docs/en/managed-mcp), and the like of other clients; and words of those that say which are used, which
/// elsewhere are servers (`disabledMcpServers`).
const RULES: &str = "allow allowed allowlist deny denied denylist block blocked blocklist exclude excluded forbidden rejected";
const SWITCHES: &str = "disable disabled enable enabled active inactive approved ignored";

/// Whether a member has rules on servers, and none itself: `deniedMcpServers`, `mcp.enabled_mcp_servers`.
fn names_rules(name: &str, value: &RawValue) -> bool {
    let mut spaced = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            spaced.push(' ');
        }
        spaced.push(if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
    }
    let has = |words: &str| {
        let mut known = words.split(' ');
        known.any(|known| spaced.split(' ').any(|word| word == known))
    };
    names_servers(name) && (has(RULES) || has(SWITCHES) && !is_object(value))
}

/// Whether a file has rules on servers.
fn has_rules(whole: &RawValue) -> bool {
    serde_json::from_str(whole.get())
        .is_ok_and(|Pairs(pairs)| pairs.iter().any(|(name, value)| names_rules(name, value)))
}

/// Whether a member is named as lists of servers are: `mcpServers`, `mcp-servers`, `profile.mcp_servers`, `stdio_servers`.
fn names_servers(name: &str) -> bool {
    const ENDS: [&str; 6] = [
        "mcpservers",
        "contextservers",
        "modelcontextprotocolservers",
        "stdioservers",
        "sseservers",
        "httpservers",
    ];
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    ENDS.iter().any(|end| letters.ends_with(end))
}

/// Whether something in a mapping or a list looks like the entry of a server.
fn has_entry(value: &RawValue) -> bool {
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        return list.iter().any(|entry| is_entry(entry) || is_address(entry));
    }
    serde_json::from_str(value.get()).is_ok_and(|Pairs(pairs)| pairs.iter().any(|(_, entry)| is_entry(entry)))
}

/// Whether a value is an address (OpenHands: `sse_servers = ["https://…"]`).
fn is_address(value: &RawValue) -> bool {
    value.get().starts_with("\"http://") || value.get().starts_with("\"https://")
}

/// Whether an entry of a list names a server of another file (agents of Claude Code).
fn is_reference(value: &RawValue) -> bool {
    decode_str(value.get()).is_some_and(|text| !text.contains("://"))
}

/// Whether a mapping has nothing but servers that are switched on or off, and one that says nothing else.
fn has_switch(place: &RawValue) -> bool {
    let Ok(Pairs(pairs)) = serde_json::from_str(place.get()) else { return false };
    let is_switch = |value: &RawValue| {
        serde_json::from_str(value.get()).is_ok_and(|Pairs(members)| {
            members.iter().any(|(name, value)| name == "enabled" && matches!(value.get(), "true" | "false"))
        })
    };
    !pairs.is_empty() && pairs.iter().all(|(_, entry)| is_switch(entry) || is_entry(entry))
}

/// Whether a value says what to start or to reach, and is no definition of a tool, whatever a server put beside it.
fn is_entry(value: &RawValue) -> bool {
    let Ok(Pairs(members)) = serde_json::from_str(value.get()) else { return false };
    let has = |names: &[&str]| {
        members.iter().any(|(name, value)| {
            value.get() != "null" && names.iter().any(|known| name.eq_ignore_ascii_case(known))
        })
    };
    has(&["command", "cmd", "url", "uri", "serverUrl", "httpUrl", "baseUrl", "target"])
        && !has(&["inputSchema", "input_schema"])
}

/// The same in a file that does not say what it is: with any member of a definition it is one, which is to be inspected.
fn is_bare_entry(value: &RawValue) -> bool {
    let found =
        members(value.get(), ["description", "title", "annotations", "uri", "uriTemplate", "arguments"]);
    // `target` and `baseUrl` stand in files of all kinds.
    let is_usual = members(value.get(), ["target", "baseUrl"]).iter().all(Option::is_none);
    is_usual && is_entry(value) && found.iter().all(Option::is_none)
}

/// Whether servers stand in a file by themselves, by name or in a list.
fn is_bare(whole: &RawValue) -> bool {
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
        return !list.is_empty() && list.iter().all(|entry| is_bare_entry(entry));
    }
    serde_json::from_str(whole.get())
        .is_ok_and(|Pairs(pairs)| !pairs.is_empty() && pairs.iter().all(|(_, entry)| is_bare_entry(entry)))
}

/// The entries of a mapping by name, or of a list whose entries have names. An entry that is `null` is as if absent.
fn entries(place: &RawValue) -> Result<Vec<(String, &RawValue)>> {
    let mut entries: Vec<_> = if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(place.get()) {
        let named = |(index, entry): (usize, &'_ RawValue)| {
            let [name] = members(entry.get(), ["name"]);
            let name = name.and_then(|name| decode_str(name.get())).map(Cow::into_owned);
            let id = || Entry::read("", entry).map(|entry| entry.server_id()).ok();
            name.or_else(id).unwrap_or_else(|| index.to_string())
        };
        let list = list.into_iter().enumerate().filter(|(_, entry)| !is_reference(entry));
        let each = list.flat_map(|(index, entry)| match several(entry) {
            Some(pairs) => pairs,
            None => vec![(named((index, entry)), entry)],
        });
        each.collect()
    } else {
        let Pairs(pairs) = serde_json::from_str(place.get()).context("the servers are no mapping")?;
        pairs
    };
    entries.retain(|(_, entry)| entry.get() != "null" && !is_part_of_client(entry));
    Ok(entries)
}

/// The servers in an entry of a list that is a mapping of them.
fn several(entry: &RawValue) -> Option<Vec<(String, &RawValue)>> {
    let Pairs(pairs) = serde_json::from_str(entry.get()).ok()?;
    // Continue's older form has the program in that.
    let is_server = |(name, inner): &(String, &RawValue)| name != "transport" && is_entry(inner);
    (!is_entry(entry) && !pairs.is_empty() && pairs.iter().all(is_server)).then_some(pairs)
}

/// Whether an entry of Goose names something that runs within it.
fn is_part_of_client(entry: &RawValue) -> bool {
    let [kind] = members(entry.get(), ["type"]);
    !is_entry(entry) && kind.is_some_and(|kind| matches!(kind.get(), r#""platform""# | r#""frontend""#))
}

/// The server of a desktop extension's manifest.
fn of_extension(whole: &RawValue, all: &mut Vec<Found>) -> bool {
    let before = all.len();
    let [name] = members(whole.get(), ["name"]);
    let name = name.and_then(|name| decode_str(name.get())).unwrap_or_default();
    let configured = each(whole, &["server", "mcp_config"]).into_iter().filter(|entry| is_entry(entry));
    all.extend(configured.map(|json| Found::of_all(name.clone().into_owned(), json.to_owned())));
    all.len() > before
}

fn names_off(of: &RawValue) -> HashSet<String> {
    let mut off = names(each(of, &["mcp", "excluded"]));
    off.extend(SWITCHED_OFF.iter().flat_map(|list| names(each(of, &[list]))));
    off
}

fn names(lists: Vec<&RawValue>) -> HashSet<String> {
    let lists = lists.into_iter().filter_map(|list| serde_json::from_str::<Vec<Value>>(list.get()).ok());
    lists.flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn of_projects(whole: &RawValue, all: &mut Vec<Found>) -> Result<bool> {
    let projects = each(whole, &["projects"]).into_iter();
    let projects = projects.filter_map(|projects| serde_json::from_str(projects.get()).ok());
    let projects = projects.flat_map(|Pairs(projects)| projects);
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
        Some(Found::of_all(name, to_raw_value(&entry).ok()?))
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
