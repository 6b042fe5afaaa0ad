//! How much work one message may take.
//!
//! Each text brings a share of its own, so that a long one cannot use up what others need; what forms of a text may take
//! beyond that is the same for every message. What is left out is reported, and what is looked at comes from all parts of
//! the text, not from its beginning alone (see `segment`).

/// Most bytes that patterns are run over, whatever the length of the texts.
const MOST_BYTES: usize = 64 << 20;

/// Most bytes of sentences that the learned scorer reads, whatever the length of the texts.
const MOST_SCORED: usize = 32 << 20;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes that patterns may still be run over.
    pub(super) bytes: usize,
    /// Hits that may still be found.
    pub(super) hits: usize,
    /// Bytes that may still come out of decoding.
    pub(super) decoded: usize,
    /// Parts that were decoded and may still be read each by itself.
    pub(super) alone: usize,
    /// Bytes of other forms that may still be looked at: normal forms where they differ, and other spellings.
    pub(super) forms: usize,
    /// Bytes by which normal forms may still be longer than what they are made of.
    pub(super) growth: usize,
    /// Bytes that may still be read twice, since a segment goes on into the next.
    pub(super) overlap: usize,
    /// Bytes that the learned scorer may still read.
    pub(super) scored: usize,
    /// Whether one of them was not enough.
    pub(super) exceeded: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            hits: 20_000,
            decoded: 1 << 20,
            alone: 2_000,
            forms: 4 << 20,
            growth: 1 << 20,
            overlap: 1 << 20,
            scored: 17 << 20,
            exceeded: false,
        }
    }
}

impl Budget {
    /// A text of so many bytes is to be inspected.
    pub(super) fn add_text(&mut self, bytes: usize) {
        // Beyond that even a text of nothing but words of rules is read fast enough.
        self.bytes = self.bytes.saturating_add(8 * bytes).min(MOST_BYTES);
        self.forms = self.forms.saturating_add(2 * bytes);
        self.overlap = self.overlap.saturating_add(bytes / 4);
    }

    /// A text of a result of so many bytes is to be scored: only its sentences with signs are.
    pub(super) fn add_result(&mut self, bytes: usize) {
        self.scored = self.scored.saturating_add(bytes / 2).min(MOST_SCORED);
    }

    /// Takes so much from one of its parts, if there is as much; notes that there is not otherwise.
    pub(super) fn take(&mut self, part: impl FnOnce(&mut Self) -> &mut usize, bytes: usize) -> bool {
        let left = part(self);
        let rest = left.checked_sub(bytes);
        *left = rest.unwrap_or(*left);
        self.exceeded |= rest.is_none();
        rest.is_some()
    }
}
