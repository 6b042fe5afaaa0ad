//! One message, window by window: the worst window, and what the whole message adds to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use mcpwarden_terms::{Category, Detection, Form, Match, Severity};
use serde::Serialize;

use super::concepts::Trait;
use super::context::Context;
use super::features::{Feature, Workspace, name_of, name_of_order, of_mask, of_sentence};
use super::gate::GATE;
use super::model::{Model, Side, Subject, Sums, per_root};
use super::tokens::hash;
use crate::budget::Budget;
use crate::evidence::{AROUND, Masking, evidence};
use crate::redact::redact_prose;
use crate::sentence::{SENTENCE_BYTES, end_of_sentence};
use crate::severity::{score_of, severity_of};
use crate::view::View;

/// The rule that a detection of the scorer names.
pub const LEARNED: &str = "learned_scorer";
/// Most sentences of a window.
pub(super) const WINDOW: usize = 3;
/// The most that a detection of the scorer scores: it is never critical.
const MOST: u32 = 199;
/// A member of a list of at most so many words is a value.
const MEMBER_WORDS: usize = 5;
/// Features that a detection names.
const NAMED: usize = 4;
/// Features of a whole text before those of rules.
const RULES: u16 = 64;
/// The kinds of attacks, in the order of the model's weights.
pub const KINDS: [Category; super::model::KINDS] = [
    Category::CredentialTheft,
    Category::Exfiltration,
    Category::HiddenInstructions,
    Category::ShellInjection,
    Category::ToolRedirection,
    Category::ParameterTampering,
    Category::PreferenceManipulation,
    // What deletes, pays or publishes, for which there is no category of its own.
    Category::HiddenInstructions,
];

/// Why a message has its score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// Which model: see [`Model::id`].
    pub model: String,
    /// The score; the thresholds from which on it is for review, and high. Thousandths of a natural logarithm of odds.
    pub score: i64,
    /// The score from which on a person should look at it.
    pub review: i64,
    /// The score from which on it is high.
    pub high: i64,
    /// The field of the worst window, as a JSON Pointer.
    pub field: String,
    /// The worst window, in normal form.
    pub window: String,
    /// What the window scores.
    pub of_window: i64,
    /// What is known of the whole message adds this.
    pub of_whole: i64,
    /// Features of the window with their parts of the score, the heaviest first.
    pub features: Vec<(String, i64)>,
}

/// What a scorer has at the end.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// What was found, beside what the rules found.
    pub(crate) detection: Option<Detection>,
    /// What training reads.
    pub(crate) document: Option<Document>,
    /// Why.
    pub(crate) explained: Option<Explained>,
}

/// A sentence as training reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Hashes of its words.
    pub words: Vec<u32>,
    /// Hashes of the order of its concepts.
    pub order: Vec<u32>,
    /// Its concepts and traits.
    pub mask: u64,
}

/// A message as training reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its texts, sentence by sentence.
    pub texts: Vec<Vec<Recorded>>,
    /// What is known of the whole.
    pub whole: Vec<u16>,
    context: Context,
}

impl Document {
    /// Calls `visit` with the number of each feature of a window with this mask.
    pub fn of_mask(&self, mask: u64, visit: impl FnMut(usize)) {
        of_mask(mask, &self.context, visit);
    }

    /// The score, and where the worst window is: its text and sentences. `None` without any text.
    pub fn score(&self, side: &Side) -> Option<(i64, usize, Range<usize>)> {
        let sums = |sentence: &Recorded| Sums {
            words: (sentence.words.iter().map(|hash| side.hashed(*hash)).sum(), sentence.words.len() as u64),
            order: (sentence.order.iter().map(|hash| side.hashed(*hash)).sum(), sentence.order.len() as u64),
            mask: sentence.mask,
        };
        let mut best: Option<(i64, usize, Range<usize>)> = None;
        for (number, text) in self.texts.iter().enumerate() {
            let all: Vec<Sums> = text.iter().map(sums).collect();
            for window in windows(text.len()) {
                let sums = all[window.clone()].iter().fold(Sums::default(), |all, one| all.with(*one));
                let score = side.window(sums, &self.context);
                if best.as_ref().is_none_or(|(best, ..)| score > *best) {
                    best = Some((score, number, window));
                }
            }
        }
        let whole = side.whole(&self.whole);
        best.map(|(score, number, window)| (score + whole, number, window))
    }
}

/// The windows of so many sentences, by their last one: of one, two and three sentences.
pub fn windows(sentences: usize) -> impl Iterator<Item = Range<usize>> {
    (0..sentences)
        .flat_map(|last| (last.saturating_sub(WINDOW - 1)..=last).rev().map(move |first| first..last + 1))
}

/// A window that is worse than all before it.
#[derive(Clone, Debug)]
struct Worst {
    score: i64,
    mask: u64,
    field: String,
    form: Form,
    /// The window, in normal form.
    window: String,
    traits: u64,
    /// Text of the original around it, where that begins, and where the window is in it.
    original: String,
    offset: usize,
    range: Range<usize>,
}

/// The scorer of one message.
#[derive(Clone, Debug)]
pub(crate) struct Scorer {
    model: Arc<Model>,
    subject: Subject,
    context: Context,
    traits: u64,
    in_list: bool,
    sentences: u64,
    worst: Option<Worst>,
    work: Workspace,
    record: Option<Document>,
    explain: bool,
}

impl Scorer {
    pub(crate) fn new(model: Arc<Model>, subject: Subject, context: Context) -> Self {
        Self {
            model,
            subject,
            context,
            traits: 0,
            in_list: false,
            sentences: 0,
            worst: None,
            work: Workspace::default(),
            record: None,
            explain: false,
        }
    }

    /// One that keeps what training reads, and finds nothing.
    pub(crate) fn blank(subject: Subject, context: Context) -> Self {
        static EMPTY: LazyLock<Arc<Model>> =
            LazyLock::new(|| Arc::new(Model::new(Side::empty(), Side::empty())));
        let record = Document { context: context.clone(), ..Document::default() };
        Self { record: Some(record), ..Self::new(Arc::clone(&EMPTY), subject, context) }
    }

    /// One that says why.
    pub(crate) fn explaining(mut self) -> Self {
        self.explain = true;
        self
    }

    /// The next text is that of a parameter, or not; one of a list, such as a member of an enum, or not.
    pub(crate) fn enter(&mut self, in_parameter: bool, in_list: bool) {
        self.in_list = in_list;
        self.traits = if in_parameter { Trait::InParameter.bit() } else { 0 };
    }

    /// Scores the windows of a text in normal form, as far as the budget goes. `original`: the text as sent.
    pub(crate) fn text(
        &mut self,
        view: &View<'_>,
        original: &str,
        field: &dyn Fn() -> String,
        budget: &mut Budget,
    ) {
        // A member of a list is a value, unless it is a sentence.
        if self.in_list && view.text.split_whitespace().nth(MEMBER_WORDS).is_none() {
            return;
        }
        let encoded = !matches!(
            view.form,
            Form::Raw | Form::Normal | Form::Words | Form::Joined | Form::Escapes | Form::Markup
        );
        let traits = self.traits | if encoded { Trait::Encoded.bit() } else { 0 };
        let mut last: [(Sums, usize); WINDOW] = [(Sums::default(), 0); WINDOW];
        let (mut known, mut in_a_row, mut start) = (0, 0, 0);
        let mut recorded = Vec::new();
        while start < view.text.len() {
            let end = sentence_end(&view.text, start);
            let sentence = &view.text[start..end];
            if self.is_worth(sentence) && budget.take(|budget| &mut budget.scored, sentence.len()) {
                let first = if known == 0 { Trait::First.bit() } else { 0 };
                let sums = self.sentence(sentence, traits | first, &mut recorded);
                last.rotate_right(1);
                last[0] = (sums, start);
                known += 1;
                in_a_row += 1;
                let mut all = Sums::default();
                for (sums, start) in last.iter().take(in_a_row) {
                    all = all.with(*sums);
                    self.keep(all, view, *start..end, traits, original, field);
                }
            } else {
                // A window is of sentences in a row.
                in_a_row = 0;
                self.flush(&mut recorded);
            }
            start = end;
        }
        self.sentences += known;
        self.flush(&mut recorded);
    }

    /// Keeps sentences in a row for training.
    fn flush(&mut self, recorded: &mut Vec<Recorded>) {
        if let Some(record) = &mut self.record
            && !recorded.is_empty()
        {
            record.texts.push(std::mem::take(recorded));
        }
    }

    /// Whether a sentence is scored: of a result, only one with signs of an order, since results are long.
    fn is_worth(&self, sentence: &str) -> bool {
        match self.subject {
            Subject::Definition => sentence.chars().any(char::is_alphanumeric),
            Subject::Result => GATE.passes(sentence),
        }
    }

    fn sentence(&mut self, sentence: &str, traits: u64, recorded: &mut Vec<Recorded>) -> Sums {
        let side = self.model.side(self.subject);
        let (mut sums, mut record) = (Sums::default(), self.record.is_some().then(Recorded::default));
        let add = |sum: &mut (i64, u64), hash: u32| {
            sum.0 += side.hashed(hash);
            sum.1 += 1;
        };
        let found = of_sentence(&mut self.work, sentence, &self.context, traits, |feature| match feature {
            Feature::Words(hash, _) => {
                add(&mut sums.words, hash);
                record.iter_mut().for_each(|record| record.words.push(hash));
            }
            Feature::Order(hash, _) => {
                add(&mut sums.order, hash);
                record.iter_mut().for_each(|record| record.order.push(hash));
            }
        });
        sums.mask = found.mask;
        recorded.extend(record.map(|record| Recorded { mask: found.mask, ..record }));
        sums
    }

    fn keep(
        &mut self,
        sums: Sums,
        view: &View<'_>,
        window: Range<usize>,
        traits: u64,
        original: &str,
        field: &dyn Fn() -> String,
    ) {
        let score = self.model.side(self.subject).window(sums, &self.context);
        if self.worst.as_ref().is_some_and(|worst| worst.score >= score) {
            return;
        }
        let range = view.original(window.clone());
        let offset = original.floor_char_boundary(range.start.saturating_sub(AROUND));
        let end = original.ceil_char_boundary((range.end + AROUND).min(original.len()));
        self.worst = Some(Worst {
            score,
            mask: sums.mask,
            field: field(),
            form: view.form,
            window: view.text[window].to_owned(),
            traits,
            original: original[offset..end.max(offset)].to_owned(),
            offset,
            range: range.start.saturating_sub(offset)..range.end.saturating_sub(offset),
        });
    }

    /// What was found, beside what the rules found; and what training reads, if that is kept.
    pub(crate) fn finish(self, found: &[Detection], masking: Masking) -> Finished {
        let whole = whole(found, self.sentences);
        let side = self.model.side(self.subject);
        let document = self.record.map(|record| Document { whole: whole.clone(), ..record });
        let mut finished = Finished { document, ..Finished::default() };
        let Some(worst) = self.worst else { return finished };
        let of_whole = side.whole(&whole);
        let score = worst.score + of_whole;
        // A review at first sight is for definitions; results come all the time.
        let is_reported = self.subject == Subject::Definition || score >= i64::from(side.high);
        let points = points(side, score).filter(|_| is_reported);
        if !self.explain && points.is_none() {
            return finished;
        }
        let reasons = reasons(side, &self.context, &worst.window, worst.traits, worst.mask);
        let for_it = reasons.iter().filter(|(_, part)| *part > 0).take(NAMED);
        let names: Vec<&str> = for_it.map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        finished.explained = self.explain.then(|| Explained {
            model: self.model.id().to_owned(),
            score,
            review: side.review.into(),
            high: side.high.into(),
            field: worst.field.clone(),
            window: worst.window,
            of_window: worst.score,
            of_whole,
            features: reasons,
        });
        let Some((points, severity)) = points else { return finished };
        let mut shown = evidence(&worst.original, worst.range, masking, false);
        shown.position += worst.offset as u64;
        let Match { context, .. } = &mut shown;
        context.push_str(&format!(
            "; weighs most: {} (model {})",
            redact_prose(&names, 0..names.len(), masking != Masking::Secrets),
            self.model.id()
        ));
        finished.detection = Some(Detection {
            pattern: LEARNED.to_owned(),
            category: KINDS[side.kind(worst.mask)],
            severity,
            field: worst.field,
            matches: vec![shown],
            score: points,
            form: worst.form,
            muted_by: None,
        });
        finished
    }
}

/// Where the sentence that begins at `start` ends.
fn sentence_end(text: &str, start: usize) -> usize {
    let limit = text.floor_char_boundary((start + SENTENCE_BYTES).min(text.len()));
    let end = end_of_sentence(text.as_bytes(), start, limit);
    text.ceil_char_boundary((end + 1).min(text.len()))
}

/// The score of a detection on the scale of rules, and its severity; `None` below `review`.
pub(super) fn points(side: &Side, score: i64) -> Option<(u32, Severity)> {
    let (review, high) = (i64::from(side.review), i64::from(side.high));
    let medium = i64::from(score_of(Severity::Medium));
    let span = i64::from(score_of(Severity::High)) - medium;
    let points =
        if score < review { return None } else { medium + (score - review) * span / (high - review) };
    let points = u32::try_from(points).unwrap_or(MOST).min(MOST);
    Some((points, severity_of(points)?))
}

/// What is known of a whole text: what rules found in it, and how long it is.
fn whole(found: &[Detection], sentences: u64) -> Vec<u16> {
    let by_rules: Vec<&Detection> = found.iter().filter(|found| found.category != Category::Custom).collect();
    let worst = by_rules.iter().map(|found| found.score).max().unwrap_or(0);
    let bucket = [25, 50, 75, 100, 150, 200].iter().filter(|least| worst >= **least).count();
    let count = by_rules.len().min(4);
    let length = (u64::BITS - sentences.leading_zeros()).min(12);
    let mut whole: Vec<u16> =
        [bucket, 8 + count, 16 + length as usize].iter().map(|number| *number as u16).collect();
    for found in by_rules {
        let rules = super::model::WHOLE as u32 - u32::from(RULES);
        let number = RULES + (hash(found.pattern.as_bytes(), 9) % rules) as u16;
        if !whole.contains(&number) {
            whole.push(number);
        }
    }
    whole
}

/// The features of a window in words, with their parts of its score, the heaviest first.
fn reasons(side: &Side, context: &Context, window: &str, traits: u64, mask: u64) -> Vec<(String, i64)> {
    let (mut words, mut concepts): (BTreeMap<String, i64>, BTreeMap<String, i64>) = Default::default();
    let (mut all_words, mut all_concepts) = (0, 0);
    of_mask(mask, context, |number| {
        *concepts.entry(name_of(number)).or_default() += side.mask(number);
        all_concepts += 1;
    });
    let mut start = 0;
    while start < window.len() {
        let end = sentence_end(window, start);
        let sentence = &window[start..end];
        of_sentence(&mut Workspace::default(), sentence, context, traits, |feature| match feature {
            Feature::Words(hash, range) => {
                *words.entry(format!("{:?}", &sentence[range])).or_default() += side.hashed(hash);
                all_words += 1;
            }
            Feature::Order(hash, order) => {
                *concepts.entry(name_of_order(order)).or_default() += side.hashed(hash);
                all_concepts += 1;
            }
        });
        start = end;
    }
    let part = |all: u64| move |(name, sum)| (name, side.scaled(per_root(sum, all)));
    let words = words.into_iter().map(part(all_words));
    let mut found: Vec<(String, i64)> = words.chain(concepts.into_iter().map(part(all_concepts))).collect();
    found.retain(|(_, part)| *part != 0);
    found.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    found
}
