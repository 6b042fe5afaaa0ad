//! Bodies behind a block of `Content-Length` headers.

use mcpwarden_terms::Timestamp;

use super::blank::LineEnds;
use super::header::{Header, HeaderLine};
use super::{Before, Cut, FrameCutter, Framing, State, scan};

impl FrameCutter {
    pub(super) fn headers(
        &mut self,
        mut header: Header,
        time: Timestamp,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let first = bytes.first().copied().unwrap_or_default();
        if self.buffer.is_empty() && matches!(first, b'{' | b'[') {
            // No header, nor the empty line after the last: what came before was text.
            self.emit_junk(header.bytes, sink);
            self.state = State::Boundary(Before::Line);
            return 0;
        }
        let end = scan::line_feed(bytes);
        let used = end.map_or(bytes.len(), |at| at + 1);
        let room = (self.limits.max_header_bytes as u64)
            .saturating_sub(header.bytes)
            .saturating_sub(self.buffer.len() as u64);
        if used as u64 > room {
            let held = std::mem::take(&mut self.buffer);
            self.no_header(header, &held, time, sink);
            return 0;
        }
        self.buffer.extend_from_slice(bytes.get(..used).unwrap_or(bytes));
        if end.is_none() {
            self.state = State::Headers(header);
            return used;
        }
        let held = std::mem::take(&mut self.buffer);
        let before = header;
        header.bytes += held.len() as u64;
        self.state = match header.line(&held) {
            HeaderLine::More => {
                self.note_sample(&held);
                State::Headers(header)
            }
            HeaderLine::Body(length) if length <= self.limits.max_frame_bytes => {
                self.note_sample(&held);
                let header_bytes = header.bytes;
                State::Body { header_bytes, remaining: length, line_start: 0, time: Timestamp::default() }
            }
            // A body over the bound is not waited for: its length may be a lie. It will be too long as a line.
            HeaderLine::Body(_) => {
                self.note_sample(&held);
                self.emit_junk(header.bytes, sink);
                State::Boundary(Before::Line)
            }
            HeaderLine::Text => {
                self.no_header(before, &held, time, sink);
                return used;
            }
        };
        self.reuse(held);
        used
    }

    /// A line that could have been a header is none: it is read as text.
    fn no_header(&mut self, header: Header, line: &[u8], time: Timestamp, sink: &mut impl FnMut(Cut<'_>)) {
        if header.is_behind_frame {
            sink(Cut::Ambiguous(Framing::TextBehind));
        }
        self.state = State::Junk { bytes: header.bytes, ends: LineEnds::default() };
        self.again(line, time, sink);
    }

    pub(super) fn body(
        &mut self,
        header_bytes: u64,
        remaining: usize,
        line_start: usize,
        time: Timestamp,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let body = bytes.get(..remaining.min(bytes.len())).unwrap_or(bytes);
        let blanks = if self.buffer.is_empty() { scan::leading_blanks(body) } else { 0 };
        let body = body.get(blanks..).unwrap_or_default();
        let remaining = remaining - blanks;
        if remaining == 0 {
            self.state = State::Boundary(Before::Line);
            return blanks;
        }
        let Some(&first) = body.first() else {
            self.state = State::Body { header_bytes, remaining, line_start, time };
            return blanks;
        };
        if self.buffer.is_empty() && !matches!(first, b'{' | b'[') {
            self.emit_junk(header_bytes, sink);
            self.state = State::Boundary(Before::Line);
            return blanks;
        }
        if self.buffer.is_empty() && body.len() == remaining {
            let text = scan::trim(body);
            if scan::line_feed(text).is_none() && scan::is_json(text) {
                self.state = State::Boundary(Before::Line);
                sink(Cut::Frame { bytes: text, time });
                return blanks + body.len();
            }
        }
        let feed = scan::line_feed(body);
        let piece = body.get(..feed.map_or(body.len(), |at| at + 1)).unwrap_or(body);
        self.buffer.extend_from_slice(piece);
        let remaining = remaining - piece.len();
        let used = blanks + piece.len();
        let line = self.buffer.get(line_start..).unwrap_or_default();
        if remaining == 0 && scan::starts_value(line) && !scan::is_json(&self.buffer) {
            // The body ends within a line: whoever reads lines reads on, and so do we.
            if line_start > 0 {
                self.emit_junk(header_bytes + line_start as u64, sink);
                self.buffer.drain(..line_start);
            }
            let held = std::mem::take(&mut self.buffer);
            self.state = State::Boundary(Before::Line);
            self.again(&held, time, sink);
        } else if remaining == 0 {
            let held = std::mem::take(&mut self.buffer);
            sink(Cut::Frame { bytes: scan::trim(&held), time });
            self.state = State::Boundary(Before::Line);
            self.reuse(held);
        } else if feed.is_some() && scan::is_message(line) {
            let held = std::mem::take(&mut self.buffer);
            if line_start > 0 {
                self.emit_junk(header_bytes + line_start as u64, sink);
            }
            sink(Cut::Frame { bytes: scan::trim(held.get(line_start..).unwrap_or(&held)), time });
            self.state = State::Boundary(Before::Line);
            self.reuse(held);
        } else {
            let line_start = if feed.is_some() { self.buffer.len() } else { line_start };
            self.state = State::Body { header_bytes, remaining, line_start, time };
        }
        used
    }
}
