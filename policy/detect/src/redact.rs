//! What may be recorded of values: each leaf as its type, length and keyed hash, never the value itself.
//!
//! Hashes are keyed with a secret of this host: equal values are seen to be equal, on this host, and nothing else is seen.
//! But who can make calls and read events has any value hashed, a thousand a call: a four-digit PIN takes ten. So what
//! has few possible values gets no hash at all: `is_guessable`.

mod argv;
mod codes;
mod columns;
mod commands;
mod containers;
mod copulas;
mod marks;
mod mask;
mod names;
mod options;
mod pem;
mod prose;
mod said;
mod settings;
mod shell;
mod text;
mod tokens;
mod url;
mod values;

use std::fmt::{self, Write as _};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use mcpwarden_protocol::definition::{hex, push_hex};
use mcpwarden_protocol::message::mend_surrogates;
use mcpwarden_terms::Json;

pub(crate) use argv::is_secret_key;
pub use argv::{redact_argv, redact_word};
pub use containers::mask_value;
pub(crate) use names::is_secret_name;
pub(crate) use prose::redact_prose;

/// What stands in for a secret.
const MASK: &str = "***";
/// Most leaves kept of one value; the rest is one more.
const MAX_LEAVES: usize = 1_000;
/// Deepest level kept; what lies below is one leaf.
const MAX_DEPTH: usize = 64;
/// Longest object key kept; a longer one becomes its hash, since it may be a secret too.
const MAX_KEY_BYTES: usize = 128;
/// Bytes of the HMAC that are kept: 16 hexadecimal digits.
const HASH_BYTES: usize = 8;
/// Shortest string that gets a hash, in bytes; how many different bytes it has at least, and how many letters.
const HASHED_BYTES: usize = 16;
const HASHED_DIFFERENT: usize = 8;
const HASHED_LETTERS: usize = 6;
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
    /// `{"type": "string" | "number" | "boolean" | "null", "length": N, "hash": "…" | null}`: `length`, in bytes, stands
    /// with strings alone; `hash` is 16 hexadecimal digits of HMAC-SHA-256(key, type ‖ value), and null for all but
    /// strings of at least 16 bytes, 8 of them different, with 6 letters among them. What is beyond 1,000 leaves or 64
    /// levels becomes one leaf of type `truncated`, in an object under the key `...`; what is no JSON value (a number
    /// beyond any double) one of type `invalid`: their `length` is that of the JSON text, and they have no hash.
    pub fn redact(&self, json: &str) -> Json {
        text::redacted(self, json)
            // Lone surrogates are all right for the readers at the ends (JavaScript, Python), not for this one.
            .or_else(|_| text::redacted(self, &mend_surrogates(json)))
            .map_or_else(|_| self.leaf("invalid", json), Json::new)
    }

    /// The leaf that stands for a JSON text as a whole.
    pub fn leaf(&self, kind: &str, json: &str) -> Json {
        let mut out = String::new();
        write_leaf(&mut out, kind, None, Some(json.len()));
        Json::new(out)
    }

    /// Sixteen hexadecimal digits that stand for `bytes` on this host, in the name space `kind`.
    pub fn digest(&self, kind: &str, bytes: &[u8]) -> String {
        hex(&self.hash(kind, bytes))
    }

    fn hash(&self, kind: &str, bytes: &[u8]) -> Hash {
        let mut keyed = self.keyed.clone();
        keyed.update(kind.as_bytes());
        keyed.update(bytes);
        let mut hash = [0; HASH_BYTES];
        hash.iter_mut().zip(keyed.finalize().into_bytes()).for_each(|(slot, byte)| *slot = byte);
        hash
    }
}

type Hash = [u8; HASH_BYTES];

/// Whether a string has so few possible values that all of them can be tried: short ones, numbers of any kind (PINs, cards,
/// dates), repetitions.
fn is_guessable(text: &str) -> bool {
    let mut seen = [false; 256];
    let different = text
        .bytes()
        .filter(|byte| seen.get_mut(usize::from(*byte)).is_some_and(|seen| !std::mem::replace(seen, true)));
    text.len() < HASHED_BYTES
        || different.take(HASHED_DIFFERENT).count() < HASHED_DIFFERENT
        || text.chars().filter(|c| c.is_alphabetic()).take(HASHED_LETTERS).count() < HASHED_LETTERS
}

fn write_leaf(out: &mut String, kind: &str, hash: Option<&Hash>, length: Option<usize>) {
    out.push_str(r#"{"hash":"#);
    match hash {
        Some(hash) => {
            out.push('"');
            push_hex(hash, out);
            out.push('"');
        }
        None => out.push_str("null"),
    }
    if let Some(length) = length {
        // Writing to a string cannot fail.
        let _ = write!(out, r#","length":{length}"#);
    }
    out.push_str(r#","type":""#);
    out.push_str(kind);
    out.push_str(r#""}"#);
}

#[cfg(test)]
mod tests;
