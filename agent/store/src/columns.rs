//! What stands beside an event's text in the database, for queries.

use mcpwarden_policy::Event;
use rusqlite::types::ValueRef;

use super::integer;

/// The columns, in the order of [`of`].
pub const NAMES: [&str; 8] = ["seq", "time_ns", "type", "severity", "session", "server", "tool", "uid"];

/// What they are to hold for an event. `None`: it has no place in the chain.
pub fn of(event: &Event) -> Option<[ValueRef<'_>; 8]> {
    let Event { body, .. } = event;
    Some([
        ValueRef::Integer(integer(event.link.as_ref()?.seq)),
        ValueRef::Integer(integer(event.timestamp.0)),
        ValueRef::Text(event.kind().as_bytes()),
        number(body.severity().map(|severity| severity as u32)),
        text(event.session_id.as_ref().map(|id| &*id.0)),
        text(event.server_id.as_ref().map(|id| &*id.0)),
        text(body.tool_name()),
        number(body.uid()),
    ])
}

/// A text, or none, as it is stored.
pub fn text(text: Option<&str>) -> ValueRef<'_> {
    text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
}

fn number(number: Option<u32>) -> ValueRef<'static> {
    number.map_or(ValueRef::Null, |number| ValueRef::Integer(number.into()))
}

/// A value as people read it.
pub fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?} (a real number)"),
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    }
}
