//! Small scanners over bytes; none of them believes that they are JSON.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::value::{Step, ValueScan};

/// Where the first line feed is.
pub(super) fn line_feed(bytes: &[u8]) -> Option<usize> {
    position(bytes, |byte| *byte == b'\n')
}

/// Where the first byte of a kind is.
pub(super) fn position(bytes: &[u8], is: impl Fn(&u8) -> bool) -> Option<usize> {
    // Blocks of a fixed size let the compiler compare many bytes at once.
    const BLOCK: usize = 64;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let plain =
        blocks.iter().take_while(|block| !block.iter().fold(false, |any, byte| any | is(byte))).count();
    let start = plain * BLOCK;
    bytes.get(start..)?.iter().position(is).map(|at| start + at)
}

/// The bytes up to the first bracket that closes something, or before the first line feed; that alone, if they begin with it.
pub(super) fn up_to_end(bytes: &[u8]) -> &[u8] {
    let end = position(bytes, |byte| matches!(byte, b'\n' | b'}' | b']'));
    let end = end.map_or(bytes.len(), |at| if bytes.get(at) == Some(&b'\n') { at.max(1) } else { at + 1 });
    bytes.get(..end).unwrap_or(bytes)
}

/// Without blanks at either end.
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.get(leading_blanks(bytes)..).unwrap_or_default();
    let blanks = bytes.iter().rev().take_while(|byte| is_blank(**byte)).count();
    bytes.get(..bytes.len() - blanks).unwrap_or_default()
}

/// How many blanks there are in front.
pub(super) fn leading_blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_blank(**byte)).count()
}

/// What JSON calls white space (RFC 8259, section 2).
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Where the first object or array ends: behind the bracket that closes it. Says nothing of what stands in front or in
/// between, so that text which is read tolerantly later counts too.
pub(super) fn value_end(bytes: &[u8]) -> Option<usize> {
    let mut at = position(bytes, |byte| matches!(byte, b'{' | b'[' | b'}' | b']'))?;
    let mut scan = ValueScan::default();
    if matches!(bytes.get(at), Some(b'}' | b']')) {
        return None;
    }
    loop {
        match scan.advance(bytes.get(at..)?) {
            Step::Closed(end) => return Some(at + end),
            Step::LineFeed(end) => at += end + 1,
            Step::More => return None,
        }
    }
}

/// Whether a line starts with an object or an array, and does not end here.
pub(super) fn starts_value(line: &[u8]) -> bool {
    matches!(trim(line).first(), Some(b'{' | b'[')) && line.last() != Some(&b'\n')
}

/// Whether this is JSON, to the letter and the end.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Whether this line is a whole message, or batch, by itself: whatever the parser would take for one, or what calls
/// itself JSON-RPC. Were this stricter than the parser, a false length could hide such lines.
pub(super) fn is_message(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(rename = "jsonrpc")]
        _jsonrpc: IgnoredAny,
    }
    let line = trim(line);
    match (line.first(), line.last()) {
        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => {}
        _ => return false,
    }
    let parsed =
        |line| crate::message::parse(line, &mut String::new()).is_ok_and(|parsed| parsed.has_message());
    parsed(line) || serde_json::from_slice::<Versioned>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_of_a_text_ends_with_its_bracket() {
        for (text, expected) in [
            ("{}", Some(2)),
            (" [1]{}", Some(4)),
            ("\u{feff}{}", Some(5)),
            ("a: {}", Some(5)),
            ("{\"a\":\"}\"}", Some(9)),
            ("{'a':'}'}", Some(9)),
            ("{/*}*/}", Some(7)),
            ("{\n}", Some(3)),
            ("{// }\n}", Some(7)),
            ("{\n\"a\":[\n]\n}x", Some(11)),
            ("}", None),
            ("]{}", None),
            ("\"a\"}", None),
            ("{\"a\":1", None),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(value_end(text.as_bytes()), expected, "{text:?}");
        }
    }
}
