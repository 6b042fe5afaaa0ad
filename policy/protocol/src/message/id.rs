//! Ids of requests and answers, and which of them readers take for the same.

use sha2::{Digest, Sha256};

use super::value::{decode_str, value};

/// The id of a request, as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a>(pub &'a str);

/// An id in the form in which a request and its answer are compared: 1, 1.0 and 1e0 are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IdKey {
    /// A number without a fraction.
    Integer(i128),
    /// Any other number, by its bits.
    Float(u64),
    /// A string, unescaped.
    Text(Box<str>),
    /// Null, or something that is no id at all, as it was sent.
    Other(Box<str>),
    /// A digest of what is longer than [`MAX_ID_BYTES`]: an id is kept for as long as its request is open, and
    /// thousands of them can be.
    Long([u8; 32]),
}

/// Longest id that is kept as it was sent, in bytes.
pub const MAX_ID_BYTES: usize = 256;

impl Id<'_> {
    /// The form in which ids are compared.
    pub fn key(&self) -> IdKey {
        let raw = self.0;
        if let Ok(integer) = raw.parse::<i64>() {
            return IdKey::Integer(integer.into());
        }
        if raw.starts_with('"') {
            let text = decode_str(raw).unwrap_or_default();
            return IdKey::long(&text).unwrap_or_else(|| IdKey::Text(text.into()));
        }
        match raw.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && number.abs() <= 2f64.powi(64) => {
                IdKey::Integer(number as i128)
            }
            Ok(number) if number.is_finite() => IdKey::Float(number.to_bits()),
            _ => IdKey::long(raw).unwrap_or_else(|| IdKey::Other(raw.into())),
        }
    }

    /// Whether every reader takes it for the same: it is a text, or an integer without point and exponent.
    pub fn is_plain(&self) -> bool {
        self.0.starts_with('"') || self.0.parse::<i64>().is_ok()
    }

    /// The id as a JSON value; as text, where it is a number that no 64 bits and no double hold.
    pub fn value(&self) -> serde_json::Value {
        // The usual case; but -0 is a double.
        if let Some(integer) = self.0.parse::<i64>().ok().filter(|integer| *integer != 0 || self.0 == "0") {
            return integer.into();
        }
        let is_integer = !self.0.contains(['.', 'e', 'E']);
        let is_long = |id: &serde_json::Value| id.is_f64() && id.as_f64().is_none_or(|id| id.abs() > 1.0);
        let held = |id: &serde_json::Value| !(is_integer && is_long(id));
        value(self.0).filter(held).unwrap_or_else(|| self.0.into())
    }
}

impl IdKey {
    fn long(text: &str) -> Option<Self> {
        (text.len() > MAX_ID_BYTES).then(|| Self::Long(Sha256::digest(text.as_bytes()).into()))
    }

    /// Bytes kept beside the value itself.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Other(text) => text.len(),
            Self::Integer(_) | Self::Float(_) | Self::Long(_) => 0,
        }
    }

    /// The id of the other type that some readers take for the same. Both official SDKs take `"id": "1"` as the answer to 1, and
    /// whatever else the `Number` of one and the `int` of the other read as 1; who keeps requests by the names of an object's members,
    /// or in an array of PHP, takes 1 as the answer to `"1"`.
    pub fn of_other_type(&self) -> Option<IdKey> {
        match self {
            Self::Text(text) => number_of(text).map(Self::Integer),
            Self::Integer(number) => Some(Self::Text(number.to_string().into())),
            // A key of Python's dictionaries.
            Self::Other(text) if matches!(&**text, "true" | "false") => {
                Some(Self::Integer(i128::from(&**text == "true")))
            }
            // `MakeID` of the official Go SDK leaves the fraction out.
            Self::Float(bits) => {
                let whole = f64::from_bits(*bits).trunc();
                (whole.abs() <= 2f64.powi(63)).then_some(Self::Integer(whole as i128))
            }
            Self::Other(_) | Self::Long(_) => None,
        }
    }
}

/// The whole number that JavaScript's `Number` or Python's `int` reads in a text.
fn number_of(text: &str) -> Option<i128> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.len() > MAX_ID_BYTES {
        return None;
    }
    let text: String = text.chars().filter(|c| *c != '_').map(ascii_digit).collect();
    if text.is_empty() {
        return Some(0);
    }
    let prefixed = |prefixes: [&str; 2], radix| {
        let digits = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))?;
        i128::from_str_radix(digits, radix).ok()
    };
    let whole =
        |number: f64| (number.fract() == 0.0 && number.abs() <= 2f64.powi(64)).then_some(number as i128);
    text.parse()
        .ok()
        .or_else(|| prefixed(["0x", "0X"], 16))
        .or_else(|| prefixed(["0o", "0O"], 8))
        .or_else(|| prefixed(["0b", "0B"], 2))
        .or_else(|| text.parse().ok().and_then(whole))
}

/// A decimal digit of another script as the ASCII one; anything else as it is.
fn ascii_digit(c: char) -> char {
    const ZEROS: [u32; 18] = [
        0x660, 0x6f0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0xf20,
        0x1040, 0x17e0, 0x1810, 0xff10,
    ];
    let digit = |zero: &u32| u32::from(c).checked_sub(*zero).filter(|digit| *digit < 10);
    ZEROS.iter().find_map(digit).and_then(|digit| char::from_digit(digit, 10)).unwrap_or(c)
}
