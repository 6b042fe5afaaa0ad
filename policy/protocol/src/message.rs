//! A frame into JSON-RPC 2.0 messages; which methods are MCP.
//!
//! Parsing is lazy: `params`, `result` and the like stay text until someone wants them, so that a value nested
//! 10,000 deep neither overflows a stack nor hides the method beside it. It is as tolerant as the readers at
//! the two ends are in practice, since what they accept must not slip by: the last of duplicate keys wins,
//! `jsonrpc` may be missing, bytes that are no UTF-8 become U+FFFD, raw control characters in strings are taken
//! as if they were escaped.

mod arrays;
mod course;
mod id;
mod keys;
mod mend;
mod merge;
pub mod meta;
mod method;
mod object;
mod otherwise;
mod refusal;
mod value;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

use mcpwarden_terms::Direction;

use crate::wide::Wide;

pub use arrays::name_text;
pub use course::{Course, ResultKind, Retry, accepts, entries, of_every_try};
pub use id::{Id, IdKey, MAX_ID_BYTES};
pub use keys::{Respelled, respell};
pub(crate) use mend::BLANKS;
pub use method::Method;
pub use otherwise::Otherwise;
pub use refusal::error_name;
pub use value::{
    Key, all_members, decode_str, every_member, may_have, members, members_once, mend_surrogates,
    repeated_member, string, value, without,
};

/// Most messages in one batch.
pub const MAX_BATCH: usize = 10_000;

/// Why a frame is no JSON-RPC.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Not JSON, or neither an object nor an array.
    #[error("frame of {bytes} bytes is not a JSON object or array: {source}")]
    Json {
        /// Length of the frame.
        bytes: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A batch with too many messages.
    #[error("batch has more than {MAX_BATCH} messages")]
    TooManyMessages,
}

/// What a frame holds.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// Its messages, in order; one unless it is a batch.
    pub messages: SmallVec<[Message<'a>; 1]>,
    /// Whether it is a batch.
    pub batch: bool,
    /// Whether it was not UTF-8 and was read with replacement characters.
    pub lossy: bool,
    /// Whether only tolerant readers take it: it has control characters in strings, numbers that JSON does not have, comments,
    /// a comma behind the last element, or the like.
    pub repaired: bool,
    /// Whether that was more than a number or a control character: whoever wrote it knew that most readers fail on it.
    pub relaxed: bool,
}

impl Parsed<'_> {
    /// Whether any of it is a message.
    pub fn has_message(&self) -> bool {
        self.messages.iter().any(|message| !matches!(message.kind, Kind::Invalid))
    }
}

/// One message.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// What it is, and what it says.
    pub kind: Kind<'a>,
    /// Its JSON text.
    pub raw: &'a str,
    /// Whether it says `"jsonrpc": "2.0"`.
    pub versioned: bool,
    /// A member that means something and stands there twice, or a `result` beside something else. Which of them counts here
    /// does not count for every reader.
    pub repeated: Option<&'static str>,
    /// The id and the `result` of a message that has a method or an error as well: an answer to whoever looks for that first.
    pub beside: Option<(Id<'a>, &'a RawValue)>,
    /// Whether it has members that JSON-RPC has no meaning for: see [`Message::rest`].
    pub has_more: bool,
}

/// The members that JSON-RPC 2.0 gives a meaning.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Members of what messages carry by which the ends read them: what is asked, what is answered.
pub const TELLING: [&str; 30] = [
    "name",
    "arguments",
    "uri",
    "cursor",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "serverInfo",
    "instructions",
    "tools",
    "prompts",
    "resources",
    "resourceTemplates",
    "nextCursor",
    "content",
    "structuredContent",
    "isError",
    "contents",
    "messages",
    "message",
    "data",
    "resultType",
    "inputRequests",
    "inputResponses",
    "requestState",
    "task",
    "taskId",
    "status",
    "result",
    "error",
];

impl Message<'_> {
    /// What stands beside the members that JSON-RPC gives a meaning, as an object; all of what is no message.
    pub fn rest(&self) -> Option<Cow<'_, str>> {
        match self.kind {
            Kind::Invalid => Some(Cow::Borrowed(self.raw)),
            _ => self.has_more.then(|| without(self.raw, &MEMBERS)),
        }
    }

    /// Takes from a message what it cannot mean, coming from this side: a method that only the other side asks for is some
    /// method. Whether it was one.
    pub fn misdirected(&mut self, direction: Direction) -> bool {
        let (Kind::Request { method, .. } | Kind::Notification { method, .. }) = &mut self.kind else {
            return false;
        };
        let wrong = !method.goes(direction);
        if wrong {
            *method = Method::Other(method.as_str().to_owned().into());
        }
        wrong
    }
}

/// What a message is (JSON-RPC 2.0, sections 4 and 5).
#[derive(Clone, Debug)]
pub enum Kind<'a> {
    /// Wants an answer.
    Request {
        /// Its id.
        id: Id<'a>,
        /// What is asked for.
        method: Method<'a>,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// Wants none.
    Notification {
        /// What is told.
        method: Method<'a>,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// Answers a request.
    Response {
        /// The request's id.
        id: Id<'a>,
        /// The answer.
        result: &'a RawValue,
    },
    /// Refuses a request.
    Error {
        /// The request's id; null where it could not be read.
        id: Id<'a>,
        /// `error.code`; 0 where it is no integer.
        code: i64,
        /// `error.message`; empty where it is no string.
        message: Cow<'a, str>,
        /// `error.data`.
        data: Option<&'a RawValue>,
        /// Whether code and message are a number and a text, as JSON-RPC wants them.
        is_regular: bool,
    },
    /// JSON, but no message.
    Invalid,
}

/// Reads a frame. `scratch` is used when the frame cannot be read as it is; what is in it does not matter.
///
/// # Errors
/// The frame is no JSON object or array, or a batch of more than [`MAX_BATCH`] messages. Elements of a batch
/// that are no messages are [`Kind::Invalid`], not errors.
pub fn parse<'a>(frame: &'a [u8], scratch: &'a mut String) -> Result<Parsed<'a>, ProtocolError> {
    let (text, lossy) = match std::str::from_utf8(frame) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => (String::from_utf8_lossy(frame), true),
    };
    // Its NULs are no blanks.
    if Wide::of(frame).is_some()
        && let Err(error) = parse_text(&text)
    {
        return Err(error);
    }
    // The usual case first; the rest has time.
    if let Cow::Borrowed(text) = text {
        match parse_text(text) {
            Err(ProtocolError::Json { .. }) => {}
            outcome => return outcome,
        }
    }
    let mended = mend::mend(&text, scratch);
    let mut parsed = parse_text(scratch)?;
    parsed.lossy = lossy;
    parsed.repaired = mended.any;
    parsed.relaxed = mended.syntax;
    Ok(parsed)
}

/// A frame as JSON for those to whom an escape that JSON does not have is the character itself, where it is another for others.
pub fn with_bare_escapes(frame: &[u8]) -> Option<String> {
    let is_odd = |pair: &[u8]| matches!(pair, [b'\\', b'v' | b'0' | b'x']);
    frame.windows(2).find(|pair| is_odd(pair))?;
    let text = String::from_utf8_lossy(frame);
    let [mut usual, mut bare] = [const { String::new() }; 2];
    mend::mend(&text, &mut usual);
    mend::mend_with(&text, &mut bare, mend::Escapes::Bare);
    (usual != bare).then_some(bare)
}

fn parse_text(text: &str) -> Result<Parsed<'_>, ProtocolError> {
    let failed = |source| ProtocolError::Json { bytes: text.len(), source };
    let mut batch = text.trim_start().starts_with('[');
    let messages = if batch {
        let Batch { items, too_many } = serde_json::from_str(text).map_err(failed)?;
        if too_many {
            return Err(ProtocolError::TooManyMessages);
        }
        let whole = arrays::envelope(&items);
        let each = items.into_iter().map(|item| message(serde_json::from_str(item.get()).ok(), item.get()));
        let Some(whole) = whole else {
            return Ok(Parsed {
                messages: each.collect(),
                batch,
                lossy: false,
                repaired: false,
                relaxed: false,
            });
        };
        let mut messages: SmallVec<_> = each.filter(|item| !matches!(item.kind, Kind::Invalid)).collect();
        batch = !messages.is_empty();
        messages.push(message(Some(whole), text));
        messages
    } else {
        let envelope = serde_json::from_str(text).map_err(failed)?;
        smallvec![message(Some(envelope), text)]
    };
    Ok(Parsed { messages, batch, lossy: false, repaired: false, relaxed: false })
}

/// What an object with these members is. A method makes a request whatever else there is, as the readers see it.
fn message<'a>(envelope: Option<Envelope<'a>>, raw: &'a str) -> Message<'a> {
    let Some(envelope) = envelope else {
        return Message {
            kind: Kind::Invalid,
            raw,
            versioned: false,
            repeated: None,
            beside: None,
            has_more: false,
        };
    };
    let id = envelope.id.map(|id| Id(id.get()));
    let method = envelope.method.and_then(|method| decode_str(method.get())).map(Method::from);
    let params = envelope.params;
    // JSON-RPC 1.0 has `"result": null` beside an error, and `"error": null` beside a result.
    let is_something = |value: &&RawValue| value.get() != "null";
    let is_more = method.is_some() || envelope.error.as_ref().is_some_and(is_something);
    let beside = id.zip(envelope.result.filter(|result| is_more && is_something(result)));
    let kind = match (method, id, envelope.error, envelope.result) {
        (Some(method), Some(id), ..) => Kind::Request { id, method, params },
        (Some(method), None, ..) => Kind::Notification { method, params },
        // Some libraries send `"error": null` beside the result.
        (None, id, Some(error), result) if error.get() != "null" || result.is_none() => {
            let [message, data] = members(error.get(), ["message", "data"]);
            // Some readers take no notice of null.
            let codes = every_member(error.get(), "code").unwrap_or_default();
            let code = codes.into_iter().rev().find_map(whole_number);
            let message = message.and_then(|message| decode_str(message.get()));
            Kind::Error {
                id: id.unwrap_or(Id("null")),
                is_regular: code.is_some() && message.is_some(),
                code: code.unwrap_or(0),
                message: message.unwrap_or_default(),
                data,
            }
        }
        (None, Some(id), _, Some(result)) => Kind::Response { id, result },
        _ => Kind::Invalid,
    };
    let versioned = envelope.jsonrpc.is_some_and(|version| version.get() == "\"2.0\"");
    let repeated = envelope.repeated.or(beside.map(|_| "result"));
    Message { kind, raw, versioned, repeated, beside, has_more: envelope.has_more }
}

/// A whole number as any reader takes it: `-32042`, `-32042.0` (JavaScript, pydantic), `"-32042"` (the web defaults of .NET).
fn whole_number(json: &RawValue) -> Option<i64> {
    let text = decode_str(json.get()).unwrap_or(Cow::Borrowed(json.get()));
    let text = text.trim();
    let whole =
        |number: f64| (number.fract() == 0.0 && number.abs() < 2f64.powi(53)).then_some(number as i64);
    text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
}

/// Whether a request that a client sends first shows that the other side is an MCP server. `initialize` is a
/// language server's too: only MCP has a `protocolVersion` in it. `ping` and `shutdown` are everyone's. Whatever is asked in a
/// revision of MCP is asked of an MCP server.
pub fn is_mcp_opening(message: &Message<'_>) -> bool {
    match &message.kind {
        Kind::Request { method: Method::Initialize, params: Some(params), .. } => {
            let [version] = members(params.get(), ["protocolVersion"]);
            version.is_some_and(|version| version.get().starts_with('"'))
        }
        Kind::Request { method: Method::Initialize, .. } => false,
        Kind::Request { method, params, .. } => {
            method.is_client_request() || meta::RequestMeta::of(*params).protocol_version.is_some()
        }
        _ => false,
    }
}

/// Whether an answer shows by itself that who gives it is an MCP server: that to `initialize`, a list of tools, or the result of
/// a call. A language server answers `initialize` without a `protocolVersion`.
pub fn is_mcp_answer(message: &Message<'_>) -> bool {
    let Kind::Response { result, .. } = &message.kind else { return false };
    let [version, capabilities, tools, content] =
        members(result.get(), ["protocolVersion", "capabilities", "tools", "content"]);
    let starts = |value: Option<&RawValue>, with| value.is_some_and(|value| value.get().starts_with(with));
    let first = |list: Option<&'_ RawValue>, keys| {
        let list: Vec<&RawValue> = serde_json::from_str(list?.get()).ok()?;
        let [one, other]: [Option<&RawValue>; 2] = members(list.first()?.get(), keys);
        Some((one.map(RawValue::get).map(str::to_owned), other.is_some()))
    };
    let is_tool = matches!(first(tools, ["name", "inputSchema"]), Some((Some(_), true)));
    let is_content = first(content, ["type", "text"]).is_some_and(|(kind, _)| {
        kind.is_some_and(|kind| {
            [r#""text""#, r#""image""#, r#""audio""#, r#""resource""#, r#""resource_link""#]
                .contains(&kind.as_str())
        })
    });
    starts(version, '"') && starts(capabilities, '{') || is_tool || is_content
}

/// Whether a message of a server shows by itself that the server is one of MCP: an answer ([`is_mcp_answer`]), or what only MCP
/// servers ask and notify of.
pub fn is_of_mcp_server(message: &Message<'_>) -> bool {
    match &message.kind {
        Kind::Request { method, .. } => {
            matches!(method, Method::SamplingCreateMessage | Method::ElicitationCreate | Method::RootsList)
        }
        Kind::Notification { method, .. } => method.is_mcp(),
        _ => is_mcp_answer(message),
    }
}

/// The members of a message that mean something.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// One of these that stands there twice.
    repeated: Option<&'static str>,
    /// Whether there are others.
    has_more: bool,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            // By hand, since a derived one refuses duplicate keys, and the readers at the ends do not.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                while let Some((key, value)) = map.next_entry::<value::Key<'de>, &'de RawValue>()? {
                    let (name, member) = match &*key.0 {
                        "jsonrpc" => ("jsonrpc", &mut envelope.jsonrpc),
                        "id" => ("id", &mut envelope.id),
                        "method" => ("method", &mut envelope.method),
                        "params" => ("params", &mut envelope.params),
                        "result" => ("result", &mut envelope.result),
                        "error" => ("error", &mut envelope.error),
                        _ => {
                            envelope.has_more = true;
                            continue;
                        }
                    };
                    if member.replace(value).is_some() {
                        envelope.repeated = Some(name);
                    }
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The elements of a batch.
struct Batch<'a> {
    items: Vec<&'a RawValue>,
    too_many: bool,
}

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a batch of JSON-RPC messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut batch = Batch { items: Vec::new(), too_many: false };
                while let Some(item) = seq.next_element()? {
                    batch.too_many = batch.items.len() >= MAX_BATCH;
                    if !batch.too_many {
                        batch.items.push(item);
                    }
                }
                Ok(batch)
            }
        }
        deserializer.deserialize_seq(Items)
    }
}

#[cfg(test)]
mod tests;
