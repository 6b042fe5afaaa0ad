//! What is no frame: text, what is too long, and what a gap left over.

use super::blank::LineEnds;
use super::value::{Step, ValueScan};
use super::{Before, Cut, FrameCutter, JUNK_PIECE_BYTES, State, scan};

impl FrameCutter {
    pub(super) fn junk(
        &mut self,
        before: u64,
        mut ends: LineEnds,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        // `before` can be over the size of a piece only behind a header block as long as that.
        let room = usize::try_from(JUNK_PIECE_BYTES.saturating_sub(before)).unwrap_or(usize::MAX).max(1);
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        let end = ends.next_end(bytes);
        if let Some(at) = end.filter(|at| bytes.get(*at) == Some(&b'{')) {
            self.note_sample(bytes.get(..at).unwrap_or_default());
            self.emit_junk(before + at as u64, sink);
            self.state = State::Boundary(Before::Text);
            return at;
        }
        let used = end.map_or(bytes.len(), |at| at + 1);
        self.note_sample(bytes.get(..used).unwrap_or(bytes));
        let total = before + used as u64;
        if let Some(end) = end {
            self.state = State::JunkEnd { bytes: total };
            if bytes.get(end) == Some(&b'\n') {
                self.emit_junk(total, sink);
                self.state = State::Boundary(Before::Line);
            }
        } else if total >= JUNK_PIECE_BYTES {
            self.emit_junk(total, sink);
            self.state = State::Junk { bytes: 0, ends };
        } else {
            self.state = State::Junk { bytes: total, ends };
        }
        used
    }

    pub(super) fn junk_end(&mut self, before: u64, bytes: &[u8], sink: &mut impl FnMut(Cut<'_>)) -> usize {
        let is_line_feed = bytes.first() == Some(&b'\n');
        self.note_sample(if is_line_feed { b"\n" } else { b"" });
        self.emit_junk(before + u64::from(is_line_feed), sink);
        self.state = State::Boundary(if is_line_feed { Before::Line } else { Before::OddLine });
        usize::from(is_line_feed)
    }

    /// Takes more of a value over the bound.
    pub(super) fn skip_value(
        &mut self,
        before: u64,
        mut scan: ValueScan,
        bytes: &[u8],
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let (end, next, used) = match scan.advance(bytes) {
            Step::More => {
                let bytes_before = before + bytes.len() as u64;
                self.state = State::TooLong { bytes: bytes_before, scan: Some(scan) };
                return bytes.len();
            }
            Step::Closed(end) => (end, Before::Frame, end),
            Step::LineFeed(end) => (end, Before::Line, end + 1),
        };
        sink(Cut::TooLong { bytes: before + end as u64 });
        self.state = State::Boundary(next);
        used
    }

    /// Takes more of a line over the bound, or of one whose beginning was lost.
    pub(super) fn skip(
        &mut self,
        before: u64,
        bytes: &[u8],
        long: bool,
        sink: &mut impl FnMut(Cut<'_>),
    ) -> usize {
        let end = scan::line_feed(bytes);
        let total = before + end.unwrap_or(bytes.len()) as u64;
        match (end, long) {
            (Some(_), true) => sink(Cut::TooLong { bytes: total }),
            (Some(_), false) => sink(Cut::Lost { bytes: total + 1 }),
            (None, true) => self.state = State::TooLong { bytes: total, scan: None },
            (None, false) => self.state = State::Lost { bytes: total },
        }
        if end.is_some() {
            self.state = State::Boundary(Before::Line);
        }
        end.map_or(bytes.len(), |at| at + 1)
    }
}
