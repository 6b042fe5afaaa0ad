//! Any bytes as a frame, and what is asked of the messages in it.

use mcpwarden_policy::hash::json_hash;
use mcpwarden_policy::protocol::{Kind, decode_str, is_mcp_opening, members, parse, value};

/// Runs one input.
pub fn run(frame: &[u8]) {
    let mut scratch = String::new();
    let Ok(parsed) = parse(frame, &mut scratch) else { return };
    for message in &parsed.messages {
        is_mcp_opening(message);
        if let Kind::Request { id, .. } | Kind::Response { id, .. } | Kind::Error { id, .. } = &message.kind {
            // What pairs requests with answers must not depend on how often it is asked.
            assert_eq!(id.key(), id.key());
            id.value();
        }
        let json = message.raw;
        decode_str(json);
        members(json, ["params", "result", "error"]);
        // What is the same value has the same hash, whatever the order of its keys: as far as it can be told.
        if let Some(value) = value(json) {
            assert_eq!(json_hash(json), json_hash(json));
            json_hash(&value.to_string());
        }
    }
}
