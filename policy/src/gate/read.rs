//! Bytes through a table, as the kernel half reads them.

use mcpwarden_gate::{CHUNK_BYTES, Chunk, Decision, Marks, NOWHERE, Scan};

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

impl GateReader {
    /// Reads a write on a connection of this kind and tells `each` what is said of its messages, in order. Nothing is said of
    /// those that pass and are no calls.
    pub fn write(&mut self, table: &GateTable, subject: u32, bytes: &[u8], mut each: impl FnMut(GateSaid)) {
        let view = table.view();
        let (who, mut marks, mut chunk) = (view.subject(subject), Marks::NONE, Chunk::default());
        let mut found = |said: Decision| {
            if said.outcome != 0 {
                let place = Some(said.place).filter(|place| *place != NOWHERE);
                let place = place.and_then(|place| usize::try_from(place).ok());
                each(GateSaid { verdict: verdict(said.outcome), outcome: said.outcome, place });
            }
        };
        self.0.begin(&view, who);
        let mut place = 0_u32;
        for bytes in bytes.chunks(CHUNK_BYTES) {
            chunk.bytes().iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            let (mut at, end) = (0, u32::try_from(bytes.len()).unwrap_or(0));
            chunk.end_at(end);
            while at < end {
                let (to, said) = self.0.tokens(&view, who, &mut marks, &chunk, at, place + at);
                if to == at {
                    found(self.0.step(&view, who, &mut marks, chunk.byte(at), place + at));
                    at += 1;
                } else {
                    found(said);
                    at = to;
                }
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
