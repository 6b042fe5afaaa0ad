//! Content codings (RFC 9110, section 8.4.1): gzip, deflate and brotli, each as often as it is named, decoded piece by piece.
//!
//! zstd is recognised and not decoded: no decoder in Rust hands out what a server has flushed before its window is full.

use std::io::Write;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use super::brotli::{Brotli, BrotliError};

/// Decoded at once: the most that comes of it is 1,032 times as much (RFC 1951 allows no more).
const PIECE_BYTES: usize = 4 * 1024;
/// A body that decodes to more than this many times its size, beyond the longest frame, is a bomb. JSON and text are
/// 3 to 20 times as long as when compressed.
const MAX_RATIO: u64 = 128;
/// Most codings of one body, one inside the other. curl takes five.
const MAX_CODINGS: usize = 5;

/// In what a body, or what comes out of another coding, is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// gzip, RFC 1952.
    Gzip,
    /// zlib, RFC 1950; or bare DEFLATE, RFC 1951, which clients take too.
    Deflate,
    /// brotli, RFC 7932.
    Brotli,
}

/// How a body is coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// In these, the one that was applied last at the end; in none: not at all.
    Known(Vec<Method>),
    /// Nobody knows: perhaps in none, perhaps in one that shows by how it begins.
    Unsaid,
    /// In a way that is not read here.
    Unknown,
}

impl Default for Coding {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

impl Coding {
    /// What the lines of `Content-Encoding` say: they are one list (RFC 9110, section 5.3).
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut methods = Vec::new();
        for value in lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
            let is = |name: &[u8]| value.eq_ignore_ascii_case(name);
            match () {
                () if value.is_empty() || is(b"identity") => {}
                () if methods.len() >= MAX_CODINGS => return Self::Unknown,
                () if is(b"gzip") || is(b"x-gzip") => methods.push(Method::Gzip),
                () if is(b"deflate") => methods.push(Method::Deflate),
                () if is(b"br") => methods.push(Method::Brotli),
                () => return Self::Unknown,
            }
        }
        Self::Known(methods)
    }
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodingError {
    /// The bytes are not coded as they are said to be.
    Invalid,
    /// Too much comes out of them.
    Bomb,
}

impl From<BrotliError> for CodingError {
    fn from(error: BrotliError) -> Self {
        match error {
            BrotliError::Invalid => Self::Invalid,
            BrotliError::TooMuch => Self::Bomb,
        }
    }
}

/// Decodes one body.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The coding that is undone first comes first.
    stages: Vec<Stage>,
    budget: Budget,
}

/// What may come out of a body, of all its codings together.
#[derive(Debug)]
struct Budget {
    /// What may come out beyond the ratio.
    allowance: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Undoes one coding.
#[derive(Debug)]
enum Stage {
    /// Its first byte tells what it is.
    Unsaid,
    /// It is in no coding.
    Identity,
    /// Its first byte tells zlib from DEFLATE alone.
    Deflate,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Raw(Box<DeflateDecoder<Vec<u8>>>),
    /// `None`: its first byte tells how large its window is.
    Brotli(Option<Box<Brotli>>),
}

impl Decoder {
    /// At the beginning of a body; none where the coding is not known.
    pub(super) fn new(coding: &Coding, allowance: usize) -> Option<Self> {
        let budget = Budget { allowance: allowance as u64, bytes_in: 0, bytes_out: 0 };
        let methods = match coding {
            Coding::Known(methods) => methods,
            Coding::Unsaid => return Some(Self { stages: vec![Stage::Unsaid], budget }),
            Coding::Unknown => return None,
        };
        let stage = |method: &Method| match method {
            Method::Gzip => Stage::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Method::Deflate => Stage::Deflate,
            Method::Brotli => Stage::Brotli(None),
        };
        Some(Self { stages: methods.iter().rev().map(stage).collect(), budget })
    }

    /// Whether bytes of it mean something without those before them.
    pub(super) fn is_identity(&self) -> bool {
        self.stages.iter().all(|stage| matches!(stage, Stage::Unsaid | Stage::Identity))
    }

    /// Memory for windows that are large, of brotli. Bytes.
    pub(super) fn held(&self) -> usize {
        let window = |stage: &Stage| match stage {
            Stage::Brotli(Some(decoder)) => decoder.held(),
            _ => 0,
        };
        self.stages.iter().map(window).sum()
    }

    /// Decodes the next bytes, and calls `sink` with what comes out, in pieces.
    ///
    /// # Errors
    /// Nothing more comes out of this body.
    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), CodingError> {
        self.budget.bytes_in += bytes.len() as u64;
        undo(&mut self.stages, bytes, &mut self.budget, sink)
    }
}

/// Undoes these codings one after the other. No stage gets more than a piece at once, so that none makes more of it than
/// the budget has before that is seen.
fn undo(
    stages: &mut [Stage],
    bytes: &[u8],
    budget: &mut Budget,
    sink: &mut dyn FnMut(&[u8]),
) -> Result<(), CodingError> {
    let Some((stage, others)) = stages.split_first_mut() else {
        sink(bytes);
        return Ok(());
    };
    for piece in bytes.chunks(PIECE_BYTES) {
        let (out, decoded) = stage.decode(piece);
        budget.bytes_out += out.len() as u64;
        if budget.bytes_out > budget.allowance + MAX_RATIO * budget.bytes_in {
            return Err(CodingError::Bomb);
        }
        undo(others, &out, budget, sink)?;
        decoded?;
    }
    Ok(())
}

impl Stage {
    /// What comes out of the next bytes, and whether more may come.
    fn decode(&mut self, piece: &[u8]) -> (Vec<u8>, Result<(), CodingError>) {
        if let (Self::Brotli(decoder @ None), Some(first)) = (&mut *self, piece.first()) {
            *decoder = Some(Box::new(Brotli::new(*first)));
        }
        if let (Self::Deflate, Some(first)) = (&self, piece.first()) {
            // The method in the header of zlib (RFC 1950, section 2.2); no encoder begins DEFLATE alone so.
            *self = match first & 0x0F {
                8 => Self::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                _ => Self::Raw(Box::new(DeflateDecoder::new(Vec::new()))),
            };
        }
        if let (Self::Unsaid, Some(first)) = (&self, piece.first()) {
            // How gzip begins, and zstd; no JSON and no event does. brotli begins with anything.
            *self = match first {
                0x1F => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
                0x28 => return (Vec::new(), Err(CodingError::Invalid)),
                _ => Self::Identity,
            };
        }
        match self {
            Self::Unsaid | Self::Deflate | Self::Brotli(None) => (Vec::new(), Ok(())),
            Self::Brotli(Some(decoder)) => {
                let (out, decoded) = decoder.decode(piece);
                (out, decoded.map_err(CodingError::from))
            }
            Self::Identity => (piece.to_vec(), Ok(())),
            Self::Gzip(decoder) => decode(decoder.as_mut(), MultiGzDecoder::get_mut, piece),
            Self::Zlib(decoder) => decode(decoder.as_mut(), ZlibDecoder::get_mut, piece),
            Self::Raw(decoder) => decode(decoder.as_mut(), DeflateDecoder::get_mut, piece),
        }
    }
}

fn decode<D: Write>(
    decoder: &mut D,
    out: impl Fn(&mut D) -> &mut Vec<u8>,
    piece: &[u8],
) -> (Vec<u8>, Result<(), CodingError>) {
    // Bytes behind the end are an error too: some clients read on there, and others do not.
    let decoded = decoder.write_all(piece).and_then(|()| decoder.flush()).map_err(|_| CodingError::Invalid);
    (std::mem::take(out(decoder)), decoded)
}
