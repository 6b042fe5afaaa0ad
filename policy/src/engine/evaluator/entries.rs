//! The entries of a list, and what stands beside them, as each of its readers has them.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

use crate::protocol::{every_member, members, respell, without};
use crate::registry::ItemKind;

/// What stands in the result of a list beside its entries.
pub(in crate::engine) fn beside_entries(kind: ItemKind, result: &RawValue) -> Cow<'_, str> {
    let (list, _) = keys(kind);
    let is_list = |json: &RawValue| {
        let entries: Vec<&RawValue> = serde_json::from_str(json.get()).unwrap_or_default();
        json.get().starts_with('[') && entries.iter().all(|entry| entry.get().starts_with('{'))
    };
    // What is no list, or no entry, no client may take for one; but it is said.
    let all = every_member(result.get(), list).unwrap_or_default();
    if all.is_empty() || !all.into_iter().all(is_list) {
        return result.get().into();
    }
    without(result.get(), &[list])
}

/// What the members of a result by this name are, each once: in it as it is, and for readers that do not regard case.
pub(in crate::engine) fn as_all_read<'a>(
    result: &'a RawValue,
    respelled: Option<&'a RawValue>,
    name: &str,
) -> Vec<&'a RawValue> {
    let mut all: Vec<&RawValue> = Vec::new();
    for result in [Some(result), respelled].into_iter().flatten() {
        for json in every_member(result.get(), name).unwrap_or_default() {
            if !all.iter().any(|known| known.get() == json.get()) {
                all.push(json);
            }
        }
    }
    all
}

/// The entries of a list, as each of its readers has them: those under every member of its name, and those of the result as it is
/// for readers that do not regard case. `None` where there is no list.
pub(in crate::engine) fn listed_entries<'a>(
    kind: ItemKind,
    result: &'a RawValue,
    respelled: Option<&'a RawValue>,
) -> Option<Vec<&'a RawValue>> {
    let (list, name) = keys(kind);
    let mut all: Option<Vec<&RawValue>> = None;
    // As they stand, and respelled where they have the same name then: that is one entry.
    let mut known: HashSet<Cow<'_, str>> = HashSet::new();
    let name_of = |json: &str| members(json, [name])[0].map(|name| name.get().to_owned());
    for result in [Some(result), respelled].into_iter().flatten() {
        for json in every_member(result.get(), list)? {
            let Ok(mut entries) = serde_json::from_str::<Vec<&RawValue>>(json.get()) else { continue };
            // What is an array is an object where it is respelled.
            if respelled.is_some() {
                entries.retain(|entry| !entry.get().starts_with('['));
            }
            match &mut all {
                None => all = Some(entries),
                Some(all) => {
                    known.extend(all.iter().map(|entry| Cow::Borrowed(entry.get())));
                    let respelled = all.iter().filter_map(|entry| Some((entry, respell(entry.get())?.json)));
                    let same = respelled.filter(|(entry, json)| name_of(entry.get()) == name_of(json));
                    known.extend(same.map(|(_, json)| Cow::Owned(json)));
                    all.extend(entries.into_iter().filter(|entry| !known.contains(entry.get())));
                }
            }
        }
    }
    all
}

/// Under which member of the answer the entries stand, and under which of an entry its name.
pub(super) fn keys(kind: ItemKind) -> (&'static str, &'static str) {
    match kind {
        ItemKind::Tool => ("tools", "name"),
        ItemKind::Prompt => ("prompts", "name"),
        ItemKind::ResourceTemplate => ("resourceTemplates", "uriTemplate"),
        ItemKind::Instructions => ("instructions", ""),
        ItemKind::Interface => ("contents", "uri"),
    }
}
