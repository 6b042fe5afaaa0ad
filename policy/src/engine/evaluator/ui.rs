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
