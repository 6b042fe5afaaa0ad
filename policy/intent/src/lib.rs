//! What goes between a client and the API of a model, as far as tools go: which tools the client offers, which of them the
//! model wants to be called and with which arguments, what the provider of the model calls itself, and which results the
//! model is given. It is no client and no proxy, and knows no hosts: a dialect shows by its form. Its two most important
//! types are [`Answer`], which takes the bytes of an answer at any cut, and [`Request`], what a request says.
//!
//! | dialect | whole | streamed |
//! |---|---|---|
//! | Anthropic Messages | a message | server-sent events; event streams of Amazon Bedrock |
//! | OpenAI Chat Completions, and those who speak it | a completion | server-sent events |
//! | OpenAI Responses | a response | server-sent events |
//! | Gemini generateContent | an answer | server-sent events, or one array of JSON |
//! | Bedrock Converse | an answer | event streams (`application/vnd.amazon.eventstream`) |
//!
//! **Nothing of what people and models say to each other is kept or handed on**: no prompt, no text of an answer, no content
//! of a result. Of results there is their size and a hash. Arguments are handed on, whole and once, and are kept until they
//! are whole.
//!
//! **Bounds.** Each text has one ([`IntentLimits`]), and there is a counter for what is left out ([`IntentCounters`]).

mod answer;
mod calls;
mod dialects;
mod digest;
mod eventstream;
mod json;
pub mod names;
mod request;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;

use mcpwarden_terms::counters;

pub use answer::Answer;
pub use digest::ContentDigest;
pub use request::{DeclaredTool, ProviderServer, Request, ToolOrigin, ToolResult};

/// Bounds of what may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentLimits {
    /// Longest body that is one JSON value, and longest event of a stream, in bytes.
    pub value_bytes: usize,
    /// Longest arguments of one call, in bytes; longer ones are said by their length alone.
    pub argument_bytes: usize,
    /// Most calls of one answer.
    pub calls: usize,
    /// Longest name, id, label and address, in bytes; longer ones are cut.
    pub name_bytes: usize,
    /// Most tools, servers and results of one request; of results the last ones.
    pub entries: usize,
}

impl Default for IntentLimits {
    fn default() -> Self {
        Self {
            value_bytes: 16 * 1024 * 1024,
            argument_bytes: 1024 * 1024,
            calls: 128,
            name_bytes: 512,
            entries: 1024,
        }
    }
}

/// Whose form a request or an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// Messages API of Anthropic.
    Anthropic,
    /// Chat Completions API of OpenAI, and of many others.
    OpenAiChat,
    /// Responses API of OpenAI.
    OpenAiResponses,
    /// generateContent of Gemini.
    Gemini,
    /// Converse API of Amazon Bedrock.
    Bedrock,
}

impl Dialect {
    /// As it is written in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
        }
    }
}

/// Who runs a tool that the model wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor<'a> {
    /// The client: by itself, or over MCP.
    Client,
    /// The provider of the model, with a tool of its own.
    Provider,
    /// The provider of the model, over MCP.
    ProviderMcp {
        /// What the request calls the server.
        server: &'a str,
    },
}

/// A tool that the model wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCall<'a> {
    /// Its number within the answer.
    pub number: u64,
    /// What the provider calls this call; `None` where it calls it nothing.
    pub id: Option<&'a str>,
    /// The tool, as the client named it.
    pub name: &'a str,
    /// The group of tools that the name is one of, where the client made such.
    pub namespace: Option<&'a str>,
    /// Who runs it.
    pub executor: Executor<'a>,
}

/// The arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Arguments<'a> {
    /// A JSON value.
    Json(&'a str),
    /// A text: of a tool that takes one, or what should be JSON and is not.
    Text(&'a str),
    /// Longer than the bound: so many bytes.
    TooLong(u64),
    /// They are in a form that is not read.
    Unread,
}

/// Arguments may be secrets.
impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(text) => write!(f, "Json({} bytes)", text.len()),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::TooLong(bytes) => write!(f, "TooLong({bytes} bytes)"),
            Self::Unread => f.write_str("Unread"),
        }
    }
}

/// How many tokens an answer cost, as its provider says. Of a stream, the last numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Of the request; with those from a cache where the provider counts them so (all but Anthropic and Bedrock).
    pub input: Option<u64>,
    /// Of the answer.
    pub output: Option<u64>,
    /// Of the request, those that came from a cache.
    pub cached: Option<u64>,
}

/// Why something of an answer is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// It has more calls than the bound.
    TooManyCalls,
    /// A value of it is longer than the bound.
    TooLong,
    /// A value of it is no JSON, or its framing is broken.
    Invalid,
}

/// What comes out of an answer, in order: [`Self::Begun`] first, [`Self::Ended`] last. What shows no dialect gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutput<'a> {
    /// It is the answer of a model.
    Begun {
        /// Whose form it has.
        dialect: Dialect,
        /// What the provider calls it.
        id: Option<&'a str>,
        /// The model, as it calls itself.
        model: Option<&'a str>,
    },
    /// The model wants a tool to be called; its arguments may still be to come. Said again where the name or the id grows.
    Named(ToolCall<'a>),
    /// The arguments of a call are whole. Said once.
    Called {
        /// The call.
        call: ToolCall<'a>,
        /// Its arguments.
        arguments: Arguments<'a>,
    },
    /// The provider has run a tool.
    ProviderResult {
        /// The id of the call.
        id: &'a str,
        /// Whether it failed.
        is_error: bool,
        /// What came of it.
        content: ContentDigest,
    },
    /// The provider has asked a server for its tools.
    ProviderTool {
        /// What the request calls the server.
        server: &'a str,
        /// The tool.
        name: &'a str,
        /// Its definition, as JSON: `name`, `description`, `input_schema`, `annotations`.
        definition: &'a str,
    },
    /// The provider reports an error in place of an answer, or of the rest of one.
    Failed {
        /// Its kind, as the provider calls it.
        kind: &'a str,
    },
    /// Something of it is missing. Each reason is said once.
    Missing(Missing),
    /// It is over.
    Ended {
        /// Why the model stopped, as the provider calls it.
        stop: Option<&'a str>,
        /// What it cost.
        tokens: Tokens,
    },
}

counters!(IntentCounters {
    /// Answers of models.
    answers,
    /// Answers that are in no known form.
    unrecognised,
    /// Values that are no JSON, and frames of event streams that are broken.
    invalid,
    /// Values that are longer than the bound.
    values_too_long,
    /// Calls beyond the bound of one answer.
    calls_dropped,
    /// Arguments that are longer than the bound.
    arguments_too_long,
    /// Arguments in a form that is not read.
    arguments_unread,
    /// Calls whose answer ended before their arguments did.
    calls_unfinished,
    /// Names, ids, labels and addresses that were cut.
    names_cut,
});
