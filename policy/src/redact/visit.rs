//! Redaction while parsing: a value is never built only to be thrown away.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::{MAX_DEPTH, MAX_LEAVES, REST, Redactor};

/// Reads one value and gives its redacted form.
pub(super) struct Redact<'r> {
    pub(super) redactor: &'r Redactor,
    pub(super) depth: usize,
    pub(super) leaves: &'r mut usize,
}

impl Redact<'_> {
    fn inner(&mut self) -> Redact<'_> {
        Redact { redactor: self.redactor, depth: self.depth + 1, leaves: self.leaves }
    }

    fn leaf(self, kind: &str, bytes: &[u8], length: Option<usize>) -> Value {
        *self.leaves += 1;
        self.redactor.leaf(kind, bytes, length)
    }

    fn number(self, number: Number) -> Value {
        self.leaf("number", number.to_string().as_bytes(), None)
    }

    fn is_full(&self) -> bool {
        *self.leaves >= MAX_LEAVES
    }
}

impl<'de> DeserializeSeed<'de> for Redact<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth < MAX_DEPTH {
            return deserializer.deserialize_any(self);
        }
        let rest = <&RawValue>::deserialize(deserializer)?.get();
        Ok(self.leaf("truncated", rest.as_bytes(), Some(rest.len())))
    }
}

impl<'de> Visitor<'de> for Redact<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(self.leaf("null", b"", None))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(self.leaf("boolean", if value { b"true" } else { b"false" }, None))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // JSON has no other doubles than finite ones.
        Ok(Number::from_f64(value).map_or(Value::Null, |number| self.number(number)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(self.leaf("string", value.as_bytes(), Some(value.len())))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while !self.is_full() {
            match items.next_element_seed(self.inner())? {
                Some(value) => array.push(value),
                None => return Ok(Value::Array(array)),
            }
        }
        let mut rest = Vec::new();
        while let Some(item) = items.next_element::<&RawValue>()? {
            rest.extend_from_slice(item.get().as_bytes());
        }
        if !rest.is_empty() {
            array.push(self.leaf("truncated", &rest, Some(rest.len())));
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while !self.is_full() {
            let Some(key) = members.next_key::<String>()? else {
                return Ok(Value::Object(object));
            };
            let value = members.next_value_seed(self.inner())?;
            object.insert(self.redactor.key(key), value);
        }
        let mut rest = Vec::new();
        while let Some((key, value)) = members.next_entry::<String, &RawValue>()? {
            rest.extend_from_slice(key.as_bytes());
            rest.extend_from_slice(value.get().as_bytes());
        }
        if !rest.is_empty() {
            object.insert(REST.to_owned(), self.leaf("truncated", &rest, Some(rest.len())));
        }
        Ok(Value::Object(object))
    }
}
