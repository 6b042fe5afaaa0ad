//! Redaction while parsing, from text to text: no value is built in between.

use std::borrow::Cow;
use std::fmt;

use mcpwarden_protocol::message::Key;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::{MAX_DEPTH, MAX_KEY_BYTES, MAX_LEAVES, REST, Redactor, is_guessable, is_secret_key, write_leaf};

/// Open members that take no memory of their own: as many as most arguments have.
const MEMBERS: usize = 8;
/// Room that is made at first for what is written. Bytes.
const ROOM: usize = 512;

/// The redacted form of a JSON text.
pub(super) fn redacted(redactor: &Redactor, json: &str) -> serde_json::Result<String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    // Short leaves grow, and long ones shrink.
    let text = String::with_capacity((3 * json.len()).min(ROOM));
    let mut out = Redacted { redactor, text, leaves: 0, open: SmallVec::new() };
    Redact { out: &mut out, depth: 0 }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(out.text)
}

/// What is written so far.
struct Redacted<'r, 'de> {
    redactor: &'r Redactor,
    text: String,
    leaves: usize,
    /// The members of all objects that are open: key, and where in the text each begins.
    open: SmallVec<[(Cow<'de, str>, usize); MEMBERS]>,
}

impl<'de> Redacted<'_, 'de> {
    fn is_full(&self) -> bool {
        self.leaves >= MAX_LEAVES
    }

    /// A leaf without a hash.
    fn leaf(&mut self, kind: &str, length: Option<usize>) {
        self.leaves += 1;
        write_leaf(&mut self.text, kind, None, length);
    }

    fn string(&mut self, text: &str) {
        self.leaves += 1;
        let hash = (!is_guessable(text)).then(|| self.redactor.hash("string", text.as_bytes()));
        write_leaf(&mut self.text, "string", hash.as_ref(), Some(text.len()));
    }

    /// Begins a member of the object whose members are those from `first` on.
    fn key(&mut self, key: Cow<'de, str>, first: usize) {
        let key = match key {
            long if long.len() > MAX_KEY_BYTES || is_secret_key(&long) => {
                format!("key:{}", self.redactor.digest("key", long.as_bytes())).into()
            }
            key => key,
        };
        if self.open.len() > first {
            self.text.push(',');
        }
        let start = self.text.len();
        if key.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
            self.text.push_str(&Value::from(&*key).to_string());
        } else {
            self.text.extend(["\"", &key, "\""]);
        }
        self.text.push(':');
        self.open.push((key, start));
    }

    /// Ends the object whose members are those from `first` on, and has them in order, the last of each key.
    fn close(&mut self, first: usize) {
        let members = self.open.get(first..).unwrap_or_default();
        if !members.is_sorted_by(|(left, _), (right, _)| left < right) {
            let start = members.first().map_or(self.text.len(), |(_, start)| *start);
            let written = self.text.split_off(start);
            let ends = members.iter().skip(1).map(|(_, next)| next - 1 - start);
            let mut sorted: Vec<(&str, &str)> = members
                .iter()
                .zip(ends.chain([written.len()]))
                .map(|((key, from), to)| (&**key, written.get(from - start..to).unwrap_or_default()))
                .collect();
            sorted.sort_by_key(|(key, _)| *key);
            for (at, (key, member)) in sorted.iter().enumerate() {
                if sorted.get(at + 1).is_none_or(|(next, _)| next != key) {
                    self.text.push_str(member);
                    self.text.push(',');
                }
            }
            self.text.pop();
        }
        self.open.truncate(first);
        self.text.push('}');
    }
}

/// Reads one value and writes its redacted form.
struct Redact<'w, 'r, 'de> {
    out: &'w mut Redacted<'r, 'de>,
    depth: usize,
}

impl<'r, 'de> Redact<'_, 'r, 'de> {
    fn inner(&mut self) -> Redact<'_, 'r, 'de> {
        Redact { out: self.out, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Redact<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth < MAX_DEPTH {
            return deserializer.deserialize_any(self);
        }
        let rest = <&RawValue>::deserialize(deserializer)?.get();
        self.out.leaf("truncated", Some(rest.len()));
        Ok(())
    }
}

impl<'de> Visitor<'de> for Redact<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.out.leaf("null", None);
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.out.leaf("boolean", None);
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.out.leaf("number", None);
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.out.leaf("number", None);
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom("JSON has finite doubles only"));
        }
        self.out.leaf("number", None);
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.out.string(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let start = self.out.text.len() + 1;
        self.out.text.push('[');
        while !self.out.is_full() {
            let before = self.out.text.len();
            if before > start {
                self.out.text.push(',');
            }
            if items.next_element_seed(self.inner())?.is_none() {
                self.out.text.truncate(before);
                self.out.text.push(']');
                return Ok(());
            }
        }
        let mut rest = 0;
        while let Some(item) = items.next_element::<&RawValue>()? {
            rest += item.get().len();
        }
        if rest > 0 {
            if self.out.text.len() > start {
                self.out.text.push(',');
            }
            self.out.leaf("truncated", Some(rest));
        }
        self.out.text.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let first = self.out.open.len();
        self.out.text.push('{');
        while !self.out.is_full() {
            let Some(Key(key)) = members.next_key()? else {
                self.out.close(first);
                return Ok(());
            };
            self.out.key(key, first);
            members.next_value_seed(self.inner())?;
        }
        let mut rest = 0;
        while let Some((Key(key), value)) = members.next_entry::<Key<'de>, &RawValue>()? {
            rest += key.len() + value.get().len();
        }
        if rest > 0 {
            self.out.key(REST.into(), first);
            self.out.leaf("truncated", Some(rest));
        }
        self.out.close(first);
        Ok(())
    }
}
