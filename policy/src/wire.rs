//! Bytes of one direction into frames.

use crate::ids::Timestamp;

/// Bounds of what a stream may make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, in bytes; longer ones are skipped and reported.
    pub max_frame_bytes: usize,
    /// Longest block of headers before a `Content-Length` body, in bytes.
    pub max_header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_frame_bytes: 16 * 1024 * 1024, max_header_bytes: 8 * 1024 }
    }
}

/// What was cut out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// The JSON text of a message or a batch, perhaps invalid, without its framing.
    Frame {
        /// The text.
        bytes: &'a [u8],
        /// When the record that held its first byte was captured.
        time: Timestamp,
    },
    /// Bytes that are no frame.
    Junk {
        /// How many.
        bytes: u64,
        /// The first of them, 64 at most.
        sample: &'a [u8],
    },
    /// A frame over the bound was skipped.
    TooLong {
        /// How many bytes it had.
        bytes: u64,
    },
    /// The captured part of a frame that can never be completed.
    Lost {
        /// How many bytes.
        bytes: u64,
    },
}

/// Cuts the bytes of one direction of one connection into frames.
#[derive(Debug)]
pub struct FrameCutter {
    limits: Limits,
    buffer: Vec<u8>,
}

impl FrameCutter {
    /// A cutter at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self { limits, buffer: Vec::new() }
    }

    /// Takes the next bytes of the stream, captured at `time`.
    pub fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        let _ = (bytes, time, sink, &self.limits);
    }

    /// `bytes` of the stream were lost here.
    pub fn gap(&mut self, bytes: u64, sink: &mut impl FnMut(Cut<'_>)) {
        let _ = (bytes, sink);
    }

    /// Gives up the frame in progress to free its memory.
    pub fn discard_pending(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let _ = sink;
    }

    /// The stream ended.
    pub fn finish(&mut self, sink: &mut impl FnMut(Cut<'_>)) {
        let _ = sink;
    }

    /// Bytes held of an unfinished frame.
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }
}
