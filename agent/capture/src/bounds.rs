//! Bounds of capture, and what it counts.

/// Bounds of what input can make grow. Bytes.
#[derive(Clone, Debug)]
pub struct CaptureLimits {
    /// Longest frame.
    pub message_bytes: usize,
    /// All that waits to be whole, of all streams together.
    pub reassembly_bytes: usize,
    /// The same of one user's servers. What is not known to be anybody's yet counts as one user's.
    pub per_uid_bytes: usize,
    /// Connections known at once.
    pub connections: usize,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            // 16 MiB of content, and its envelope.
            message_bytes: (16 << 20) + (64 << 10),
            reassembly_bytes: 96 << 20,
            per_uid_bytes: 48 << 20,
            connections: 8_192,
        }
    }
}

/// What was refused or odd, in numbers. They only grow.
#[derive(Clone, Debug, Default)]
pub struct CaptureCounters {
    /// Records read.
    pub records: u64,
    /// Bytes of channels in them.
    pub bytes: u64,
    /// Records that could not be taken apart.
    pub malformed_records: u64,
    /// Bytes declared missing.
    pub missing_bytes: u64,
    /// How often an unfinished frame was given up, or waiting for a record, because memory was short.
    pub memory_refused_frames: u64,
    /// Bytes that are missing for it.
    pub memory_refused_bytes: u64,
    /// Connections whose bytes were taken in before the record of their exec: it did not come, or too much waited.
    pub execs_not_awaited: u64,
    /// Connections refused because there were too many.
    pub connections_refused: u64,
}
