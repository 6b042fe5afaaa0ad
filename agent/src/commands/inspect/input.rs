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
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

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
    /// What the client calls it.
    pub name: String,
    /// What the client is told of it; otherwise, why that is of no use.
    pub entry: Result<Entry>,
}

/// A server of a client's configuration, as it is written there. Unknown keys are the client's.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Entry {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
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
/// another of [`LISTS`], or beside `instructions`), a client's configuration has `mcpServers` or `servers`.
///
/// # Errors
/// It is none of these.
pub fn contents(text: &str) -> Result<Contents> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole: &RawValue = serde_json::from_str(text).context("this is no JSON")?;
    if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(whole.get()) {
        return Ok(Contents::Definitions(definitions(&TOOLS, list)?));
    }
    let [result, tools, servers, more_servers, settings, name] =
        members(whole.get(), ["result", TOOLS.member, "mcpServers", "servers", "mcp", "name"]);
    if let Some(result) = result {
        return contents(result.get());
    }
    if tools.is_some() {
        return Ok(Contents::Definitions(of_server(whole)?));
    }
    // Among an editor's settings they stand one level deeper.
    let deeper = settings.and_then(|settings| {
        let [servers] = members(settings.get(), ["servers"]);
        servers
    });
    if let Some(servers) = servers.or(more_servers).or(deeper) {
        let Pairs(servers) = serde_json::from_str(servers.get()).context("the servers are no mapping")?;
        return Ok(Contents::Servers(servers.into_iter().map(declared).collect()));
    }
    // Whatever else is in a definition belongs to it.
    if name.is_some_and(|name| decode_str(name.get()).is_some()) {
        return Ok(Contents::Definitions(definitions(&TOOLS, vec![whole])?));
    }
    let all = of_server(whole)?;
    let [greeting] = members(whole.get(), ["protocolVersion"]);
    ensure!(
        !all.is_empty() || greeting.is_some(),
        "this is no definition, no list of them, no answer to tools/list or initialize and no client's configuration"
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

/// The members of an object in the order of the file: of two that have one name the first had it first, and which of them a
/// client goes by is its own business.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Each).map(Self)
    }
}

fn declared((name, server): (String, &RawValue)) -> Declared {
    let entry = serde_json::from_str(server.get()).map_err(|error| {
        // What is there instead of what is expected is quoted.
        let why = redact_word(&error.to_string());
        anyhow!(
            "it is no entry of a client's configuration: {why}; expected {{\"command\": …}} or {{\"url\": …}}"
        )
    });
    Declared { name, entry: entry.and_then(Entry::usable) }
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

    /// Whether it is started, not reached.
    pub fn is_program(&self) -> bool {
        self.command.is_some() && !self.disabled
    }

    /// How it is reached, with the variables in it filled in.
    ///
    /// # Errors
    /// It is disabled, says too little or something wrong, or a variable cannot be filled in.
    pub fn resolve(self, environment: &Environment) -> Result<Target> {
        let Self { command, args, env, cwd, url, headers, disabled } = self;
        ensure!(!disabled, "it is disabled in this file");
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
mod tests {
    use mcpwarden_policy::registry::ItemKind;

    use super::*;

    #[test]
    fn input_file_kind_follows_its_content() {
        let cases = [
            (r#"{"name":"a"}"#, Ok("a")),
            (r#"[{"name":"a"},{"name":"b"}]"#, Ok("a b")),
            (r#"{"tools":[{"name":"a"}]}"#, Ok("a")),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#, Ok("")),
            (r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"]}}}"#, Ok("a=npx -y x")),
            (r#"{"servers":{"b":{"command":"x"},"a":{"command":"y"}}}"#, Ok("b=x a=y")),
            (r#"{"mcp":{"servers":{"a":{"command":"x"}},"inputs":[]},"editor.fontSize":12}"#, Ok("a=x")),
            (r#"{"mcp":5}"#, Err("no definition")),
            // Two servers of one name are two.
            (
                r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"},"a":{"command":"z"}}}"#,
                Ok("a=x b=y a=z"),
            ),
            // All that a server says of itself, or some of it.
            (
                r#"{"tools":[{"name":"a"}],"instructions":"i","prompts":[{"name":"p"}],"resourceTemplates":[{"uriTemplate":"u","name":"n"}]}"#,
                Ok("Instructions: a Prompt:p ResourceTemplate:u"),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s"},"instructions":"i"}}"#,
                Ok("Instructions:"),
            ),
            (r#"{"prompts":[{"name":"p"}],"instructions":null}"#, Ok("Prompt:p")),
            (r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#, Ok("")),
            // A definition, and a client's configuration, may have more in them.
            (r#"{"name":"a","instructions":"i","prompts":[]}"#, Ok("a")),
            (r#"{"mcpServers":{"a":{"command":"x"}},"instructions":["x.md"]}"#, Ok("a=x")),
            (r#"{"tools":[],"prompts":5}"#, Err("`prompts` is no list")),
            (r#"{"tools":[],"instructions":5}"#, Err("`instructions` is no text")),
            (r#"{"tools":[],"resourceTemplates":[{"name":"n"}]}"#, Err("it has no `uriTemplate`")),
            ("{", Err("no JSON")),
            ("{}", Err("no definition")),
            ("\u{feff}{\"name\":\"a\"}\r\n", Ok("a")),
            ("[]", Ok("")),
            (r#"{"tools":5}"#, Err("no list")),
            (r#"[{"name":"a"},{"description":"b"}]"#, Err("entry 1 of the list is no definition")),
            (r#"[1]"#, Err("no definition")),
            (r#"[[]]"#, Err("no definition")),
            (r#"{"tools":["a"]}"#, Err("no definition")),
            ("5", Err("no definition")),
        ];
        for (text, expected) in cases {
            let reported = match contents(text) {
                Ok(Contents::Definitions(all)) => {
                    let reported = |one: Definition| match one.kind {
                        ItemKind::Tool => one.name,
                        kind => format!("{kind:?}:{}", one.name),
                    };
                    Ok(all.into_iter().map(reported).collect::<Vec<_>>().join(" "))
                }
                Ok(Contents::Servers(servers)) => {
                    let words = servers.iter().map(|server| {
                        let words = server.entry.as_ref().map(Entry::words).unwrap_or_default();
                        format!("{}={}", server.name, words.join(" "))
                    });
                    Ok(words.collect::<Vec<_>>().join(" "))
                }
                Err(error) => Err(format!("{error:#}")),
            };
            match (&reported, expected) {
                (Ok(reported), Ok(expected)) => assert_eq!(reported, expected, "{text}"),
                (Err(reported), Err(expected)) => assert!(reported.contains(expected), "{text}: {reported}"),
                _ => panic!("{text}: {reported:?}"),
            }
        }
    }

    #[test]
    fn client_config_servers_are_parsed() {
        let program = |argv: &[&str], env: &[(&str, &str)]| {
            Ok(Target::Program(Launch {
                argv: argv.iter().map(ToString::to_string).collect(),
                env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
                cwd: None,
            }))
        };
        let url = |url: &str, headers: &[(&'static str, &str)]| {
            let headers =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), secret(value).unwrap()));
            Ok(Target::Address { url: url.parse().unwrap(), headers: headers.collect() })
        };
        let environment = Environment::from([("X".into(), "x:y".into())]);
        let cases = [
            (
                r#"{"command":"${X}","args":["a${env:X}"],"env":{"${X}":"${X}"}}"#,
                program(&["x:y", "ax:y"], &[("${X}", "x:y")]),
            ),
            (
                r#"{"url":"http://${X}@h/${X}","headers":{"X-Key":"${X}"}}"#,
                url("http://x:y@h/x:y", &[("x-key", "x:y")]),
            ),
            (r#"{"command":"a","cwd":"${NONE}"}"#, Err("NONE is not set")),
            (
                r#"{"url":"http://x","headers":{"k":"${input:k}"}}"#,
                Err("header k: `${input:k}`: only the client"),
            ),
            (r#"{"url":"${X}"}"#, Err("`${X}` is no address")),
            (r#"{"command":"a","args":["b"],"env":{"K":"v"}}"#, program(&["a", "b"], &[("K", "v")])),
            (r#"{"type":"stdio","command":"a","unknown":[1]}"#, program(&["a"], &[])),
            (r#"{"url":"http://x/mcp","headers":{"X-Key":"s"}}"#, url("http://x/mcp", &[("x-key", "s")])),
            (r#"{"serverUrl":"https://x/"}"#, url("https://x/", &[])),
            (r#"{"url":"file:///x"}"#, Err("begins with http")),
            (r#"{"url":"http://x","headers":{"a b":"s"}}"#, Err("header a b")),
            (r#"{"command":"a","disabled":true}"#, Err("disabled")),
            (r#"{"args":[]}"#, Err("neither")),
            (r#"{"command":""}"#, Err("`command` is empty")),
            (r#"{"url":"https://u:hidden@"}"#, Err("`https://u:***@` is no address")),
            (r#"{"command":5}"#, Err("invalid type")),
            (r#"{"command":"a","command":"b"}"#, Err("duplicate field `command`")),
            (r#"{"command":"a","args":"--token=hidden x"}"#, Err("invalid type: string \"--token=***\"")),
            (r#""https://u:hidden@h/""#, Err("https://u:***@h/")),
            ("5", Err("invalid type")),
        ];
        for (text, expected) in cases {
            let declared = declared(("x".into(), serde_json::from_str(text).unwrap()));
            match (declared.entry.and_then(|entry| entry.resolve(&environment)), expected) {
                (Ok(resolve), Ok(expected)) => assert_eq!(resolve, expected, "{text}"),
                (Err(error), Err(part)) => assert!(format!("{error:#}").contains(part), "{text}: {error:#}"),
                (resolve, _) => panic!("{text}: {resolve:?}"),
            }
        }
    }
}
