//! What a head says, as far as it matters here. `Authorization`, cookies, keys and queries are not looked at, or do not
//! leave.
//!
//! Where a head can be read in two ways, the two ends may do so and an observer would see only one: two lengths, a
//! length beside the chunks of a request, a coding of the transfer that is not just `chunked`, a session or host named
//! twice. The official clients and servers refuse most of these, and not all of them the same. Such a stream is given up,
//! and that is said. Of an answer, clients that take a length beside chunks go by the chunks; what clients take for
//! different types of content is read as each.

use httparse::{EMPTY_HEADER, Header};

use super::coding::Coding;
use super::mirrored::{Header as Field, Mirrored};
use super::reader::Framing;
use super::{HttpMeta, Uninspected};

/// The methods that mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Delete,
    Head,
    Connect,
    Other,
}

impl Method {
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"POST" => Self::Post,
            b"DELETE" => Self::Delete,
            b"HEAD" => Self::Head,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }
}

/// A request, but its body.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// Of the target where it names one, of `Host` otherwise.
    pub(super) host: Option<&'a str>,
    /// Without the query.
    pub(super) path: &'a str,
    /// Path and query.
    pub(super) target: &'a str,
    pub(super) session: Option<&'a [u8]>,
    /// Whether it accepts server-sent events.
    pub(super) accepts_events: bool,
    /// Whether it asks for the events behind one that it has seen.
    pub(super) resumes: bool,
    /// Whether it waits for leave to send its body.
    pub(super) expects: bool,
    pub(super) coding: Coding,
    pub(super) framing: Framing,
    pub(super) meta: HttpMeta,
    /// Whether fields that matter may be missing: of HTTP/2, where some cannot be read without those before them.
    pub(super) is_partial: bool,
}

/// An answer, but its body.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) session: Option<&'a [u8]>,
    /// What clients may take its body for.
    pub(super) content: ContentType,
    /// Where it sends its client to.
    pub(super) location: Option<&'a str>,
    /// What the server calls the request.
    pub(super) request_id: Option<&'a str>,
    pub(super) coding: Coding,
    pub(super) framing: Framing,
    /// What it switches to, of a 101; `None`: to HTTP/2.
    pub(super) upgrade: Option<Uninspected>,
}

/// What clients may take a body for: they look for a type anywhere in the value, at its beginning, or in the first of
/// several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentType {
    /// JSON, or anything else.
    Json,
    /// Server-sent events.
    Events,
    /// Either.
    Both,
}

/// Longest value of a header in [`HttpMeta`], in bytes; a longer one is left out.
const META_BYTES: usize = 512;
/// Headers in which servers say what they call a request: Anthropic, OpenAI and others, Amazon Bedrock.
const REQUEST_IDS: [&str; 3] = ["request-id", "x-request-id", "x-amzn-requestid"];
/// What the names of headers begin with that repeat a parameter.
const PARAM: &str = "mcp-param-";
/// Most of them that are kept.
const MAX_PARAMS: usize = 32;

/// Whether what looks like the head of a request is how HTTP/2 begins (RFC 9113, section 3.4).
pub(super) fn is_preface(head: &[u8]) -> bool {
    head == b"PRI * HTTP/2.0\r\n\r\n"
}

/// Reads the head of a request.
///
/// # Errors
/// It is none, or can be read in more than one way.
pub(super) fn request(head: &[u8]) -> Result<Request<'_>, Uninspected> {
    let mut headers = room(head);
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(head).map_err(|_| Uninspected::NotHttp)?;
    let method = Method::of(parsed.method.unwrap_or_default().as_bytes());
    let (authority, target) = split_target(parsed.path.unwrap_or_default());
    let fields = Fields { headers: parsed.headers };
    let host = match authority {
        Some(host) => Some(host),
        None => fields.once("host")?.and_then(text),
    };
    let framing = fields.framing(parsed.version)?.unwrap_or(Framing::Length(0));
    fields.request(method, host, target, framing)
}

/// Reads the head of the answer to a request with this method.
///
/// # Errors
/// It is none, or can be read in more than one way.
pub(super) fn answer(head: &[u8], method: Method) -> Result<Answer<'_>, Uninspected> {
    let mut headers = room(head);
    let mut parsed = httparse::Response::new(&mut headers);
    // Clients take a folded line for a blank (RFC 9112, section 5.2).
    let mut reading = httparse::ParserConfig::default();
    reading.allow_obsolete_multiline_headers_in_responses(true);
    reading.parse_response(&mut parsed, head).map_err(|_| Uninspected::NotHttp)?;
    let status = parsed.code.unwrap_or_default();
    let fields = Fields { headers: parsed.headers };
    // RFC 9112, section 6.3.
    let framing = match (method, status) {
        (Method::Head, _) | (_, 100..=199 | 204 | 304) => Framing::Length(0),
        _ if fields.is_chunked(parsed.version) => Framing::Chunked,
        _ => fields.framing(parsed.version)?.unwrap_or(Framing::Close),
    };
    let upgrade = match fields.get("upgrade") {
        Some(value) if value.eq_ignore_ascii_case(b"websocket") => Some(Uninspected::WebSocket),
        Some(value) if value.eq_ignore_ascii_case(b"h2c") => None,
        _ => Some(Uninspected::Tunnel),
    };
    Ok(Answer { upgrade, ..fields.answer(status, framing)? })
}

/// Room for as many headers as there are lines, so that their number needs no bound of its own.
fn room(head: &[u8]) -> Vec<Header<'_>> {
    vec![EMPTY_HEADER; memchr::memchr_iter(b'\n', head).count()]
}

/// The authority of a target in absolute form (RFC 9112, section 3.2.2), and the path and query of any.
fn split_target(target: &str) -> (Option<&str>, &str) {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return (None, target);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    (Some(authority), if path.is_empty() { "/" } else { path })
}

pub(super) fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().filter(|text| !text.is_empty())
}

/// The fields of a head, of either version.
pub(super) struct Fields<'h, 'b> {
    pub(super) headers: &'h [Header<'b>],
}

impl<'b> Fields<'_, 'b> {
    /// What a request says.
    ///
    /// # Errors
    /// It can be read in more than one way.
    pub(super) fn request(
        &self,
        method: Method,
        host: Option<&'b str>,
        target: &'b str,
        framing: Framing,
    ) -> Result<Request<'b>, Uninspected> {
        Ok(Request {
            method,
            host: host.map(|host| host.rsplit('@').next().unwrap_or(host)),
            path: target.split(['?', '#']).next().unwrap_or_default(),
            target,
            session: self.once("mcp-session-id")?,
            accepts_events: self.any("accept", "text/event-stream"),
            resumes: self.get("last-event-id").is_some(),
            expects: self.any("expect", "100-continue"),
            coding: self.coding(),
            framing,
            meta: HttpMeta {
                protocol_version: self.meta("mcp-protocol-version"),
                traceparent: self.meta("traceparent"),
                tracestate: self.meta("tracestate"),
                user_agent: self.meta("user-agent"),
                mirrored: self.mirrored(),
            },
            is_partial: false,
        })
    }

    /// What an answer says.
    ///
    /// # Errors
    /// It can be read in more than one way.
    pub(super) fn answer(&self, status: u16, framing: Framing) -> Result<Answer<'b>, Uninspected> {
        let is = |word| self.any("content-type", word);
        Ok(Answer {
            status,
            session: self.once("mcp-session-id")?,
            content: match (is("text/event-stream"), is("json")) {
                (false, _) => ContentType::Json,
                (true, false) => ContentType::Events,
                (true, true) => ContentType::Both,
            },
            location: self.get("location").and_then(text),
            request_id: REQUEST_IDS
                .iter()
                .find_map(|name| self.get(name))
                .filter(|value| value.len() <= META_BYTES)
                .and_then(text),
            coding: self.coding(),
            framing,
            upgrade: None,
        })
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value.trim_ascii())
    }

    /// What the body is to say as well.
    fn mirrored(&self) -> Mirrored {
        let names = self.headers.iter().map(|header| header.name.to_ascii_lowercase());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(PARAM)).collect();
        names.sort();
        names.dedup();
        let field = |name: &str| Field::of(self.all(name));
        let param = |name: &String| Some((name.get(PARAM.len()..)?.into(), field(name)?));
        Mirrored {
            method: field("mcp-method"),
            name: field("mcp-name"),
            protocol_version: field("mcp-protocol-version"),
            params: names.iter().take(MAX_PARAMS).filter_map(param).collect(),
            has_more_params: names.len() > MAX_PARAMS,
            has_session: self.all("mcp-session-id").next().is_some(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'b [u8]> {
        self.all(name).next()
    }

    /// The value of a header that must not have two.
    pub(super) fn once(&self, name: &str) -> Result<Option<&'b [u8]>, Uninspected> {
        let mut values = self.all(name);
        let first = values.next();
        // What a folded line means depends on the reader.
        let is_folded = first.is_some_and(|value| value.contains(&b'\n'));
        match values.all(|value| Some(value) == first) && !is_folded {
            true => Ok(first),
            false => Err(Uninspected::Ambiguous),
        }
    }

    /// Whether one of its values holds this word, given in lower case.
    fn any(&self, name: &str, word: &str) -> bool {
        self.all(name)
            .any(|value| value.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes())))
    }

    fn meta(&self, name: &str) -> Option<Box<str>> {
        let value = self.get(name).filter(|value| value.len() <= META_BYTES)?;
        text(value).map(Box::from)
    }

    fn coding(&self) -> Coding {
        Coding::of(self.all("content-encoding"))
    }

    /// Whether the body is in chunks, and nothing else is said of its transfer but perhaps a length, which then does not
    /// count (RFC 9112, section 6.3).
    fn is_chunked(&self, version: Option<u8>) -> bool {
        let mut codings = self.all("transfer-encoding");
        let is_chunked = codings.next().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
        version == Some(1) && is_chunked && codings.next().is_none()
    }

    /// How the body is framed; `None`: nothing says so.
    fn framing(&self, version: Option<u8>) -> Result<Option<Framing>, Uninspected> {
        // The lines are one list; the same length again says nothing new (RFC 9110, section 8.6).
        let mut lengths = self.all("content-length").flat_map(|line| line.split(|byte| *byte == b','));
        let length = lengths.next().map(<[u8]>::trim_ascii);
        if !lengths.all(|other| Some(other.trim_ascii()) == length) {
            return Err(Uninspected::Ambiguous);
        }
        match (self.all("transfer-encoding").next(), length) {
            (None, None) => Ok(None),
            (None, Some(length)) => {
                let digits = text(length).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let length = digits.and_then(|digits| digits.parse().ok()).ok_or(Uninspected::Ambiguous)?;
                Ok(Some(Framing::Length(length)))
            }
            (Some(_), None) if self.is_chunked(version) => Ok(Some(Framing::Chunked)),
            _ => Err(Uninspected::Ambiguous),
        }
    }
}
