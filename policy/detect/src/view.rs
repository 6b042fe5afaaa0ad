//! A text in another form, and the way back: which bytes of the original each byte of it came from.

use std::borrow::Cow;
use std::ops::Range;

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
}

#[derive(Clone, Debug)]
enum Origin {
    /// The text is the original.
    Same,
    /// From each of these on, bytes run in step: (offset here, offset in the original), ascending.
    Steps(Vec<(usize, usize)>),
    /// All of it came from this range.
    Whole(Range<usize>),
}

impl<'a> View<'a> {
    /// The original itself.
    pub(super) fn raw(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), form: Form::Raw, origin: Origin::Same, changed: Vec::new() }
    }

    /// A text that was decoded out of `range` of the original.
    pub(super) fn decoded(text: String, form: Form, range: Range<usize>) -> Self {
        Self { text: Cow::Owned(text), form, origin: Origin::Whole(range), changed: Vec::new() }
    }

    /// The bytes of the original that `range` came from.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        match &self.origin {
            Origin::Same => range,
            Origin::Whole(whole) => whole.clone(),
            Origin::Steps(steps) => back(steps, range.start)..back(steps, range.end),
        }
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
        View { text: Cow::Owned(mapped.text), form, origin, changed: mapped.changed }
    }
}

/// The steps of both mappings after each other.
fn compose(inner: &[(usize, usize)], outer: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut steps = Vec::with_capacity(inner.len() + outer.len());
    for (index, &(here, there)) in inner.iter().enumerate() {
        steps.push((here, back(outer, there)));
        // Steps of the outer mapping within this one of the inner.
        let end = inner.get(index + 1).map_or(usize::MAX, |&(next, _)| there + (next - here));
        let from = outer.partition_point(|&(middle, _)| middle <= there);
        let within = outer[from..].iter().take_while(|&&(middle, _)| middle < end);
        steps.extend(within.map(|&(middle, first)| (here + (middle - there), first)));
    }
    steps
}

/// Where `at` was before.
fn back(steps: &[(usize, usize)], at: usize) -> usize {
    let after = steps.partition_point(|&(here, _)| here <= at);
    let next = steps.get(after).map_or(usize::MAX, |&(_, there)| there);
    match after.checked_sub(1).and_then(|index| steps.get(index)) {
        Some(&(here, there)) => (there + (at - here)).min(next),
        None => at,
    }
}

/// A text under construction, with where its bytes come from.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// The text so far.
    pub(super) text: String,
    steps: Vec<(usize, usize)>,
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
        with.into_iter().for_each(|character| self.push(character, at));
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
        let in_step = self.steps.last().is_some_and(|&(from, there)| here - from + there == at);
        if !in_step {
            self.steps.push((here, at));
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
