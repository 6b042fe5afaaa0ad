//! Bounds of what may grow.

use std::time::Duration;

/// Bounds of what may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Longest frame, in bytes, decoded; a longer one is skipped and said.
    pub frame_bytes: usize,
    /// Longest head and longest trailers, in bytes; a stream with a longer one is given up and that is said.
    pub head_bytes: usize,
    /// Most streams at once; more are refused and counted.
    pub streams: usize,
    /// Most links at once; messages of more are not inspected, and that is said.
    pub links: usize,
    /// Those of one client.
    pub links_of_client: usize,
    /// What all streams together may hold of unfinished messages, in bytes. Beyond, the stream that grows gives up
    /// what it holds.
    pub held_bytes: usize,
    /// A link without an open stream is closed when it was idle for this long.
    pub idle: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            frame_bytes: 16 * 1024 * 1024 + 64 * 1024,
            head_bytes: 64 * 1024,
            streams: 8192,
            links: 4096,
            links_of_client: 512,
            held_bytes: 256 * 1024 * 1024,
            idle: Duration::from_secs(300),
        }
    }
}
