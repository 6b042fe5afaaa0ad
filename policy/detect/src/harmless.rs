//! Texts in which nothing was found.
//!
//! The parameters of a server's tools say the same over and over: of a list of 235 tools 30 % of the text is new. What
//! was read once and is harmless need not be read again.

use std::collections::HashSet;

/// Most bytes of texts that are kept.
const MAX_BYTES: usize = 1 << 20;
/// A longer text is not kept: it is no description that others share. Bytes.
const MAX_TEXT: usize = 4 << 10;
/// What a text costs beside its bytes.
const ENTRY_BYTES: usize = 32;

/// Texts of definitions in which one detector found nothing at all. They are kept as they are: no digest that somebody
/// could find a second text for.
#[derive(Debug, Default)]
pub struct Harmless {
    texts: HashSet<Box<str>>,
    bytes: usize,
}

impl Harmless {
    /// Whether this text is known to be harmless.
    pub(super) fn has(&self, text: &str) -> bool {
        text.len() <= MAX_TEXT && self.texts.contains(text)
    }

    /// Nothing was found in this text. Where there is no room for it, all others are forgotten.
    pub(super) fn add(&mut self, text: &str) {
        if text.len() > MAX_TEXT {
            return;
        }
        let bytes = text.len() + ENTRY_BYTES;
        if self.bytes + bytes > MAX_BYTES {
            *self = Self::default();
        }
        if self.texts.insert(text.into()) {
            self.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_text_cache_is_bounded() {
        let mut known = Harmless::default();
        known.add(&"x".repeat(MAX_TEXT + 1));
        assert!(known.texts.is_empty());
        for number in 0..100_000 {
            known.add(&format!("{number:0100}"));
            assert!(known.bytes <= MAX_BYTES && known.texts.len() <= MAX_BYTES / (100 + ENTRY_BYTES));
            assert!(known.has(&format!("{number:0100}")));
        }
        assert!(!known.has(&format!("{:0100}", 0)));
    }
}
