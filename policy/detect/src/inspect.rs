//! One field after the other: all forms of its text, all hits, the worst of them as detections.

mod joined;

use std::cmp::Reverse;
use std::ops::Range;

use mcpwarden_terms::{Detection, Form, escape_pointer};

use super::decode;
use super::evidence::{Masking, evidence};
use super::fold::{Folded, Folding};
use super::inspection::{Bounds, Inspection, MAX_DETECTIONS};
use super::learned::{Finished, Scorer};
use super::names::{ToolNames, words};
use super::probe::{Hit, Matcher, Work};
use super::scanner::{Document, Found};
use super::segment::segments;
use super::severity::severity_of;
use super::structure::Structure;
use super::view::View;
use super::window;
pub(super) use joined::{Items, Joined};

/// Most matches of one detection.
const MAX_MATCHES: usize = 8;
/// How many encodings one inside the other are undone.
const MAX_DEPTH: usize = 2;
/// What a score gains where the text was hidden in an encoding: nobody does that by accident.
const HIDDEN_BONUS: u32 = 50;
/// A name of this many words is a sentence. Words.
const SENTENCE_WORDS: usize = 5;
/// And so is one with so many blanks, which names of any length do not have.
const SENTENCE_BLANKS: usize = 3;
/// How much of a key and of its value is read together. Bytes.
const MAX_ASSIGNED: usize = 4_096;
/// Longest name that is read as words. Bytes.
const MAX_NAME_WORDS: usize = 64 << 10;

/// The inspection of one message.
#[derive(Default)]
pub(super) struct Inspector {
    detections: Vec<Detection>,
    bounds: Bounds,
    work: Work,
    masking: Masking,
    scorer: Option<Scorer>,
    /// Forms of texts that were looked at.
    forms: u64,
    /// The texts, for rules that another engine runs.
    document: Document,
}

/// What is looked for in one field.
#[derive(Clone, Copy)]
struct Sought<'m> {
    matcher: &'m Matcher,
    /// The names of tools whose use may be commanded.
    tools: Option<&'m ToolNames>,
    /// What this has a rule for is left out where that needs no pattern: it was reported before.
    said: Option<&'m Matcher>,
    /// The text as sent, and its field.
    text: &'m str,
    field: &'m dyn Fn() -> String,
}

/// What one rule found in one field so far.
struct Draft {
    rule: u16,
    score: u32,
    form: Form,
    places: Vec<Range<usize>>,
}

impl Inspector {
    /// One whose evidence may hold secrets.
    pub(super) fn masking(masking: Masking) -> Self {
        Self { masking, ..Self::default() }
    }

    /// One that may not look at anything.
    pub(super) fn exhausted() -> Self {
        let mut inspector = Self::default();
        inspector.work.budget.exceeded = true;
        inspector
    }

    /// One that has the learned scorer read all texts.
    pub(super) fn scoring(scorer: Option<Scorer>) -> Self {
        Self { scorer, ..Self::default() }
    }

    /// The next texts are those of parameters, or not, and members of a list, or not.
    pub(super) fn enter(&mut self, in_parameter: bool, in_list: bool) {
        self.scorer.iter_mut().for_each(|scorer| scorer.enter(in_parameter, in_list));
    }

    /// Inspects a text in all its forms. Whether all of it was read, and nothing found; and there is but one form of it, if
    /// another could be scored.
    pub(super) fn text(&mut self, matcher: &Matcher, text: &str, field: impl Fn() -> String) -> bool {
        self.collect(matcher, text, &field);
        let forms = self.forms;
        let nothing = self.view(matcher, text, View::raw(text), None, None, field);
        let is_single = self.scorer.is_none() || self.forms == forms + 1;
        nothing && is_single && !self.work.budget.exceeded
    }

    /// Keeps a text for rules that another engine runs, if there are such.
    pub(super) fn collect(&mut self, matcher: &Matcher, text: &str, field: impl Fn() -> String) {
        if matcher.scanner.is_some() && !self.document.push(text, field(), &mut self.work.budget) {
            self.work.budget.exceeded = true;
        }
    }

    /// Has another engine run its rules over the texts that were kept.
    fn scan_document(&mut self, matcher: &Matcher) {
        let Some(scanner) = &matcher.scanner else { return };
        let document = std::mem::take(&mut self.document);
        let scanned = document.scan(&**scanner);
        self.work.budget.exceeded |= scanned.iter().any(|scanned| !scanned.complete);
        for Found { rule, text, field, form, mut places } in document.found(&scanned) {
            let Some(rule) = matcher.scanned(rule) else { continue };
            let Some(score) = matcher.probes.get(usize::from(rule)).map(|probe| probe.weight) else {
                continue;
            };
            places.dedup();
            self.bounds.matches_dropped += places.len().saturating_sub(MAX_MATCHES) as u64;
            places.truncate(MAX_MATCHES);
            self.keep(matcher, text, vec![Draft { rule, score, form, places }], || field.to_owned());
        }
    }

    /// Has the scorer read a text in normal form.
    pub(super) fn score(
        &mut self,
        matcher: &Matcher,
        view: &View<'_>,
        text: &str,
        field: &dyn Fn() -> String,
    ) {
        self.forms += 1;
        let Some(scorer) = self.scorer.as_mut().filter(|_| matcher.scored) else { return };
        scorer.text(view, text, field, &mut self.work.budget);
    }

    /// The same for a text of a result, which may command the use of tools.
    pub(super) fn result_text(
        &mut self,
        matcher: &Matcher,
        tools: &ToolNames,
        text: &str,
        field: impl Fn() -> String,
    ) {
        self.masking = Masking::Tokens;
        self.collect(matcher, text, &field);
        self.work.budget.add_result(text.len());
        self.view(matcher, text, View::raw(text), Some(tools), None, field);
    }

    /// Inspects a name: as words by the rules for names, and where it is a whole sentence, by those for texts.
    pub(super) fn name(
        &mut self,
        names: Option<&Matcher>,
        texts: &Matcher,
        name: &str,
        field: impl Fn() -> String,
    ) {
        self.collect(texts, name, &field);
        if name.len() > MAX_NAME_WORDS {
            self.work.budget.exceeded = true;
            self.view(texts, name, View::raw(name), None, names, &field);
            return;
        }
        let sentence = name.split(['_', '-', ' ', '.']).nth(SENTENCE_WORDS - 1).is_some()
            || name.split(' ').nth(SENTENCE_BLANKS).is_some();
        if let Some(names) = names {
            self.view(names, name, words(name), None, None, &field);
        }
        if sentence {
            self.view(texts, name, words(name), None, names, &field);
        } else if !name.is_ascii() {
            self.view(texts, name, View::raw(name), None, names, &field);
            return;
        }
        if !texts.has_plain() {
            return;
        }
        let (view, mut hits, mut drafts) = (View::raw(name), Vec::new(), Vec::new());
        texts.scan_plain(name, &view.whole(), &mut self.work, &mut hits);
        self.draft(texts, &view, hits, |_| true, &mut drafts);
        self.keep(texts, name, drafts, field);
    }

    /// Inspects the value of a member beside its key, as it stands in JSON: what is a secret by its name.
    pub(super) fn assigned(&mut self, matcher: &Matcher, key: &str, text: &str, field: impl Fn() -> String) {
        // What tells is at the end of the key and at the start of the value.
        let key = &key[key.ceil_char_boundary(key.len().saturating_sub(MAX_ASSIGNED))..];
        let start = &text[..text.floor_char_boundary(MAX_ASSIGNED)];
        let member = format!("{key}\":\"{start}");
        let (view, mut hits, mut drafts) = (View::raw(&member), Vec::new(), Vec::new());
        matcher.scan(&member, &view.whole(), &mut self.work, &mut hits);
        // What is in the value alone was found there.
        hits.retain(|hit| hit.start < key.len() && hit.end > key.len());
        self.draft(matcher, &view, hits, |_| true, &mut drafts);
        for draft in &mut drafts {
            draft.places = Vec::from([Range { start: 0, end: text.len() }]);
        }
        self.keep(matcher, text, drafts, field);
    }

    /// Says that `text` has, or is, such a thing.
    pub(super) fn structure(
        &mut self,
        matcher: &Matcher,
        structure: Structure,
        text: &str,
        field: impl Fn() -> String,
    ) {
        if let Some(rule) = matcher.structure(structure) {
            let score = matcher.probes[usize::from(rule)].weight;
            let whole = Range { start: 0, end: text.len() };
            let draft = Draft { rule, score, form: Form::Raw, places: Vec::from([whole]) };
            self.keep(matcher, text, vec![draft], field);
        }
    }

    /// Inspects `first` and every form that can be made of it. `text` is the original. Whether nothing was found.
    fn view(
        &mut self,
        matcher: &Matcher,
        text: &str,
        first: View<'_>,
        tools: Option<&ToolNames>,
        said: Option<&Matcher>,
        field: impl Fn() -> String,
    ) -> bool {
        self.work.budget.add_text(text.len());
        let mut drafts = Vec::new();
        let sought = Sought { matcher, tools, said, text, field: &field };
        self.forms(sought, &first, 0, &mut drafts);
        let harmless = drafts.is_empty();
        self.keep(matcher, text, drafts, field);
        harmless
    }

    /// Takes into `drafts` what is found in a view, segment by segment, and in all that can be made of it.
    fn forms(&mut self, sought: Sought<'_>, view: &View<'_>, depth: usize, drafts: &mut Vec<Draft>) {
        let mut found = match depth < MAX_DEPTH {
            true => decode::runs(view, &mut self.work.budget),
            false => Vec::new(),
        };
        let is_encoded = |run: &&decode::Run| matches!(run.view.form, Form::Base64 | Form::Hex);
        let encoded = found.iter().filter(is_encoded).map(|run| (Structure::EncodedText, run.at.clone()));
        let commanded = sought.tools.into_iter().flat_map(|tools| tools.commanded(&view.text));
        let marks: Vec<(Structure, Range<usize>)> =
            encoded.chain(commanded.map(|range| (Structure::SessionTool, range))).collect();
        let mut folding = Folding::new(view);
        for part in segments(&view.text) {
            let respelt = self.segment(sought, view, part, &mut folding, &marks, depth, drafts);
            // The plainest form first: of equal findings the first is kept.
            for view in decode::together(std::mem::take(&mut found), &mut self.work.budget) {
                self.forms(sought, &view, depth + 1, drafts);
            }
            for view in respelt {
                self.forms(sought, &view, depth + 1, drafts);
            }
        }
    }

    /// Takes into `drafts` what is found in one part of a view. `marks`: what is known already. Its other spellings.
    #[expect(clippy::too_many_arguments, reason = "the state of one loop")]
    fn segment<'a>(
        &mut self,
        sought: Sought<'_>,
        view: &View<'a>,
        part: Range<usize>,
        folding: &mut Folding<'_, 'a>,
        marks: &[(Structure, Range<usize>)],
        depth: usize,
        drafts: &mut Vec<Draft>,
    ) -> Vec<View<'a>> {
        let Sought { matcher, said, .. } = sought;
        let Folded { normal, marks: seen, end } = folding.part(part.clone(), &mut self.work.budget);
        let rule = |kind: Structure| {
            let is_said = said.is_some_and(|said| said.structure(kind).is_some());
            matcher.structure(kind).filter(|_| !is_said)
        };
        let known = marks.iter().filter(|(_, range)| part.contains(&range.start)).cloned();
        // An escape that is spelt out shows what it is.
        let seen = seen.iter().filter(|_| view.form != Form::Escapes);
        let seen = seen.map(|mark| (mark.kind, mark.at..mark.end));
        let hits = seen
            .chain(known)
            .filter_map(|(kind, Range { start, end })| rule(kind).map(|rule| Hit::whole(rule, start, end)));
        self.work.signs = decode::Signs::default();
        let range = part.start..end;
        let within = |fresh: Range<usize>| fresh.start.max(range.start)..fresh.end.min(range.end);
        let fresh: Vec<Range<usize>> =
            view.fresh().into_iter().map(within).filter(|fresh| fresh.start < fresh.end).collect();
        self.scan(matcher, view, &fresh, hits.collect(), drafts);
        if let Some(normal) = &normal {
            let fresh = normal.fresh();
            let bytes = fresh.iter().map(Range::len).sum();
            if self.work.budget.take(|budget| &mut budget.forms, bytes) {
                self.scan(matcher, normal, &fresh, Vec::new(), drafts);
            }
        }
        if self.scorer.is_some() {
            match &normal {
                Some(normal) => self.score(matcher, normal, sought.text, sought.field),
                None if range.len() == view.text.len() => {
                    self.score(matcher, view, sought.text, sought.field)
                }
                None => self.score(matcher, &view.part(range.clone()), sought.text, sought.field),
            }
        }
        // What was spelt otherwise is spelt so once; but an escape's sign may be escaped itself.
        let respelt =
            matches!(view.form, Form::Spaced | Form::Leetspeak | Form::Rot13 | Form::Reversed | Form::Markup);
        if depth >= MAX_DEPTH || respelt || self.work.signs == decode::Signs::default() {
            return Vec::new();
        }
        let plain = normal.unwrap_or_else(|| view.part(range));
        decode::respelt(&plain, self.work.signs, &mut self.work.budget)
    }

    /// Takes into `drafts` what is found in these ranges of a view, beside the `hits` that are known.
    fn scan(
        &mut self,
        matcher: &Matcher,
        view: &View<'_>,
        ranges: &[Range<usize>],
        mut hits: Vec<Hit>,
        drafts: &mut Vec<Draft>,
    ) {
        matcher.scan(&view.text, ranges, &mut self.work, &mut hits);
        // Of a name, the user's patterns are about what it is, not about its words.
        if view.form != Form::Words {
            matcher.scan_plain(&view.text, ranges, &mut self.work, &mut hits);
        }
        self.draft(matcher, view, hits, |_| true, drafts);
    }

    /// Takes into `drafts` what these hits in a view are worth, of those at places that are `wanted`.
    fn draft(
        &mut self,
        matcher: &Matcher,
        view: &View<'_>,
        mut hits: Vec<Hit>,
        wanted: impl Fn(&Range<usize>) -> bool,
        drafts: &mut Vec<Draft>,
    ) {
        hits.retain(|hit| !view.is_across(hit.start..hit.end));
        if hits.is_empty() {
            return;
        }
        let scores = window::score(matcher, &view.text, &mut hits);
        let hidden = !matches!(
            view.form,
            Form::Raw | Form::Normal | Form::Words | Form::Joined | Form::Escapes | Form::Markup
        );
        for (hit, score) in hits.iter().zip(scores) {
            if !window::counts(matcher, hit, score) {
                continue;
            }
            let plain = matcher.probes[usize::from(hit.rule)].rule.plain;
            let score = score + if hidden && !plain { HIDDEN_BONUS } else { 0 };
            let place = view.original(hit.start..hit.end);
            if !wanted(&place) {
                continue;
            }
            match drafts.iter_mut().find(|draft| draft.rule == hit.rule) {
                Some(draft) if draft.form == view.form => {
                    draft.score = draft.score.max(score);
                    // Segments overlap.
                    let is_known = draft.places.contains(&place);
                    if !is_known && draft.places.len() < MAX_MATCHES {
                        draft.places.push(place);
                    } else if !is_known {
                        self.bounds.matches_dropped += 1;
                    }
                }
                Some(draft) if draft.score >= score => {}
                Some(draft) => *draft = Draft { rule: hit.rule, score, form: view.form, places: vec![place] },
                None => drafts.push(Draft { rule: hit.rule, score, form: view.form, places: vec![place] }),
            }
        }
    }

    fn keep(&mut self, matcher: &Matcher, text: &str, mut drafts: Vec<Draft>, field: impl Fn() -> String) {
        drafts.sort_by_key(|draft| (Reverse(draft.score), draft.rule));
        for draft in drafts {
            let rule = &matcher.probes[usize::from(draft.rule)].rule;
            let Some(severity) = severity_of(draft.score) else { continue };
            if self.detections.len() >= MAX_DETECTIONS {
                self.bounds.detections_dropped += 1;
                // The worst are kept, and of equals the first: a flood must not hide what comes after it.
                let last_first = self.detections.iter().enumerate().rev();
                match last_first.min_by_key(|(_, found)| found.severity) {
                    Some((least, found)) if found.severity < severity => self.detections.remove(least),
                    _ => continue,
                };
            }
            let evidence = |range| evidence(text, range, self.masking, rule.secret);
            self.detections.push(Detection {
                pattern: rule.id.clone(),
                category: rule.category,
                severity,
                field: if rule.secret { without(field(), text, &draft.places) } else { field() },
                matches: draft.places.into_iter().map(evidence).collect(),
                score: draft.score,
                form: draft.form,
                muted_by: None,
            });
        }
    }

    /// The inspection, with a word on what was too much.
    pub(super) fn finish(self, matcher: &Matcher, complete: bool) -> Inspection {
        self.finish_scored(matcher, complete).0
    }

    /// The same, and what else the scorer has.
    pub(super) fn finish_scored(mut self, matcher: &Matcher, complete: bool) -> (Inspection, Finished) {
        self.scan_document(matcher);
        let worst_first = |found: &Detection| Reverse(found.score);
        let scorer = self.scorer.take();
        let mut finished =
            scorer.map(|scorer| scorer.finish(&self.detections, self.masking)).unwrap_or_default();
        self.detections.extend(finished.detection.take());
        self.detections.sort_by_key(worst_first);
        self.bounds.detections_dropped += self.detections.len().saturating_sub(MAX_DETECTIONS) as u64;
        self.detections.truncate(MAX_DETECTIONS);
        if self.work.budget.exceeded {
            self.bounds.budget_exceeded = 1;
            // Said whatever else there is: a flood must not hide that something was not looked at.
            self.bounds.detections_dropped += u64::from(self.detections.len() >= MAX_DETECTIONS);
            self.detections.truncate(MAX_DETECTIONS - 1);
            self.structure(matcher, Structure::Budget, "", String::new);
            self.detections.sort_by_key(worst_first);
        }
        self.bounds.keys_dropped = u64::from(!complete);
        (Inspection { detections: self.detections, bounds: self.bounds }, finished)
    }
}

/// A JSON Pointer without what was found: a secret may be a key, and then stands there whole.
fn without(mut pointer: String, text: &str, places: &[Range<usize>]) -> String {
    for secret in
        places.iter().filter_map(|place| text.get(place.clone())).filter(|secret| !secret.is_empty())
    {
        pointer = pointer.replace(&*escape_pointer(secret), "…");
    }
    pointer
}
