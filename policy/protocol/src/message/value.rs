//! JSON values out of JSON text, a little at a time and a little tolerantly.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::object::{Member, Object, Odd};

/// An object key; borrowed where it has no escapes.
pub struct Key<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As bytes: as text, a lone surrogate in a key would cost the whole message, which others read all the same.
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object key")
            }

            fn visit_borrowed_bytes<E: Error>(self, text: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Key(std::str::from_utf8(text).map_or_else(|_| Cow::Owned(mended(text)), Cow::Borrowed)))
            }

            fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Self::Value, E> {
                let text = std::str::from_utf8(text).map_or_else(|_| mended(text), str::to_owned);
                Ok(Key(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_bytes(Text)
    }
}

/// A key of which each lone surrogate, three bytes that are no UTF-8, becomes U+FFFD.
fn mended(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        text.push_str(chunk.valid());
        if chunk.invalid().first().is_some_and(|byte| !(0x80..0xc0).contains(byte)) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

/// The members of an object by these names, as text; the last of duplicates. All `None` where it is no object.
pub fn members<'a, const N: usize>(json: &'a str, names: [&str; N]) -> [Option<&'a RawValue>; N] {
    members_once(json, names).0
}

/// The same, and one of the names that stands there more than once. Of text that was not read before the values alone are read, not
/// what is between them.
pub fn members_once<'a, 'n, const N: usize>(
    json: &'a str,
    names: [&'n str; N],
) -> ([Option<&'a RawValue>; N], Option<&'n str>) {
    match members_of_object(json, names) {
        Ok(members) => members,
        Err(Odd) => members_of_text(json, names),
    }
}

/// The members by name, and the name that is repeated.
type Named<'a, 'n, const N: usize> = ([Option<&'a RawValue>; N], Option<&'n str>);

fn members_of_object<'a, 'n, const N: usize>(
    json: &'a str,
    names: [&'n str; N],
) -> Result<Named<'a, 'n, N>, Odd> {
    let mut found: [Option<Member<'a>>; N] = [const { None }; N];
    let mut repeated = None;
    let Some(mut object) = Object::of(json) else { return Ok(([None; N], None)) };
    while let Some(member) = object.next()? {
        let place = names.iter().zip(&mut found).find(|(name, _)| **name == member.key);
        if let Some((name, slot)) = place
            && slot.replace(member).is_some()
        {
            repeated = Some(*name);
        }
    }
    let mut raw = [None; N];
    for (raw, member) in raw.iter_mut().zip(&found) {
        *raw = member.as_ref().map(Member::raw).transpose()?;
    }
    Ok((raw, repeated))
}

fn members_of_text<'a, 'n, const N: usize>(json: &'a str, names: [&'n str; N]) -> Named<'a, 'n, N> {
    struct Members<'n, const N: usize>([&'n str; N]);
    impl<'de, 'n, const N: usize> Visitor<'de> for Members<'n, N> {
        type Value = Named<'de, 'n, N>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut found, mut repeated) = ([None; N], None);
            while let Some((key, value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                for (slot, name) in found.iter_mut().zip(self.0) {
                    if key.0 == name && slot.replace(value).is_some() {
                        repeated = Some(name);
                    }
                }
            }
            Ok((found, repeated))
        }
    }
    serde_json::Deserializer::from_str(json).deserialize_map(Members(names)).unwrap_or(([None; N], None))
}

/// All members of an object by this name, in order: which of them counts differs from reader to reader. `None` where it is no object.
pub fn every_member<'a>(json: &'a str, name: &str) -> Option<Vec<&'a RawValue>> {
    let of_object = || {
        let Some(mut object) = Object::of(json) else { return Ok(None) };
        let mut every = Vec::new();
        while let Some(member) = object.next()? {
            if member.key == name {
                every.push(member.raw()?);
            }
        }
        Ok(Some(every))
    };
    of_object().unwrap_or_else(|Odd| {
        let all = all_members(json)?;
        Some(all.into_iter().filter(|(key, _)| key == name).map(|(_, value)| value).collect())
    })
}

/// One of these names under which an object has several members.
pub fn repeated_member(json: &str, names: &'static [&'static str]) -> Option<&'static str> {
    let of_object = || {
        let Some(mut object) = Object::of(json) else { return Ok(None) };
        let (mut known, mut repeated) = (0_u64, None);
        while let Some(member) = object.next()? {
            let Some(place) = names.iter().position(|name| *name == member.key) else { continue };
            let bit = 1_u64.checked_shl(u32::try_from(place).unwrap_or(u32::MAX)).unwrap_or_default();
            if known & bit != 0 {
                repeated = names.get(place).copied();
            }
            known |= bit;
        }
        Ok(repeated)
    };
    of_object().unwrap_or_else(|Odd| {
        let all = all_members(json)?;
        let is_again = |name: &&str| all.iter().filter(|(key, _)| key == name).count() > 1;
        names.iter().copied().find(is_again)
    })
}

/// Whether an object may have a member of one of these names, perhaps with escapes: a look that is far cheaper than reading a long
/// message.
pub fn may_have(json: &str, names: &[&str]) -> bool {
    names.iter().any(|name| json.contains(name)) || json.contains("\\u")
}

/// All members of an object, in order, each as often as it stands there; `None` where it is no object.
pub fn all_members(json: &str) -> Option<Vec<(String, &RawValue)>> {
    struct All;
    impl<'de> Visitor<'de> for All {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some((key, value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                all.push((key.0.into_owned(), value));
            }
            Ok(all)
        }
    }
    serde_json::Deserializer::from_str(json).deserialize_map(All).ok()
}

/// An object's text without these members, and everything else as it is.
pub fn without<'a>(json: &'a str, names: &[&str]) -> Cow<'a, str> {
    let is_left_out = |key: &str| names.contains(&key);
    if let Ok(false) = any_key(json, is_left_out) {
        return Cow::Borrowed(json);
    }
    let Some(members) = all_members(json) else { return Cow::Borrowed(json) };
    if !members.iter().any(|(key, _)| is_left_out(key)) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    text.push('{');
    for (key, value) in members.iter().filter(|(key, _)| !is_left_out(key)) {
        text.push_str(if text.len() > 1 { "," } else { "" });
        text.extend([Value::from(key.as_str()).to_string().as_str(), ":", value.get()]);
    }
    text.push('}');
    Cow::Owned(text)
}

/// Whether a key of an object is like that; of what is no object, none is.
fn any_key(json: &str, is: impl Fn(&str) -> bool) -> Result<bool, Odd> {
    let Some(mut object) = Object::of(json) else { return Ok(false) };
    while let Some(member) = object.next()? {
        if is(member.key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A JSON string's text; `None` where it is none. Lone surrogates become U+FFFD.
pub fn decode_str(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let text: serde_json::Result<String> = serde_json::from_str(json);
    text.or_else(|_| serde_json::from_str(&mend_surrogates(json))).ok().map(Cow::Owned)
}

/// The text of a member that should be a string; empty where it is none, or nothing at all.
pub fn string(json: Option<&RawValue>) -> Cow<'_, str> {
    json.and_then(|json| decode_str(json.get())).unwrap_or_default()
}

/// The whole value. `None` where it is nested more than 128 deep or has a number beyond any double; lone
/// surrogates become U+FFFD.
pub fn value(json: &str) -> Option<Value> {
    let value: serde_json::Result<Value> = serde_json::from_str(json);
    value.or_else(|_| serde_json::from_str(&mend_surrogates(json))).ok()
}

/// With each `\uD800`-like escape that has no partner replaced by that of U+FFFD.
pub fn mend_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let length = match surrogate(escape) {
            Some(0xD800..=0xDBFF)
                if escape
                    .get(6..)
                    .and_then(surrogate)
                    .is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) =>
            {
                12
            }
            Some(0xD800..=0xDFFF) => {
                mended.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            _ => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length.min(escape.len()));
        mended.push_str(kept);
        rest = after;
    }
    mended.push_str(rest);
    Cow::Owned(mended)
}

/// The number in an escape like `\u12ab` that this starts with.
fn surrogate(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests;
