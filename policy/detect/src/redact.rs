//! What may be recorded of values: each leaf as its type, length and keyed hash, never the value itself.
//!
//! Plain hashes of short secrets can be guessed, so they are keyed with a secret of this host: equal values are
//! seen to be equal, on this host, and nothing else is seen.

mod argv;
mod text;

use std::fmt::{self, Write as _};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use mcpwarden_protocol::definition::{hex, push_hex};
use mcpwarden_protocol::message::mend_surrogates;
use mcpwarden_terms::Json;

pub(crate) use argv::{is_secret_key, redact_prose};
pub use argv::{redact_argv, redact_word};

/// Most leaves kept of one value; the rest is one more.
const MAX_LEAVES: usize = 1_000;
/// Deepest level kept; what lies below is one leaf.
const MAX_DEPTH: usize = 64;
/// Longest object key kept; a longer one becomes its hash, since it may be a secret too.
const MAX_KEY_BYTES: usize = 128;
/// Bytes of the HMAC that are kept: 16 hexadecimal digits.
const HASH_BYTES: usize = 8;
/// Under which key the rest of an object stands that has too many leaves.
const REST: &str = "...";

/// Replaces leaves by what may be recorded of them.
#[derive(Clone)]
pub struct Redactor {
    keyed: Hmac<Sha256>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(..)")
    }
}

impl Redactor {
    /// A redactor that hashes with this key.
    pub fn new(key: [u8; 32]) -> Self {
        // HMAC fills a key up to the block with zeros (RFC 2104): with the block itself nothing can fail.
        let mut block = [0; 64];
        for (slot, byte) in block.iter_mut().zip(key) {
            *slot = byte;
        }
        Self { keyed: Hmac::<Sha256>::new(&block.into()) }
    }

    /// Redacts a JSON text.
    ///
    /// Objects and arrays stay, and so do keys of at most 128 bytes that are not secrets of a known form; of duplicate
    /// keys the last counts. A leaf becomes
    /// `{"type": "string" | "number" | "boolean" | "null", "length": N, "hash": "…"}`: `length`, in bytes, stands
    /// with strings alone; `hash` is 16 hexadecimal digits of HMAC-SHA-256(key, type ‖ value), a number in its
    /// shortest spelling. What is beyond 1,000 leaves or 64 levels becomes one leaf of type `truncated`, in an
    /// object under the key `...`; what is no JSON value (a number beyond any double) one of type `invalid`:
    /// their `length` is that of the JSON text and their hash is over it.
    pub fn redact(&self, json: &str) -> Json {
        text::redacted(self, json)
            // Lone surrogates are all right for the readers at the ends (JavaScript, Python), not for this one.
            .or_else(|_| text::redacted(self, &mend_surrogates(json)))
            .map_or_else(|_| self.leaf("invalid", json), Json::new)
    }

    /// The leaf that stands for a JSON text as a whole.
    pub fn leaf(&self, kind: &str, json: &str) -> Json {
        let mut out = String::new();
        write_leaf(&mut out, kind, &self.hash(kind, json.as_bytes()), Some(json.len()));
        Json::new(out)
    }

    /// Sixteen hexadecimal digits that stand for `bytes` on this host, in the name space `kind`.
    pub fn digest(&self, kind: &str, bytes: &[u8]) -> String {
        hex(&self.hash(kind, bytes))
    }

    fn hash(&self, kind: &str, bytes: &[u8]) -> Hash {
        let mut keyed = self.begin(kind);
        keyed.0.update(bytes);
        keyed.finish()
    }

    fn begin(&self, kind: &str) -> Keyed {
        let mut keyed = Keyed(self.keyed.clone());
        keyed.0.update(kind.as_bytes());
        keyed
    }
}

type Hash = [u8; HASH_BYTES];

/// A hash that text can be written into.
struct Keyed(Hmac<Sha256>);

impl Keyed {
    fn finish(self) -> Hash {
        let mut hash = [0; HASH_BYTES];
        hash.iter_mut().zip(self.0.finalize().into_bytes()).for_each(|(slot, byte)| *slot = byte);
        hash
    }
}

impl fmt::Write for Keyed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

fn write_leaf(out: &mut String, kind: &str, hash: &Hash, length: Option<usize>) {
    out.push_str(r#"{"hash":""#);
    push_hex(hash, out);
    if let Some(length) = length {
        // Writing to a string cannot fail.
        let _ = write!(out, r#"","length":{length},"type":""#);
    } else {
        out.push_str(r#"","type":""#);
    }
    out.push_str(kind);
    out.push_str(r#""}"#);
}

#[cfg(test)]
mod tests;
