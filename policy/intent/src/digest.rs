//! What is kept of the content of a result: how much it is, and a hash.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::json::{Value, each, is_object, member, members, some_text, text};

/// The content of a result, by its size and hash. The content itself is not kept.
///
/// Both are of its texts, one behind the other: of a string, of the `text` of each part of a list, and of the string in an
/// object that has nothing else in `output`, `result` or `content`; of all else of its JSON. So the same result of a tool
/// has the same digest in all dialects, and the one of the MCP result that it was made of, if that was handed on unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentDigest {
    /// How many bytes of UTF-8, or of JSON, it has.
    pub bytes: u64,
    /// SHA-256.
    pub sha256: [u8; 32],
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes {}", self.bytes, mcpwarden_protocol::definition::hex(&self.sha256))
    }
}

#[derive(Default)]
struct Hasher {
    bytes: u64,
    hash: Sha256,
}

impl Hasher {
    fn update(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.hash.update(text);
    }

    fn part(&mut self, part: Value<'_>) {
        match some_text(member(part, "text")) {
            Some(text) => self.update(&text),
            None => self.update(part.map_or("", |part| part.get())),
        }
    }
}

impl ContentDigest {
    /// Of a text.
    pub fn of_text(content: &str) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(content);
        hasher.finish()
    }

    /// Of a content as it stands in a request, an answer, or the `content` of an MCP result: JSON.
    pub fn of_json(content: &str) -> Self {
        Self::of(serde_json::from_str(content).ok())
    }

    pub(crate) fn of(content: Value<'_>) -> Self {
        let mut hasher = Hasher::default();
        let json = content.map_or("", |content| content.get());
        if json.starts_with('"') {
            hasher.update(&text(content));
        } else if json.starts_with('[') {
            each(content, &mut |part| hasher.part(Some(part)));
        } else if is_object(content) {
            let count = mcpwarden_protocol::message::all_members(json).map_or(0, |members| members.len());
            let [output, result, inner] = members(content, ["output", "result", "content"]);
            match output.or(result).or(inner).filter(|_| count == 1) {
                Some(inner) if !is_object(Some(inner)) => return Self::of(Some(inner)),
                _ => hasher.update(json),
            }
        } else {
            hasher.update(json);
        }
        hasher.finish()
    }
}

impl Hasher {
    fn finish(self) -> ContentDigest {
        ContentDigest { bytes: self.bytes, sha256: self.hash.finalize().into() }
    }
}
