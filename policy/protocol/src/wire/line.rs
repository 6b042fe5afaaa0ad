//! Frames that begin a line, or follow another on it.

use mcpwarden_terms::Timestamp;

use super::blank::{Blank, LineEnds, blank};
use super::header::{Header, HeaderLine};
use super::scan;
use super::spread::Spread;
use super::value::{Step, ValueScan};
use super::{BOM, Before, Cut, FrameCutter, Framing, State, behind_brackets, lines_within, to_some};

impl FrameCutter {
    pub(super) fn boundary(
        &mut self,
        mut before: Before,
        bytes: &[u8],
        time: Timestamp,
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let rest = bytes.get(at..).unwrap_or_default();
            match byte {
                b'\n' => before = Before::Line,
                b' ' | b'\t' | b'\r' => {}
                b'{' | b'[' => {
                    self.at_start = false;
                    // Straight on in the most frequent case, so that a burst of lines costs one step each.
                    return at
                        + match before {
                            Before::Gap => self.line(time, rest, sink),
                            _ => self.value(before, ValueScan::default(), time, rest, sink),
                        };
                }
                _ => {
                    let mut length = 1;
                    while length < rest.len()
                        && blank(rest.get(..length).unwrap_or_default()) == Blank::Partial
                    {
                        length += 1;
                    }
                    let found = rest.get(..length).unwrap_or_default();
                    match blank(found) {
                        Blank::Whole => {
                            before = self.behind_blank(before, found);
                            at += length;
                            continue;
                        }
                        Blank::Partial => {
                            let mut held = [0; 2];
                            held.iter_mut().zip(found).for_each(|(held, byte)| *held = *byte);
                            self.state = State::Blank { before, bytes: held, seen: length };
                            return bytes.len();
                        }
                        Blank::Other => self.text(before, byte, sink),
                    }
                    return at;
                }
            }
            self.at_start = false;
            at += 1;
        }
        self.state = State::Boundary(before);
        bytes.len()
    }

    /// What is before the next byte, behind an unusual blank.
    fn behind_blank(&mut self, before: Before, blank: &[u8]) -> Before {
        let is_mark = std::mem::take(&mut self.at_start) && blank == BOM;
        match before {
            Before::Line if is_mark => Before::Line,
            Before::Line | Before::OddLine => Before::OddBlank,
            before => before,
        }
    }

    /// Text begins with this byte where a frame could have.
    fn text(&mut self, before: Before, byte: u8, sink: &mut impl FnMut(Cut<'_>)) {
        self.at_start = false;
        self.sampled = 0;
        self.state = match byte {
            b'c' | b'C' => State::Headers(Header::behind(before == Before::Frame)),
            _ if before == Before::Gap => State::Lost { bytes: 0 },
            _ => {
                if before == Before::Frame {
                    sink(Cut::Ambiguous(Framing::TextBehind));
                }
                State::Junk { bytes: 0, ends: LineEnds::default() }
            }
        };
    }

    pub(super) fn blank(
        &mut self,
        before: Before,
        (held, seen): ([u8; 2], usize),
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let [first, second] = held;
        let next = bytes.first().copied().unwrap_or_default();
        let all = [first, if seen == 1 { next } else { second }, next];
        let found = all.get(..=seen).unwrap_or(&all);
        match blank(found) {
            Blank::Whole => {
                self.state = State::Boundary(self.behind_blank(before, found));
                1
            }
            Blank::Partial => {
                self.state = State::Blank { before, bytes: [first, next], seen: 2 };
                1
            }
            Blank::Other => {
                let held = held.get(..seen).unwrap_or(&held);
                self.text(before, first, sink);
                match &mut self.state {
                    State::Junk { bytes, ends } => {
                        *bytes = seen as u64;
                        held.iter().for_each(|byte| {
                            ends.advance(*byte);
                        });
                    }
                    State::Lost { bytes } => *bytes = seen as u64,
                    _ => {}
                }
                self.note_sample(held);
                0
            }
        }
    }

    pub(super) fn value(
        &mut self,
        before: Before,
        mut scan: ValueScan,
        time: Timestamp,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let scanned = scan;
        let step = scan.advance(bytes);
        let end = match step {
            Step::Closed(end) | Step::LineFeed(end) => end,
            Step::More => bytes.len(),
        };
        if self.buffer.len() + end > self.limits.max_frame_bytes {
            self.state = State::TooLong { bytes: self.buffer.len() as u64, scan: Some(scanned) };
            self.buffer = Vec::new();
            return 0;
        }
        let piece = bytes.get(..end).unwrap_or(bytes);
        if step == Step::More {
            self.buffer.extend_from_slice(piece);
            self.state = State::Value { before, scan, time };
            return end;
        }
        let mut held = std::mem::take(&mut self.buffer);
        let text = if held.is_empty() {
            piece
        } else {
            held.extend_from_slice(piece);
            &held
        };
        let used = if before == Before::Text && !(matches!(step, Step::Closed(_)) && scan::is_message(text)) {
            // It is text as well; but a reader to whom something other than LF ends a line may find a message in it, or behind a brace.
            let any = lines_within(text, &mut to_some(time, sink));
            if let (Step::LineFeed(_), false) = (step, any) {
                behind_brackets(text, &mut to_some(time, sink));
            }
            self.note_sample(text);
            self.state = State::Junk { bytes: text.len() as u64, ends: LineEnds::default() };
            end
        } else if let Step::LineFeed(_) = step {
            self.state = State::Boundary(Before::Line);
            self.emit(scan::trim(text), before, time, sink);
            self.begun = Spread::begin(&[text, b"\n"].concat(), time).map(Box::new);
            end + 1
        } else {
            self.state = State::Boundary(Before::Frame);
            self.emit(text, before, time, sink);
            end
        };
        self.reuse(held);
        used
    }

    /// A frame is whole, for readers of a stream and, if all is as it should be, of lines.
    fn emit(&mut self, text: &[u8], before: Before, time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        sink(Cut::Frame { bytes: text, time });
        if let Some(framing) = before.framing() {
            sink(Cut::Ambiguous(framing));
        }
    }

    /// Takes more of a line behind a gap.
    pub(super) fn line(&mut self, time: Timestamp, bytes: &[u8], sink: &mut impl FnMut(Cut<'_>)) -> usize {
        let end = scan::line_feed(bytes);
        let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
        if self.buffer.len() + piece.len() > self.limits.max_frame_bytes {
            self.state = State::TooLong { bytes: self.buffer.len() as u64, scan: None };
            self.buffer = Vec::new();
            return 0;
        }
        let Some(end) = end else {
            self.buffer.extend_from_slice(piece);
            self.state = State::Line { time };
            return bytes.len();
        };
        if self.buffer.is_empty() {
            self.end_line(piece, time, sink);
        } else {
            self.buffer.extend_from_slice(piece);
            let held = std::mem::take(&mut self.buffer);
            self.end_line(&held, time, sink);
            // A header that followed on the same line is in the buffer by now and is gone when it is not read.
            self.reuse(held);
        }
        end + 1
    }

    /// A line behind a gap is whole. It may be the end of one.
    fn end_line(&mut self, line: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        self.state = State::Boundary(Before::Line);
        let text = scan::trim(line);
        let value = scan::value_end(text);
        if value == Some(text.len()) {
            sink(Cut::Frame { bytes: text, time });
        } else if let Some(end) = value
            && let Some(tail) = text.get(end..)
            && Header::starts(tail)
        {
            // A body without a line feed, and the header of the next: a stream in the middle of which we began.
            sink(Cut::Frame { bytes: text.get(..end).unwrap_or(text), time });
            self.sampled = 0;
            self.note_sample(tail);
            let mut header = Header::default();
            header.bytes = tail.len() as u64 + 1;
            self.state = match header.line(tail) {
                HeaderLine::More => State::Headers(header),
                _ => {
                    self.emit_junk(header.bytes, sink);
                    State::Boundary(Before::Line)
                }
            };
        } else {
            sink(Cut::Lost { bytes: line.len() as u64 + 1 });
        }
    }
}
