//! What a server sends, on its way to the SDK: bounded, and kept as it was sent.
//!
//! The SDK's types leave out what they do not know, and that may be what misleads a model. So each answer is kept here
//! as text, from which definitions are taken; the SDK only learns that there was an answer. Where somebody wants the
//! whole conversation, both sides of it are kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpwarden_policy::Direction;
use mcpwarden_policy::protocol::{decode_str, members};
use rmcp::model::{ServerJsonRpcMessage, ServerResult};

/// All that a server may send. Bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// All messages that a server may send: each costs more than its bytes.
const MAX_FRAMES: usize = 100_000;

/// Why a server is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Failure {
    /// In words.
    pub why: String,
    /// The status of HTTP that it answered with, if that is why.
    pub status: Option<u16>,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self { why, status: None }
    }
}

/// A message of a conversation, as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which way.
    pub direction: Direction,
    /// The JSON text.
    pub json: String,
}

/// What one server sent. Clones are the same tap.
#[derive(Clone)]
pub struct Tap(Arc<Mutex<State>>);

struct State {
    max_bytes: usize,
    bytes: usize,
    frames: usize,
    results: HashMap<String, String>,
    failure: Option<Failure>,
    /// Where somebody wants it.
    conversation: Option<Vec<Frame>>,
    /// Whether the SDK sees lists of tools.
    shows_tools: bool,
}

impl Default for Tap {
    /// Of a server that may send [`MAX_BYTES`].
    fn default() -> Self {
        Self::new(MAX_BYTES, None)
    }
}

impl Tap {
    /// Of a server that may send so many bytes, whose conversation is kept.
    pub fn recording(max_bytes: usize) -> Self {
        Self::new(max_bytes, Some(Vec::new()))
    }

    /// The same of one whose tools are called: the SDK sees the lists that it understands, since over HTTP it repeats arguments in
    /// headers (`Mcp-Param-…`) where a tool's schema wants that.
    pub fn calling(max_bytes: usize) -> Self {
        let tap = Self::recording(max_bytes);
        tap.state().shows_tools = true;
        tap
    }

    fn new(max_bytes: usize, conversation: Option<Vec<Frame>>) -> Self {
        Self(Arc::new(Mutex::new(State {
            max_bytes,
            bytes: 0,
            frames: 0,
            results: HashMap::new(),
            failure: None,
            conversation,
            shows_tools: false,
        })))
    }

    /// All that the server may send. Bytes.
    pub fn max_bytes(&self) -> usize {
        self.state().max_bytes
    }

    /// The conversation so far, in order; empty where it is not kept. Once.
    pub fn conversation(&self) -> Vec<Frame> {
        self.state().conversation.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is sent to the server.
    pub fn sent(&self, frame: &str) {
        self.state().keep(Direction::ClientToServer, frame);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that come in, noise included. Whether more may be read.
    pub fn count(&self, bytes: usize) -> bool {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(bytes);
        let too_much = if state.bytes > state.max_bytes {
            format!("it sent more than {} MiB", state.max_bytes >> 20)
        } else if state.frames > MAX_FRAMES {
            format!("it sent more than {MAX_FRAMES} messages")
        } else {
            return true;
        };
        state.results.clear();
        state.failure.get_or_insert(too_much.into());
        false
    }

    /// Why it is of no use. The first reason counts: others mostly follow from it.
    pub fn fail(&self, failure: impl Into<Failure>) {
        self.state().failure.get_or_insert(failure.into());
    }

    /// Why it is of no use, if it is known here.
    pub fn failure(&self) -> Option<Failure> {
        self.state().failure.clone()
    }

    /// Keeps the result in a frame, and gives the frame that the SDK is to see: the same, but for answers to requests
    /// of ours, which are empty for it.
    pub fn pass(&self, frame: String) -> String {
        let mut state = self.state();
        state.frames += 1;
        state.keep(Direction::ServerToClient, &frame);
        let shows_tools = state.shows_tools;
        drop(state);
        let [id, result] = members(&frame, ["id", "result"]);
        let (Some(id), Some(result)) = (id, result) else { return frame };
        // What the handshake answers (`initialize`, `server/discover`) the SDK goes by.
        let handshake = members(result.get(), ["protocolVersion", "supportedVersions"]);
        let seen = if handshake.iter().any(Option::is_some) || shows_tools && is_list_of_tools(&frame) {
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

/// Whether the SDK understands a frame as a list of tools.
fn is_list_of_tools(frame: &str) -> bool {
    matches!(
        serde_json::from_str(frame),
        Ok(ServerJsonRpcMessage::Response(answer)) if matches!(answer.result, ServerResult::ListToolsResult(_))
    )
}

impl State {
    fn keep(&mut self, direction: Direction, frame: &str) {
        if let Some(conversation) = &mut self.conversation {
            conversation.push(Frame { direction, json: frame.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_verbatim() {
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
    fn lists_of_tools_are_shown_to_the_sdk_for_calls() {
        let list = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{}}]}}"#;
        let odd = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":1}]}}"#;
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
        let empty = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for (tap, frame, seen) in [
            (Tap::calling(MAX_BYTES), list, list),
            (Tap::calling(MAX_BYTES), odd, empty),
            (Tap::calling(MAX_BYTES), result, empty),
            (Tap::recording(MAX_BYTES), list, empty),
        ] {
            assert_eq!(tap.pass(frame.to_owned()), seen, "{frame}");
            assert!(tap.result("1").is_some(), "{frame}");
        }
    }

    #[test]
    fn excess_traffic_ends_the_conversation() {
        let cases = [
            (Tap::default(), MAX_BYTES, 0, "it sent more than 64 MiB"),
            (Tap::recording(1 << 20), 1 << 20, 0, "it sent more than 1 MiB"),
            (Tap::default(), 0, MAX_FRAMES, "it sent more than 100000 messages"),
        ];
        for (tap, bytes, frames, expected) in cases {
            (0..frames).for_each(|_| drop(tap.pass("{}".to_owned())));
            assert!(tap.count(bytes));
            assert_eq!(tap.failure(), None);
            tap.pass("{}".to_owned());
            assert!(!tap.count(1));
            tap.fail("another".to_owned());
            assert_eq!(tap.failure().map(|failure| failure.why).as_deref(), Some(expected));
        }
    }

    #[test]
    fn only_recording_tap_keeps_the_conversation() {
        let answer = r#"{"id":1,"result":{"a":1}}"#;
        let both = [(Direction::ClientToServer, "{}"), (Direction::ServerToClient, answer)];
        for (tap, expected) in [(Tap::default(), &[][..]), (Tap::recording(MAX_BYTES), &both)] {
            tap.sent("{}");
            tap.pass(answer.to_owned());
            let kept = tap.conversation();
            let kept: Vec<_> = kept.iter().map(|frame| (frame.direction, frame.json.as_str())).collect();
            assert_eq!(kept, expected);
            assert_eq!(tap.conversation(), []);
        }
    }
}
