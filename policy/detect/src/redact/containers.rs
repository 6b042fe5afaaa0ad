//! Objects and lists behind the name of a secret, and values of members: what in them is a value is masked, and the rest stays.

use serde_json::{Map, Value};

use super::marks::{find_mark, quotes};
use super::mask::Masking;
use super::names::{is_qualified, is_secret_name};
use super::values::{is_harmless, is_public, is_way};
use super::{MASK, is_secret_key, redact_prose};

/// Deepest level that is looked at; what lies below is masked.
const MAX_DEPTH: usize = 64;

impl Masking<'_> {
    /// Whether an object or a list begins here, as JSON and YAML have them, and no value with a bracket in front.
    pub(super) fn begins_container(&self) -> bool {
        let Some(inner) = self.rest.strip_prefix(['[', '{']) else { return false };
        let is_member = self.out.trim_end().ends_with([':', '：']);
        !self.prose
            && (!self.shell || self.quote.is_some())
            && (is_member || quotes(inner.trim_start()) > 0 || inner.starts_with(['[', '{']))
    }

    /// Masks the texts and numbers in the object or list that `rest` begins with, which is the value of the secret `name`.
    pub(super) fn container(&mut self, name: &str) {
        let (mut depth, mut key) = (0_usize, String::new());
        while let Some(first) = self.rest.chars().next() {
            let opening = quotes(self.rest);
            match first {
                '{' | '[' => {
                    depth += 1;
                    self.keep(1);
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    self.keep(1);
                    if depth == 0 {
                        // `[a]bc` is a value.
                        let is_end = |c: char| c.is_whitespace() || ",;&}])\"'\\".contains(c);
                        let more = self.rest.find(is_end).unwrap_or(self.rest.len());
                        return self.mask(more);
                    }
                }
                // The end of what it stands in.
                _ if opening == 1 && self.quote == Some(first) => return,
                _ if opening > 0 => {
                    let (mark, behind) = self.rest.split_at_checked(opening).unwrap_or_default();
                    let end = find_mark(behind, mark);
                    let (text, after) = behind.split_at_checked(end).unwrap_or_default();
                    let after = after.get(opening..).unwrap_or_default();
                    if after.trim_start().starts_with([':', '=']) {
                        key = text.to_owned();
                        self.keep(opening + end + opening.min(after.len()));
                    } else {
                        let is_kept = is_kept(name, &key, text);
                        self.keep(opening);
                        if is_kept {
                            self.keep(end)
                        } else {
                            self.mask(end)
                        }
                        self.keep(opening.min(self.rest.len()));
                    }
                }
                _ if first.is_whitespace() || matches!(first, ',' | ':' | '=' | '\\') => {
                    self.keep(first.len_utf8())
                }
                _ => {
                    let is_end = |c: char| c.is_whitespace() || "{}[],:=\"'\\".contains(c);
                    let end = self.rest.find(is_end).unwrap_or(self.rest.len()).max(first.len_utf8());
                    let (text, after) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
                    if after.trim_start().starts_with([':', '=']) {
                        key = text.to_owned();
                        self.keep(end);
                    } else if is_kept(name, &key, text) {
                        self.keep(end);
                    } else {
                        self.mask(end);
                    }
                }
            }
        }
    }
}

/// Whether a value in an object says of a secret where or what it is, and is not the secret: `{"env":"NAME"}`, `{"type":"string"}`.
fn is_kept(name: &str, key: &str, value: &str) -> bool {
    is_public(value)
        || is_harmless(name, value)
        || is_way(name, value)
        || !key.is_empty() && (is_qualified(key) || is_harmless(key, value))
}

/// A JSON value for an event: without what stands under the name of a secret, or has the form of one.
pub fn mask_value(value: Value) -> Value {
    masked(value, None, 0)
}

/// `secret`: the name of a secret under which it stands, and the key of the member.
fn masked(value: Value, secret: Option<(&str, &str)>, depth: usize) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => MASK.into(),
        Value::Array(items) => items.into_iter().map(|item| masked(item, secret, depth + 1)).collect(),
        Value::Object(members) => {
            let mut object = Map::new();
            for (key, member) in members {
                let own = is_secret_name(&key, false).then_some((key.as_str(), ""));
                let secret = own.or(secret.map(|(name, _)| (name, key.as_str())));
                let member = masked(member, secret, depth + 1);
                let key = if is_secret_key(&key) { MASK.to_owned() } else { key };
                object.insert(key, member);
            }
            Value::Object(object)
        }
        Value::String(text) => match secret {
            Some((name, key)) if !is_kept(name, key, &text) => MASK.into(),
            _ => redact_prose(&text, 0..text.len(), false).into(),
        },
        Value::Number(number) => match secret {
            Some((name, key)) if !is_kept(name, key, &number.to_string()) => MASK.into(),
            _ => Value::Number(number),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_of_members_are_masked() {
        let token = ["gh", "p_", "Fa7KeFa7KeFa7KeFa7KeFa7KeFa7KeFa7KeFa7"].concat();
        for (value, expected) in [
            (json!({"sampling": {}, "roots": {"listChanged": true}}), None),
            (json!({"experimental": {"a.test/log": {"level": "debug", "format": ["json"]}}}), None),
            (json!({"extensions": {"a.test/auth": {"type": "oauth", "tokenUrl": "https://a.test/t"}}}), None),
            (json!({"auth": {"type": "none", "env": "TIDE_KEY"}, "maxTokens": 4096}), None),
            (
                json!({"experimental": {"a.test/x": {"password": "Qu1ttenmus", "user": "lena"}}}),
                Some(json!({"experimental": {"a.test/x": {"password": "***", "user": "lena"}}})),
            ),
            (json!({"tokens": ["Qu1tte", {"x": "nmus"}]}), Some(json!({"tokens": ["***", {"x": "***"}]}))),
            (json!({"pin": 4711, "on": true}), Some(json!({"pin": "***", "on": true}))),
            (json!({"note": token.clone()}), Some(json!({"note": "***"}))),
            (json!({token: {}}), Some(json!({"***": {}}))),
        ] {
            let expected = expected.unwrap_or_else(|| value.clone());
            assert_eq!(mask_value(value.clone()), expected, "{value}");
        }
    }
}
