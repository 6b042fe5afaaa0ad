//! Quotation marks, and members of objects whose names stand in another one.

use super::names::is_secret_name;

/// Whether a text is the name of a secret, by which a member is called whose value stands behind it.
pub(super) fn is_member(name: &str, behind: &str) -> bool {
    let behind = behind.get(quotes(behind)..).unwrap_or_default();
    member_value(behind).is_some() && is_secret_name(name, false)
}

/// How long it is to the value of a member behind that for the name: `,"value":` in `{"name":"TOKEN","value":"abc"}`, ` value=`.
pub(super) fn member_value(behind: &str) -> Option<usize> {
    let next = behind.trim_start_matches([',', ' ', '\t', '\n', '\r']);
    let key = next.get(quotes(next)..)?;
    let is_key =
        next.len() < behind.len() && key.get(..5).is_some_and(|key| key.eq_ignore_ascii_case("value"));
    let rest = key.get(5..).filter(|_| is_key)?;
    let rest = rest.get(quotes(rest)..)?.trim_start();
    let sign = rest.starts_with([':', '=']).then_some(1)?;
    Some(behind.len() - rest.len() + sign)
}

/// Where a text has this quotation mark, or its end. A mark with another backslash before it is part of the text.
pub(super) fn find_mark(text: &str, mark: &str) -> usize {
    let is_end = |at: &usize| !text.get(..*at).is_some_and(|before| before.ends_with('\\'));
    text.match_indices(mark).map(|(at, _)| at).find(is_end).unwrap_or(text.len())
}

/// Bytes of quotation marks that a text begins with, those inside a string (`\"`) too.
pub(super) fn quotes(text: &str) -> usize {
    let marked = text.trim_start_matches('\\');
    if marked.starts_with(['"', '\'']) { text.len() - marked.len() + 1 } else { 0 }
}
