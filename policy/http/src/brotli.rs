//! brotli (RFC 7932), decoded piece by piece within bounds: what comes out of a piece, and the memory of its window.

use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;

/// Most that may come out of one piece. Bytes. A few bytes can stand for all that the format allows.
const MOST_AT_ONCE: usize = 8 << 20;
/// Output is handed over in pieces of this size. Bytes.
const BUFFER_BYTES: usize = 4 << 10;

/// Decodes one body.
pub(super) struct Brotli {
    decoder: DecompressorWriter<Bounded>,
    /// Bytes of what was decoded that the decoder keeps.
    window: usize,
}

/// Takes what comes out of one piece.
#[derive(Default)]
struct Bounded {
    out: Vec<u8>,
    is_full: bool,
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrotliError {
    /// The bytes are no brotli, or go on behind its end.
    Invalid,
    /// Too much comes out of one piece.
    TooMuch,
}

impl Brotli {
    /// A body that begins with this byte.
    pub(super) fn new(first: u8) -> Self {
        Self { decoder: DecompressorWriter::new(Bounded::default(), BUFFER_BYTES), window: window(first) }
    }

    /// Memory that it takes, at most, beside itself and its tables. Bytes.
    pub(super) fn held(&self) -> usize {
        self.window
    }

    /// What comes out of the next bytes, and whether more may come.
    pub(super) fn decode(&mut self, piece: &[u8]) -> (Vec<u8>, Result<(), BrotliError>) {
        let decoded = self.decoder.write_all(piece).and_then(|()| self.decoder.flush());
        let bounded = self.decoder.get_mut();
        let out = std::mem::take(&mut bounded.out);
        let error = if bounded.is_full { BrotliError::TooMuch } else { BrotliError::Invalid };
        (out, decoded.map_err(|_| error))
    }
}

impl fmt::Debug for Brotli {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Brotli(window of {} bytes)", self.window)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_full || self.out.len() + bytes.len() > MOST_AT_ONCE {
            self.is_full = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The size of the window, which the first bits say (RFC 7932, section 9.1). Bytes. What is reserved there is taken for the
/// largest: the decoder refuses it.
fn window(first: u8) -> usize {
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, 1) => 24,
        (_, 0, more) => 8 + u32::from(more),
        (_, some, _) => 17 + u32::from(some),
    };
    (1 << bits) - 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the table in RFC 7932, section 9.1, as the bits of the first byte.
    #[test]
    fn window_is_read_from_the_first_byte() {
        for (first, bits) in [
            (0b0, 16),
            (0b000_0001, 17),
            (0b011, 18),
            (0b101, 19),
            (0b111, 20),
            (0b1001, 21),
            (0b1011, 22),
            (0b1101, 23),
            (0b1111, 24),
            (0b010_0001, 10),
            (0b011_0001, 11),
            (0b111_0001, 15),
        ] {
            assert_eq!(window(first), (1 << bits) - 16, "{first:b}");
        }
    }

    #[test]
    fn zeros_beyond_the_bound_are_refused() {
        // 16 MiB, as Node's zlib makes it.
        let zeros = [
            203, 255, 255, 63, 248, 39, 0, 226, 177, 64, 32, 247, 254, 47, 255, 255, 255, 240, 79, 0, 196,
            97, 17, 128, 238, 253, 31,
        ];
        let mut brotli = Brotli::new(zeros[0]);
        let (out, decoded) = brotli.decode(&zeros);
        assert_eq!(decoded, Err(BrotliError::TooMuch));
        assert!(out.len() <= MOST_AT_ONCE && out.iter().all(|byte| *byte == 0), "{}", out.len());
        assert_eq!(brotli.decode(b"x").1, Err(BrotliError::TooMuch));
    }
}
