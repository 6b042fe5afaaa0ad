//! A value within an event, as text.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Any JSON value, kept as its text: what goes by is written once and never built. Members of objects are in the order
/// of their keys, so that equal values are equal texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Json(Cow<'static, str>);

impl Json {
    /// Of a text that is one JSON value. Whether it is one shows only where it is written into a line.
    pub fn new(text: String) -> Self {
        Self(Cow::Owned(text))
    }

    /// The value; null where it is nested more than 128 deep, which none is that this program wrote.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// A key as a part of a JSON Pointer (RFC 6901, section 3).
pub fn escape_pointer(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1").into() } else { key.into() }
}

impl Default for Json {
    fn default() -> Self {
        Self(Cow::Borrowed("null"))
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self::new(value.to_string())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Within an event it is not text any more that this is read from: see `flatten` of serde.
        Value::deserialize(deserializer).map(|value| Self::from(&value))
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        Value::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Value::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Value::json_schema(generator)
    }
}
