//! Structures that are arrays of their fields, into objects.
//!
//! Readers that serde derives take an array for a structure, its elements being the fields in the order in which they are declared
//! (`visit_seq`): to the official Rust SDK `["2.0",1,{"tools":[…]}]` is the answer to 1, and `["ping",null,"Pings.",{…}]` is a tool.
//! The order differs from library to library, so that elements are told by what they are. Nothing is left out: what is not told stands
//! under its place.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::method::Method;
use super::value::{all_members, decode_str, members};
use super::{Envelope, whole_number};

/// Most elements of a message that is an array: JSON-RPC has six members.
const MAX_FIELDS: usize = 6;
/// Most names of one entry, and most of one call: any text without blanks may be it.
pub(super) const MAX_NAMES: usize = 8;
/// Longest text that may be a name. Bytes.
const MAX_NAME_BYTES: usize = 256;
/// Fields of a structure that are told by what they are: no library's structure has more.
const MAX_TOLD: usize = 32;
/// How much longer a list may become by entries that may have several names, and how long such an entry may be, in bytes.
const MAX_GROWTH: usize = 2;
const MAX_NAMED_BYTES: usize = 16 * 1024;
/// Most names of a call with longer parameters.
const MAX_LONG_NAMES: usize = 3;
/// Lists of a result, and the members that tell of which of them an entry is.
pub(super) const LISTS: [(&str, &[&str]); 4] = [
    ("tools", &["inputSchema", "outputSchema"]),
    ("resourceTemplates", &["uriTemplate"]),
    ("resources", &["uri"]),
    ("prompts", &["arguments"]),
];

/// The message that an array with these elements is, where it may be one.
pub(super) fn envelope<'a>(items: &[&'a RawValue]) -> Option<Envelope<'a>> {
    let first = items.first()?;
    if items.len() > MAX_FIELDS || is_container(first) || !items.iter().any(|item| is_container(item)) {
        return None;
    }
    let mut envelope = Envelope { has_more: true, ..Envelope::default() };
    for item in items {
        let text = decode_str(item.get());
        let is_method = |text: &str| Method::NAMES.contains(&text);
        if is_container(item) {
            let is_error = is_error(item);
            let place = if envelope.method.is_some() {
                &mut envelope.params
            } else if is_error {
                &mut envelope.error
            } else {
                &mut envelope.result
            };
            place.get_or_insert(item);
        } else if text.as_deref() == Some("2.0") {
            envelope.jsonrpc.get_or_insert(item);
        } else if text.as_deref().is_some_and(is_method) {
            envelope.method.get_or_insert(item);
            // Its parameters may stand before it.
            envelope.params = envelope.params.or(envelope.result.take());
        } else if text.is_some() || item.get().starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            envelope.id.get_or_insert(item);
        }
    }
    Some(envelope)
}

/// A message with objects in place of its structures that are arrays; `None` where there are none.
pub(super) fn as_objects(json: &str) -> Option<String> {
    if json.trim_start().starts_with('[') {
        let items = elements(json)?;
        let Envelope { jsonrpc, id, method, params, result, error, .. } = envelope(&items)?;
        let mut message = Members::default();
        for (name, member) in [("jsonrpc", jsonrpc), ("id", id), ("method", method)] {
            message.extend(name, member.map(RawValue::get));
        }
        message.extend("params", params.map(RawValue::get));
        for (name, member) in [("result", result), ("error", error)] {
            message.extend(name, member.map(|member| part(name, member)).as_deref());
        }
        return Some(message.finish());
    }
    let [result, error] = members(json, ["result", "error"]);
    let is_array = |name, member: Option<&RawValue>| member.is_some_and(|member| has_arrays(name, member));
    if !is_array("result", result) && !is_array("error", error) {
        return None;
    }
    let mut message = Members::default();
    for (key, value) in all_members(json)? {
        message.push(&key, &part(&key, value));
    }
    Some(message.finish())
}

/// What may be the names in `params` that are an array, each with what it is called with: any text, with the first object, or, where
/// there is none, the name in an object or array in it (Go's `net/rpc/jsonrpc` has one object there).
pub(super) fn positional_params(params: &RawValue) -> Option<Vec<(String, Option<&RawValue>)>> {
    let items = elements(params.get())?;
    let mut named = in_places(&items);
    if named.is_empty() {
        for item in items {
            let [name, arguments] = members(item.get(), ["name", "arguments"]);
            named.extend(name.and_then(name_text).map(|name| (name, arguments)));
            named.extend(elements(item.get()).iter().flat_map(|items| in_places(items)));
        }
    }
    // Each has a copy of what it is called with.
    named.truncate(if params.get().len() > MAX_NAMED_BYTES { MAX_LONG_NAMES } else { MAX_NAMES });
    Some(named)
}

/// The same of one array.
fn in_places<'a>(items: &[&'a RawValue]) -> Vec<(String, Option<&'a RawValue>)> {
    let arguments = items.iter().find(|item| item.get().starts_with('{')).copied();
    items.iter().filter_map(|item| Some((name_text(item)?, arguments))).take(MAX_NAMES).collect()
}

/// The text of what is to be a name: readers of Java's (Jackson, Gson) and others take a number, `true` or `false` for its text.
pub fn name_text(json: &RawValue) -> Option<String> {
    let text = decode_str(json.get()).map(Cow::into_owned);
    text.or_else(|| (!is_container(json) && json.get() != "null").then(|| json.get().to_owned()))
}

fn has_arrays(name: &str, member: &RawValue) -> bool {
    match name {
        "error" => member.get().starts_with('[') && is_error(member),
        "result" if member.get().starts_with('[') => result(member).is_some(),
        "result" => {
            let lists = members(member.get(), LISTS.map(|(list, _)| list));
            lists.into_iter().flatten().any(has_array)
        }
        _ => false,
    }
}

/// A result or an error with objects in place of arrays; anything else as it is.
fn part(name: &str, member: &RawValue) -> String {
    let json = member.get();
    if !has_arrays(name, member) {
        return json.to_owned();
    }
    match name {
        "error" => error(member),
        _ if json.starts_with('[') => result(member).unwrap_or_else(|| json.to_owned()),
        _ => {
            let mut object = Members::default();
            for (key, value) in all_members(json).unwrap_or_default() {
                let is_list = LISTS.iter().any(|(list, _)| *list == key) && has_array(value);
                let value = if is_list { Cow::Owned(entries(value)) } else { Cow::Borrowed(value.get()) };
                object.push(&key, &value);
            }
            object.finish()
        }
    }
}

/// The result that an array is: one of a list, or of an opening. `None` where it is something else.
fn result(array: &RawValue) -> Option<String> {
    let items = elements(array.get())?;
    // Capabilities, and who serves.
    let containers = || items.iter().filter(|item| is_container(item));
    let is_opening = items.iter().any(|item| is_revision(item))
        && containers().count() > 1
        && containers().any(|item| is_info(item));
    let mut object = Members::default();
    let mut is_result = is_opening;
    for (place, item) in told(&items).iter().enumerate() {
        let named = |object: &mut Members, name: &str, json: &str| {
            let is_free = !object.has(name);
            object.push(if is_free { name.to_owned() } else { place.to_string() }.as_str(), json);
        };
        if is_revision(item) {
            named(&mut object, "protocolVersion", item.get());
        } else if item.get().starts_with('"') {
            named(&mut object, if is_opening { "instructions" } else { "nextCursor" }, item.get());
        } else if let Some(lists) = lists_of(item) {
            is_result = true;
            let entries = entries(item);
            lists.into_iter().for_each(|list| named(&mut object, list, &entries));
        } else if is_opening && is_info(item) {
            named(&mut object, "serverInfo", &info(item));
        } else if is_opening && item.get().starts_with('{') {
            named(&mut object, "capabilities", item.get());
        } else {
            object.push(&place.to_string(), item.get());
        }
    }
    object.more(&items);
    is_result.then(|| object.finish())
}

/// The lists that an array of entries may be.
fn lists_of(array: &RawValue) -> Option<Vec<&'static str>> {
    let items = elements(array.get()).filter(|items| !items.is_empty())?;
    if !items.iter().all(|item| is_entry(item)) {
        return None;
    }
    let first = items.first()?;
    let told = match elements(first.get()) {
        // Only tools have a member that is an object and not optional.
        Some(fields) if fields.iter().any(|field| field.get().starts_with('{')) => Some("tools"),
        Some(fields) if fields.iter().any(|field| is_uri(field)) => Some("resourceTemplates"),
        Some(_) => None,
        None => {
            let has = |key: &&str| members(first.get(), [*key])[0].is_some();
            LISTS.iter().find(|(_, telling)| telling.iter().any(has)).map(|(list, _)| *list)
        }
    };
    Some(told.map_or_else(|| vec!["tools", "prompts"], |list| vec![list]))
}

/// Whether an element may be the entry of a list: an object with a name, or an array with texts.
fn is_entry(item: &RawValue) -> bool {
    let is_named = || members(item.get(), ["name", "uri", "uriTemplate"]).iter().any(Option::is_some);
    match elements(item.get()) {
        Some(items) => items.len() > 1 && items.iter().any(|item| item.get().starts_with('"')),
        None => item.get().starts_with('{') && is_named(),
    }
}

/// A list with an object for each of its entries; of one that is an array, one for each text that may be its name.
fn entries(array: &RawValue) -> String {
    let mut all = String::from("[");
    for item in elements(array.get()).unwrap_or_default() {
        let is_long = item.get().len() > MAX_NAMED_BYTES
            || all.len() > MAX_NAMED_BYTES && all.len() > MAX_GROWTH * array.get().len();
        let entries = match elements(item.get()) {
            Some(fields) => entry(&fields, if is_long { 1 } else { MAX_NAMES }),
            None => vec![item.get().to_owned()],
        };
        for entry in entries {
            all.extend([if all.len() > 1 { "," } else { "" }, &entry]);
        }
    }
    all.push(']');
    all
}

/// The entries that an array of fields may be: by its name, its description, and what else it has.
fn entry(fields: &[&RawValue], max_names: usize) -> Vec<String> {
    let told = told(fields);
    let texts: Vec<Option<Cow<'_, str>>> = told.iter().map(|field| decode_str(field.get())).collect();
    let length = |place: usize| texts.get(place).and_then(Option::as_ref).map_or(0, |text| text.len());
    let is_name = |place: &usize| {
        texts.get(*place).and_then(Option::as_ref).is_some_and(|text| {
            !text.is_empty() && text.len() <= MAX_NAME_BYTES && !text.contains(char::is_whitespace)
        })
    };
    let of_texts = || (0..told.len()).filter(|place| texts.get(*place).is_some_and(Option::is_some));
    let mut names: Vec<usize> = of_texts().filter(is_name).take(max_names).collect();
    if names.is_empty() {
        names.extend(of_texts().next());
    }
    let as_named = |name: &usize| {
        // Of several texts the longest tells most.
        let description = of_texts().filter(|place| place != name).max_by_key(|place| length(*place));
        let mut object = Members::default();
        for (place, field) in told.iter().enumerate() {
            let key = match field.get() {
                _ if place == *name => Some("name"),
                _ if is_uri(field) => Some("uriTemplate"),
                _ if Some(place) == description => Some("description"),
                json if is_schema(json) => Some("inputSchema"),
                _ => None,
            };
            let key = key.filter(|key| !object.has(key));
            object.push(key.unwrap_or(&place.to_string()), field.get());
        }
        object.more(fields);
        object.finish()
    };
    names.iter().map(as_named).collect()
}

fn is_schema(json: &str) -> bool {
    members(json, ["type", "properties", "$schema"]).iter().any(Option::is_some)
}

/// Whether a field is a URI, or the template of some.
fn is_uri(field: &RawValue) -> bool {
    decode_str(field.get()).is_some_and(|text| text.contains("://") && !text.contains(char::is_whitespace))
}

/// Who serves, of an array of fields.
fn info(info: &RawValue) -> String {
    let Some(fields) = elements(info.get()) else { return info.get().to_owned() };
    let mut object = Members::default();
    for (place, field) in told(&fields).iter().enumerate() {
        let is_version =
            decode_str(field.get()).is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()));
        let key = if is_version { "version" } else { "name" };
        let is_free = field.get().starts_with('"') && !object.has(key);
        object.push(if is_free { key.to_owned() } else { place.to_string() }.as_str(), field.get());
    }
    object.more(&fields);
    object.finish()
}

/// An error, of an array of fields.
fn error(error: &RawValue) -> String {
    let mut object = Members::default();
    let fields = elements(error.get()).unwrap_or_default();
    for (place, field) in told(&fields).iter().enumerate() {
        let is_number = field.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let key = match field.get() {
            "null" => continue,
            _ if is_number => "code",
            json if json.starts_with('"') => "message",
            _ => "data",
        };
        let is_free = !object.has(key);
        object.push(if is_free { key.to_owned() } else { place.to_string() }.as_str(), field.get());
    }
    object.more(&fields);
    object.finish()
}

/// Whether an element is a code with its message.
fn is_error(item: &RawValue) -> bool {
    if let Some(fields) = elements(item.get()) {
        let [code, message, ..] = fields.as_slice() else { return false };
        return !code.get().starts_with('"')
            && whole_number(code).is_some()
            && message.get().starts_with('"');
    }
    let [code, message] = members(item.get(), ["code", "message"]);
    code.and_then(whole_number).is_some() && message.is_some()
}

fn is_info(item: &RawValue) -> bool {
    match elements(item.get()) {
        Some(fields) => fields.iter().any(|field| field.get().starts_with('"')),
        None => members(item.get(), ["name", "version"]).iter().all(Option::is_some),
    }
}

/// Whether an element is a revision of MCP: a date.
fn is_revision(item: &RawValue) -> bool {
    let is_date = |text: &str| {
        text.len() == 10
            && text.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    };
    decode_str(item.get()).is_some_and(|text| is_date(&text))
}

/// The fields that are told by what they are.
fn told<'s, 'a>(fields: &'s [&'a RawValue]) -> &'s [&'a RawValue] {
    fields.get(..fields.len().min(MAX_TOLD)).unwrap_or_default()
}

fn is_container(item: &RawValue) -> bool {
    item.get().starts_with(['{', '['])
}

/// Whether a list has an element that is an array.
fn has_array(list: &RawValue) -> bool {
    elements(list.get()).is_some_and(|items| items.iter().any(|item| item.get().starts_with('[')))
}

pub(super) fn elements(json: &str) -> Option<Vec<&RawValue>> {
    json.trim_start().starts_with('[').then(|| serde_json::from_str(json).ok())?
}

/// The text of an object that is written.
#[derive(Default)]
pub(super) struct Members {
    text: String,
    keys: Vec<String>,
}

impl Members {
    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    pub(super) fn push(&mut self, key: &str, json: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.text.extend([Value::from(key).to_string().as_str(), ":", json]);
        self.keys.push(key.to_owned());
    }

    /// The fields behind those that are told.
    fn more(&mut self, fields: &[&RawValue]) {
        let Some((first, more)) = fields.get(MAX_TOLD..).and_then(<[_]>::split_first) else { return };
        self.push("more", "[");
        self.text.push_str(first.get());
        more.iter().for_each(|field| self.text.extend([",", field.get()]));
        self.text.push(']');
    }

    fn extend(&mut self, key: &str, json: Option<&str>) {
        if let Some(json) = json {
            self.push(key, json);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str(if self.text.is_empty() { "{}" } else { "}" });
        self.text
    }
}

#[cfg(test)]
mod tests;
