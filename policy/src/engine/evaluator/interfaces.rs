//! User interfaces of MCP Apps, and lists that are said to be everybody's.

use std::time::Duration;

use serde_json::value::RawValue;

use super::entries::keys;
use super::listing::Entry;
use super::ui::{interface_of, silent_interface};
use super::{Context, Evaluator, Scope, Seen};
use crate::engine::conversation::Breach;
use crate::engine::recorder::{MAX_NAME_BYTES, clip};
use crate::event::{InterfaceSeen, ToolStatus, Violation};
use crate::protocol::{members, string};
use crate::registry::ItemKind;

/// Reports a user interface that does not say what it may do, each once of a connection. It may say so where it is listed, or read:
/// that it does not is never compared.
fn report_silent(cx: &mut Context<'_>, scope: &Scope, seen: Seen<'_>, resource: &RawValue) {
    let Some(uri) = silent_interface(resource) else { return };
    if cx.is_reported(scope.connection, &format!("{} {uri}", keys(ItemKind::Interface).0), "") {
        return;
    }
    let (uri, status) = (clip(&uri, MAX_NAME_BYTES), ToolStatus::Unpinned);
    let interface = InterfaceSeen { uri, interface_hash: None, status, ui_grants: Vec::new() };
    cx.reporter.report(scope.clone(), seen.time, interface);
}

impl Evaluator {
    /// Takes what user interfaces may do, as the answer to this says of resources.
    pub(super) fn interfaces(
        &mut self,
        cx: &mut Context<'_>,
        scope: &Scope,
        seen: Seen<'_>,
        (method, result): (&str, &RawValue),
    ) {
        let [resources, contents] = members(result.get(), ["resources", "contents"]);
        let all = match method {
            "resources/list" => resources,
            "resources/read" => contents,
            _ => return,
        };
        let all: Vec<&RawValue> =
            all.and_then(|all| serde_json::from_str(all.get()).ok()).unwrap_or_default();
        let interfaces: Vec<(String, Box<RawValue>)> =
            all.iter().filter_map(|resource| interface_of(resource)).collect();
        // Inspected with the answer.
        let entries: Vec<Entry<'_>> =
            interfaces.iter().map(|(name, json)| Entry::uninspected(name.clone(), json)).collect();
        if !entries.is_empty() {
            // Never whole: what is read is one of many.
            self.page(cx, scope, seen, (ItemKind::Interface, true, false), &entries);
        }
        for resource in all {
            report_silent(cx, scope, seen, resource);
        }
    }

    /// Reports a list that its server calls the same for all users, where it gave another one to somebody else.
    pub(super) fn public_list(
        &mut self,
        cx: &mut Context<'_>,
        seen: Seen<'_>,
        kind: ItemKind,
        result: &RawValue,
        entries: &[Entry<'_>],
    ) {
        let [scope, fresh] = members(result.get(), ["cacheScope", "ttlMs"]);
        let connection = cx.connections.get(seen.connection).filter(|_| string(scope) == "public");
        let Some((connection, at)) = connection.and_then(|known| Some((known, known.at.as_ref()?))) else {
            return;
        };
        let Some(user) = connection.client.as_ref().and_then(|client| client.uid) else { return };
        let fresh =
            fresh.and_then(|fresh| fresh.get().parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
        let (era, _) = connection.conversation.held_in();
        let hashes = entries.iter().map(|entry| entry.known.hash);
        let (differs, forgotten) =
            self.public.differs((at.program(), kind), user, hashes, (seen.time, fresh));
        cx.reporter.counters.public_lists_forgotten += forgotten;
        if differs {
            let found = Some(keys(kind).0.to_owned());
            let breach = Breach { era, violation: Violation::PublicList, expected: None, found };
            cx.report_breach(seen, (None, None), breach);
        }
    }
}
