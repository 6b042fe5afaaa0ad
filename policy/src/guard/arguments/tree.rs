//! Arguments as any server may read them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Most values that one pointer may lead to.
const MOST_VALUES: usize = 4_096;

/// A JSON value that keeps duplicate keys: one reader takes the first, another the last.
#[derive(Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// A pointer leads to more values than are looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Tree {
    /// The values that a pointer leads to: more than one by `*`, by duplicate keys, and by keys that differ in letter case
    /// alone, which some readers take for the same (Go's `encoding/json`).
    ///
    /// # Errors
    /// There are more than 4,096 of them.
    pub(super) fn find<'a>(&'a self, tokens: &[String], found: &mut Vec<&'a Self>) -> Result<(), TooMany> {
        let Some((token, rest)) = tokens.split_first() else {
            if found.len() >= MOST_VALUES {
                return Err(TooMany);
            }
            found.push(self);
            return Ok(());
        };
        match self {
            Self::Map(members) => {
                let is_meant = |key: &str| token == "*" || is_same_key(key, token);
                let mut meant = members.iter().filter(|(key, _)| is_meant(key));
                meant.try_for_each(|(_, value)| value.find(rest, found))
            }
            Self::List(items) if token == "*" => items.iter().try_for_each(|item| item.find(rest, found)),
            Self::List(items) => match token.parse::<usize>().ok().and_then(|index| items.get(index)) {
                Some(item) => item.find(rest, found),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A text, number or boolean as a server that wants a text may read it.
    pub(super) fn as_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Whether a key stands twice in one object, or differs from another in letter case alone.
    pub(super) fn is_ambiguous(&self) -> bool {
        match self {
            Self::Map(members) => {
                let mut keys: Vec<String> = members.iter().map(|(key, _)| folded(key)).collect();
                keys.sort_unstable();
                let is_twice = keys.windows(2).any(|pair| matches!(pair, [one, other] if one == other));
                is_twice || members.iter().any(|(_, value)| value.is_ambiguous())
            }
            Self::List(items) => items.iter().any(Self::is_ambiguous),
            _ => false,
        }
    }

    /// How many values it is made of.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::count).sum::<usize>(),
            Self::Map(members) => 1 + members.iter().map(|(_, value)| value.count()).sum::<usize>(),
            _ => 1,
        }
    }

    /// Whether it is this value, whichever of the readers reads it.
    pub(super) fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(one), Value::Bool(other)) => one == other,
            (Self::Integer(one), Value::Number(other)) => {
                other.as_i64().map_or_else(|| other.as_f64() == Some(*one as f64), |other| *one == other)
            }
            (Self::Number(one), Value::Number(other)) => other.as_f64() == Some(*one),
            (Self::Text(one), Value::String(other)) => one == other,
            (Self::List(items), Value::Array(values)) => {
                items.len() == values.len() && items.iter().zip(values).all(|(item, value)| item.is(value))
            }
            (Self::Map(members), Value::Object(values)) => {
                members.len() == values.len()
                    && members.iter().all(|(key, one)| values.get(key).is_some_and(|value| one.is(value)))
            }
            _ => false,
        }
    }
}

/// Whether a reader may take one key for the other.
fn is_same_key(key: &str, token: &str) -> bool {
    key == token || folded(key) == folded(token)
}

/// Without letter case, by simple folding: U+017F is an s, U+212A a k.
fn folded(key: &str) -> String {
    key.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(i64::try_from(value).map_or(Tree::Number(value as f64), Tree::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Map(members))
    }
}
