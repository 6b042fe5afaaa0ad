//! What a file holds: definitions, or the servers that a client's configuration declares.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_client::{Definition, LISTS, List, TOOLS, instructions_of};
use mcpwarden_policy::protocol::{decode_str, members};
use serde_json::value::RawValue;

use super::clients::{self, Found};
use super::entry::Entry;
use super::forms;
use super::pairs::Pairs;

/// Longest file. Bytes.
const MAX_BYTES: u64 = 64 << 20;

/// What a file holds: one of these, or both, as the manifest of an extension does.
#[derive(Debug, Default)]
pub struct Contents {
    /// Definitions, of tools alone or of all that a server says of itself.
    pub definitions: Vec<Definition>,
    /// Servers that a client's configuration declares, by name; `None` where the file is no configuration.
    pub servers: Option<Vec<Declared>>,
}

/// A declared server.
#[derive(Debug)]
pub struct Declared {
    /// The directory of the project that has it; `None` for all projects.
    pub project: Option<String>,
    /// What the client calls it.
    pub name: String,
    /// What the client is told of it; otherwise, why that is of no use.
    pub entry: Result<Entry>,
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// It cannot be read, is too long or is no text.
pub fn read(path: &Path) -> Result<String> {
    let name = path.display();
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot open {name}"))?)
    };
    let mut bytes = Vec::new();
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    ensure!(bytes.len() as u64 <= MAX_BYTES, "{name} is longer than {} MiB", MAX_BYTES >> 20);
    text_of(bytes).with_context(|| format!("{name} is neither UTF-8 nor UTF-16 text"))
}

/// Text in UTF-8, or in UTF-16 behind its byte order mark, as PowerShell writes it; without the mark.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes.get(..2) {
        Some([0xff, 0xfe]) => u16::from_le_bytes,
        Some([0xfe, 0xff]) => u16::from_be_bytes,
        _ => {
            let text = String::from_utf8(bytes).ok()?;
            return Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text));
        }
    };
    let (units, rest) = bytes.as_chunks::<2>();
    let text = String::from_utf16(&units.iter().skip(1).copied().map(unit).collect::<Vec<_>>());
    text.ok().filter(|_| rest.is_empty())
}

/// Tells what the file at this path is by what it has: a definition has a name, a list of them is an array or stands under `tools` (or
/// another of [`LISTS`], or beside `instructions`), and a client's configuration has the members of [`clients`].
///
/// # Errors
/// It is none of these.
pub fn contents(text: &str, path: &Path) -> Result<Contents> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let json = forms::json_of(text, ending)?;
    contents_of(serde_json::from_str(&json)?)
}

fn contents_of(whole: &RawValue) -> Result<Contents> {
    if let [Some(result)] = members(whole.get(), ["result"]) {
        return contents_of(result);
    }
    let servers = clients::servers(whole)?.map(|servers| servers.into_iter().map(declared).collect());
    let definitions = match &servers {
        // Whatever else is in a definition belongs to it.
        Some(_) if is_definition(whole) => definitions(&TOOLS, vec![whole])?,
        // An agent's file has names of tools there.
        Some(_) if !has_tools(whole) => Vec::new(),
        _ => definitions_of(whole)?,
    };
    Ok(Contents { definitions, servers })
}

/// Whether a file is a definition, whatever stands in it besides.
fn is_definition(whole: &RawValue) -> bool {
    let [name, tools] = members(whole.get(), ["name", TOOLS.member]);
    let of_definition = members(whole.get(), ["inputSchema", "outputSchema", "annotations"]);
    name.is_some() && tools.is_none() && of_definition.iter().any(Option::is_some)
}

/// Whether there are definitions of tools beside the servers of a configuration.
fn has_tools(whole: &RawValue) -> bool {
    let [tools] = members(whole.get(), [TOOLS.member]);
    let list = tools.and_then(|tools| serde_json::from_str::<Vec<&RawValue>>(tools.get()).ok());
    list.is_some_and(|list| list.iter().any(|entry| entry.get().starts_with('{')))
}

fn definitions_of(whole: &RawValue) -> Result<Vec<Definition>> {
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
        list.iter().try_for_each(|entry| looks_like_definition(entry))?;
        return definitions(&TOOLS, list);
    }
    let [tools, name] = members(whole.get(), [TOOLS.member, "name"]);
    if tools.is_some() {
        return of_server(whole);
    }
    // Whatever else is in a definition belongs to it.
    if name.is_some_and(|name| decode_str(name.get()).is_some()) {
        looks_like_definition(whole)?;
        return definitions(&TOOLS, vec![whole]);
    }
    let all = of_server(whole)?;
    let greeting = members(whole.get(), ["protocolVersion", "supportedVersions"]);
    ensure!(
        !all.is_empty() || greeting.iter().any(Option::is_some),
        "this is no definition, no list of them, no answer to tools/list, initialize or server/discover and no client's \
         configuration"
    );
    Ok(all)
}

/// Members by which a file is a definition: of MCP, and of those that other programs write.
const SCHEMAS: &str = "inputSchema outputSchema input_schema parameters args_schema args schema function";
/// Members of packages, workflows and catalogues, which have descriptions as well.
const OTHERS: &str = "version private dependencies devDependencies scripts jobs on nodes connections services packages require homepage \
    repository license image spec kind apiVersion environment publisher";
/// Members that a definition without one may have, of a tool, a prompt or a resource; and those of a server's words beside it.
const MEMBERS: &str = "name title description icons _meta annotations execution arguments uri uriTemplate mimeType size type strict tags \
    instructions tools prompts resources resourceTemplates";

/// Files of all kinds have a name: a package, a workflow, a catalogue. To find nothing in one would mean nothing.
///
/// # Errors
/// It has other members than definitions have, and no schema: which ones.
fn looks_like_definition(json: &RawValue) -> Result<()> {
    let Ok(Pairs(pairs)) = serde_json::from_str(json.get()) else { return Ok(()) };
    let is_in =
        |list: &str, name: &str| list.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(name));
    let has = |list: &str| pairs.iter().any(|(name, _)| is_in(list, name));
    // Who hides a definition behind a member more is to be read.
    if has(SCHEMAS) || has("description") && !has(OTHERS) {
        return Ok(());
    }
    let other = pairs.iter().map(|(name, _)| name.as_str()).find(|name| !is_in(MEMBERS, name));
    let Some(other) = other else { return Ok(()) };
    bail!(
        "this is no definition and no client's configuration: it has a `name`, but no `inputSchema`, and members that no definition \
         has (`{}`)",
        crate::output::clean(other)
    )
}

/// All that a server says of itself: its instructions, and its lists.
fn of_server(whole: &RawValue) -> Result<Vec<Definition>> {
    let [instructions] = members(whole.get(), ["instructions"]);
    let mut all = Vec::new();
    if let Some(text) = instructions.filter(|text| text.get() != "null") {
        ensure!(decode_str(text.get()).is_some(), "`instructions` is no text");
        all.push(instructions_of(text.get().to_owned()));
    }
    for list in &LISTS {
        let [entries] = members(whole.get(), [list.member]);
        if let Some(entries) = entries {
            let no_list = || format!("`{}` is no list", list.member);
            let entries = serde_json::from_str(entries.get()).with_context(no_list)?;
            all.extend(definitions(list, entries)?);
        }
    }
    Ok(all)
}

/// Definitions as they are; nothing that has no name is one, since to find nothing in it would mean nothing.
fn definitions(of: &List, entries: Vec<&RawValue>) -> Result<Vec<Definition>> {
    let definition = |(index, json): (usize, &RawValue)| {
        let [name] = members(json.get(), [of.name]);
        let name = name.and_then(|name| decode_str(name.get()));
        let name = name.with_context(|| {
            format!("entry {index} of the list is no definition: it has no `{}`", of.name)
        })?;
        Ok(Definition { kind: of.kind, name: name.into_owned(), json: json.get().to_owned() })
    };
    entries.into_iter().enumerate().map(definition).collect()
}

fn declared(found: Found) -> Declared {
    let Found { project, name, json, is_off } = found;
    let entry = Entry::read(&name, &json).map(|entry| entry.switched_off(is_off));
    Declared { project, name, entry }
}

#[cfg(test)]
mod tests;
