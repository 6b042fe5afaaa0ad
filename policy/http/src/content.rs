//! What a body says: JSON, server-sent events, or nothing that matters here.

use mcpwarden_terms::{GapCause, Timestamp};

use super::coding::{Coding, CodingError, Decoder};
use super::sse::{self, Event, Events};

/// What comes out of a body.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// The whole of it, without outer blanks: begins with `{` or `[`, and is perhaps invalid.
    Json { bytes: &'a [u8], time: Timestamp },
    /// An event of its stream.
    Event(Event<'a>),
    /// Bytes of a message that was skipped.
    Gap { bytes: u64, cause: GapCause },
    /// Nothing more comes out.
    Undecodable(CodingError),
}

/// Reads one body.
#[derive(Debug)]
pub(super) struct Content {
    /// `None`: the coding is not known, or what came is not in it.
    decoder: Option<Decoder>,
    frame_bytes: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Nothing in it matters.
    Skip,
    /// It is text in another encoding than UTF-8.
    Unreadable,
    /// Before the first byte of JSON: so many bytes of a byte order mark were seen, or blanks.
    Begin { mark: usize, blank: bool },
    /// In JSON, which began at that time.
    Json { text: Vec<u8>, time: Timestamp },
    /// In a stream of events.
    Events(Box<Events>),
    /// In JSON that is given up, so many bytes of it.
    Lost { bytes: u64, cause: GapCause },
}

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

impl Content {
    /// A body that may be JSON.
    pub(super) fn json(coding: Coding, frame_bytes: usize) -> Self {
        Self::new(coding, frame_bytes, Body::Begin { mark: 0, blank: false })
    }

    /// A stream of events.
    pub(super) fn events(coding: Coding, frame_bytes: usize) -> Self {
        Self::new(coding, frame_bytes, Body::Events(Box::new(Events::new(frame_bytes))))
    }

    fn new(coding: Coding, frame_bytes: usize, body: Body) -> Self {
        let decoder = Decoder::new(coding, frame_bytes);
        let body = if decoder.is_some() { body } else { Body::Skip };
        Self { decoder, frame_bytes, body }
    }

    /// Whether it is in a coding that is not read, or not in the one that it says.
    pub(super) fn is_undecodable(&self) -> bool {
        self.decoder.is_none()
    }

    /// Whether nothing more will come out.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.body, Body::Skip)
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        match &self.body {
            Body::Json { text, .. } => text.len(),
            Body::Events(events) => events.held(),
            Body::Skip | Body::Unreadable | Body::Begin { .. } | Body::Lost { .. } => 0,
        }
    }

    /// Takes the next bytes of the body, captured at `time`.
    pub(super) fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut dyn FnMut(Piece<'_>)) {
        if self.is_over() {
            return;
        }
        let Self { decoder: Some(decoder), body, frame_bytes } = self else { return };
        let decoded = decoder.push(bytes, &mut |bytes| body.push(bytes, time, *frame_bytes, sink));
        let read = decoded.and(match body {
            Body::Unreadable => Err(CodingError::Invalid),
            _ => Ok(()),
        });
        if let Err(error) = read {
            (self.decoder, self.body) = (None, Body::Skip);
            sink(Piece::Undecodable(error));
        }
    }

    /// The body is whole.
    pub(super) fn end(self, sink: &mut dyn FnMut(Piece<'_>)) {
        match self.body {
            Body::Json { text, time } => sink(Piece::Json { bytes: text.trim_ascii_end(), time }),
            Body::Lost { bytes, cause } if bytes > 0 => sink(Piece::Gap { bytes, cause }),
            Body::Lost { .. } | Body::Skip | Body::Unreadable | Body::Begin { .. } | Body::Events(_) => {}
        }
    }

    /// Whether something is unfinished.
    pub(super) fn is_unfinished(&self) -> bool {
        match &self.body {
            Body::Json { .. } | Body::Lost { .. } => true,
            Body::Events(events) => events.is_unfinished(),
            Body::Skip | Body::Unreadable | Body::Begin { .. } => false,
        }
    }

    /// Bytes of the body were not captured here. Says how many others are given up with them.
    pub(super) fn gap(&mut self, cause: GapCause) -> u64 {
        match &mut self.body {
            Body::Events(events) if self.decoder.as_ref().is_some_and(Decoder::is_identity) => {
                events.gap(cause)
            }
            Body::Skip => 0,
            _ => self.lose(cause),
        }
    }

    /// Frees what is held. Says how much that was.
    pub(super) fn give_up(&mut self) -> u64 {
        match &mut self.body {
            Body::Events(events) => events.give_up(GapCause::Memory),
            Body::Json { .. } => self.lose(GapCause::Memory),
            Body::Skip | Body::Unreadable | Body::Begin { .. } | Body::Lost { .. } => 0,
        }
    }

    fn lose(&mut self, cause: GapCause) -> u64 {
        let held = self.held() as u64;
        self.body = Body::Lost { bytes: 0, cause };
        held
    }
}

impl Body {
    fn push(
        &mut self,
        mut bytes: &[u8],
        now: Timestamp,
        frame_bytes: usize,
        sink: &mut dyn FnMut(Piece<'_>),
    ) {
        if let Self::Begin { .. } = self {
            bytes = self.begin(bytes, now);
        }
        match self {
            Self::Skip | Self::Unreadable | Self::Begin { .. } => {}
            Self::Lost { bytes: lost, .. } => *lost += bytes.len() as u64,
            Self::Json { text, .. } if text.len() + bytes.len() > frame_bytes => {
                let bytes = (text.len() + bytes.len()) as u64;
                *self = Self::Lost { bytes, cause: GapCause::TooLong };
            }
            Self::Json { text, .. } => text.extend_from_slice(bytes),
            Self::Events(events) => events.push(bytes, now, &mut |piece| match piece {
                sse::Piece::Event(event) => sink(Piece::Event(event)),
                sse::Piece::Skipped { bytes, cause } => sink(Piece::Gap { bytes, cause }),
            }),
        }
    }

    /// What is left where JSON begins. What cannot be JSON is not held.
    fn begin<'a>(&mut self, bytes: &'a [u8], now: Timestamp) -> &'a [u8] {
        for (at, byte) in bytes.iter().enumerate() {
            let Self::Begin { mark, blank } = self else { break };
            match byte {
                b'{' | b'[' if matches!(mark, 0 | 3) => {
                    *self = Self::Json { text: Vec::new(), time: now };
                    return bytes.get(at..).unwrap_or_default();
                }
                b' ' | b'\t' | b'\r' | b'\n' if matches!(mark, 0 | 3) => *blank = true,
                byte if !*blank && BOM.get(*mark) == Some(byte) => *mark += 1,
                // UTF-16 or UTF-32: a byte order mark of those, or the first byte of a letter.
                0 | 0xFE | 0xFF if !*blank && *mark == 0 => *self = Self::Unreadable,
                _ => *self = Self::Skip,
            }
        }
        &[]
    }
}
