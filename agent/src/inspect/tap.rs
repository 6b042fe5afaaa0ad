//! What a server sends, on its way to the SDK: bounded, and kept as it was sent.
//!
//! The SDK's types leave out what they do not know, and that may be what misleads a model. So each answer is kept here
//! as text, from which definitions are taken; the SDK only learns that there was an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpwarden_policy::protocol::{decode_str, members};

/// All that a server may send. Bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// All messages that a server may send: each costs more than its bytes.
const MAX_FRAMES: usize = 100_000;

/// What one server sent. Clones are the same tap.
#[derive(Clone, Default)]
pub struct Tap(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    bytes: usize,
    frames: usize,
    results: HashMap<String, String>,
    failure: Option<String>,
}

impl Tap {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that come in, noise included. Whether more may be read.
    pub fn count(&self, bytes: usize) -> bool {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(bytes);
        let too_much = if state.bytes > MAX_BYTES {
            format!("it sent more than {} MiB", MAX_BYTES >> 20)
        } else if state.frames > MAX_FRAMES {
            format!("it sent more than {MAX_FRAMES} messages")
        } else {
            return true;
        };
        state.results.clear();
        state.failure.get_or_insert(too_much);
        false
    }

    /// Why it is of no use. The first reason counts: others mostly follow from it.
    pub fn fail(&self, why: String) {
        self.state().failure.get_or_insert(why);
    }

    /// Why it is of no use, if it is known here.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Keeps the result in a frame, and gives the frame that the SDK is to see: the same, but for answers to requests
    /// of ours, which are empty for it.
    pub fn pass(&self, frame: String) -> String {
        self.state().frames += 1;
        let [id, result] = members(&frame, ["id", "result"]);
        let (Some(id), Some(result)) = (id, result) else { return frame };
        // What the handshake answers (`initialize`, `server/discover`) the SDK goes by.
        let handshake = members(result.get(), ["protocolVersion", "supportedVersions"]);
        let seen = if handshake.iter().any(Option::is_some) {
            None
        } else {
            Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.get()))
        };
        let id = decode_str(id.get()).map_or_else(|| id.get().to_owned(), Into::into);
        // The SDK takes the first answer to a request, and no other.
        self.state().results.entry(id).or_insert_with(|| result.get().to_owned());
        seen.unwrap_or(frame)
    }

    /// The result of the request with this id, as it was sent; once.
    pub fn result(&self, id: &str) -> Option<String> {
        self.state().results.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_as_they_were_sent() {
        let empty = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let handshake = r#"{"id":0,"result":{"protocolVersion":"x"}}"#;
        let error = r#"{"id":1,"error":{"code":1,"message":"x"}}"#;
        let cases = [
            (r#"{"id":1,"result":{"a":1,"a":2}}"#, empty, "1", Some(r#"{"a":1,"a":2}"#)),
            (r#"{"id":"1","result":[]}"#, r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, "1", Some("[]")),
            (handshake, handshake, "0", Some(r#"{"protocolVersion":"x"}"#)),
            (error, error, "1", None),
            ("no JSON", "no JSON", "1", None),
        ];
        for (frame, seen, id, result) in cases {
            let tap = Tap::default();
            assert_eq!(tap.pass(frame.to_owned()), seen, "{frame}");
            assert_eq!(tap.result(id).as_deref(), result, "{frame}");
            assert_eq!(tap.result(id), None, "{frame}");
        }
        let tap = Tap::default();
        tap.pass(r#"{"id":1,"result":[1]}"#.to_owned());
        tap.pass(r#"{"id":1,"result":[2]}"#.to_owned());
        assert_eq!(tap.result("1").as_deref(), Some("[1]"));
    }

    #[test]
    fn what_is_too_much_ends_it() {
        let cases = [
            (MAX_BYTES, 0, "it sent more than 64 MiB"),
            (0, MAX_FRAMES, "it sent more than 100000 messages"),
        ];
        for (bytes, frames, expected) in cases {
            let tap = Tap::default();
            (0..frames).for_each(|_| drop(tap.pass("{}".to_owned())));
            assert!(tap.count(bytes));
            assert_eq!(tap.failure(), None);
            tap.pass("{}".to_owned());
            assert!(!tap.count(1));
            tap.fail("another".to_owned());
            assert_eq!(tap.failure().as_deref(), Some(expected));
        }
    }
}
