//! What definitions say of user interfaces of MCP Apps.

use serde_json::value::RawValue;

use crate::definition::{Diff, bounded_name, grants};
use crate::engine::recorder::{MAX_NAME_BYTES, clip};
use crate::event::Severity;
use crate::protocol::meta::META;
use crate::protocol::{members, string, value};

/// The address of a resource, and what of it says what its user interface may do.
pub(super) fn interface_of(resource: &RawValue) -> Option<(String, Box<RawValue>)> {
    let [uri, meta] = members(resource.get(), ["uri", META]);
    let [ui] = members(meta?.get(), ["ui"]);
    let (uri, ui) = (uri?, ui?);
    let json = format!(r#"{{"uri":{},"_meta":{{"ui":{}}}}}"#, uri.get(), ui.get());
    Some((bounded_name(&string(Some(uri))), RawValue::from_string(json).ok()?))
}

/// The address of a resource that is a user interface by its type alone.
pub(super) fn silent_interface(resource: &RawValue) -> Option<String> {
    let [uri, kind, meta] = members(resource.get(), ["uri", "mimeType", META]);
    let says = meta.is_some_and(|meta| members(meta.get(), ["ui"])[0].is_some());
    (!says && is_interface(&string(kind))).then(|| bounded_name(&string(uri)))
}

/// Whether a media type is that of a user interface: `text/html;profile=mcp-app` (MCP Apps), however it is written.
fn is_interface(kind: &str) -> bool {
    let mut parts = kind.split(';').map(str::trim);
    let is_html = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
    let is_profile = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("profile")
            && value.trim().trim_matches('"').eq_ignore_ascii_case("mcp-app")
    };
    is_html && parts.any(is_profile)
}

/// The resource with the user interface of a tool, and what that may do.
pub(super) fn interface(definition: &RawValue) -> (Option<String>, Vec<String>) {
    // Most tools have none.
    let [meta] = members(definition.get(), [META]);
    let definition = meta.and_then(|_| value(definition.get()));
    let Some(definition) = definition.filter(|definition| definition["_meta"].is_object()) else {
        return (None, Vec::new());
    };
    let meta = &definition["_meta"];
    // As earlier versions of MCP Apps had it.
    let resource = meta["ui"]["resourceUri"].as_str().or_else(|| meta["ui/resourceUri"].as_str());
    (resource.map(|uri| clip(uri, MAX_NAME_BYTES)), grants(&definition).into_iter().collect())
}

/// How bad it is what a user interface may do now and could not before.
pub(super) fn widening(diff: &Diff) -> Option<Severity> {
    let severity = |grant: &String| match grant.starts_with("visibility") {
        true => Severity::Medium,
        false => Severity::High,
    };
    diff.widened.iter().map(severity).max()
}
