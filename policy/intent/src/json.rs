//! JSON, a member at a time, as tolerant as the rest of the program is: see `mcpwarden_protocol::message`.

use std::borrow::Cow;
use std::fmt;

use mcpwarden_protocol::message;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A value that may not be there.
pub(crate) type Value<'a> = Option<&'a RawValue>;

/// The members of an object by these names; all `None` where it is none.
pub(crate) fn members<'a, const N: usize>(json: Value<'a>, names: [&str; N]) -> [Value<'a>; N] {
    let Some(json) = json else { return [None; N] };
    message::members(json.get(), names).map(|value| value.filter(|value| value.get() != "null"))
}

/// One member of an object.
pub(crate) fn member<'a>(json: Value<'a>, name: &str) -> Value<'a> {
    let [value] = members(json, [name]);
    value
}

/// A text; empty where it is none.
pub(crate) fn text(json: Value<'_>) -> Cow<'_, str> {
    message::string(json)
}

/// A text that is there and not empty.
pub(crate) fn some_text(json: Value<'_>) -> Option<Cow<'_, str>> {
    Some(text(json)).filter(|text| !text.is_empty())
}

/// A number without sign and fraction.
pub(crate) fn number(json: Value<'_>) -> Option<u64> {
    json.and_then(|json| json.get().parse().ok())
}

/// Whether it is `true`.
pub(crate) fn is_true(json: Value<'_>) -> bool {
    json.is_some_and(|json| json.get() == "true")
}

/// Whether it is an array.
pub(crate) fn is_array(json: Value<'_>) -> bool {
    json.is_some_and(|json| json.get().starts_with('['))
}

/// Whether it is an object.
pub(crate) fn is_object(json: Value<'_>) -> bool {
    json.is_some_and(|json| json.get().starts_with('{'))
}

/// Calls `take` with each element of an array, and with nothing where it is none.
pub(crate) fn each<'a>(json: Value<'a>, take: &mut dyn FnMut(&'a RawValue)) {
    struct Each<'t, 'a>(&'t mut dyn FnMut(&'a RawValue));
    impl<'de> Visitor<'de> for Each<'_, 'de> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
            while let Some(element) = seq.next_element::<&'de RawValue>()? {
                (self.0)(element);
            }
            Ok(())
        }
    }
    if let Some(json) = json.filter(|json| json.get().starts_with('[')) {
        // What is raw was parsed before.
        let _ = serde_json::Deserializer::from_str(json.get()).deserialize_seq(Each(take));
    }
}

/// Whether a text is one JSON value.
pub(crate) fn is_value(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}
