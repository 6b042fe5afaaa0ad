//! Private keys in PEM (RFC 7468) within a text.

use std::borrow::Cow;
use std::ops::Range;

use super::MASK;

/// A text with `***` in place of each private key.
pub(super) fn without_private_keys(text: &str) -> Cow<'_, str> {
    let keys = private_keys(text);
    if keys.is_empty() {
        return text.into();
    }
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for key in keys {
        out.extend([text.get(copied..key.start).unwrap_or_default(), MASK]);
        copied = key.end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out.into()
}

/// Where private keys are in PEM (RFC 7468), each up to its end or that of the text.
pub(super) fn private_keys(text: &str) -> Vec<Range<usize>> {
    const BEGIN: &str = "-----BEGIN ";
    let mut keys = Vec::new();
    let mut at = 0;
    while let Some(begin) = text.get(at..).and_then(|rest| rest.find(BEGIN)) {
        let label = at + begin + BEGIN.len();
        let Some(end) = text.get(label..).and_then(|rest| rest.find("-----")) else { break };
        at = label + end + 5;
        let label = text.get(label..label + end).unwrap_or_default().to_ascii_lowercase();
        if label.contains("key") && !label.contains("public") {
            let rest = text.get(at..).unwrap_or_default();
            let key = at..at + rest.find("-----END").unwrap_or(rest.len());
            at = key.end;
            keys.push(key);
        }
    }
    keys
}
