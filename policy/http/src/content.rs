//! What a body says: JSON, server-sent events, or nothing that matters here.

use mcpwarden_terms::{GapCause, Timestamp};

use super::coding::{Coding, CodingError, Decoder};
use super::head::ContentType;
use super::sse::{self, Event, Events};

/// What comes out of a body.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// The whole of it, as far as it can be decoded, without outer blanks: begins with `{` or `[`, and is perhaps invalid.
    Json { bytes: &'a [u8], time: Timestamp },
    /// An event of its stream.
    Event(Event<'a>),
    /// A piece of it, as it is.
    Raw(&'a [u8]),
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
    /// The same as a stream of events, where clients may take it for JSON or for that.
    events: Option<Box<Events>>,
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
    /// It is handed on as it comes.
    Raw,
    /// In JSON that is given up, so many bytes of it.
    Lost { bytes: u64, cause: GapCause },
}

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

impl Content {
    /// A body of this type.
    pub(super) fn new(kind: ContentType, coding: &Coding, frame_bytes: usize) -> Self {
        let events = || Box::new(Events::new(frame_bytes));
        let begin = Body::Begin { mark: 0, blank: false };
        let (body, events) = match kind {
            ContentType::Json => (begin, None),
            ContentType::Events => (Body::Events(events()), None),
            ContentType::Both => (begin, Some(events())),
        };
        match Decoder::new(coding, frame_bytes) {
            Some(decoder) => Self { decoder: Some(decoder), frame_bytes, body, events },
            None => Self { decoder: None, frame_bytes, body: Body::Skip, events: None },
        }
    }

    /// A body that is handed on as it comes.
    pub(super) fn raw(coding: &Coding, frame_bytes: usize) -> Self {
        let decoder = Decoder::new(coding, frame_bytes);
        let body = if decoder.is_some() { Body::Raw } else { Body::Skip };
        Self { decoder, frame_bytes, body, events: None }
    }

    /// Whether all of it came out so far, of one that is handed on as it comes.
    pub(super) fn is_raw(&self) -> bool {
        matches!(self.body, Body::Raw)
    }

    /// Whether it is in a coding that is not read, or not in the one that it says.
    pub(super) fn is_undecodable(&self) -> bool {
        self.decoder.is_none()
    }

    /// Whether nothing more will come out.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.body, Body::Skip) && self.events.is_none()
    }

    /// What came of it so far, of JSON that is in no coding.
    pub(super) fn json(&self) -> Option<&[u8]> {
        let is_plain = self.decoder.as_ref().is_some_and(Decoder::is_identity);
        match &self.body {
            Body::Begin { .. } if is_plain => Some(&[]),
            Body::Json { text, .. } if is_plain => Some(text),
            _ => None,
        }
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        let events = self.events.as_ref().map_or(0, |events| events.held());
        self.body.held() + events + self.decoder.as_ref().map_or(0, Decoder::held)
    }

    /// Takes the next bytes of the body, captured at `time`.
    pub(super) fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut dyn FnMut(Piece<'_>)) {
        if self.is_over() {
            return;
        }
        let Self { decoder: Some(decoder), body, events, frame_bytes } = self else {
            if let Body::Lost { bytes: lost, .. } = &mut self.body {
                *lost += bytes.len() as u64;
            }
            return;
        };
        let decoded = decoder.push(bytes, &mut |bytes| {
            body.push(bytes, time, *frame_bytes, sink);
            if let Some(events) = events {
                let is_json = body.is_json();
                events.push(bytes, time, &mut |piece| event_piece(piece, is_json, sink));
            }
        });
        let read = decoded.and(match body {
            Body::Unreadable => Err(CodingError::Invalid),
            _ => Ok(()),
        });
        if let Err(error) = read {
            self.decoder = None;
            sink(Piece::Undecodable(error));
            // Clients that do not mind what is wrong behind it have what came before.
            if error == CodingError::Invalid {
                self.end(sink);
            }
            (self.body, self.events) = (Body::Skip, None);
        }
    }

    /// The body is whole.
    pub(super) fn end(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        self.end_events(sink);
        match std::mem::replace(&mut self.body, Body::Skip) {
            Body::Json { text, time } => sink(Piece::Json { bytes: text.trim_ascii_end(), time }),
            Body::Lost { bytes, cause } if bytes > 0 => sink(Piece::Gap { bytes, cause }),
            Body::Lost { .. }
            | Body::Skip
            | Body::Unreadable
            | Body::Begin { .. }
            | Body::Events(_)
            | Body::Raw => {}
        }
    }

    /// The stream of events ended, perhaps with its connection.
    pub(super) fn end_events(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        let is_json = self.body.is_json();
        let events = match (&mut self.body, &mut self.events) {
            (Body::Events(events), _) | (_, Some(events)) => events,
            _ => return,
        };
        events.finish(&mut |piece| event_piece(piece, is_json, sink));
    }

    /// Whether something is unfinished.
    pub(super) fn is_unfinished(&self) -> bool {
        self.body.is_json()
    }

    /// Bytes of the body were not captured here. Says how many others are given up with them.
    pub(super) fn gap(&mut self, cause: GapCause) -> u64 {
        self.prefer_events();
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
        self.prefer_events();
        let window = self.decoder.as_ref().map_or(0, Decoder::held);
        if window > 0 {
            // Without its window nothing more can be decoded.
            self.decoder = None;
            return self.lose(GapCause::Memory);
        }
        match &mut self.body {
            Body::Events(events) => events.give_up(GapCause::Memory),
            Body::Json { .. } => self.lose(GapCause::Memory),
            Body::Skip | Body::Unreadable | Body::Begin { .. } | Body::Lost { .. } | Body::Raw => 0,
        }
    }

    /// One of two readings is enough to say what is lost: that which goes on behind a gap, unless it is JSON.
    fn prefer_events(&mut self) {
        if let Some(events) = self.events.take()
            && !self.body.is_json()
        {
            self.body = Body::Events(events);
        }
    }

    fn lose(&mut self, cause: GapCause) -> u64 {
        let held = self.body.held() as u64;
        self.body = Body::Lost { bytes: 0, cause };
        held
    }
}

/// Hands on what came out of a stream of events, and of one that is JSON as well only events: a line that is too long is
/// said of the JSON.
fn event_piece(piece: sse::Piece<'_>, is_json: bool, sink: &mut dyn FnMut(Piece<'_>)) {
    match piece {
        sse::Piece::Event(event) => sink(Piece::Event(event)),
        sse::Piece::Skipped { .. } if is_json => {}
        sse::Piece::Skipped { bytes, cause } => sink(Piece::Gap { bytes, cause }),
    }
}

impl Body {
    /// Whether JSON has begun.
    fn is_json(&self) -> bool {
        matches!(self, Self::Json { .. } | Self::Lost { .. })
    }

    /// Bytes held.
    fn held(&self) -> usize {
        match self {
            Self::Json { text, .. } => text.len(),
            Self::Events(events) => events.held(),
            Self::Skip | Self::Unreadable | Self::Begin { .. } | Self::Lost { .. } | Self::Raw => 0,
        }
    }

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
            Self::Raw => sink(Piece::Raw(bytes)),
            Self::Lost { bytes: lost, .. } => *lost += bytes.len() as u64,
            Self::Json { text, .. } if text.len() + bytes.len() > frame_bytes => {
                let bytes = (text.len() + bytes.len()) as u64;
                *self = Self::Lost { bytes, cause: GapCause::TooLong };
            }
            Self::Json { text, .. } => text.extend_from_slice(bytes),
            Self::Events(events) => events.push(bytes, now, &mut |piece| event_piece(piece, false, sink)),
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
                // Some readers drop one mark, and their parser of JSON another.
                byte if !*blank && BOM.get(*mark % BOM.len()) == Some(byte) => *mark = *mark % BOM.len() + 1,
                // UTF-16 or UTF-32: a byte order mark of those, or the first byte of a letter.
                0 | 0xFE | 0xFF if !*blank && *mark == 0 => *self = Self::Unreadable,
                _ => *self = Self::Skip,
            }
        }
        &[]
    }
}
