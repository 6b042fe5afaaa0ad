//! A value within an event, as text.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Any JSON value, kept as its text: what goes by is written once and never built. Members of objects are in the order
/// of their keys, so that equal values are equal texts.
#[derive(Clone, Debug)]
pub struct Json(Box<RawValue>);

impl Json {
    /// `None` where it is no JSON.
    pub(crate) fn new(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    /// The value; null where it is nested more than 128 deep, which none is that this program wrote.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }
}

impl Default for Json {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        to_raw_value(value).map_or_else(|_| Self::default(), Self)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
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
