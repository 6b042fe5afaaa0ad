//! Lists that stand in a result twice, as Go's `encoding/json` takes them: into the elements of the first, which keep what the second
//! does not say (golang/go#21092).

use serde_json::value::RawValue;

use super::arrays::{LISTS, Members, elements};
use super::value::{all_members, every_member, members};

/// The message with each list of its result that stands there again once more, as it is then; `None` where that changes no element.
pub(super) fn merged_lists(json: &str) -> Option<String> {
    let [result] = members(json, ["result"]);
    let result = result.filter(|result| result.get().starts_with('{'))?;
    let merged: Vec<(&str, String)> =
        LISTS.iter().filter_map(|(list, _)| Some((*list, merged_list(result, list)?))).collect();
    if merged.is_empty() {
        return None;
    }
    let mut object = Members::default();
    for (key, value) in all_members(result.get())? {
        object.push(&key, value.get());
    }
    merged.iter().for_each(|(list, entries)| object.push(list, entries));
    let mut message = Members::default();
    for (key, value) in all_members(json)?.into_iter().filter(|(key, _)| key != "result") {
        message.push(&key, value.get());
    }
    message.push("result", &object.finish());
    Some(message.finish())
}

/// A list of a result, with what the elements of the one before it say besides.
fn merged_list(result: &RawValue, list: &str) -> Option<String> {
    let all = every_member(result.get(), list).filter(|all| all.len() > 1)?;
    let mut lists = all.into_iter().filter_map(|list| elements(list.get()));
    let mut merged: Vec<String> = lists.next()?.into_iter().map(|entry| entry.get().to_owned()).collect();
    let (mut length, mut any) = (merged.len(), false);
    for entries in lists {
        length = entries.len();
        for (at, entry) in entries.into_iter().enumerate() {
            match merged.get_mut(at) {
                Some(slot) => match with_missing(entry.get(), slot) {
                    Some(whole) => {
                        any = true;
                        *slot = whole;
                    }
                    None => entry.get().clone_into(slot),
                },
                None => merged.push(entry.get().to_owned()),
            }
        }
    }
    any.then(|| format!("[{}]", merged.get(..length).unwrap_or_default().join(",")))
}

/// An element with the members of another that it does not have, whatever the case of their keys; `None` where it has all.
fn with_missing(entry: &str, before: &str) -> Option<String> {
    let own = all_members(entry)?;
    let known: std::collections::HashSet<String> =
        own.iter().map(|(key, _)| key.to_ascii_lowercase()).collect();
    let other = all_members(before)?;
    let mut missing = other.iter().filter(|(key, _)| !known.contains(&key.to_ascii_lowercase())).peekable();
    missing.peek()?;
    let mut object = Members::default();
    own.iter().chain(missing).for_each(|(key, value)| object.push(key, value.get()));
    Some(object.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_what_is_not_said_again() {
        let cases = [
            (
                r#"{"id":1,"result":{"tools":[{"description":"Presses.","x":1}],"a":2,"tools":[{"name":"press"}]}}"#,
                Some(
                    r#"{"id":1,"result":{"tools":[{"description":"Presses.","x":1}],"a":2,"tools":[{"name":"press"}],"tools":[{"name":"press","description":"Presses.","x":1}]}}"#,
                ),
            ),
            (
                r#"{"result":{"prompts":[{"a":1},{"b":2}],"prompts":[{"A":3}],"prompts":[{"c":4},{"d":5}]}}"#,
                Some(
                    r#"{"result":{"prompts":[{"a":1},{"b":2}],"prompts":[{"A":3}],"prompts":[{"c":4},{"d":5}],"prompts":[{"c":4,"A":3},{"d":5,"b":2}]}}"#,
                ),
            ),
            (r#"{"result":{"tools":[{"name":"a"}],"tools":[{"name":"b","x":1}]}}"#, None),
            (r#"{"result":{"tools":[],"tools":[{"name":"b"}]}}"#, None),
            (r#"{"result":{"tools":[{"x":1}],"tools":[]}}"#, None),
            (r#"{"result":{"tools":[{"name":"a"}]}}"#, None),
            (r#"{"result":[1]}"#, None),
            ("{", None),
        ];
        for (json, expected) in cases {
            assert_eq!(merged_lists(json).as_deref(), expected, "{json}");
        }
    }
}
