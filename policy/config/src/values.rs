//! Values that are more than a number or a text, each written in one form that can be checked.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expression::Expression;
use super::texts::{Directory, HostGlob, Pointer};
pub use mcpwarden_terms::Moment;
use mcpwarden_terms::glob::{self, GlobError, NameGlob};
use mcpwarden_terms::{Address, Hash, Host, as_text, checked_text, hexadecimal};

/// A form that texts are checked against.
pub(super) struct Format {
    /// Its name in the schema.
    pub name: &'static str,
    /// What is expected, for people.
    pub expected: &'static str,
    /// What is wrong with a text; `Ok` for what has that form.
    pub check: fn(&str) -> Result<(), String>,
}

/// Every form.
pub(super) const FORMATS: &[Format] = &[
    Format { name: "size", expected: "a size such as 4096, 64KiB or 2GiB", check: is::<Bytes> },
    Format { name: "duration", expected: "a duration such as 500ms, 30s, 5m or 30d", check: is::<Period> },
    Format {
        name: "address",
        expected: "an address: a name, an IP address, a CIDR block or *, with :port or without",
        check: is::<Address>,
    },
    Format {
        name: "host",
        expected: "a name, an IP address, a CIDR block or *, without a port",
        check: is::<Host>,
    },
    Format {
        name: "listen",
        expected: "an IP address and a port such as 127.0.0.1:9464",
        check: is::<SocketAddr>,
    },
    Format { name: "glob", expected: "a glob: `*`, `?`, `[…]`, `{a,b}`", check: is::<Glob> },
    Format {
        name: "regex",
        expected: "a regular expression (no look-around, no back-references)",
        check: is::<Pattern>,
    },
    Format {
        name: "hash",
        expected: "64 hexadecimal digits, with `sha256:` before them or without",
        check: is::<Hash>,
    },
    Format {
        name: "fingerprint",
        expected: "`sha256:` or `spki-sha256:` and 64 hexadecimal digits",
        check: is::<Fingerprint>,
    },
    Format { name: "http-url", expected: "a URL that begins with http:// or https://", check: is::<HttpUrl> },
    Format {
        name: "json-pointer",
        expected: "a JSON Pointer such as /path or /items/*/url",
        check: is::<Pointer>,
    },
    Format {
        name: "host-glob",
        expected: "a host: a glob on names, an IP address or a CIDR block",
        check: is::<HostGlob>,
    },
    Format { name: "directory", expected: "an absolute path of a directory, or `.`", check: is::<Directory> },
    Format { name: "cel", expected: "a CEL expression", check: is::<Expression> },
    Format {
        name: "moment",
        expected: "a date such as 2026-01-31, or a time such as 2026-01-31T10:00:00Z",
        check: is::<Moment>,
    },
    Format { name: "path", expected: "an absolute path", check: is::<AbsolutePath> },
    Format {
        name: "secret-file",
        expected: "an absolute path, or `credential:` and the name of a credential of the systemd unit",
        check: is::<SecretFile>,
    },
];

fn is<T: FromStr>(text: &str) -> Result<(), String>
where
    T::Err: fmt::Display,
{
    text.parse::<T>().map(|_| ()).map_err(|error| error.to_string())
}

/// Compiled size of a regular expression at most. Bytes.
const REGEX_BYTES: usize = 256 << 10;

/// One of two verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllowDeny {
    /// It is allowed.
    #[default]
    Allow,
    /// It is denied.
    Deny,
}

checked_text!(
    /// A glob in which `*` matches any characters, `/` too; `?`, `[…]`, `{a,b}`.
    Glob, "glob", glob::check
);

impl Glob {
    /// The two globs of `SERVER:TOOL`, or of a tool's id, `mcp:SERVER:TOOL`; a tool alone is every server's. A server's id
    /// may have colons, as an address has; a colon in brackets or braces is the glob's own.
    pub fn server_and_tool(&self) -> (Self, Self) {
        self.halves().unwrap_or_else(|| (Self::of("*"), self.clone()))
    }

    fn halves(&self) -> Option<(Self, Self)> {
        let text = self.0.strip_prefix("mcp:").unwrap_or(&self.0);
        let mut depth = 0u32;
        let mut last = None;
        for (at, character) in text.char_indices() {
            match character {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                ':' if depth == 0 => last = Some(at),
                _ => {}
            }
        }
        let (server, tool) = text.split_at_checked(last?)?;
        Some((server.parse().ok()?, tool.get(1..)?.parse().ok()?))
    }

    /// The glob, compiled.
    ///
    /// # Errors
    /// It is none, which cannot be: it was checked.
    pub fn compile(&self, case_sensitive: bool) -> Result<NameGlob, GlobError> {
        NameGlob::new(self.as_str(), case_sensitive)
    }
}

checked_text!(
    /// A regular expression of the crate `regex`: linear time on every input.
    Pattern, "regex", pattern
);

/// Whether a text is such an expression, and what is wrong with it.
fn pattern(text: &str) -> Result<(), String> {
    regex_syntax::Parser::new().parse(text).map_err(|error| match error {
        // Of an error at a place, what it is: its own text draws the pattern with a mark under that.
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    })?;
    match regex::RegexBuilder::new(text).size_limit(REGEX_BYTES).build() {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => Err("it is too big".into()),
        Err(error) => Err(error.to_string()),
    }
}

checked_text!(
    /// A certificate's fingerprint: `sha256:` (of the certificate) or `spki-sha256:` (of its key) and 64 hexadecimal
    /// digits.
    Fingerprint, "fingerprint", |text| hexadecimal(text, &["spki-sha256:", "sha256:"])
);

checked_text!(
    /// A URL that begins with `http://` or `https://`.
    HttpUrl, "http-url", |text| {
        let uri = fluent_uri::Uri::parse(text).map_err(|error| error.to_string())?;
        let host = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or("it names no host")?;
        if host.userinfo().is_some() {
            return Err("a user and a password have no place in it; use `headers_from`".into());
        }
        url_address(text).map(|_| ())
    }
);

impl HttpUrl {
    /// Where it leads: the host, and the port that it names or that its scheme has. `None` is of no URL that was checked.
    pub fn address(&self) -> Option<Address> {
        url_address(self.as_str()).ok()
    }

    /// Whether what is said there goes over the wire as it is.
    pub fn is_plain(&self) -> bool {
        self.as_str().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"))
    }

    /// Its path, `/` at least, without the query.
    pub fn path(&self) -> &str {
        let uri = fluent_uri::Uri::parse(self.as_str()).ok();
        uri.map(|uri| uri.path().as_str()).filter(|path| !path.is_empty()).unwrap_or("/")
    }

    /// What of it tells servers apart: scheme, host, port, path and query, in one form.
    pub(super) fn endpoint(&self) -> String {
        let rest = self.as_str().splitn(4, '/').nth(3).unwrap_or_default();
        let rest = rest.split('#').next().unwrap_or_default();
        let tls = self.as_str().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let address = self.address().map(|address| address.to_string()).unwrap_or_default();
        format!("{tls} {address}/{rest}")
    }
}

/// Where an HTTP URL leads.
fn url_address(text: &str) -> Result<Address, String> {
    let uri = fluent_uri::Uri::parse(text).map_err(|error| error.to_string())?;
    let port = match uri.scheme().as_str().to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        other => return Err(format!("its scheme is {other}")),
    };
    let authority = uri.authority().ok_or("it names no host")?;
    let port = match authority.port() {
        Some(digits) if !digits.is_empty() => digits.as_str().to_owned(),
        _ => port.to_string(),
    };
    let address: Address = format!("{}:{port}", authority.host()).parse()?;
    match &address.host {
        Host::Name(_) => Ok(address),
        Host::Block(block) if block.only().is_some() => Ok(address),
        _ => Err(format!("{} is not one host", authority.host())),
    }
}

checked_text!(
    /// Where a secret stands: a path from the root, or `credential:` and the name of a file in `$CREDENTIALS_DIRECTORY`
    /// (systemd.exec(5), `LoadCredential=`).
    SecretFile, "secret-file", |text| match text.strip_prefix("credential:") {
        Some("" | "." | "..") => Err("it names no credential".into()),
        Some(name) if name.contains('/') => Err("a credential's name has no / in it".into()),
        None if !text.starts_with('/') => Err("it does not begin with / or `credential:`".into()),
        _ => Ok(()),
    }
);

checked_text!(
    /// A path from the root: the agent's working directory is nobody's business.
    AbsolutePath, "path", |text| if text.starts_with('/') { Ok(()) } else { Err("it does not begin with /".into()) }
);

/// A number of bytes. Written as a whole number or with a unit: `64KiB`, `2GiB`; `1MB` is 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// In the order in which they are tried for writing.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: u64 = number.parse().map_err(|_| "it does not begin with a number below 2^64")?;
        let factor = match unit.trim_start() {
            "" => 1,
            unit => UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))
                .map(|(_, factor)| *factor)
                .ok_or("the units are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB")?,
        };
        number.checked_mul(factor).map(Self).ok_or("it is 2^64 or more")
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().take(4).find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor));
        match unit {
            Some((name, factor)) => write!(formatter, "{}{name}", self.0 / factor),
            None => write!(formatter, "{}", self.0),
        }
    }
}

as_text!(Bytes, "size", ["integer", "string"]);

/// A length of time, written with its unit: `500ms`, `30s`, `5m`, `30d`. At most ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

const LONGEST: Duration = Duration::from_secs(3_650 * 86_400);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
        if duration > LONGEST { Err("it is longer than ten years".into()) } else { Ok(Self(duration)) }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let units = [
            ("d", 86_400_000_000_000),
            ("h", 3_600_000_000_000),
            ("m", 60_000_000_000),
            ("s", 1_000_000_000),
        ];
        let smaller = [("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        let mut fitting =
            units.iter().chain(&smaller).filter(|(_, factor)| nanoseconds.is_multiple_of(*factor));
        match fitting.next() {
            _ if nanoseconds == 0 => formatter.write_str("0s"),
            Some((name, factor)) => write!(formatter, "{}{name}", nanoseconds / factor),
            None => Ok(()),
        }
    }
}

as_text!(Period, "duration", "string");
