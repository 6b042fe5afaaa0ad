//! Neighbouring texts, read as one text: of a definition's parameters, and of the items of a result.

use std::borrow::Cow;
use std::ops::Range;

use mcpwarden_terms::{Detection, Form};

use super::{Draft, Inspector};
use crate::decode::BETWEEN;
use crate::fold::fold;
use crate::probe::Matcher;
use crate::severity::severity_of;
use crate::view::View;
use crate::walk::Path;

/// Most bytes of neighbouring texts that are read as one: an enum may have 10,000 members.
const JOINED_BYTES: usize = 1 << 20;

/// The texts of a definition's parameters, one after the other: a sentence may run over several.
#[derive(Default)]
pub(crate) struct Joined {
    text: String,
    pieces: usize,
    /// Whether there was no room for one.
    exceeded: bool,
    /// Whether members of lists are among them, which are values.
    has_members: bool,
}

impl Joined {
    /// Adds the text at `path`, if it is a parameter's.
    pub(crate) fn push(&mut self, path: &Path<'_>, text: &str) {
        let telling = path.in_array() || path.keys().next().is_some_and(|key| key == "description");
        let is_parameter = || path.keys().any(|key| key == "properties");
        if !telling || !is_parameter() {
            return;
        }
        if self.text.len() + text.len() >= JOINED_BYTES {
            self.exceeded = true;
            return;
        }
        self.text.push_str(text);
        self.text.push(' ');
        self.pieces += 1;
        self.has_members |= path.in_array();
    }

    /// Inspects the texts as one. What one of them has by itself is not said again.
    pub(crate) fn inspect(&self, inspector: &mut Inspector, matcher: &Matcher) {
        inspector.work.budget.exceeded |= self.exceeded;
        if self.pieces < 2 {
            return;
        }
        let mut drafts = Vec::new();
        let view = joined(&self.text, inspector);
        if !self.has_members {
            inspector.enter(true, false);
            inspector.score(matcher, &view, &self.text, &|| "/inputSchema/properties".to_owned());
        }
        inspector.scan(matcher, &view, &view.whole(), Vec::new(), &mut drafts);
        keep(inspector, matcher, &self.text, drafts, "/inputSchema/properties");
    }
}

/// Members whose texts a model reads one behind the other: of a call's result, a resource, a prompt (MCP 2025-11-25: tools,
/// resources, prompts).
const LISTS: [&str; 4] = ["content", "contents", "messages", STRUCTURED];
/// What has lists of its own, of any name: a text of several lines.
const STRUCTURED: &str = "structuredContent";
/// How much of each end of a text is joined to its neighbour, in bytes: what begins in one and ends in the next is no longer.
const EDGE_BYTES: usize = 1 << 10;

/// The texts of a result's items, one after the other: an order may run over several.
#[derive(Default)]
pub(crate) struct Items<'a> {
    /// The first text, as long as there is no other: then nothing is joined.
    first: Option<Cow<'a, str>>,
    text: String,
    /// Where in `text` one item ends and the next begins.
    borders: Vec<usize>,
    /// The list of the items, as a JSON Pointer.
    field: String,
    /// Whether there was no room for one.
    exceeded: bool,
}

impl<'a> Items<'a> {
    /// Adds the text at `path`, if it is that of an item.
    pub(crate) fn push(&mut self, path: &Path<'a>, text: Cow<'a, str>) {
        let is_text = path.keys().next().is_some_and(|key| key == "text")
            || path.in_array()
                && (path.keys().next().is_some_and(|key| LISTS.contains(&key))
                    || path.keys().any(|key| key == STRUCTURED));
        if !is_text || !path.keys().any(|key| LISTS.contains(&key)) {
            return;
        }
        if self.borders.is_empty() {
            let Some(first) = self.first.take() else {
                self.first = Some(text);
                return;
            };
            self.append(&first);
            self.field = list(&path.pointer());
        }
        if self.text.len() + 2 * EDGE_BYTES >= JOINED_BYTES {
            self.exceeded = true;
            return;
        }
        self.borders.push(self.text.len());
        self.text.push(' ');
        self.append(&text);
    }

    /// Appends a text, or both ends of a long one.
    fn append(&mut self, text: &str) {
        if text.len() <= 2 * EDGE_BYTES {
            return self.text.push_str(text);
        }
        let (begin, end) =
            (text.floor_char_boundary(EDGE_BYTES), text.ceil_char_boundary(text.len() - EDGE_BYTES));
        self.text.extend([
            text.get(..begin).unwrap_or_default(),
            BETWEEN,
            text.get(end..).unwrap_or_default(),
        ]);
    }

    /// Inspects the texts as one, for what begins in one of them and ends in another.
    pub(crate) fn inspect(&self, inspector: &mut Inspector, matcher: &Matcher) {
        inspector.work.budget.exceeded |= self.exceeded;
        if self.borders.is_empty() {
            return;
        }
        let view = joined(&self.text, inspector);
        let (mut hits, mut drafts) = (Vec::new(), Vec::new());
        matcher.scan(&view.text, &view.whole(), &mut inspector.work, &mut hits);
        let is_across = |place: &Range<usize>| {
            let next = self.borders.partition_point(|border| *border <= place.start);
            self.borders.get(next).is_some_and(|border| *border < place.end)
        };
        inspector.draft(matcher, &view, hits, is_across, &mut drafts);
        keep(inspector, matcher, &self.text, drafts, &self.field);
    }
}

/// The pointer to the list that the item of this pointer is in.
fn list(pointer: &str) -> String {
    let mut end = 0;
    for step in pointer.split_inclusive('/') {
        end += step.len();
        if LISTS.contains(&step.trim_end_matches('/')) {
            break;
        }
    }
    pointer.get(..end).unwrap_or(pointer).trim_end_matches('/').to_owned()
}

/// The normal form of texts that were joined.
fn joined<'t>(text: &'t str, inspector: &mut Inspector) -> View<'t> {
    let mut view = View::raw(text);
    view.form = Form::Joined;
    let (normal, _) = fold(&view, &mut inspector.work.budget);
    normal.unwrap_or(view)
}

/// Keeps what is found in texts that were joined. What one of them has by itself is not said again.
fn keep(inspector: &mut Inspector, matcher: &Matcher, text: &str, mut drafts: Vec<Draft>, field: &str) {
    drafts.retain(|draft| {
        let id = &matcher.probes[usize::from(draft.rule)].rule.id;
        let is_as_bad = |found: &Detection| Some(found.severity) >= severity_of(draft.score);
        !inspector.detections.iter().any(|found| found.pattern == *id && is_as_bad(found))
    });
    inspector.keep(matcher, text, drafts, || field.to_owned());
}
