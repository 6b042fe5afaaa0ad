//! The canonical form of JSON (RFC 8785), piece by piece: of a long text no copy is made.

use std::io::{self, Write};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Adds the canonical form of a value to a hash.
///
/// # Errors
/// A number has none; nothing that was read from JSON has such a number.
pub fn hash(value: &Value, hash: &mut Sha256) -> io::Result<()> {
    write(value, &mut Hashed(hash))
}

/// What is written is hashed.
struct Hashed<'a>(&'a mut Sha256);

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(value: &Value, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Array(items) => {
            out.write_all(b"[")?;
            for (index, item) in items.iter().enumerate() {
                out.write_all(if index > 0 { b"," } else { b"" })?;
                write(item, out)?;
            }
            out.write_all(b"]")
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            // Section 3.2.3: by units of UTF-16.
            members.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            out.write_all(b"{")?;
            for (index, (key, member)) in members.into_iter().enumerate() {
                out.write_all(if index > 0 { b"," } else { b"" })?;
                serde_json::to_writer(&mut *out, key)?;
                out.write_all(b":")?;
                write(member, out)?;
            }
            out.write_all(b"}")
        }
        // Section 3.2.2.3, the form of ECMAScript.
        Value::Number(_) => out.write_all(&serde_json_canonicalizer::to_vec(value)?),
        // Section 3.2.2.2 escapes what serde_json escapes, in the same way.
        other => Ok(serde_json::to_writer(out, other)?),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("a number of JSON", |number| number.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\u{0}-\u{7f}\u{e000}\u{10000}\u{2028}\"\\\\]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let key = "[\u{0}-\u{7f}\u{e9}\u{e000}\u{ffff}\u{10000}\"]{0,3}";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn form_is_that_of_the_library(value in values()) {
            let mut form = Vec::new();
            write(&value, &mut form).unwrap();
            let expected = serde_json_canonicalizer::to_string(&value).unwrap();
            prop_assert_eq!(String::from_utf8(form).unwrap(), expected.clone());
            let mut digest = Sha256::new();
            hash(&value, &mut digest).unwrap();
            prop_assert_eq!(digest.finalize(), Sha256::digest(expected));
        }
    }
}
