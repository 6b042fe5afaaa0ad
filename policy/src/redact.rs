//! What may be recorded of values: each leaf as its type, length and keyed hash, never the value itself.
//!
//! Plain hashes of short secrets can be guessed, so they are keyed with a secret of this host: equal values are
//! seen to be equal, on this host, and nothing else is seen.

mod argv;
mod visit;

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeSeed;
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::hash::hex;
use crate::protocol::mend_surrogates;

pub use argv::redact_argv;

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
    /// Objects and arrays stay, and so do keys of at most 128 bytes. A leaf becomes
    /// `{"type": "string" | "number" | "boolean" | "null", "length": N, "hash": "…"}`: `length`, in bytes, stands
    /// with strings alone; `hash` is 16 hexadecimal digits of HMAC-SHA-256(key, type ‖ value), a number in its
    /// shortest spelling. What is beyond 1,000 leaves or 64 levels becomes one leaf of type `truncated`, in an
    /// object under the key `...`; what is no JSON value (a number beyond any double) one of type `invalid`:
    /// their `length` is that of the JSON text and their hash is over it.
    pub fn redact(&self, json: &str) -> Value {
        self.try_redact(json)
            // Lone surrogates are all right for the readers at the ends (JavaScript, Python), not for this one.
            .or_else(|_| self.try_redact(&mend_surrogates(json)))
            .unwrap_or_else(|_| self.leaf("invalid", json.as_bytes(), Some(json.len())))
    }

    fn try_redact(&self, json: &str) -> serde_json::Result<Value> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let mut leaves = 0;
        let value =
            visit::Redact { redactor: self, depth: 0, leaves: &mut leaves }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    /// Sixteen hexadecimal digits that stand for `bytes` on this host, in the name space `kind`.
    pub fn digest(&self, kind: &str, bytes: &[u8]) -> String {
        let mut mac = self.keyed.clone();
        mac.update(kind.as_bytes());
        mac.update(bytes);
        hex(mac.finalize().into_bytes().get(..HASH_BYTES).unwrap_or_default())
    }

    pub(crate) fn leaf(&self, kind: &str, bytes: &[u8], length: Option<usize>) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), kind.into());
        if let Some(length) = length {
            map.insert("length".to_owned(), length.into());
        }
        map.insert("hash".to_owned(), self.digest(kind, bytes).into());
        Value::Object(map)
    }

    fn key(&self, key: String) -> String {
        if key.len() <= MAX_KEY_BYTES { key } else { format!("key:{}", self.digest("key", key.as_bytes())) }
    }
}

#[cfg(test)]
mod tests;
