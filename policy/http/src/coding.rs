//! Content codings (RFC 9110, section 8.4.1): gzip and deflate, decoded piece by piece.
//!
//! brotli and zstd are recognised and not decoded.

use std::io::Write;

use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};

/// Decoded at once: the most that comes of it is 1,032 times as much (RFC 1951 allows no more).
const PIECE_BYTES: usize = 4 * 1024;
/// A body that decodes to more than this many times its size, beyond the longest frame, is a bomb. JSON and text are
/// 3 to 20 times as long as when compressed.
const MAX_RATIO: u64 = 128;

/// How a body is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not at all.
    #[default]
    Identity,
    /// gzip, RFC 1952.
    Gzip,
    /// zlib, RFC 1950; or bare DEFLATE, RFC 1951, which clients take too.
    Deflate,
    /// In a way that is not read here.
    Unknown,
}

impl Coding {
    /// What `Content-Encoding` says.
    pub(super) fn of(value: &[u8]) -> Self {
        let value = value.trim_ascii();
        let is = |name: &[u8]| value.eq_ignore_ascii_case(name);
        match () {
            () if value.is_empty() || is(b"identity") => Self::Identity,
            () if is(b"gzip") || is(b"x-gzip") => Self::Gzip,
            () if is(b"deflate") => Self::Deflate,
            () => Self::Unknown,
        }
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

/// Decodes one body.
#[derive(Debug)]
pub(super) struct Decoder {
    kind: Kind,
    /// What may come out beyond the ratio.
    allowance: u64,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Debug)]
enum Kind {
    Identity,
    /// Its first byte tells zlib from DEFLATE alone.
    Deflate,
    Gzip(Box<GzDecoder<Vec<u8>>>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Raw(Box<DeflateDecoder<Vec<u8>>>),
}

impl Decoder {
    /// At the beginning of a body; none where the coding is not known.
    pub(super) fn new(coding: Coding, allowance: usize) -> Option<Self> {
        let kind = match coding {
            Coding::Identity => Kind::Identity,
            Coding::Gzip => Kind::Gzip(Box::new(GzDecoder::new(Vec::new()))),
            Coding::Deflate => Kind::Deflate,
            Coding::Unknown => return None,
        };
        Some(Self { kind, allowance: allowance as u64, bytes_in: 0, bytes_out: 0 })
    }

    /// Whether bytes of it mean something without those before them.
    pub(super) fn is_identity(&self) -> bool {
        matches!(self.kind, Kind::Identity)
    }

    /// Decodes the next bytes, and calls `sink` with what comes out, in pieces.
    ///
    /// # Errors
    /// Nothing more comes out of this body.
    pub(super) fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), CodingError> {
        if let (Kind::Deflate, Some(first)) = (&self.kind, bytes.first()) {
            // The method in the header of zlib (RFC 1950, section 2.2); no encoder begins DEFLATE alone so.
            self.kind = match first & 0x0F {
                8 => Kind::Zlib(Box::new(ZlibDecoder::new(Vec::new()))),
                _ => Kind::Raw(Box::new(DeflateDecoder::new(Vec::new()))),
            };
        }
        for piece in bytes.chunks(PIECE_BYTES) {
            let out = match &mut self.kind {
                Kind::Identity | Kind::Deflate => {
                    sink(bytes);
                    return Ok(());
                }
                Kind::Gzip(decoder) => decode(decoder.as_mut(), GzDecoder::get_mut, piece),
                Kind::Zlib(decoder) => decode(decoder.as_mut(), ZlibDecoder::get_mut, piece),
                Kind::Raw(decoder) => decode(decoder.as_mut(), DeflateDecoder::get_mut, piece),
            }?;
            self.bytes_in += piece.len() as u64;
            self.bytes_out += out.len() as u64;
            if self.bytes_out > self.allowance + MAX_RATIO * self.bytes_in {
                return Err(CodingError::Bomb);
            }
            sink(&out);
        }
        Ok(())
    }
}

fn decode<D: Write>(
    decoder: &mut D,
    out: impl Fn(&mut D) -> &mut Vec<u8>,
    piece: &[u8],
) -> Result<Vec<u8>, CodingError> {
    // Bytes behind the end are an error too: some clients read on there, and others do not.
    decoder.write_all(piece).and_then(|()| decoder.flush()).map_err(|_| CodingError::Invalid)?;
    Ok(std::mem::take(out(decoder)))
}
