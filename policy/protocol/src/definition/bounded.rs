//! Names that are kept: whole, or, of a long one, its beginning and a hash.

use std::borrow::Cow;

use super::hash::text_hash;

/// A name as it is kept: whole up to 256 bytes; of a longer one the beginning and a hash, so that two of them are
/// never taken for one.
pub fn bounded_name(name: &str) -> String {
    bounded(name).into_owned()
}

/// Longest name that is kept whole. Bytes.
const MAX_BYTES: usize = 256;
/// Digits of the hash of a longer one.
const HASH_DIGITS: usize = 64;

/// Whether a name is one of those that were too long, so that its end is not known.
pub fn is_bounded(name: &str) -> bool {
    let hash = name.len().checked_sub(HASH_DIGITS).and_then(|at| name.split_at_checked(at));
    name.len() > MAX_BYTES - HASH_DIGITS
        && hash.is_some_and(|(kept, hash)| {
            kept.ends_with('…') && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
}

/// The same as [`bounded_name`], where it need not be kept.
pub fn bounded(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_BYTES {
        return Cow::Borrowed(name);
    }
    let kept = name.floor_char_boundary(MAX_BYTES - HASH_DIGITS - '…'.len_utf8());
    Cow::Owned(format!("{}…{}", &name[..kept], text_hash(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_long_names_stay_distinct() {
        let long = "ä".repeat(1_000);
        let other = format!("{long}b");
        assert_eq!(bounded_name("read_file"), "read_file");
        assert!(bounded_name(&long).len() <= 256 && bounded_name(&other).len() <= 256);
        assert_ne!(bounded_name(&long), bounded_name(&other));
    }
}
