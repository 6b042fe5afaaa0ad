//! What readers may take a text for that is no single message: the first or the last of its lines, or each value in it.
//!
//! Clients join the `data:` lines of an event, or keep the last one, or hand on each. Some parsers of JSON stop behind the
//! first value, others read on. The text of an event or body is one message mostly, and then there is one reading.

use mcpwarden_protocol::message::{self as protocol, ProtocolError};

use super::exchange::Gist;

/// Calls `take` with each message that a reader may find in `text`, or with all of it where none is found. Whether there
/// is another reading than all of it.
pub(super) fn readings(text: &[u8], take: &mut dyn FnMut(&[u8])) -> bool {
    match protocol::parse(text, &mut String::new()) {
        Err(ProtocolError::Json { .. }) => {}
        // Too many messages in a batch are still one text.
        _ => {
            take(text);
            return false;
        }
    }
    let mut found = 0;
    let mut try_each = |text: &[u8]| {
        for value in values(text).filter(|value| Gist::of(value).is_message) {
            found += 1;
            take(value);
        }
    };
    // By lines first: where one of them alone is a message, another may leave a string or a bracket open.
    text.split(|byte| *byte == b'\n').for_each(&mut try_each);
    if found == 0 {
        values(text).filter(|value| Gist::of(value).is_message).for_each(|value| {
            found += 1;
            take(value);
        });
    }
    if found == 0 {
        take(text);
    }
    found > 0
}

/// The objects and arrays in a text, one behind the other, whatever stands between them.
fn values(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = memchr::memchr2(b'{', b'[', rest)?;
        let value = rest.get(start..)?;
        let end = value_end(value)?;
        let (value, after) = value.split_at_checked(end)?;
        rest = after;
        Some(value)
    })
}

/// Where the object or array ends that `text` begins with.
fn value_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            b'"' => at = string_end(text, at)?,
            _ => {}
        }
    }
    None
}

/// Where the string ends that is open at `at`.
fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)? + 1;
        match text.get(at - 1) {
            Some(b'"') => return Some(at),
            _ => at += 1,
        }
    }
}
