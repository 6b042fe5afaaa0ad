//! The members of an object, out of text that was read before and is known to be JSON: without reading what nobody asks for.

use memchr::memchr2;
use serde_json::value::RawValue;

/// Goes through the members of an object, in order.
pub(super) struct Object<'a> {
    json: &'a str,
    at: usize,
}

/// A member of an object.
pub(super) struct Member<'a> {
    /// Its key, without the quotes. It has no escapes.
    pub(super) key: &'a str,
    /// Its value, without blanks around it.
    pub(super) value: &'a str,
}

/// That a text is not what it has to be: it is read by a parser then.
pub(super) struct Odd;

impl<'a> Object<'a> {
    /// `None` where the text is no object.
    pub(super) fn of(json: &'a str) -> Option<Self> {
        let at = past_blanks(json.as_bytes(), 0);
        (json.as_bytes().get(at) == Some(&b'{')).then_some(Self { json, at: at + 1 })
    }

    /// The next member.
    ///
    /// # Errors
    /// Its key has an escape, or this is not JSON.
    pub(super) fn next(&mut self) -> Result<Option<Member<'a>>, Odd> {
        let bytes = self.json.as_bytes();
        let start = past_blanks(bytes, self.at);
        match bytes.get(start) {
            Some(b'"') => {}
            Some(b'}') => return Ok(None),
            _ => return Err(Odd),
        }
        let end = string_end(bytes, start).ok_or(Odd)?;
        let key = self.json.get(start + 1..end - 1).filter(|key| !key.contains('\\')).ok_or(Odd)?;
        let colon = past_blanks(bytes, end);
        if bytes.get(colon) != Some(&b':') {
            return Err(Odd);
        }
        let start = past_blanks(bytes, colon + 1);
        let end = value_end(bytes, start).ok_or(Odd)?;
        let behind = past_blanks(bytes, end);
        self.at = match bytes.get(behind) {
            Some(b',') => behind + 1,
            Some(b'}') => behind,
            _ => return Err(Odd),
        };
        Ok(Some(Member { key, value: self.json.get(start..end).ok_or(Odd)? }))
    }
}

impl<'a> Member<'a> {
    /// Its value.
    ///
    /// # Errors
    /// It is not JSON.
    pub(super) fn raw(&self) -> Result<&'a RawValue, Odd> {
        serde_json::from_str(self.value).map_err(|_| Odd)
    }
}

fn past_blanks(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// The position behind the value that begins at `start`.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => {
            let (mut at, mut depth) = (start + 1, 1_usize);
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
            let length = bytes.get(start..)?.iter().position(|byte| !is_of_it(byte))?;
            (length > 0).then_some(start + length)
        }
    }
}

/// Whether the string that ends in front of `at` is a key.
#[inline]
pub(super) fn is_key(bytes: &[u8], at: usize) -> bool {
    if bytes.get(at) == Some(&b':') {
        return true;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// Bytes of a string that are looked at one by one.
const SHORT: usize = 12;

/// The position behind the string that begins at `start`.
pub(super) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    // Most strings are short.
    for byte in bytes.get(at..)?.iter().take(SHORT) {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => break,
            _ => at += 1,
        }
    }
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}
