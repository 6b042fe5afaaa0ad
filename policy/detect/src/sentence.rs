//! Where sentences end.

/// A sentence longer than this is taken for several. Bytes.
pub(super) const SENTENCE_BYTES: usize = 320;

/// Where the sentence that `from` is in ends, or `limit`, which is not beyond the text.
pub(super) fn end_of_sentence(text: &[u8], from: usize, limit: usize) -> usize {
    let mut at = from;
    while let Some(before) = text.get(at..limit).and_then(|rest| rest.iter().position(may_end)) {
        at += before;
        if ends_sentence(text, at) {
            return at;
        }
        at += 1;
    }
    limit
}

/// Whether a sentence may end with this byte, wherever it stands.
fn may_end(byte: &u8) -> bool {
    matches!(byte, b'.' | b'!' | b'?' | b'\n' | 0x82)
}

/// Whether a sentence ends with the byte at `at`: a stop with white space after it, or a blank line.
pub(super) fn ends_sentence(text: &[u8], at: usize) -> bool {
    let after = text.get(at + 1);
    match text.get(at) {
        Some(b'.' | b'!' | b'?') => after.is_none_or(u8::is_ascii_whitespace),
        Some(b'\n') => {
            let mut rest =
                text[at + 1..].iter().take(16).skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
            rest.next() == Some(&b'\n')
        }
        // The ideographic full stop, whose first two bytes are E3 80.
        Some(0x82) => at >= 2 && text[at - 2..at] == [0xe3, 0x80],
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_end_is_never_skipped() {
        for byte in 0..=u8::MAX {
            for after in ["", " ", "a", "\n", " \n"] {
                let text = [&[0xe3, 0x80, byte], after.as_bytes()].concat();
                let expected = (0..text.len()).find(|at| ends_sentence(&text, *at)).unwrap_or(text.len());
                assert_eq!(end_of_sentence(&text, 0, text.len()), expected, "{text:x?}");
            }
        }
    }
}
