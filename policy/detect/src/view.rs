//! A text in another form, and the way back: which bytes of the original each byte of it came from.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use mcpwarden_terms::Form;

/// How far from a change a match with it may begin or end, and others be that are in one window with that. Bytes.
const NEAR_BYTES: usize = 1_500;

/// A text in some form, with the way back to the text as it was sent.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// The text in that form.
    pub(super) text: Cow<'a, str>,
    /// Which form.
    pub(super) form: Form,
    origin: Origin,
    /// Where it differs from the text that it was made from; none where that may be anywhere.
    changed: Vec<Range<usize>>,
    /// Of several texts in one, which have nothing to do with each other: the ranges of the original that they came from, ascending.
    parts: Option<Arc<[Range<usize>]>>,
}

#[derive(Clone, Debug)]
enum Origin {
    /// The text is the original.
    Same,
    /// Where bytes begin to run in step with the original, ascending.
    Steps(Vec<Step>),
    /// All of it came from this range.
    Whole(Range<usize>),
}

/// From an offset here on, bytes came from an offset in the original on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    here: usize,
    there: usize,
    /// Whether all of them, up to the next step, came from what is there: one character that became several.
    is_one: bool,
}

impl<'a> View<'a> {
    /// The original itself.
    pub(super) fn raw(text: &'a str) -> Self {
        let (text, origin) = (Cow::Borrowed(text), Origin::Same);
        Self { text, form: Form::Raw, origin, changed: Vec::new(), parts: None }
    }

    /// A text that was decoded out of `range` of the original.
    pub(super) fn decoded(text: String, form: Form, range: Range<usize>) -> Self {
        let (text, origin) = (Cow::Owned(text), Origin::Whole(range));
        Self { text, form, origin, changed: Vec::new(), parts: None }
    }

    /// Texts that were decoded out of ranges of the original, one behind the other, with `between` between them.
    pub(super) fn joined<'t>(
        texts: impl Iterator<Item = (&'t str, Range<usize>)>,
        between: &str,
        form: Form,
    ) -> Self {
        let (mut text, mut steps, mut parts) = (String::new(), Vec::new(), Vec::new());
        for (part, range) in texts {
            steps.push(Step { here: text.len(), there: range.start, is_one: true });
            text.push_str(part);
            text.push_str(between);
            parts.push(range);
        }
        parts.sort_unstable_by_key(|range| range.start);
        let (text, origin) = (Cow::Owned(text), Origin::Steps(steps));
        Self { text, form, origin, changed: Vec::new(), parts: Some(parts.into()) }
    }

    /// Whether a range is of several texts that have nothing to do with each other.
    pub(super) fn is_across(&self, range: Range<usize>) -> bool {
        let Origin::Steps(steps) = &self.origin else { return false };
        let is_of_several = || back(steps, range.start) != back(steps, range.end.max(range.start + 1) - 1);
        self.parts.is_some() && is_of_several()
    }

    /// The way back to the original, without the text.
    pub(super) fn way_back(self) -> View<'static> {
        let Self { form, origin, parts, .. } = self;
        View { text: Cow::Borrowed(""), form, origin, changed: Vec::new(), parts }
    }

    /// The bytes of the original that `range` came from.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        match &self.origin {
            Origin::Same => range,
            Origin::Whole(whole) => whole.clone(),
            Origin::Steps(steps) => {
                let start = back(steps, range.start);
                let parts = self.parts.as_deref().unwrap_or_default();
                let part = parts.binary_search_by_key(&start, |part| part.start).ok();
                let part = part.and_then(|index| parts.get(index)).cloned();
                part.unwrap_or_else(|| start..back_end(steps, range.end))
            }
        }
    }

    /// A part of the text in the same form.
    pub(super) fn part(&self, range: Range<usize>) -> View<'a> {
        let text = match &self.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[range.clone()]),
            Cow::Owned(text) => Cow::Owned(text[range.clone()].to_owned()),
        };
        let origin = match &self.origin {
            Origin::Whole(whole) => Origin::Whole(whole.clone()),
            Origin::Same => Origin::Steps(vec![Step { here: 0, there: range.start, is_one: false }]),
            Origin::Steps(steps) => {
                Origin::Steps(compose(&[Step { here: 0, there: range.start, is_one: false }], steps))
            }
        };
        View { text, form: self.form, origin, changed: Vec::new(), parts: self.parts.clone() }
    }

    /// All of the text, as the only range of a list.
    pub(super) fn whole(&self) -> [Range<usize>; 1] {
        let end = self.text.len();
        [Range { start: 0, end }]
    }

    /// Where something may be found that is not in the text that this was made from.
    pub(super) fn fresh(&self) -> Vec<Range<usize>> {
        if self.changed.is_empty() {
            return self.whole().into();
        }
        let mut fresh: Vec<Range<usize>> = Vec::new();
        for changed in &self.changed {
            let end = (changed.end + NEAR_BYTES).min(self.text.len());
            match fresh.last_mut() {
                Some(last) if changed.start <= last.end + NEAR_BYTES => last.end = end,
                _ => fresh.push(changed.start.saturating_sub(NEAR_BYTES)..end),
            }
        }
        fresh
    }

    /// Another form of this view's text, `mapped` from it; its way back leads to this view's original.
    pub(super) fn derive(&self, mapped: Mapped, form: Form) -> View<'a> {
        let origin = match &self.origin {
            Origin::Same => Origin::Steps(mapped.steps),
            Origin::Whole(range) => Origin::Whole(range.clone()),
            Origin::Steps(outer) => Origin::Steps(compose(&mapped.steps, outer)),
        };
        let text = Cow::Owned(mapped.text);
        View { text, form, origin, changed: mapped.changed, parts: self.parts.clone() }
    }
}

/// The steps of both mappings after each other.
fn compose(inner: &[Step], outer: &[Step]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(inner.len());
    for (index, &Step { here, there, is_one }) in inner.iter().enumerate() {
        let from = outer.partition_point(|step| step.here <= there);
        let within_one = from.checked_sub(1).and_then(|last| outer.get(last)).is_some_and(|step| step.is_one);
        steps.push(Step { here, there: back(outer, there), is_one: is_one || within_one });
        if is_one {
            continue;
        }
        // Steps of the outer mapping within this one of the inner.
        let end = inner.get(index + 1).map_or(usize::MAX, |next| there + (next.here - here));
        let within = outer[from..].iter().take_while(|step| step.here < end);
        steps.extend(within.map(|step| Step { here: here + (step.here - there), ..*step }));
    }
    steps
}

/// Where `at` was before.
fn back(steps: &[Step], at: usize) -> usize {
    let after = steps.partition_point(|step| step.here <= at);
    let next = steps.get(after).map_or(usize::MAX, |step| step.there);
    match after.checked_sub(1).and_then(|index| steps.get(index)) {
        Some(step) if step.is_one => step.there,
        Some(step) => (step.there + (at - step.here)).min(next),
        None => at,
    }
}

/// Where what ends at `at` ended before: behind all of a character of which it has a part.
fn back_end(steps: &[Step], at: usize) -> usize {
    let after = steps.partition_point(|step| step.here < at);
    let last = after.checked_sub(1).and_then(|index| steps.get(index)).filter(|step| step.is_one);
    last.and_then(|_| steps.get(after)).map_or_else(|| back(steps, at), |next| next.there)
}

/// A text under construction, with where its bytes come from.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// The text so far.
    pub(super) text: String,
    steps: Vec<Step>,
    /// What was replaced, ascending; what is within [`NEAR_BYTES`] of each other is one range.
    changed: Vec<Range<usize>>,
}

impl Mapped {
    /// An empty one with room for `bytes`.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ..Self::default() }
    }

    /// Appends `text`, which stands at `at` in the source.
    pub(super) fn push_str(&mut self, text: &str, at: usize) {
        self.step(at);
        self.text.push_str(text);
    }

    /// Appends `character`, which stands for what is at `at` in the source.
    pub(super) fn push(&mut self, character: char, at: usize) {
        self.step(at);
        self.text.push(character);
    }

    /// Appends `with` for what is at `at` in the source. Where all that differs is replaced so, the rest of the text
    /// need not be searched again.
    pub(super) fn replace(&mut self, with: impl IntoIterator<Item = char>, at: usize) {
        let here = self.text.len();
        let mut with = with.into_iter();
        if let Some(first) = with.next() {
            self.push(first, at);
            let single = self.text.len();
            self.text.extend(with);
            if self.text.len() > single {
                self.step_of_one(here, at);
            }
        }
        let end = self.text.len();
        match self.changed.last_mut() {
            Some(last) if here <= last.end + NEAR_BYTES => last.end = end,
            _ => self.changed.push(here..end),
        }
    }

    /// Whether anything was replaced.
    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    fn step(&mut self, at: usize) {
        let here = self.text.len();
        let in_step = |step: &Step| !step.is_one && here - step.here + step.there == at;
        if !self.steps.last().is_some_and(in_step) {
            self.steps.push(Step { here, there: at, is_one: false });
        }
    }

    /// All that was appended from `here` on stands for what is at `at` in the source.
    fn step_of_one(&mut self, here: usize, at: usize) {
        match self.steps.last_mut() {
            Some(last) if last.here == here => last.is_one = true,
            _ => self.steps.push(Step { here, there: at, is_one: true }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_byte_maps_to_its_origin() {
        // "a", two dropped bytes, "bc", then "d" out of the bytes 5..9, then "e".
        let mut mapped = Mapped::default();
        mapped.push_str("a", 0);
        mapped.push_str("bc", 3);
        mapped.push('d', 5);
        mapped.push_str("e", 9);
        let view = View::raw("a..bc....e").derive(mapped, Form::Normal);
        assert_eq!(view.text, "abcde");
        for (range, original) in [(0..1, 0..3), (1..3, 3..5), (3..4, 5..9), (0..5, 0..10), (4..5, 9..10)] {
            assert_eq!(view.original(range.clone()), original, "{range:?}");
        }
    }

    /// One character that became several is where it was, whichever of them is meant, and takes one step.
    #[test]
    fn expanded_character_maps_to_itself() {
        let mut mapped = Mapped::default();
        mapped.push_str("a", 0);
        mapped.replace("xyz".chars(), 1);
        mapped.push_str("b", 4);
        assert_eq!(mapped.steps.len(), 3);
        let view = View::raw("a\u{fdfa}b").derive(mapped, Form::Normal);
        assert_eq!(view.text, "axyzb");
        assert_eq!((view.original(0..1), view.original(2..3), view.original(2..4)), (0..1, 1..4, 1..4));
        assert_eq!(view.part(2..5).original(0..3), 1..5);
        let mut again = Mapped::default();
        again.push_str("zb", 3);
        assert_eq!(view.derive(again, Form::Rot13).original(0..2), 1..5);
    }

    /// Bytes between two changes, the ranges that are searched.
    #[test]
    fn only_text_near_a_change_is_searched_again() {
        let near = NEAR_BYTES;
        let cases: &[(usize, &[(usize, usize)])] = &[
            (0, &[(500, 2_002 + near)]),
            (2 * near, &[(500, 2_002 + 3 * near)]),
            (2 * near + 1, &[(500, 2_001 + near), (2_002 + near, 2_003 + 3 * near)]),
        ];
        for &(between, expected) in cases {
            let mut mapped = Mapped::default();
            mapped.push_str(&"-".repeat(2_000), 0);
            mapped.replace(['x'], 2_000);
            mapped.push_str(&"-".repeat(between), 2_004);
            mapped.replace(['y'], 2_004 + between);
            mapped.push_str(&"-".repeat(3_000), 2_008 + between);
            let fresh = View::raw("").derive(mapped, Form::Normal).fresh();
            let fresh: Vec<(usize, usize)> = fresh.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(fresh, expected, "{between}");
        }
        assert_eq!(View::raw("text").fresh(), View::raw("text").whole());
    }

    #[test]
    fn nested_view_maps_to_the_first_original() {
        let mut inner = Mapped::default();
        inner.push_str("xy", 2);
        let view = View::raw("..xy").derive(inner, Form::Normal);
        let mut outer = Mapped::default();
        outer.push_str("y", 1);
        assert_eq!(view.derive(outer, Form::Rot13).original(0..1), 3..4);
        // One step of the outer mapping over two of the inner.
        let mut inner = Mapped::default();
        inner.push_str("ab", 1);
        inner.push_str("cd", 5);
        let view = View::raw(".ab..cd").derive(inner, Form::Normal);
        let mut outer = Mapped::default();
        outer.push_str("bcd", 1);
        let outer = view.derive(outer, Form::Escapes);
        assert_eq!((outer.original(0..1), outer.original(1..3)), (2..5, 5..7));
        let decoded = View::decoded("abc".into(), Form::Base64, 4..20);
        let mut outer = Mapped::default();
        outer.push_str("b", 1);
        assert_eq!(decoded.derive(outer, Form::Normal).original(0..1), 4..20);
    }
}
