//! The answer of a service, read strictly: if two readers of an answer could differ about its decision, it is no answer.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use mcpwarden_terms::contract::{GuardReason, GuardReply};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};

/// Longest unknown decision that an error repeats. Bytes.
const MAX_SHOWN_BYTES: usize = 32;

/// Why a body is no answer. No text contains more of the body than a short word of letters.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error("its answer is empty")]
    Empty,
    #[error("its answer is not UTF-8")]
    NotUtf8,
    /// From 1 on, as editors count.
    #[error("its answer is not JSON (line {line}, column {column})")]
    NotJson { line: usize, column: usize },
    #[error("its answer has two members of one name in an object")]
    Duplicate,
    #[error("its answer is not an object")]
    NotObject,
    #[error("its answer has no decision that is a text")]
    NoDecision,
    #[error("its answer has an unknown decision{}", shown(.0))]
    UnknownDecision(String),
    #[error("it denies without a reason: an object with the texts code and message")]
    NoReason,
    #[error("it denies with an empty code")]
    EmptyCode,
    #[error("it modifies without an action: an object with a text type")]
    NoAction,
}

/// A word, or nothing where it could be anything else.
fn shown(decision: &str) -> String {
    let is_word = decision.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_word && decision.len() <= MAX_SHOWN_BYTES { format!(" \"{decision}\"") } else { String::new() }
}

/// The decision in a body. Unknown members are ignored, so that the contract can grow.
pub(crate) fn decode(body: &[u8]) -> Result<GuardReply, AnswerError> {
    let text = std::str::from_utf8(body).map_err(|_| AnswerError::NotUtf8)?;
    if text.trim_ascii().is_empty() {
        return Err(AnswerError::Empty);
    }
    let checked: Result<Unambiguous, _> = serde_json::from_str(text);
    checked.map_err(|error| match error.classify() {
        Category::Data => AnswerError::Duplicate,
        _ => AnswerError::NotJson { line: error.line(), column: error.column() },
    })?;
    let members = members(text).ok_or(AnswerError::NotObject)?;
    let decision = members.get("decision").and_then(|value| string(value)).ok_or(AnswerError::NoDecision)?;
    match decision.as_str() {
        "allow" => Ok(GuardReply::Allow),
        "deny" => {
            let reason =
                members.get("reason").and_then(|value| reason(value)).ok_or(AnswerError::NoReason)?;
            if reason.code.is_empty() { Err(AnswerError::EmptyCode) } else { Ok(GuardReply::Deny { reason }) }
        }
        "modify" => {
            let action = members.get("action").ok_or(AnswerError::NoAction)?.get();
            let parts = self::members(action).ok_or(AnswerError::NoAction)?;
            parts.get("type").and_then(|value| string(value)).ok_or(AnswerError::NoAction)?;
            Ok(GuardReply::Modify { action: action.to_owned() })
        }
        _ => Err(AnswerError::UnknownDecision(decision)),
    }
}

fn reason(value: &RawValue) -> Option<GuardReason> {
    let members = members(value.get())?;
    let text = |name: &str| members.get(name).and_then(|value| string(value));
    let details = members.get("details").map(|value| value.get()).filter(|details| *details != "null");
    Some(GuardReason { code: text("code")?, message: text("message")?, details: details.map(str::to_owned) })
}

/// The members of an object. Not a struct, which serde reads from arrays also.
fn members(text: &str) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(text).ok()
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Any JSON value in which no object has two members of one name. Nested at most 128 deep, as `serde_json` reads.
struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("a duplicate member"));
            }
            members.next_value::<Self>()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deny(code: &str, message: &str, details: Option<&str>) -> Result<GuardReply, AnswerError> {
        let details = details.map(str::to_owned);
        let reason = GuardReason { code: code.to_owned(), message: message.to_owned(), details };
        Ok(GuardReply::Deny { reason })
    }

    fn modify(action: &str) -> Result<GuardReply, AnswerError> {
        Ok(GuardReply::Modify { action: action.to_owned() })
    }

    fn not_json(column: usize) -> Result<GuardReply, AnswerError> {
        Err(AnswerError::NotJson { line: 1, column })
    }

    #[test]
    fn answers_are_read_by_the_table() {
        let allow = || Ok(GuardReply::Allow);
        let duplicate = || Err(AnswerError::Duplicate);
        let deep = format!(r#"{{"decision":"allow","x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for (body, expected) in [
            (r#"{"decision":"allow"}"#, allow()),
            (" \r\n{ \"decision\" : \"allow\" }\n", allow()),
            (r#"{"decision":"\u0061llow"}"#, allow()),
            (r#"{"decision":"allow","reason":7,"version":"0.2.0"}"#, allow()),
            (r#"{"decision":"deny","reason":{"code":"c","message":"m"}}"#, deny("c", "m", None)),
            (
                r#"{"reason":{"message":"","code":"c","details":null,"x":1},"decision":"deny"}"#,
                deny("c", "", None),
            ),
            (
                r#"{"decision":"deny","reason":{"code":"c","message":"é\n","details":{"n": 1.0, "s":["\"",{}]}}}"#,
                deny("c", "é\n", Some(r#"{"n": 1.0, "s":["\"",{}]}"#)),
            ),
            (
                r#"{"decision":"deny","reason":{"code":"c","message":"m","details":"x"}}"#,
                deny("c", "m", Some("\"x\"")),
            ),
            (
                r#"{"decision":"modify","action":{"type":"redact_fields","paths":["$.a"],"replacement":"-"}}"#,
                modify(r#"{"type":"redact_fields","paths":["$.a"],"replacement":"-"}"#),
            ),
            (r#"{"decision":"modify","action":{"type":"unheard_of"}}"#, modify(r#"{"type":"unheard_of"}"#)),
            // Nothing at all, or something else.
            ("", Err(AnswerError::Empty)),
            (" \n", Err(AnswerError::Empty)),
            ("<html><body>OK</body></html>", not_json(1)),
            ("\u{feff}{}", not_json(1)),
            (r#"{"decision":"allow"}}"#, not_json(21)),
            (r#"{"decision":"allow"} {"decision":"deny"}"#, not_json(22)),
            (r#"{"decision":"allow""#, not_json(19)),
            (r#"{"decision":"allow","score":NaN}"#, not_json(29)),
            (r#"{"decision":"allow","score":Infinity}"#, not_json(29)),
            (r#"{"decision":"allow","score":1e999}"#, not_json(33)),
            (r#"{"decision":"allow","x":"\ud800"}"#, not_json(32)),
            (r"{'decision':'allow'}", not_json(2)),
            (&*deep, not_json(151)),
            ("null", Err(AnswerError::NotObject)),
            ("\"allow\"", Err(AnswerError::NotObject)),
            (r#"["allow"]"#, Err(AnswerError::NotObject)),
            // No decision that all readers agree on.
            ("{}", Err(AnswerError::NoDecision)),
            (r#"{"Decision":"allow"}"#, Err(AnswerError::NoDecision)),
            (r#"{"decision":null}"#, Err(AnswerError::NoDecision)),
            (r#"{"decision":true}"#, Err(AnswerError::NoDecision)),
            (r#"{"decision":["allow"]}"#, Err(AnswerError::NoDecision)),
            (r#"{"decision":"Allow"}"#, Err(AnswerError::UnknownDecision("Allow".to_owned()))),
            (r#"{"decision":""}"#, Err(AnswerError::UnknownDecision(String::new()))),
            (r#"{"decision":"allow","decision":"deny"}"#, duplicate()),
            (r#"{"decision":"allow","decision":"allow"}"#, duplicate()),
            (r#"{"decision":"allow","d\u0065cision":"deny"}"#, duplicate()),
            (r#"{"decision":"modify","action":{"type":"a","type":"b"}}"#, duplicate()),
            (
                r#"{"decision":"deny","reason":{"code":"c","message":"m","details":[{"scope":1,"scope":2}]}}"#,
                duplicate(),
            ),
            // Decisions without what belongs to them.
            (r#"{"decision":"deny"}"#, Err(AnswerError::NoReason)),
            (r#"{"decision":"deny","reason":null}"#, Err(AnswerError::NoReason)),
            (r#"{"decision":"deny","reason":"because"}"#, Err(AnswerError::NoReason)),
            (r#"{"decision":"deny","reason":["c","m"]}"#, Err(AnswerError::NoReason)),
            (r#"{"decision":"deny","reason":{"code":"c"}}"#, Err(AnswerError::NoReason)),
            (r#"{"decision":"deny","reason":{"code":1,"message":"m"}}"#, Err(AnswerError::NoReason)),
            (r#"{"decision":"deny","reason":{"code":"","message":"m"}}"#, Err(AnswerError::EmptyCode)),
            (r#"{"decision":"modify"}"#, Err(AnswerError::NoAction)),
            (r#"{"decision":"modify","action":null}"#, Err(AnswerError::NoAction)),
            (r#"{"decision":"modify","action":["redact_fields"]}"#, Err(AnswerError::NoAction)),
            (r#"{"decision":"modify","action":{"type":1}}"#, Err(AnswerError::NoAction)),
            (r#"{"decision":"modify","action":{}}"#, Err(AnswerError::NoAction)),
        ] {
            assert_eq!(decode(body.as_bytes()), expected, "{body:.100}");
        }
        assert_eq!(decode(b"{\"decision\":\"allow\",\"x\":\"\xff\"}"), Err(AnswerError::NotUtf8));
    }

    /// A connection that ends early must not turn one decision into another.
    #[test]
    fn no_beginning_of_an_answer_is_one() {
        let body =
            r#"{"decision":"deny","reason":{"code":"c","message":"é","details":{"decision":"allow"}}}"#;
        for end in 0..body.len() {
            let found = decode(&body.as_bytes()[..end]);
            assert!(found.is_err(), "{end}: {found:?}");
        }
        assert_eq!(decode(body.as_bytes()), deny("c", "é", Some(r#"{"decision":"allow"}"#)));
    }

    /// Each byte of an answer replaced by each of some others: what is still an answer says the same to another reader.
    #[test]
    fn damaged_answers_mean_the_same_to_all() {
        let mut read = 0;
        for body in [
            r#"{"decision":"deny","reason":{"code":"c","message":"m","details":{"n":1.0,"a":[1,2]}}}"#,
            r#"{"decision":"modify","action":{"type":"add_warning","message":"m"},"reason":null}"#,
            r#" {"decision" : "allow" , "d" : [ { } , true , "\u0061" ] } "#,
        ] {
            for (position, by) in (0..body.len()).flat_map(|at| b"{}[]\",:\\0e-. dx\0\xff".map(|by| (at, by)))
            {
                let mut damaged = body.as_bytes().to_vec();
                damaged[position] = by;
                let Ok(reply) = decode(&damaged) else { continue };
                read += 1;
                let value: serde_json::Value = serde_json::from_slice(&damaged).unwrap();
                let text = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
                let here = String::from_utf8_lossy(&damaged);
                match reply {
                    GuardReply::Allow => assert_eq!(value["decision"], "allow", "{here}"),
                    GuardReply::Deny { reason } => {
                        assert_eq!(value["decision"], "deny", "{here}");
                        let found = &value["reason"];
                        assert_eq!(
                            (&found["code"], &found["message"]),
                            (&reason.code.into(), &reason.message.into())
                        );
                        let details = reason.details.as_deref().map(text).unwrap_or_default();
                        assert_eq!(found.get("details").cloned().unwrap_or_default(), details, "{here}");
                    }
                    GuardReply::Modify { action } => {
                        assert_eq!(
                            (&value["decision"], &value["action"]),
                            (&"modify".into(), &text(&action)),
                            "{here}"
                        );
                    }
                }
            }
        }
        assert!(read > 200, "{read}");
    }

    /// A decision, and the end of the error.
    #[test]
    fn errors_show_words_alone() {
        for (decision, expected) in [
            ("maybe", "an unknown decision \"maybe\""),
            ("deny me", "an unknown decision"),
            ("\u{1b}[2J", "an unknown decision"),
            ("averyveryverylongdecisionthatisno", "an unknown decision"),
        ] {
            let body = format!(r#"{{"decision":{}}}"#, serde_json::to_string(decision).unwrap());
            let text = decode(body.as_bytes()).unwrap_err().to_string();
            assert!(text.ends_with(expected), "{text}");
        }
    }
}
