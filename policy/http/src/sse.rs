//! Server-sent events (WHATWG HTML, section 9.2.6, "Interpreting an event stream").

use mcpwarden_terms::{GapCause, Timestamp};

/// What an event is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Name {
    /// A message: `event: message`, or none.
    #[default]
    Message,
    /// Where to POST, of the older transport.
    Endpoint,
    /// Anything else, which some clients of MCP leave alone, and others read all the same.
    Other,
}

/// What comes out of a stream.
#[derive(Debug)]
pub enum Piece<'a> {
    /// A whole event.
    Event(Event<'a>),
    /// One was skipped: so many bytes of it.
    Skipped {
        /// Of its data, and of lines that mean nothing.
        bytes: u64,
        /// Why.
        cause: GapCause,
    },
}

/// A whole event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// What it is for.
    pub name: Name,
    /// Its `data:` lines, joined.
    pub data: &'a [u8],
    /// Its own `id:`.
    pub id: Option<&'a [u8]>,
    /// When its first byte came.
    pub time: Timestamp,
    /// Where it may be the rest of one whose beginning was lost: why.
    pub doubt: Option<GapCause>,
    /// Whether its empty line came: where the stream ends without it, some clients take the event and others do not.
    pub is_ended: bool,
}

/// Longest id that is kept, in bytes.
const ID_BYTES: usize = 1024;
/// A buffer that grew beyond this is freed after its event: streams wait most of the time.
const KEPT_BYTES: usize = 4 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";
/// What ends a line for Python's `splitlines`, which some clients cut events with, besides carriage return and line feed.
const OTHER_ENDS: [char; 8] =
    ['\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Reads one stream. What it gives does not depend on how the bytes are cut, but behind a gap.
#[derive(Debug)]
pub struct Events {
    max_bytes: usize,
    /// The unfinished line.
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed now belongs to it.
    returned: bool,
    at_start: bool,
    data: Vec<u8>,
    name: Name,
    id: Option<Vec<u8>>,
    /// When the first line of the event came.
    time: Option<Timestamp>,
    doubt: Option<GapCause>,
    /// The event in progress is skipped: so many bytes of it, and why.
    skipped: Option<(u64, GapCause)>,
    /// Of a line that is skipped: whether it has begun.
    begun: bool,
    /// Behind a gap; the next piece says whether it begins an event.
    lost: Option<GapCause>,
}

impl Events {
    /// At the beginning of a stream of events of at most `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            returned: false,
            at_start: true,
            data: Vec::new(),
            name: Name::Message,
            id: None,
            time: None,
            doubt: None,
            skipped: None,
            begun: false,
            lost: None,
        }
    }

    /// Bytes held.
    pub fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Takes the next bytes, captured at `time`.
    pub fn push(&mut self, bytes: &[u8], time: Timestamp, sink: &mut dyn FnMut(Piece<'_>)) {
        let mut rest = bytes;
        let lost = self.lost.take();
        if lost.is_some() && is_field(rest) {
            (self.skipped, self.doubt) = (None, lost);
        }
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.returned) && first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            self.time.get_or_insert(time);
            let end = memchr::memchr2(b'\r', b'\n', rest);
            let (piece, after) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
            if self.skipped.is_none() && self.held() + piece.len() > self.max_bytes {
                let held = self.give_up(GapCause::TooLong);
                self.skipped = Some((held, GapCause::TooLong));
            }
            match (end, &mut self.skipped) {
                (_, Some((skipped, _))) => {
                    *skipped += piece.len() as u64;
                    self.begun |= !piece.is_empty();
                    if end.is_some() && !std::mem::take(&mut self.begun) {
                        self.dispatch(time, true, sink);
                    }
                }
                (None, None) => self.line.extend_from_slice(piece),
                (Some(_), None) if self.line.is_empty() => self.end_line(piece, time, sink),
                (Some(_), None) => {
                    let mut line = std::mem::take(&mut self.line);
                    line.extend_from_slice(piece);
                    self.end_line(&line, time, sink);
                }
            }
            let Some((&end, after)) = after.split_first() else { break };
            self.returned = end == b'\r';
            rest = after;
        }
    }

    fn end_line(&mut self, line: &[u8], time: Timestamp, sink: &mut dyn FnMut(Piece<'_>)) {
        let mut line = line;
        if std::mem::take(&mut self.at_start) {
            // Some readers drop one, and their parser of events another.
            while let Some(rest) = line.strip_prefix(BOM) {
                line = rest;
            }
        }
        match line.is_empty() {
            true => self.dispatch(time, true, sink),
            false => self.field(line),
        }
    }

    fn field(&mut self, line: &[u8]) {
        let colon = memchr::memchr(b':', line);
        let (field, value) = line.split_at_checked(colon.unwrap_or(line.len())).unwrap_or((line, &[]));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.name = match value {
                    b"" | b"message" => Name::Message,
                    b"endpoint" => Name::Endpoint,
                    _ => Name::Other,
                }
            }
            b"id" if !value.contains(&0) => {
                self.id = Some(value.to_vec()).filter(|id| !id.is_empty() && id.len() <= ID_BYTES);
            }
            // A comment, `retry`, or a field that means nothing.
            _ => self.hidden(line),
        }
    }

    /// Takes the data in a line that means nothing to those who end lines as they should, and has others to those who do not.
    fn hidden(&mut self, line: &[u8]) {
        // What these ends begin with in UTF-8.
        if !line.iter().any(|byte| matches!(byte, 0x0b | 0x0c | 0x1c..=0x1e | 0xc2 | 0xe2)) {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let lines = line.split(OTHER_ENDS).skip(1);
        for value in lines.filter_map(|line| line.strip_prefix("data:")) {
            self.data.extend_from_slice(value.strip_prefix(' ').unwrap_or(value).as_bytes());
            self.data.push(b'\n');
        }
    }

    /// The stream ended. What came since the last empty line is handed on.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Piece<'_>)) {
        let line = std::mem::take(&mut self.line);
        if self.skipped.is_none() && !line.is_empty() {
            self.field(line.strip_prefix(BOM).filter(|_| self.at_start).unwrap_or(&line));
        }
        self.dispatch(Timestamp::default(), false, sink);
    }

    /// The event ended, with an empty line or with the stream.
    fn dispatch(&mut self, time: Timestamp, is_ended: bool, sink: &mut dyn FnMut(Piece<'_>)) {
        let time = self.time.take().unwrap_or(time);
        let (id, name) = (self.id.take(), std::mem::take(&mut self.name));
        let doubt = self.doubt.take();
        if let Some((bytes, cause)) = self.skipped.take() {
            if bytes > 0 {
                sink(Piece::Skipped { bytes, cause });
            }
        } else if let Some((_, data)) = self.data.split_last() {
            sink(Piece::Event(Event { name, data, id: id.as_deref(), time, doubt, is_ended }));
        }
        self.data.clear();
        if self.data.capacity() > KEPT_BYTES {
            self.data = Vec::new();
        }
    }

    /// Gives up the event in progress to free its memory; the stream goes on at the next. Says how much it was.
    pub fn give_up(&mut self, cause: GapCause) -> u64 {
        let held = self.held() as u64;
        self.begun |= !self.line.is_empty();
        (self.line, self.data) = (Vec::new(), Vec::new());
        self.skipped = Some((self.skipped.map_or(0, |(bytes, _)| bytes), cause));
        held
    }

    /// Bytes were not captured here. The event in progress is given up; the stream goes on behind it, or with the next
    /// piece that begins with a field. Says how much was given up.
    pub fn gap(&mut self, cause: GapCause) -> u64 {
        let held = self.give_up(cause);
        (self.begun, self.returned, self.at_start, self.lost) = (false, false, false, Some(cause));
        held
    }
}

/// Whether this begins with a field of an event, or a comment.
pub fn is_field(piece: &[u8]) -> bool {
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|field| piece.starts_with(field))
}
