//! Bytes through a table, as the kernel half reads them.

use mcpwarden_gate::{
    CHUNK_BYTES, CODED, Chunk, Decision, END, Fault, HttpRequests, Marks, NOWHERE, Scan, Subject, View,
};

use super::{GateTable, GateVerdict, verdict};

/// What is remembered of one channel: the client's bytes on their way to a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateReader(Scan);

/// What is said of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSaid {
    /// What becomes of it.
    pub verdict: GateVerdict,
    /// Why: for [`GateTable::outcome`].
    pub outcome: u16,
    /// Which byte of this write neutralizes it, where one does.
    pub place: Option<usize>,
}

impl GateSaid {
    /// `None` where nothing is said.
    fn of(decision: Decision) -> Option<Self> {
        let Decision { outcome, place, .. } = decision;
        let place =
            Some(place).filter(|place| *place != NOWHERE).and_then(|place| usize::try_from(place).ok());
        (outcome != 0).then(|| Self { verdict: verdict(outcome), outcome, place })
    }
}

impl GateReader {
    /// Reads a write on a connection of this kind and tells `each` what is said of its messages, in order. Nothing is said of
    /// those that pass and are no calls.
    pub fn write(&mut self, table: &GateTable, subject: u32, bytes: &[u8], mut each: impl FnMut(GateSaid)) {
        let view = table.view();
        let (who, mut marks) = (view.subject(subject), Marks::NONE);
        self.0.begin(&view, who);
        for (index, bytes) in bytes.chunks(CHUNK_BYTES).enumerate() {
            piece(&mut self.0, (&view, who), &mut marks, bytes, index * CHUNK_BYTES, &mut each);
        }
    }

    /// The worst that is said of anything in a write.
    pub fn worst(&mut self, table: &GateTable, subject: u32, bytes: &[u8]) -> GateVerdict {
        let mut worst = GateVerdict::Allow;
        self.write(table, subject, bytes, |said| worst = worst.max(said.verdict));
        worst
    }
}

/// Reads a piece of a write, which is no longer than a chunk and begins at `place` of it.
fn piece(
    scan: &mut Scan,
    (view, who): (&View<'_>, &Subject),
    marks: &mut Marks,
    bytes: &[u8],
    place: usize,
    each: &mut impl FnMut(GateSaid),
) {
    let mut chunk = Chunk::default();
    chunk.bytes().iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    let place = u32::try_from(place).unwrap_or(NOWHERE);
    let (mut at, end) = (0, u32::try_from(bytes.len()).unwrap_or(0));
    chunk.end_at(end);
    scan.expect(end);
    while at < end {
        let (to, said) = scan.tokens(view, who, marks, &chunk, at, place.wrapping_add(at));
        let said = if to == at {
            at += 1;
            scan.step(view, who, marks, chunk.byte(at - 1), place.wrapping_add(at - 1))
        } else {
            at = to;
            said
        };
        GateSaid::of(scan.resolve(view, said)).into_iter().for_each(&mut *each);
    }
}

/// What is remembered of one connection over HTTP: the messages lie in the bodies of its requests, each of which has its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateHttpReader {
    requests: HttpRequests,
    messages: Scan,
}

/// Why a write over HTTP, or a part of it, was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateUnread {
    /// A body is in a coding.
    Coded,
    /// Nobody knows where in the stream this is, and never will.
    Fault(Fault),
}

impl GateHttpReader {
    /// Reads a write as [`GateReader::write`] does. Why not all of it was read, where that is so.
    pub fn write(
        &mut self,
        table: &GateTable,
        subject: u32,
        bytes: &[u8],
        mut each: impl FnMut(GateSaid),
    ) -> Option<GateUnread> {
        let view = table.view();
        let (who, mut marks, mut unread) = (view.subject(subject), Marks::NONE, None);
        self.messages.begin(&view, who);
        self.messages.read_bodies();
        let (mut place, mut rest) = (0, bytes);
        while let Some(first) = rest.first() {
            let ahead = usize::try_from(self.requests.body_ahead(*first)).unwrap_or(usize::MAX);
            let (body, after) = rest.split_at(ahead.min(CHUNK_BYTES).min(rest.len()));
            let is_end = if body.is_empty() {
                let is = self.requests.step(*first);
                unread = if is & CODED != 0 { Some(GateUnread::Coded) } else { unread };
                (place, rest) = (place + 1, rest.get(1..).unwrap_or_default());
                is & END != 0
            } else {
                piece(&mut self.messages, (&view, who), &mut marks, body, place, &mut each);
                (place, rest) = (place + body.len(), after);
                self.requests.pass_body(body.len() as u64)
            };
            if is_end {
                // A message that its body cuts off is none, and what follows is no part of it.
                self.messages.reset();
                marks = Marks::NONE;
            }
        }
        self.requests.fault().map(GateUnread::Fault).or(unread)
    }
}
