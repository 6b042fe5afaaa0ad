//! What the head of a request repeats of its body (specification 2026-07-28, "Streamable HTTP"): whoever stands between the two
//! ends goes by the head, and the server by the body.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;

/// Longest value that is kept, in bytes.
const MAX_VALUE_BYTES: usize = 4 * 1024;
/// What stands around a value in base64.
const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// One header.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// Its value, U+FFFD for bytes that are no text; `None` where it is too long to be kept.
    pub value: Option<Box<str>>,
    /// Whether the head has it more than once, or over several lines: which value counts depends on the reader.
    pub is_repeated: bool,
}

/// The headers of a request that its body says as well. Their values are for comparing, and leave in no event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// `Mcp-Method`.
    pub method: Option<Header>,
    /// `Mcp-Name`.
    pub name: Option<Header>,
    /// `MCP-Protocol-Version`.
    pub protocol_version: Option<Header>,
    /// `Mcp-Param-…`, by the rest of the name in lower case; bounded.
    pub params: Vec<(Box<str>, Header)>,
    /// Whether there were more of them.
    pub has_more_params: bool,
    /// Whether the head, or that of the answer, has a session.
    pub has_session: bool,
}

impl Mirrored {
    /// Memory that it takes beside itself.
    pub fn bytes(&self) -> usize {
        let length = |header: &Header| header.value.as_ref().map_or(0, |value| value.len());
        let params = self
            .params
            .iter()
            .map(|(name, header)| size_of::<(Box<str>, Header)>() + name.len() + length(header));
        let others = [&self.method, &self.name, &self.protocol_version].into_iter().flatten().map(length);
        params.sum::<usize>() + others.sum::<usize>()
    }
}

/// A parameter may be a secret.
impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.value.as_ref().map(|value| value.len());
        f.debug_struct("Header").field("length", &length).field("is_repeated", &self.is_repeated).finish()
    }
}

impl Header {
    /// The header with these values, line by line; `None` without any.
    pub(super) fn of<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let first = values.next()?;
        let text = String::from_utf8_lossy(first);
        let is_repeated = values.next().is_some() || first.contains(&b'\n');
        Some(Self { value: (text.len() <= MAX_VALUE_BYTES).then(|| text.into()), is_repeated })
    }

    /// The text that a value in base64 stands for: between `=?base64?` and `?=`, which what is no plain ASCII is put in. `None`
    /// of a value that is as it stands.
    ///
    /// # Errors
    /// It is no base64, or no text.
    pub fn decoded(&self) -> Result<Option<String>, base64::DecodeError> {
        let value = self.value.as_deref().unwrap_or_default();
        let inner = value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
        let Some(inner) = inner else { return Ok(None) };
        let bytes = STANDARD.decode(inner)?;
        String::from_utf8(bytes).map(Some).map_err(|_| base64::DecodeError::InvalidByte(0, b'?'))
    }
}
