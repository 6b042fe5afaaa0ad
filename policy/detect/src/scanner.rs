//! Rules that another engine runs, such as those in YARA: over all texts of a message, one after the other, as one document. A
//! condition of such a rule is about all of them.

use std::fmt;
use std::ops::Range;

use mcpwarden_terms::Form;

use super::budget::Budget;
use super::fold::fold;
use super::view::View;

/// Longest document that is given to another engine. Bytes.
const MAX_BYTES: usize = 4 << 20;
/// Most texts of one document.
const MAX_PIECES: usize = 20_000;
/// What stands between two texts.
const BETWEEN: &str = "\n\n";

/// Another engine, with its rules.
pub trait Scanner: fmt::Debug + Send + Sync {
    /// Runs all rules over a document.
    fn scan(&self, document: &str) -> Scanned;
}

/// What the rules of another engine matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Each rule that matched.
    pub matches: Vec<RuleMatch>,
    /// Whether the engine came to an end.
    pub complete: bool,
}

/// A rule that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMatch {
    /// Its id.
    pub id: String,
    /// What it matched in the document, in bytes; nothing where its condition is about no text.
    pub ranges: Vec<Range<usize>>,
}

/// The texts of a message as one document, as they were sent and in normal form.
#[derive(Debug, Default)]
pub(super) struct Document {
    raw: String,
    normal: String,
    /// Whether the two differ.
    has_normal: bool,
    pieces: Vec<Piece>,
}

/// One of its texts.
#[derive(Debug)]
struct Piece {
    field: String,
    raw: Range<usize>,
    /// Where its normal form stands, and the way back from there.
    normal: Range<usize>,
    back: Option<View<'static>>,
}

/// What a rule matched in one text.
#[derive(Debug, PartialEq)]
pub(super) struct Found<'d> {
    /// The id of the rule.
    pub(super) rule: &'d str,
    /// The text as it was sent.
    pub(super) text: &'d str,
    /// Its field.
    pub(super) field: &'d str,
    /// In which form it was matched.
    pub(super) form: Form,
    /// What of it.
    pub(super) places: Vec<Range<usize>>,
}

impl Document {
    /// Appends a text. Whether there was room for it.
    pub(super) fn push(&mut self, text: &str, field: String, budget: &mut Budget) -> bool {
        if self.raw.len() + text.len() > MAX_BYTES || self.pieces.len() >= MAX_PIECES {
            return false;
        }
        let (normal, _) = fold(&View::raw(text), budget);
        let folded = normal.as_ref().map_or(text, |normal| &*normal.text);
        self.has_normal |= normal.is_some();
        let range = |document: &mut String, text: &str| {
            let start = document.len();
            document.push_str(text);
            document.push_str(BETWEEN);
            start..start + text.len()
        };
        let (raw, at) = (range(&mut self.raw, text), range(&mut self.normal, folded));
        self.pieces.push(Piece { field, raw, normal: at, back: normal.map(View::way_back) });
        true
    }

    /// What the rules of an engine match in the texts as they were sent, and in their normal forms.
    pub(super) fn scan(&self, scanner: &dyn Scanner) -> [Scanned; 2] {
        let none = || Scanned { matches: Vec::new(), complete: true };
        let scan = |text: &str| if self.pieces.is_empty() { none() } else { scanner.scan(text) };
        [scan(&self.raw), if self.has_normal { scan(&self.normal) } else { none() }]
    }

    /// The matches, text by text; of the normal form those of rules that match nothing in the text as it was sent.
    pub(super) fn found<'d>(&'d self, scanned: &'d [Scanned; 2]) -> Vec<Found<'d>> {
        let [raw, normal] = scanned;
        let is_new = |one: &&RuleMatch| !raw.matches.iter().any(|other| other.id == one.id);
        let raw = raw.matches.iter().flat_map(|one| self.by_piece(one, Form::Raw));
        raw.chain(normal.matches.iter().filter(is_new).flat_map(|one| self.by_piece(one, Form::Normal)))
            .collect()
    }

    /// A text as it was sent.
    fn text(&self, piece: &Piece) -> &str {
        self.raw.get(piece.raw.clone()).unwrap_or_default()
    }

    fn by_piece<'d>(&'d self, one: &'d RuleMatch, form: Form) -> Vec<Found<'d>> {
        let mut found: Vec<(usize, Vec<Range<usize>>)> = Vec::new();
        let of = |piece: &Piece| if form == Form::Raw { piece.raw.clone() } else { piece.normal.clone() };
        let mut ranges = one.ranges.clone();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        if ranges.is_empty() {
            ranges.push(0..0);
        }
        for range in ranges {
            let after = self.pieces.partition_point(|piece| of(piece).start <= range.start);
            let Some(index) = after.checked_sub(1) else { continue };
            let Some(piece) = self.pieces.get(index) else { continue };
            let all = of(piece);
            // A match that goes on in the next text is shown as far as this one goes.
            let end = |at: usize| at.min(all.end) - all.start;
            let within = end(range.start)..end(range.end);
            let place = piece.back.as_ref().filter(|_| form != Form::Raw);
            let place = place.map_or(within.clone(), |back| back.original(within));
            // Other engines know bytes.
            let text = self.text(piece);
            let place = text.floor_char_boundary(place.start)..text.ceil_char_boundary(place.end);
            match found.last_mut() {
                Some((last, places)) if *last == index => places.push(place),
                _ => found.push((index, vec![place])),
            }
        }
        let found = found.into_iter().filter_map(|(index, places)| {
            let piece = self.pieces.get(index)?;
            Some(Found { rule: &one.id, text: self.text(piece), field: &piece.field, form, places })
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matches every place of its words.
    #[derive(Debug)]
    struct Words(&'static [&'static str]);

    impl Scanner for Words {
        fn scan(&self, document: &str) -> Scanned {
            let ranges =
                |word: &&str| document.match_indices(*word).map(|(at, _)| at..at + word.len()).collect();
            let matches =
                self.0.iter().map(|word| RuleMatch { id: (*word).to_owned(), ranges: ranges(word) });
            Scanned { matches: matches.filter(|one| !one.ranges.is_empty()).collect(), complete: true }
        }
    }

    #[test]
    fn matches_are_of_the_texts_as_sent() {
        for (texts, expected) in [
            (&["the bad word"][..], &[("0", Form::Raw, "bad")][..]),
            (&["none", "bad, and bad"], &[("1", Form::Raw, "bad"), ("1", Form::Raw, "bad")]),
            (&["ｂａｄ", "x"], &[("0", Form::Normal, "ｂａｄ")]),
            // It matches the text as sent, and is not said once more.
            (&["ｂａｄ", "bad"], &[("1", Form::Raw, "bad")]),
            (&["aä ｂ\u{200b}ａｄ ä"], &[("0", Form::Normal, "ｂ\u{200b}ａｄ")]),
            // A text ends with a blank line.
            (&["b", "ad"], &[]),
            (&["ä", "äbad"], &[("1", Form::Raw, "bad")]),
            (&[], &[]),
        ] {
            let mut document = Document::default();
            for (index, text) in texts.iter().enumerate() {
                assert!(document.push(text, index.to_string(), &mut Budget::default()));
            }
            let scanned = document.scan(&Words(&["bad"]));
            let found = document.found(&scanned);
            let all = found.iter().flat_map(|found| {
                found.places.iter().map(move |place| (found.field, found.form, &found.text[place.clone()]))
            });
            assert_eq!(all.collect::<Vec<_>>(), expected, "{texts:?}");
        }
    }

    #[test]
    fn matches_beyond_a_text_end_with_it() {
        let mut document = Document::default();
        for text in ["ab", "cd"] {
            document.push(text, text.to_owned(), &mut Budget::default());
        }
        let all = 0..document.raw.len();
        let one = RuleMatch { id: "x".to_owned(), ranges: vec![1..6, all, 3..4, 5..5] };
        let found = document.by_piece(&one, Form::Raw);
        let found: Vec<_> = found.iter().map(|found| (found.field, found.places.clone())).collect();
        assert_eq!(found, [("ab", vec![0..2, 1..2, 2..2]), ("cd", Vec::from([Range { start: 1, end: 1 }]))]);
        // A condition about no text is a match of the first.
        let nothing = RuleMatch { id: "x".to_owned(), ranges: Vec::new() };
        let places = &document.by_piece(&nothing, Form::Raw)[0].places;
        assert_eq!(*places, Vec::from([Range { start: 0, end: 0 }]));
    }

    #[test]
    fn document_is_bounded() {
        let (mut document, mut budget) = (Document::default(), Budget::default());
        let text = "x".repeat((1 << 20) - BETWEEN.len());
        let pushed = (0..5).map(|_| document.push(&text, String::new(), &mut budget));
        assert_eq!(pushed.filter(|pushed| *pushed).count(), 4);
    }
}
