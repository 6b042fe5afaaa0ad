//! Bytes through a table, as the kernel half reads them.

use mcpwarden_gate::{
    BODY, CHUNK_BYTES, CODED, Chunk, Decision, END, Fault, HttpRequests, Marks, NOWHERE, Scan,
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
        let (who, mut marks, mut chunk) = (view.subject(subject), Marks::NONE, Chunk::default());
        let mut found = |said: Decision| GateSaid::of(said).into_iter().for_each(&mut each);
        self.0.begin(&view, who);
        let mut place = 0_u32;
        for bytes in bytes.chunks(CHUNK_BYTES) {
            chunk.bytes().iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            let (mut at, end) = (0, u32::try_from(bytes.len()).unwrap_or(0));
            chunk.end_at(end);
            self.0.expect(end);
            while at < end {
                let (to, said) = self.0.tokens(&view, who, &mut marks, &chunk, at, place + at);
                let said = if to == at {
                    at += 1;
                    self.0.step(&view, who, &mut marks, chunk.byte(at - 1), place + at - 1)
                } else {
                    at = to;
                    said
                };
                found(self.0.resolve(&view, said));
            }
            place += end;
        }
    }

    /// The worst that is said of anything in a write.
    pub fn worst(&mut self, table: &GateTable, subject: u32, bytes: &[u8]) -> GateVerdict {
        let mut worst = GateVerdict::Allow;
        self.write(table, subject, bytes, |said| worst = worst.max(said.verdict));
        worst
    }
}

/// What is remembered of one connection over HTTP: the messages lie in the bodies of its requests, each of which has its own.
///
/// The kernel half does not read HTTP yet; this shows what it is to make of it.
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
        for (place, byte) in (0_u32..).zip(bytes) {
            let is = self.requests.step(*byte);
            if is & BODY != 0 {
                self.messages.expect(1);
                let decision = self.messages.step(&view, who, &mut marks, *byte, place);
                let decision = self.messages.resolve(&view, decision);
                GateSaid::of(decision).into_iter().for_each(&mut each);
            }
            unread = if is & CODED != 0 { Some(GateUnread::Coded) } else { unread };
            if is & END != 0 && !self.messages.is_between() {
                // A message that its body cuts off is none, and what follows is no part of it.
                self.messages.reset();
            }
        }
        self.requests.fault().map(GateUnread::Fault).or(unread)
    }
}
