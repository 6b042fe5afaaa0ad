//! One server as a client's configuration declares it, in the words of any client.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use mcpwarden_client::inspect::{Launch, session::Target, user::Environment, variables::fill};
use mcpwarden_client::secret;
use mcpwarden_policy::discovery::{self, shown_id};
use mcpwarden_policy::redact::redact_word;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::pairs::Pairs;

/// A server of a client's configuration.
#[derive(Debug, Default)]
pub struct Entry {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    is_off: bool,
    /// The member with a second target, which a client may take instead.
    unused: Option<&'static str>,
}

/// An entry as it is written. Of a member that stands there twice clients take the last.
#[derive(Default)]
struct Written {
    command: Option<Command>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    /// The address of a client that has two members for one: Gemini CLI goes by this.
    http_url: Option<String>,
    headers: BTreeMap<String, String>,
    bearer_token_env_var: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    is_disabled: bool,
    is_switched_off: bool,
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
                let words = Deserialize::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Command::List(texts(words)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Command, A::Error> {
                #[derive(Deserialize)]
                struct Mapping {
                    path: String,
                    args: Option<Vec<Option<Scalar>>>,
                    env: Option<BTreeMap<String, Option<Scalar>>>,
                }
                let Mapping { path, args, env } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Command::Mapping {
                    path,
                    args: texts(args.unwrap_or_default()),
                    env: pairs(env.unwrap_or_default()),
                })
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// Headers: by name, or in a list of lines (mcphost) or of names and values.
struct Headers(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Line {
            Text(String),
            Pair {
                #[serde(alias = "key")]
                name: String,
                value: Option<Scalar>,
            },
        }
        // What is no header may be a secret, and is not quoted.
        fn expected<E: Error>() -> E {
            E::custom("an entry is neither `NAME: VALUE` nor a name and a value")
        }
        fn line<E: Error>(text: &str) -> Result<(String, String), E> {
            let (name, value) = text.split_once(':').ok_or_else(expected)?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = BTreeMap<String, String>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("headers by name, or lines of them")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                text.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(pairs)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut headers = BTreeMap::new();
                while let Some(entry) = list.next_element::<&RawValue>()? {
                    match serde_json::from_str(entry.get()).map_err(|_| expected::<A::Error>())? {
                        Line::Text(text) => headers.extend([line::<A::Error>(&text)?]),
                        Line::Pair { name, value } => {
                            headers.extend(value.map(|Scalar(value)| (name, value)));
                        }
                    }
                }
                Ok(headers)
            }
        }
        deserializer.deserialize_any(Any).map(Self)
    }
}

fn texts(list: Vec<Option<Scalar>>) -> Vec<String> {
    list.into_iter().flatten().map(|Scalar(text)| text).collect()
}

fn pairs(map: BTreeMap<String, Option<Scalar>>) -> BTreeMap<String, String> {
    map.into_iter().filter_map(|(name, value)| Some((name, value?.0))).collect()
}

/// A member's value.
///
/// # Errors
/// It is of another kind; says which member.
fn read<T: DeserializeOwned>(name: &str, value: &RawValue) -> Result<T> {
    serde_json::from_str(value.get()).map_err(|error| anyhow!("`{name}`: {}", without_place(&error)))
}

/// A mistake without its place, which is that in an entry by itself and not in the file.
fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.split(" at line ").next().unwrap_or_default().to_owned()
}

impl Written {
    /// The members of an entry; `null` is as if absent, and unknown members are the client's.
    fn read(json: &RawValue) -> Result<Self> {
        let mut written = Self::default();
        written.add(json, true)?;
        Ok(written)
    }

    fn add(&mut self, json: &RawValue, is_whole: bool) -> Result<()> {
        // An address alone (OpenHands).
        if let Some(url) = serde_json::from_str::<String>(json.get()).ok().filter(|text| text.contains("://"))
        {
            self.url = Some(url);
            return Ok(());
        }
        let Pairs(members) =
            serde_json::from_str(json.get()).map_err(|error| anyhow!("{}", without_place(&error)))?;
        for (name, value) in members.iter().filter(|(_, value)| value.get() != "null") {
            let says = |word: &str| {
                let said = serde_json::from_str(value.get());
                said.is_ok_and(|Scalar(text)| text.trim().eq_ignore_ascii_case(word))
            };
            // Clients in C# and Go take a name in any case.
            match name.to_ascii_lowercase().as_str() {
                "command" | "cmd" => self.command = Some(read(name, value)?),
                "args" => self.args = texts(read(name, value)?),
                "env" | "environment" | "envs" => self.env = pairs(read(name, value)?),
                "cwd" | "workingdirectory" | "working_directory" => self.cwd = Some(read(name, value)?),
                "httpurl" => self.http_url = Some(read(name, value)?),
                "url" | "serverurl" | "uri" | "baseurl" => self.url = Some(read(name, value)?),
                // An address, or a command line (fast-agent).
                "target" => {
                    let target: String = read(name, value)?;
                    if target.contains("://") {
                        self.url = Some(target);
                    } else {
                        self.command = Some(Command::List(discovery::words(&target)));
                    }
                }
                "headers" | "http_headers" => {
                    let Headers(headers) = read(name, value)?;
                    self.headers = headers;
                }
                "bearer_token_env_var" => self.bearer_token_env_var = Some(read(name, value)?),
                // Continue's older form has the program within.
                "transport" if is_whole && value.get().starts_with('{') => self.add(value, false)?,
                "type" => self.kind = serde_json::from_str(value.get()).ok(),
                "name" => self.name = serde_json::from_str(value.get()).ok(),
                "disabled" | "isdisabled" => {
                    self.is_disabled = ["true", "1", "yes", "on"].into_iter().any(says);
                }
                "enabled" | "isenabled" | "isactive" | "active" => {
                    self.is_switched_off = ["false", "0", "no", "off"].into_iter().any(says);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl From<Written> for Entry {
    fn from(written: Written) -> Self {
        let Written { mut command, mut args, mut env, cwd, url, http_url, mut headers, .. } = written;
        let mut unused = (http_url.is_some() && url.is_some() && http_url != url).then_some("url");
        let url = http_url.or(url);
        // Of an entry with both, the transport says which a client takes.
        let is_remote = written.kind.is_some_and(|kind| {
            let kind = kind.to_ascii_lowercase();
            ["http", "sse", "remote", "websocket"].iter().any(|remote| kind.contains(remote))
        });
        if command.is_some() && url.is_some() {
            unused = Some(if is_remote { "command" } else { "url" });
            command = command.filter(|_| !is_remote);
        }
        let is_off = written.is_disabled || written.is_switched_off;
        let command = match command {
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
        if let Some(variable) = written.bearer_token_env_var {
            headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}"));
        }
        Self { command, args, env, cwd, url, headers, is_off, unused }
    }
}

impl Entry {
    /// Reads the entry of a server by its name in the configuration.
    ///
    /// # Errors
    /// It is none, or has nothing to start or to reach.
    pub fn read(name: &str, json: &RawValue) -> Result<Self> {
        let mut written = Written::read(json).map_err(|error| {
            // What is there instead of what is expected is quoted.
            let why = redact_word(&format!("{error:#}"));
            anyhow!(
                "it is no entry of a client's configuration: {why}; expected {{\"command\": …}} or {{\"url\": …}}"
            )
        })?;
        // A server that comes with Goose is a command of it.
        if written.kind.as_deref() == Some("builtin") && written.command.is_none() {
            let words = ["goose", "mcp", written.name.as_deref().unwrap_or(name)];
            written.command = Some(Command::List(words.map(str::to_owned).to_vec()));
        }
        Self::from(written).usable()
    }

    /// The same server, switched off by a list of names.
    pub fn switched_off(self, is_off: bool) -> Self {
        Self { is_off: self.is_off || is_off, ..self }
    }

    /// The entry, if there is something to start or to reach. Whether that is of use only shows with its variables filled
    /// in.
    ///
    /// # Errors
    /// There is not.
    fn usable(self) -> Result<Self> {
        // Of clients, of shells, and of those who make files from templates.
        let has_variables = |text: &str| {
            text.starts_with('$')
                || ["${", "{{", "{env:", "{file:", "<"].iter().any(|begin| text.contains(begin))
        };
        match (&self.command, &self.url) {
            (Some(command), _) => ensure!(!command.is_empty(), "its `command` is empty"),
            (None, Some(url)) if has_variables(url) => {}
            (None, Some(url)) => drop(address(url)?),
            // A switch for a server that another file has (opencode).
            (None, None) if self.is_off => {}
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
        let words: Vec<String> = self.words().iter().map(|word| separated(word)).collect();
        endpoint.unwrap_or_else(|| shown_id(&words))
    }

    /// The member with a second target, which a client may take instead of the first.
    pub fn unused(&self) -> Option<&'static str> {
        self.unused
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
        let Self { command, args, env, cwd, url, headers, is_off, .. } = self;
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

/// A word with the separator of paths in place of its variables (VS Code, Gemini CLI).
fn separated(word: &str) -> String {
    ["${/}", "${pathSeparator}"].iter().fold(word.to_owned(), |word, name| word.replace(name, "/"))
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
