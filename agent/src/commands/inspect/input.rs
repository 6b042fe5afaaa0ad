//! What a file holds: definitions, or the servers that a client's configuration declares.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use mcpwarden_policy::discovery::server_id;
use mcpwarden_policy::protocol::{decode_str, members};
use mcpwarden_policy::redact::{redact_argv, redact_word};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::clients::{self, Found};
use super::forms;
use mcpwarden_client::inspect::{Launch, session::Target, user::Environment, variables::fill};
use mcpwarden_client::{Definition, LISTS, List, TOOLS, instructions_of, secret};

/// Longest file. Bytes.
const MAX_BYTES: u64 = 64 << 20;

/// What a file holds.
#[derive(Debug)]
pub enum Contents {
    /// Definitions, of tools alone or of all that a server says of itself.
    Definitions(Vec<Definition>),
    /// Servers that a client's configuration declares, by name.
    Servers(Vec<Declared>),
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

/// A server of a client's configuration. Unknown keys are the client's, and members that are `null` are as if absent.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Written")]
pub struct Entry {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    is_off: bool,
}

/// An entry as it is written, in the words of any client.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(alias = "cmd")]
    command: Option<Command>,
    args: Option<Vec<Scalar>>,
    #[serde(alias = "environment", alias = "envs")]
    env: Option<BTreeMap<String, Option<Scalar>>>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl", alias = "httpUrl", alias = "uri")]
    url: Option<String>,
    #[serde(alias = "http_headers")]
    headers: Option<BTreeMap<String, Option<Scalar>>>,
    bearer_token_env_var: Option<String>,
    #[serde(alias = "isDisabled")]
    disabled: Option<Scalar>,
    #[serde(alias = "isActive", alias = "active", alias = "isEnabled")]
    enabled: Option<Scalar>,
}

/// A program: by its name, with its arguments, or as Zed wrote it.
enum Command {
    Text(String),
    List(Vec<String>),
    Mapping { path: String, args: Vec<String>, env: BTreeMap<String, String> },
}

/// A text, or what an editor lets stand in place of one: a number, `true` or `false`.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = String;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
                Ok(text.to_owned())
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
                Ok(value.to_string())
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
                Ok(value.to_string())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
                Ok(value.to_string())
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
                Ok(value.to_string())
            }
        }
        deserializer.deserialize_any(Any).map(Self)
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Command;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a program, or a list of its words")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Command, E> {
                Ok(Command::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Command, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(Command::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Command, A::Error> {
                #[derive(Deserialize)]
                struct Mapping {
                    path: String,
                    args: Option<Vec<Scalar>>,
                    env: Option<BTreeMap<String, Option<Scalar>>>,
                }
                let Mapping { path, args, env } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Command::Mapping { path, args: texts(args), env: pairs(env) })
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn texts(list: Option<Vec<Scalar>>) -> Vec<String> {
    list.into_iter().flatten().map(|Scalar(text)| text).collect()
}

fn pairs(map: Option<BTreeMap<String, Option<Scalar>>>) -> BTreeMap<String, String> {
    map.into_iter().flatten().filter_map(|(name, value)| Some((name, value?.0))).collect()
}

impl From<Written> for Entry {
    fn from(written: Written) -> Self {
        let says = |switch: Option<Scalar>, word: &str| {
            switch.is_some_and(|Scalar(text)| text.trim().eq_ignore_ascii_case(word))
        };
        let (mut args, mut env) = (texts(written.args), pairs(written.env));
        let command = match written.command {
            Some(Command::Text(program)) => Some(program),
            Some(Command::List(words)) => {
                let mut words = words.into_iter();
                let program = words.next().unwrap_or_default();
                args.splice(0..0, words);
                Some(program)
            }
            Some(Command::Mapping { path, args: first, env: more }) => {
                args.splice(0..0, first);
                env.extend(more);
                Some(path)
            }
            None => None,
        };
        let mut headers = pairs(written.headers);
        if let Some(variable) = written.bearer_token_env_var {
            headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}"));
        }
        let is_off = says(written.disabled, "true") || says(written.enabled, "false");
        Self { command, args, env, cwd: written.cwd, url: written.url, headers, is_off }
    }
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
    String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8 text"))
}

/// Tells what a file is by what it has: a definition has a name, a list of them is an array or stands under `tools` (or
/// another of [`LISTS`], or beside `instructions`), and a client's configuration has the members of [`clients`].
///
/// # Errors
/// It is none of these.
pub fn contents(text: &str) -> Result<Contents> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = forms::json_of(text)?;
    contents_of(serde_json::from_str(&json)?)
}

fn contents_of(whole: &RawValue) -> Result<Contents> {
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
        return Ok(Contents::Definitions(definitions(&TOOLS, list)?));
    }
    let [result, tools, name] = members(whole.get(), ["result", TOOLS.member, "name"]);
    if let Some(result) = result {
        return contents_of(result);
    }
    if tools.is_some() {
        return Ok(Contents::Definitions(of_server(whole)?));
    }
    if let Some(servers) = clients::servers(whole)? {
        return Ok(Contents::Servers(servers.into_iter().map(declared).collect()));
    }
    // Whatever else is in a definition belongs to it.
    if name.is_some_and(|name| decode_str(name.get()).is_some()) {
        return Ok(Contents::Definitions(definitions(&TOOLS, vec![whole])?));
    }
    let all = of_server(whole)?;
    let greeting = members(whole.get(), ["protocolVersion", "supportedVersions"]);
    ensure!(
        !all.is_empty() || greeting.iter().any(Option::is_some),
        "this is no definition, no list of them, no answer to tools/list, initialize or server/discover and no client's \
         configuration"
    );
    Ok(Contents::Definitions(all))
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
    let entry = serde_json::from_str::<Entry>(json.get()).map_err(|error| {
        // What is there instead of what is expected is quoted.
        let why = redact_word(&error.to_string());
        anyhow!(
            "it is no entry of a client's configuration: {why}; expected {{\"command\": …}} or {{\"url\": …}}"
        )
    });
    let switched = |entry: Entry| Entry { is_off: entry.is_off || is_off, ..entry };
    Declared { project, name, entry: entry.map(switched).and_then(Entry::usable) }
}

/// The id of a server with this command line, without what looks like a secret.
pub fn shown_id(argv: &[String]) -> String {
    let id = server_id(argv, None).to_string();
    let has_it = |words: &[String]| words.iter().any(|word| word.contains(&id));
    // A secret may look like one by the word before it alone.
    if has_it(argv) && !has_it(&redact_argv(argv)) { "***".to_owned() } else { redact_word(&id) }
}

impl Entry {
    /// The entry, if there is something to start or to reach. Whether that is of use only shows with its variables filled
    /// in.
    ///
    /// # Errors
    /// There is not.
    fn usable(self) -> Result<Self> {
        let has_variables = |text: &str| text.contains("${");
        match (&self.command, &self.url) {
            (Some(command), _) => ensure!(!command.is_empty(), "its `command` is empty"),
            (None, Some(url)) if has_variables(url) => {}
            (None, Some(url)) => drop(address(url)?),
            (None, None) => bail!("it has neither `command` nor `url`"),
        }
        Ok(self)
    }

    /// Its command line, or its address.
    pub fn words(&self) -> Vec<String> {
        match (&self.command, &self.url) {
            (Some(command), _) => [command].into_iter().chain(&self.args).cloned().collect(),
            (None, url) => url.iter().cloned().collect(),
        }
    }

    /// Under which id the agent would know it, without what looks like a secret.
    pub fn server_id(&self) -> String {
        let address = self.url.as_ref().filter(|_| self.command.is_none());
        let endpoint = address.and_then(|url| endpoint(&Url::parse(url).ok()?));
        endpoint.unwrap_or_else(|| shown_id(&self.words()))
    }

    /// Whether the client does not use it.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Whether it is started, not reached.
    pub fn is_program(&self) -> bool {
        self.command.is_some() && !self.is_off
    }

    /// How it is reached, with the variables in it filled in.
    ///
    /// # Errors
    /// It is disabled, says too little or something wrong, or a variable cannot be filled in.
    pub fn resolve(self, environment: &Environment) -> Result<Target> {
        let Self { command, args, env, cwd, url, headers, is_off } = self;
        ensure!(!is_off, "it is disabled in this file");
        let fill = |text: String| fill(&text, environment);
        match (command, url) {
            (Some(command), _) => Ok(Target::Program(Launch {
                argv: [command].into_iter().chain(args).map(fill).collect::<Result<_>>()?,
                env: env.into_iter().map(|(name, value)| Ok((name, fill(value)?))).collect::<Result<_>>()?,
                cwd: cwd.map(fill).transpose()?,
            })),
            (None, Some(url)) => {
                let mut map = HeaderMap::new();
                for (name, value) in headers {
                    let place = || format!("header {}", crate::output::clean(&name));
                    let key = HeaderName::from_bytes(name.as_bytes()).with_context(place)?;
                    map.append(key, fill(value).and_then(|value| secret(&value)).with_context(place)?);
                }
                // What was filled in may be a secret.
                let filled = address(&fill(url.clone())?).map_err(|_| no_address(&url))?;
                Ok(Target::Address { url: filled, headers: map })
            }
            (None, None) => bail!("it has neither `command` nor `url`"),
        }
    }
}

/// Reads an address.
///
/// # Errors
/// It is none, or not of HTTP.
pub fn address(text: &str) -> Result<Url> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| no_address(text))
}

/// Host and port: the id of a server on the network that nobody declared to the agent.
fn endpoint(url: &Url) -> Option<String> {
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

fn no_address(text: &str) -> anyhow::Error {
    anyhow!(
        "`{}` is no address that begins with http:// or https://",
        crate::output::clean(&redact_word(text))
    )
}

#[cfg(test)]
mod tests;
