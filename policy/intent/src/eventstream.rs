//! Event streams of Amazon (`application/vnd.amazon.eventstream`): bytes into messages, each with headers and a payload.
//!
//! A message is its length and that of its headers, in four bytes each, a checksum of these eight bytes, headers, payload, and
//! a checksum of all before it (CRC-32 as gzip has it). All numbers have their highest byte first.

use std::sync::LazyLock;

/// Both lengths and their checksum.
const PRELUDE_BYTES: usize = 12;
/// What stands around headers and payload.
const FRAME_BYTES: usize = PRELUDE_BYTES + 4;
/// The type of a header's value that is a text.
const STRING: u8 = 7;

/// What comes out.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// A message: the header `:event-type`, or `:exception-type`, and the payload.
    Event { kind: &'a str, is_exception: bool, payload: &'a [u8] },
    /// A message was longer than the bound, and is left out.
    TooLong,
    /// This is no message, and nothing of what follows is read.
    Broken,
}

/// Reads one stream.
#[derive(Debug)]
pub(crate) struct EventStream {
    max_bytes: usize,
    message: Vec<u8>,
    /// So much of a message that is left out is to come.
    skipped: usize,
    is_broken: bool,
}

impl EventStream {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, message: Vec::new(), skipped: 0, is_broken: false }
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.message.len()
    }

    /// Whether a message is unfinished.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.is_broken && (self.skipped > 0 || !self.message.is_empty())
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Message<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_broken {
            if self.skipped > 0 {
                self.skipped -= take(&mut rest, self.skipped).len();
                continue;
            }
            let missing = PRELUDE_BYTES.saturating_sub(self.message.len());
            self.message.extend_from_slice(take(&mut rest, missing));
            let Some(prelude) = self.message.first_chunk::<PRELUDE_BYTES>() else { return };
            let [length, headers, checksum] = numbers(prelude);
            if checksum != u64::from(crc32(&prelude[..8]))
                || length < headers.saturating_add(FRAME_BYTES as u64)
            {
                return self.give_up(sink);
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > self.max_bytes {
                self.skipped = length - self.message.len();
                self.message = Vec::new();
                sink(Message::TooLong);
                continue;
            }
            let missing = length.saturating_sub(self.message.len());
            self.message.extend_from_slice(take(&mut rest, missing));
            if self.message.len() == length {
                let message = std::mem::take(&mut self.message);
                match event(&message, usize::try_from(headers).unwrap_or(usize::MAX)) {
                    Some(event) => sink(event),
                    None => return self.give_up(sink),
                }
            }
        }
    }

    fn give_up(&mut self, sink: &mut dyn FnMut(Message<'_>)) {
        (self.message, self.is_broken) = (Vec::new(), true);
        sink(Message::Broken);
    }
}

fn take<'a>(rest: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (piece, after) = rest.split_at_checked(most).unwrap_or((rest, &[]));
    *rest = after;
    piece
}

fn numbers(prelude: &[u8; PRELUDE_BYTES]) -> [u64; 3] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *prelude;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(|number| u64::from(u32::from_be_bytes(number)))
}

/// What a whole message says.
fn event(message: &[u8], headers: usize) -> Option<Message<'_>> {
    let (covered, checksum) = message.split_last_chunk::<4>()?;
    if u32::from_be_bytes(*checksum) != crc32(covered) {
        return None;
    }
    let (mut headers, payload) = covered.get(PRELUDE_BYTES..)?.split_at_checked(headers)?;
    let (mut kind, mut is_exception) = ("", false);
    while let Some((&length, rest)) = headers.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let (&value_type, rest) = rest.split_first()?;
        let length = match value_type {
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            5 | 8 => 8,
            9 => 16,
            6 | STRING => 2 + usize::from(u16::from_be_bytes(*rest.first_chunk()?)),
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        let text = || std::str::from_utf8(value.get(2..).unwrap_or_default()).unwrap_or_default();
        match name {
            b":event-type" if value_type == STRING => kind = text(),
            b":exception-type" if value_type == STRING => (kind, is_exception) = (text(), true),
            _ => {}
        }
        headers = rest;
    }
    Some(Message::Event { kind, is_exception, payload })
}

static CRC: LazyLock<[u32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |sum, _| if sum & 1 == 1 { 0xEDB8_8320 ^ (sum >> 1) } else { sum >> 1 })
    })
});

/// The checksum of gzip (RFC 1952, section 8).
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        let at = usize::from(sum as u8 ^ byte);
        CRC.get(at).copied().unwrap_or_default() ^ (sum >> 8)
    })
}
