//! The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B). It is canonical: the lengths of its codes say all of it.

use std::sync::LazyLock;

use super::error::Http2Error;

/// The length in bits of each byte's code.
#[rustfmt::skip]
pub(crate) const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code; that of the end of a string, which never stands in one, has as many bits.
const MAX_BITS: usize = 30;
/// The shortest code.
const MIN_BITS: usize = 5;

/// The codes of one length are numbers behind each other: the first of them, and the bytes that they stand for.
#[derive(Clone, Debug, Default)]
struct Length {
    first: u32,
    bytes: Vec<u8>,
}

static CODES: LazyLock<Vec<Length>> = LazyLock::new(|| {
    let mut codes = vec![Length::default(); MAX_BITS + 1];
    let mut next = 0u32;
    for (bits, length) in codes.iter_mut().enumerate() {
        let has =
            |byte: &u8| LENGTHS.get(usize::from(*byte)).is_some_and(|length| usize::from(*length) == bits);
        *length = Length { first: next, bytes: (0..=u8::MAX).filter(has).collect() };
        next = (next + length.bytes.len() as u32) << 1;
    }
    codes
});

/// Decodes a string. It has at most 8/5 times as many bytes.
///
/// # Errors
/// It holds the code of the end of a string, or does not end as it must: with less than 8 bits, all of them set.
pub(super) fn decode(coded: &[u8]) -> Result<Vec<u8>, Http2Error> {
    let mut text = Vec::with_capacity(coded.len() * 8 / MIN_BITS);
    // The bits that are left, and how many.
    let (mut bits, mut left) = (0u64, 0usize);
    let mut coded = coded.iter();
    loop {
        while left < MAX_BITS
            && let Some(byte) = coded.next()
        {
            bits = bits << 8 | u64::from(*byte);
            left += 8;
        }
        let Some((byte, length)) = first(bits, left) else { break };
        text.push(byte);
        left -= length;
        bits &= (1 << left) - 1;
    }
    match left < 8 && bits == (1 << left) - 1 {
        true => Ok(text),
        false => Err(Http2Error::Huffman),
    }
}

/// The byte that the first of these bits are the code of, and the length of that.
fn first(bits: u64, left: usize) -> Option<(u8, usize)> {
    (MIN_BITS..=MAX_BITS.min(left)).find_map(|length| {
        let code = u32::try_from(bits >> (left - length)).ok()?;
        let Length { first, bytes } = CODES.get(length)?;
        let at = usize::try_from(code.checked_sub(*first)?).ok()?;
        bytes.get(at).map(|byte| (*byte, length))
    })
}
