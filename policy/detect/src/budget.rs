//! How much work one message may take.

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes that patterns may still be run over.
    pub(super) bytes: usize,
    /// Hits that may still be found.
    pub(super) hits: usize,
    /// Bytes that may still come out of decoding.
    pub(super) decoded: usize,
    /// Whether one of them was not enough.
    pub(super) exceeded: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: 64 << 20, hits: 20_000, decoded: 1 << 20, exceeded: false }
    }
}
