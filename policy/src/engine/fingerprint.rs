//! What messages say, whatever their ids: the same of all copies of a message that relays pass on.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::definition;
use crate::protocol::{self, Kind, Message, value};

/// What a message says, whatever its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 16]);

impl Fingerprint {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a request or a notification says.
pub(super) fn of_request(method: &str, params: Option<&str>) -> Fingerprint {
    fingerprint(&["request", method], params.unwrap_or("null"))
}

/// Longest params that are compared by their meaning, in bytes; longer ones are compared by their text.
const MAX_CANONICAL_BYTES: usize = 64 * 1024;

/// What a request asks for, whichever of several tries it is.
pub(super) fn of_every_try(method: &str, params: Option<&str>) -> Fingerprint {
    let params = protocol::of_every_try(params.unwrap_or("null"));
    if params.len() > MAX_CANONICAL_BYTES {
        // As text of JSON: no value of it is made.
        return fingerprint(&["text", method, &params], "null");
    }
    fingerprint(&["try", method], &params)
}

/// What a frame says that is one request.
pub(super) fn of_frame(frame: &[u8]) -> Option<Fingerprint> {
    let mut scratch = String::new();
    let parsed = protocol::parse(frame, &mut scratch).ok()?;
    match parsed.messages.as_slice() {
        [Message { kind: Kind::Request { method, params, .. }, .. }] => {
            Some(of_request(method.as_str(), params.map(|params| params.get())))
        }
        _ => None,
    }
}

/// What an answer says.
pub(super) fn of_answer(message: &Message<'_>) -> Fingerprint {
    match &message.kind {
        Kind::Response { result, .. } => fingerprint(&["result"], result.get()),
        Kind::Error { code, message, data, .. } => {
            let data = data.map_or("null", |data| data.get());
            fingerprint(&["error", &code.to_string(), message], data)
        }
        _ => fingerprint(&["message"], message.raw),
    }
}

fn fingerprint(words: &[&str], json: &str) -> Fingerprint {
    let mut hash = Sha256::new();
    for word in words {
        hash.update((word.len() as u64).to_le_bytes());
        hash.update(word.as_bytes());
    }
    match value(json) {
        Some(mut value) => {
            if let Some(object) = value.as_object_mut() {
                object.remove("_meta");
                // No params, null and no members are the same to every reader.
                if object.is_empty() {
                    value = Value::Null;
                }
            }
            if definition::canonical::hash(&value, &mut hash).is_err() {
                hash.update(json.as_bytes());
            }
        }
        None => hash.update(json.as_bytes()),
    }
    let mut short = [0; 16];
    for (slot, byte) in short.iter_mut().zip(hash.finalize()) {
        *slot = byte;
    }
    Fingerprint(short)
}
