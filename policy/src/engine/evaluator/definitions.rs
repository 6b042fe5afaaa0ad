//! What is reported of definitions that are no tools: instructions, prompts, resource templates, interfaces.

use super::entries::keys;
use super::listing::{Entry, change_action, status};
use super::ui::{interface, widening};
use super::{About, Context, Evaluator, Scope, Seen};
use crate::detect::{INSTRUCTIONS, Inspection, Reader};
use crate::engine::recorder::{MAX_NAME_BYTES, clip};
use crate::event::{DefinitionChanged, Detection, InterfaceSeen, Subject};
use crate::protocol::string;
use crate::registry::{Change, ChangeKind, ItemKind};
use crate::terms::Timestamp;

impl Evaluator {
    /// What is no tool: only what changed is reported, what was found in it when it is new, and that an interface is.
    pub(super) fn report_definition(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        kind: ItemKind,
        change: &Change,
        entry: &Entry<'_>,
    ) {
        let name = format!("{} {}", keys(kind).0, entry.name);
        let is_news = !cx.is_reported(scope.connection, &name, &change.hash);
        if is_news && kind == ItemKind::Interface {
            report_interface(cx, scope, seen.time, change, entry);
        }
        if let ChangeKind::Changed { previous_hash, diff } = &change.kind {
            let mut found = found_in(cx.reader(), kind, entry);
            cx.mark(scope, (None, None), &mut found.detections);
            let changed = DefinitionChanged {
                kind,
                name: clip(&entry.name, MAX_NAME_BYTES),
                previous_hash: previous_hash.clone(),
                new_hash: change.hash.clone(),
                diff: diff.clone(),
                max_severity: Detection::worst(&found.detections).max(widening(diff)),
                detections: found.detections,
                // No guard goes by these.
                action: change_action(cx.config, None),
            };
            cx.reporter.report(scope.clone(), seen.time, changed);
            cx.reporter.gate_is_stale(Some(seen.time));
        }
        if is_news {
            let about = About { tool_hash: Some(change.hash.clone()), ..About::of(subject(kind)) };
            cx.report_found(scope, seen.time, &about, &entry.known.found);
        }
    }
}

/// Reports a resource that says what its user interface may do.
fn report_interface(
    cx: &mut Context<'_>,
    scope: &Scope,
    time: Timestamp,
    change: &Change,
    entry: &Entry<'_>,
) {
    let (_, mut ui_grants) = interface(entry.json);
    // Who may call is said of tools.
    ui_grants.retain(|grant| !grant.starts_with("visibility"));
    let seen = InterfaceSeen {
        uri: clip(&entry.name, MAX_NAME_BYTES),
        interface_hash: Some(change.hash.clone()),
        status: status(change),
        ui_grants,
    };
    cx.reporter.report(scope.clone(), time, seen);
}

/// What is found in what is no tool. What is reported of instructions otherwise is reported with the answer that has them.
fn found_in(reader: Option<Reader<'_>>, kind: ItemKind, entry: &Entry<'_>) -> Inspection {
    match reader {
        Some(reader) if kind == ItemKind::Instructions => {
            reader.text(INSTRUCTIONS, &string(Some(entry.json)))
        }
        _ => entry.known.found.clone(),
    }
}

fn subject(kind: ItemKind) -> Subject {
    match kind {
        ItemKind::Tool => Subject::Definition,
        ItemKind::Prompt => Subject::Prompt,
        ItemKind::ResourceTemplate | ItemKind::Interface => Subject::Resource,
        ItemKind::Instructions => Subject::Instructions,
    }
}
