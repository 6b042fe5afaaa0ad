//! The head of a request over HTTP, held against its body: whoever stands between client and server goes by the head, and the
//! server by the body (specification 2026-07-28, "Streamable HTTP").
//!
//! Values of parameters may be secrets, and are in no event; names of tools and prompts are.

use serde_json::value::RawValue;

use super::conversation::Breach;
use super::recorder::{MAX_NAME_BYTES, clip};
use crate::event::{Era, Violation};
use crate::http::{Header, Mirrored};
use crate::protocol::meta::RequestMeta;
use crate::protocol::{Method, all_members, decode_str, members, name_text, string};

/// Most parameters of one tool that are repeated in heads.
const MAX_REPEATED: usize = 32;
/// How deep they may be in the arguments.
const MAX_DEPTH: usize = 8;

/// A parameter of a tool that its clients repeat in a head: `x-mcp-header` in the tool's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    /// The end of the name of the header, in lower case.
    header: Box<str>,
    /// The way to it in the arguments.
    path: Vec<Box<str>>,
}

impl Repeated {
    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let path: usize = self.path.iter().map(|step| size_of::<Box<str>>() + step.len()).sum();
        size_of::<Self>() + self.header.len() + path
    }
}

/// The parameters of a tool's definition that are repeated in heads, bounded.
pub(super) fn repeated(definition: &str) -> Vec<Repeated> {
    let mut found = Vec::new();
    // Most tools have none.
    if definition.contains("x-mcp-header") || definition.contains("\\u") {
        let [schema] = members(definition, ["inputSchema"]);
        parameters(schema, &mut Vec::new(), &mut found);
    }
    found
}

fn parameters(schema: Option<&RawValue>, path: &mut Vec<Box<str>>, found: &mut Vec<Repeated>) {
    let [properties] = members(schema.map_or("", RawValue::get), ["properties"]);
    if path.len() >= MAX_DEPTH {
        return;
    }
    for (name, property) in properties.and_then(|all| all_members(all.get())).unwrap_or_default() {
        if found.len() >= MAX_REPEATED {
            return;
        }
        path.push(clip(&name, MAX_NAME_BYTES).into());
        let [header] = members(property.get(), ["x-mcp-header"]);
        if let Some(header) = header.and_then(|header| decode_str(header.get())) {
            let header = clip(&header, MAX_NAME_BYTES).to_ascii_lowercase().into();
            found.push(Repeated { header, path: path.clone() });
        }
        parameters(Some(property), path, found);
        path.pop();
    }
}

/// A request with its head.
pub(super) struct Posted<'a> {
    pub(super) head: &'a Mirrored,
    pub(super) method: &'a Method<'a>,
    pub(super) params: Option<&'a RawValue>,
    /// Whether it is one, and no notification.
    pub(super) is_request: bool,
    /// The era of its conversation.
    pub(super) era: Era,
    /// The revision of a conversation with a handshake.
    pub(super) revision: Option<&'a str>,
    /// Of the tool that is called, as far as that is known.
    pub(super) repeated: &'a [Repeated],
}

impl Posted<'_> {
    /// What in the head is not as the body has it.
    pub(super) fn breaches(&self) -> Vec<Breach> {
        let mut breaches = Vec::new();
        let is_stateless = self.era == Era::Stateless;
        let own = RequestMeta::of(self.params).protocol_version;
        // A handshake negotiates, so that its first request may say anything.
        let negotiated = self.revision.filter(|_| !is_stateless && *self.method != Method::Initialize);
        let revision = own.as_deref().or(negotiated);
        let version =
            Field { name: "MCP-Protocol-Version", is_shown: true, is_due: is_stateless && self.is_request };
        breaches.extend(self.compare(&version, self.head.protocol_version.as_ref(), revision));
        let method = Field { name: "Mcp-Method", is_shown: true, is_due: is_stateless && self.is_request };
        breaches.extend(self.compare(&method, self.head.method.as_ref(), Some(self.method.as_str())));
        if let Some((member, is_shown)) = named_by(self.method) {
            let [name] = members(self.params.map_or("", RawValue::get), [member]);
            let name = name.and_then(name_text);
            let field = Field { name: "Mcp-Name", is_shown, is_due: is_stateless && name.is_some() };
            breaches.extend(self.compare(&field, self.head.name.as_ref(), name.as_deref()));
        }
        if *self.method == Method::ToolsCall {
            self.params(is_stateless, &mut breaches);
        }
        breaches
    }

    /// The parameters of a call.
    fn params(&self, is_stateless: bool, breaches: &mut Vec<Breach>) {
        let [arguments] = members(self.params.map_or("", RawValue::get), ["arguments"]);
        for (name, header) in &self.head.params {
            let known: Vec<&Repeated> = self.repeated.iter().filter(|known| known.header == *name).collect();
            let shown = format!("Mcp-Param-{name}");
            let is_same = match known.as_slice() {
                // What repeats it is not known: then it has to be one of the values.
                [] => header_text(header).is_ok_and(|text| has_leaf(arguments, &text, MAX_DEPTH)),
                known => known.iter().any(|known| {
                    let value = value_at(arguments, &known.path);
                    header_text(header).is_ok_and(|text| value.is_some_and(|value| is_value(value, &text)))
                }),
            };
            breaches.extend(self.judged(&shown, header, is_same, None, None));
        }
        let missing = self.repeated.iter().find(|known| {
            let is_there = self.head.params.iter().any(|(name, _)| *name == known.header);
            let value = value_at(arguments, &known.path).filter(|value| value.get() != "null");
            !is_there && value.is_some() && !self.head.has_more_params
        });
        if let Some(missing) = missing.filter(|_| is_stateless) {
            let expected = Some(format!("Mcp-Param-{}", missing.header));
            breaches.push(Breach {
                era: self.era,
                violation: Violation::HeaderMissing,
                expected,
                found: None,
            });
        }
    }

    /// Compares one header with what the body has.
    fn compare(&self, field: &Field, header: Option<&Header>, body: Option<&str>) -> Option<Breach> {
        let shown = |text: &str| match field.is_shown {
            true => format!("{}: {}", field.name, clip(text, MAX_NAME_BYTES)),
            false => field.name.to_owned(),
        };
        let Some(header) = header else {
            let expected = body.filter(|_| field.is_due).map(shown)?;
            let violation = Violation::HeaderMissing;
            return Some(Breach { era: self.era, violation, expected: Some(expected), found: None });
        };
        let text = header_text(header);
        // Nothing to compare it with.
        let is_same = body.is_none() || text.as_deref().ok() == body;
        let found = text.ok().map(|text| shown(&text));
        self.judged(field.name, header, is_same, body.map(shown), found)
    }

    fn judged(
        &self,
        name: &str,
        header: &Header,
        is_same: bool,
        expected: Option<String>,
        found: Option<String>,
    ) -> Option<Breach> {
        let violation = match header_text(header) {
            _ if header.is_repeated => Violation::HeaderRepeated,
            Err(Unreadable::TooLong) => return None,
            Err(Unreadable::Malformed) => Violation::HeaderMalformed,
            Ok(_) if !is_same => Violation::HeaderMismatch,
            Ok(_) => return None,
        };
        let found = found.unwrap_or_else(|| name.to_owned());
        let expected = expected.filter(|_| violation == Violation::HeaderMismatch);
        Some(Breach { era: self.era, violation, expected, found: Some(found) })
    }
}

struct Field {
    name: &'static str,
    /// Whether its value may be in events.
    is_shown: bool,
    /// Whether it must be there.
    is_due: bool,
}

/// Why the value of a header cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unreadable {
    /// It is no text, or no base64 where it says so.
    Malformed,
    /// It was not kept.
    TooLong,
}

/// What the value of a header says.
fn header_text(header: &Header) -> Result<String, Unreadable> {
    let Some(value) = &header.value else { return Err(Unreadable::TooLong) };
    header.decoded().map_or(Err(Unreadable::Malformed), |text| Ok(text.unwrap_or_else(|| value.to_string())))
}

/// The member of params that `Mcp-Name` repeats, and whether its value may be in events.
fn named_by(method: &Method<'_>) -> Option<(&'static str, bool)> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some(("name", true)),
        // An address may have a token in it.
        Method::ResourcesRead => Some(("uri", false)),
        _ => None,
    }
}

/// The value that a path leads to.
fn value_at<'a>(arguments: Option<&'a RawValue>, path: &[Box<str>]) -> Option<&'a RawValue> {
    path.iter().try_fold(arguments?, |value, step| members(value.get(), [&**step])[0])
}

/// Whether a header says this value: numbers are compared as such.
fn is_value(value: &RawValue, text: &str) -> bool {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => string(Some(value)) == text,
        Some(b't' | b'f') => json == text,
        _ => match (json.parse::<f64>(), text.trim().parse::<f64>()) {
            (Ok(left), Ok(right)) => left.total_cmp(&right).is_eq(),
            _ => false,
        },
    }
}

/// Whether one of the values says this.
fn has_leaf(value: Option<&RawValue>, text: &str, depth: usize) -> bool {
    let Some(value) = value else { return false };
    if depth == 0 {
        return true;
    }
    match value.get().as_bytes().first() {
        Some(b'{') => {
            let members = all_members(value.get()).unwrap_or_default();
            members.into_iter().any(|(_, member)| has_leaf(Some(member), text, depth - 1))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_default();
            items.into_iter().any(|item| has_leaf(Some(item), text, depth - 1))
        }
        _ => is_value(value, text),
    }
}
