//! The texts of a definition's parameters, read as one text.

use mcpwarden_terms::Form;

use super::Inspector;
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
        let mut view = View::raw(&self.text);
        view.form = Form::Joined;
        let (normal, _) = fold(&view, &mut inspector.work.budget);
        let view = normal.unwrap_or(view);
        if !self.has_members {
            inspector.enter(true, false);
            inspector.score(matcher, &view, &self.text, &|| "/inputSchema/properties".to_owned());
        }
        inspector.scan(matcher, &view, &view.whole(), Vec::new(), &mut drafts);
        drafts.retain(|draft| {
            let id = &matcher.probes[usize::from(draft.rule)].rule.id;
            !inspector
                .detections
                .iter()
                .any(|found| found.pattern == *id && Some(found.severity) >= severity_of(draft.score))
        });
        inspector.keep(matcher, &self.text, drafts, || "/inputSchema/properties".to_owned());
    }
}
