//! Arguments as any server may read them.

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::protocol::decode_str;

/// Most values that one pointer may lead to.
const MOST_VALUES: usize = 4_096;
/// How deep a value may lie. What is deeper is not read.
const MOST_DEPTH: usize = 128;

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
    /// A text with half of a surrogate pair, a number beyond any double, what lies too deep: nobody can tell what a server reads.
    Unreadable,
}

/// A pointer leads to more values than are looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Tree {
    /// What a JSON text holds.
    pub(super) fn read(json: &RawValue) -> Self {
        Reader { json: json.get(), at: 0 }.value(0)
    }

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
            Self::Null | Self::List(_) | Self::Map(_) | Self::Unreadable => None,
        }
    }

    /// Whether a key stands twice in one object, or differs from another in letter case alone, or a value is unreadable.
    pub(super) fn is_ambiguous(&self) -> bool {
        match self {
            Self::Map(members) => {
                let mut keys: Vec<String> = members.iter().map(|(key, _)| folded(key)).collect();
                keys.sort_unstable();
                let is_twice = keys.windows(2).any(|pair| matches!(pair, [one, other] if one == other));
                is_twice || members.iter().any(|(_, value)| value.is_ambiguous())
            }
            Self::List(items) => items.iter().any(Self::is_ambiguous),
            Self::Unreadable => true,
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
pub(super) fn is_same_key(key: &str, token: &str) -> bool {
    key == token || folded(key) == folded(token)
}

/// Without letter case, by simple folding: U+017F is an s, U+212A a k.
pub(super) fn folded(key: &str) -> String {
    key.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Reads a text that is JSON.
struct Reader<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Tree {
        match self.next() {
            Some(b'{' | b'[') if depth >= MOST_DEPTH => self.skip(),
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => {
                let json = self.string();
                serde_json::from_str(json).map_or(Tree::Unreadable, Tree::Text)
            }
            _ => scalar(self.word()),
        }
    }

    fn map(&mut self, depth: usize) -> Tree {
        let mut members = Vec::new();
        self.at += 1;
        while self.next().is_some_and(|byte| byte == b'"') {
            let key = decode_str(self.string()).unwrap_or_default().into_owned();
            self.pass(b':');
            members.push((key, self.value(depth + 1)));
            self.pass(b',');
        }
        self.pass(b'}');
        Tree::Map(members)
    }

    fn list(&mut self, depth: usize) -> Tree {
        let mut items = Vec::new();
        self.at += 1;
        while self.next().is_some_and(|byte| byte != b']') {
            let before = self.at;
            items.push(self.value(depth + 1));
            self.pass(b',');
            if self.at == before {
                break;
            }
        }
        self.pass(b']');
        Tree::List(items)
    }

    /// Passes over a value that lies too deep.
    fn skip(&mut self) -> Tree {
        let mut open = 0_usize;
        while let Some(byte) = self.next() {
            match byte {
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open = open.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                break;
            }
        }
        Tree::Unreadable
    }

    /// The next byte that is no blank.
    fn next(&mut self) -> Option<u8> {
        let rest = self.json.as_bytes().get(self.at..)?;
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    fn pass(&mut self, expected: u8) {
        if self.next() == Some(expected) {
            self.at += 1;
        }
    }

    /// A string, with its quotes.
    fn string(&mut self) -> &'a str {
        let start = self.at;
        let rest = self.json.as_bytes().get(start + 1..).unwrap_or_default();
        let mut is_escaped = false;
        let inner = rest.iter().take_while(|byte| {
            let closes = **byte == b'"' && !is_escaped;
            is_escaped = **byte == b'\\' && !is_escaped;
            !closes
        });
        self.at = self.json.len().min(start + 2 + inner.count());
        self.json.get(start..self.at).unwrap_or_default()
    }

    /// A number, or a word.
    fn word(&mut self) -> &'a str {
        let rest = self.json.get(self.at..).unwrap_or_default();
        let end =
            rest.find(|c: char| c.is_ascii_whitespace() || ",:]}[{\"".contains(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }
}

fn scalar(word: &str) -> Tree {
    match word {
        "null" => Tree::Null,
        "true" => Tree::Bool(true),
        "false" => Tree::Bool(false),
        number => match serde_json::from_str::<Number>(number) {
            Ok(number) => number
                .as_i64()
                .map_or_else(|| number.as_f64().map_or(Tree::Unreadable, Tree::Number), Tree::Integer),
            Err(_) => Tree::Unreadable,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_beside_those_that_cannot_be() {
        let text = |text: &str| Tree::Text(text.to_owned());
        let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        let map = |members: Vec<(&str, Tree)>| {
            Tree::Map(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        };
        for (json, expected) in [
            ("null", Tree::Null),
            (" [ ] ", Tree::List(Vec::new())),
            ("{ }", map(vec![])),
            (
                r#"[true,false,-1,1.5,-0,18446744073709551615,"x"]"#,
                Tree::List(vec![
                    Tree::Bool(true),
                    Tree::Bool(false),
                    Tree::Integer(-1),
                    Tree::Number(1.5),
                    Tree::Number(-0.0),
                    Tree::Number(18446744073709551615.0),
                    text("x"),
                ]),
            ),
            (
                r#"{"a":"\\\"b" , "a" : [{"\u0062":"\ud83d\ude00"}]}"#,
                map(vec![("a", text("\\\"b")), ("a", Tree::List(vec![map(vec![("b", text("\u{1f600}"))])]))]),
            ),
            (
                r#"{"a":1e400,"b":"\ud800","\udc00":"x","c":"y"}"#,
                map(vec![
                    ("a", Tree::Unreadable),
                    ("b", Tree::Unreadable),
                    ("\u{fffd}", text("x")),
                    ("c", text("y")),
                ]),
            ),
        ] {
            let json = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(Tree::read(&json), expected, "{json}");
        }
        let json = RawValue::from_string(format!(r#"{{"a":{deep},"b":"x"}}"#)).unwrap();
        let mut found = Vec::new();
        let tree = Tree::read(&json);
        tree.find(&["b".to_owned()], &mut found).unwrap();
        assert_eq!(found, [&text("x")]);
        assert!(tree.is_ambiguous());
    }
}
