//! What of a text goes into a detection: enough to judge it by, bounded, and no secret.

use std::ops::Range;

use crate::event::Match;

/// Longest text of a match. Bytes.
const TEXT_BYTES: usize = 200;
/// Text on either side of it. Bytes.
const CONTEXT_BYTES: usize = 60;
/// From this length on a run of letters and digits may be a secret. Bytes.
const TOKEN_BYTES: usize = 20;
/// What is shown of a secret. Bytes.
const SHOWN_BYTES: usize = 4;

/// How much of the evidence is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Masking {
    /// All of it: a definition is no secret.
    #[default]
    Nothing,
    /// Not what looks like a secret around the match: results may hold some.
    Tokens,
    /// Nothing around the match: what stands beside a secret in arguments is often another, and in no form that tells.
    Alone,
}

/// The evidence for a match at `range` of `text`.
pub(super) fn evidence(text: &str, range: Range<usize>, masking: Masking, is_secret: bool) -> Match {
    let start = text.floor_char_boundary(range.start);
    let end = text.ceil_char_boundary(range.end.max(start));
    let shown_end = if end - start > TEXT_BYTES { text.floor_char_boundary(start + TEXT_BYTES) } else { end };
    let from = text.floor_char_boundary(start.saturating_sub(CONTEXT_BYTES));
    let to = text.ceil_char_boundary((shown_end + CONTEXT_BYTES).min(text.len()));
    let (before, found, after) = (&text[from..start], &text[start..shown_end], &text[shown_end..to]);
    let found = match masking {
        _ if is_secret => mask(found, end - start),
        Masking::Nothing => found.to_owned(),
        Masking::Tokens | Masking::Alone => mask_tokens(found),
    };
    let context = match masking {
        Masking::Nothing if !is_secret => text[from..to].to_owned(),
        Masking::Alone => found.clone(),
        Masking::Nothing | Masking::Tokens => {
            format!("{}{found}{}", mask_tokens(before), mask_tokens(after))
        }
    };
    Match { text: found, position: start as u64, context }
}

/// The beginning of a secret, and its length.
fn mask(secret: &str, bytes: usize) -> String {
    let shown = if secret.len() > 2 * SHOWN_BYTES { secret.floor_char_boundary(SHOWN_BYTES) } else { 0 };
    format!("{}…({bytes} bytes)", &secret[..shown])
}

/// With every run that is long and mixes letters and digits masked.
fn mask_tokens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || "\"'`<>()[]{},;=:".contains(c)) {
        let token = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        let mixed = token.bytes().any(|byte| byte.is_ascii_digit())
            && token.bytes().any(|byte| byte.is_ascii_alphabetic());
        if token.len() >= TOKEN_BYTES && mixed {
            out.push_str(&mask(token, token.len()));
            out.push_str(&piece[token.len()..]);
        } else {
            out.push_str(piece);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_bounded_and_keeps_secrets() {
        let key = "key=AKIAABCDEFGHIJ234567 end";
        let cases = [
            ("plain words here", 6..11, Masking::Nothing, false, "words", "plain words here"),
            ("äöü", 1..3, Masking::Nothing, false, "äö", "äöü"),
            (key, 4..24, Masking::Tokens, true, "AKIA…(20 bytes)", "key=AKIA…(20 bytes) end"),
            (key, 4..24, Masking::Nothing, true, "AKIA…(20 bytes)", "key=AKIA…(20 bytes) end"),
            (key, 25..28, Masking::Tokens, false, "end", "key=AKIA…(20 bytes) end"),
            (key, 25..28, Masking::Alone, false, "end", "end"),
            ("pin 1234", 4..8, Masking::Tokens, true, "…(4 bytes)", "pin …(4 bytes)"),
            (
                "password=hunter2 AKIAABCDEFGHIJ234567",
                17..37,
                Masking::Alone,
                true,
                "AKIA…(20 bytes)",
                "AKIA…(20 bytes)",
            ),
            ("", 0..0, Masking::Nothing, false, "", ""),
        ];
        for (text, range, masking, is_secret, found, context) in cases {
            let evidence = evidence(text, range, masking, is_secret);
            assert_eq!((evidence.text.as_str(), evidence.context.as_str()), (found, context), "{text}");
        }
        let long = "ä".repeat(10_000);
        let long = evidence(&long, 1..15_001, Masking::Nothing, false);
        assert!(long.text.len() <= TEXT_BYTES && long.context.len() <= TEXT_BYTES + 2 * CONTEXT_BYTES + 4);
        assert_eq!(long.position, 0);
    }
}
