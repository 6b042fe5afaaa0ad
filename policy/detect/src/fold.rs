//! The normal form of a text: as a model reads it, whatever it was dressed up as.
//!
//! Compatibility forms (NFKD) and accents are resolved, letters that only look Latin become Latin, characters
//! that nobody sees are dropped, and so are terminal sequences. What was dropped or dressed up is a finding of
//! its own: a [`Mark`]. Case is left alone, since the rules do not mind it. ASCII text is its own normal form,
//! which is what makes most texts free.

mod ansi;
mod characters;

use std::borrow::Cow;
use std::ops::Range;

use mcpwarden_terms::Form;
use smallvec::SmallVec;
use unicode_normalization::char::decompose_compatible;

use super::budget::Budget;
use super::finder::position;
use super::segment::OVERLAP_BYTES;
use super::structure::Structure;
use super::view::{Mapped, View};
use ansi::{ansi_end, ansi_kind};
pub(super) use characters::invisible;
use characters::{
    is_accent, is_blank, is_composed_script, is_ideograph, is_in_flag, is_leftward, is_letter,
    is_of_latin_script, is_styled, is_unchanging, is_unspaced, is_wide_digit, look_alike,
};

/// Something about the characters of a text that is worth saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// What it is.
    pub(super) kind: Structure,
    /// Where it begins in the source. Bytes.
    pub(super) at: usize,
    /// Where it ends.
    pub(super) end: usize,
}

/// Most marks kept of one text; a flood of them says no more than the first.
const MAX_MARKS: usize = 256;
/// How far from an isolate the letters stand that it is for. Characters.
const NEAR_CHARS: usize = 64;
/// How far a word is looked at to find out in which script it is written. Characters.
const WORD_CHARS: usize = 32;
/// Letters in styled form (mathematical, circled, full width) from which on they count as dressed up.
const STYLED_LETTERS: usize = 4;

/// A part of a view in its normal form.
pub(super) struct Folded<'a> {
    /// `None` where it is the same text.
    pub(super) normal: Option<View<'a>>,
    /// What was found on the way.
    pub(super) marks: Vec<Mark>,
    /// Where the part ends, which is behind its range unless that ends with the text.
    pub(super) end: usize,
}

/// A view whose parts are folded one after the other.
pub(super) struct Folding<'v, 'a> {
    view: &'v View<'a>,
    /// Whether the text has words of another script, once that was asked.
    foreign: Option<bool>,
}

impl<'v, 'a> Folding<'v, 'a> {
    pub(super) fn new(view: &'v View<'a>) -> Self {
        Self { view, foreign: None }
    }

    /// The normal form of a part, and of what follows it as far as hits may reach.
    pub(super) fn part(&mut self, part: Range<usize>, budget: &mut Budget) -> Folded<'a> {
        let mut folder = Folder {
            text: &self.view.text,
            out: Mapped::default(),
            taken: part.start,
            marks: Vec::new(),
            styled: 0,
            foreign: self.foreign,
            word: (0..0, Word::Other),
            is_name: self.view.form == Form::Words,
            budget,
        };
        let end = folder.run(part);
        // Nobody dresses a single letter of a name up by accident, unless a keyboard for another script does.
        let is_dressed =
            folder.styled > 0 && folder.is_name && !self.view.text.chars().any(is_composed_script);
        if folder.styled < STYLED_LETTERS && !is_dressed {
            folder.marks.retain(|mark| mark.kind != Structure::StyledLetters);
        }
        let Folder { out, marks, foreign, .. } = folder;
        self.foreign = foreign;
        let normal = out.is_changed().then(|| {
            let form = if self.view.form == Form::Raw { Form::Normal } else { self.view.form };
            self.view.derive(out, form)
        });
        Folded { normal, marks, end }
    }
}

/// The normal form of `view`, and what was found on the way. `None` where it is the same text.
pub(super) fn fold<'a>(view: &View<'a>, budget: &mut Budget) -> (Option<View<'a>>, Vec<Mark>) {
    let Folded { normal, marks, .. } = Folding::new(view).part(0..view.text.len(), budget);
    (normal, marks)
}

/// The normal form of a text by itself, where the way back is not needed. Printable ASCII is its own, and costs no memory.
pub fn folded(text: &str) -> Cow<'_, str> {
    fold(&View::raw(text), &mut Budget::default())
        .0
        .map_or(Cow::Borrowed(text), |normal| Cow::Owned(normal.text.into_owned()))
}

/// Whether a byte begins something that the normal form may change.
fn is_special(byte: u8) -> bool {
    byte >= 0x7f || (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r'))
}

struct Folder<'t, 'b> {
    text: &'t str,
    /// The form of the text up to `taken`.
    out: Mapped,
    taken: usize,
    marks: Vec<Mark>,
    styled: usize,
    /// Whether the text has words of another script, once that was asked.
    foreign: Option<bool>,
    /// The word of look-alikes met last, and in which letters it is written.
    word: (Range<usize>, Word),
    /// Whether the text is a name, in which invisible characters and styled letters have no business at all.
    is_name: bool,
    budget: &'b mut Budget,
}

impl Folder<'_, '_> {
    /// Folds a part, and what is behind it until there is enough of its form. Where that ends.
    fn run(&mut self, part: Range<usize>) -> usize {
        let mut at = self.fold_to(part.start, part.end);
        let enough = self.length(at) + OVERLAP_BYTES;
        while at < self.text.len() && self.length(at) < enough {
            let step = enough - self.length(at);
            if !self.budget.take(|budget| &mut budget.overlap, step) {
                break;
            }
            at = self.fold_to(at, self.text.len().min(at + step));
        }
        if self.out.is_changed() {
            self.take(at);
        }
        at
    }

    /// How long the form is up to `at`.
    fn length(&self, at: usize) -> usize {
        self.out.text.len() + (at - self.taken)
    }

    /// Goes on from `at` to `end`, or to the end of the character there.
    fn fold_to(&mut self, mut at: usize, end: usize) -> usize {
        let bytes = self.text.as_bytes();
        while at < end {
            let Some(plain) = position(&bytes[at..end], is_special) else { return end };
            at += plain;
            while at < end && is_special(bytes[at]) {
                at = self.special(at);
            }
        }
        at
    }

    /// Looks at the character at `at`, and returns where the next one is.
    fn special(&mut self, at: usize) -> usize {
        let Some(character) = self.text[at..].chars().next() else { return self.text.len() };
        let next = at + character.len_utf8();
        // Separators of lines and paragraphs, too, which have no compatible form.
        if character.is_whitespace() && !character.is_ascii() {
            self.replace(at..next, std::iter::once(' '));
            return next;
        }
        if is_unchanging(character) {
            return next;
        }
        match invisible(character) {
            Some(Structure::AnsiEscape) => {
                let end = ansi_end(self.text, at, character);
                self.mark(ansi_kind(&self.text[at..end]), at, end);
                self.replace(at..end, std::iter::empty());
                return end;
            }
            Some(kind) => {
                if self.is_smuggled(kind, character, at, next) {
                    self.mark(kind, at, next);
                }
                let blank = (is_blank(character) && self.is_between_words(at, next)).then_some(' ');
                self.replace(at..next, blank.into_iter());
                return next;
            }
            None => {}
        }
        if let Some((latin, always)) = look_alike(character) {
            match self.word_at(at, next) {
                Word::Mixed if is_of_latin_script(character) => {}
                Word::Mixed => self.mark(Structure::MixedScript, at, next),
                Word::LookAlikes if always && !self.is_foreign() => {}
                _ => return next,
            }
            self.replace(at..next, std::iter::once(latin));
            return next;
        }
        let (mut parts, mut length) = (SmallVec::<[char; 18]>::new(), 0);
        decompose_compatible(character, |part| {
            if !is_accent(part) {
                length += part.len_utf8();
                parts.push(part);
            }
        });
        let growth = length.saturating_sub(next - at);
        if !self.budget.take(|budget| &mut budget.growth, growth) {
            return next;
        }
        for part in parts.iter_mut().filter(|part| !part.is_alphabetic()) {
            *part = look_alike(*part).map_or(*part, |found| found.0);
        }
        if is_styled(character) || self.is_name && is_wide_digit(character) {
            let letters = parts.iter().filter(|part| part.is_ascii_alphanumeric()).count();
            self.styled += letters;
            if letters > 0 {
                self.mark(Structure::StyledLetters, at, next);
            }
        }
        if parts[..] != [character] {
            self.replace(at..next, parts.into_iter());
        }
        next
    }

    /// Takes over what is left before `at` as it is.
    fn take(&mut self, at: usize) {
        if self.taken < at {
            self.out.push_str(&self.text[self.taken..at], self.taken);
        }
        self.taken = at;
    }

    /// Takes `with` in place of `range`.
    fn replace(&mut self, range: Range<usize>, with: impl Iterator<Item = char>) {
        self.take(range.start);
        self.out.replace(with, range.start);
        self.taken = range.end;
    }

    /// In which letters the word around the character at `at` is written.
    fn word_at(&mut self, at: usize, next: usize) -> Word {
        if !self.word.0.contains(&at) {
            let (start, end) = word_around(self.text, at, next);
            // Of a long word only what is near counts, so that it is looked at again for the letters behind these.
            let known = if end - start <= WORD_CHARS { start..end } else { at..end.min(at + WORD_CHARS) };
            self.word = (known, script_of(self.text[start..end].chars()));
        }
        self.word.1
    }

    /// Whether the text is, in part, written in another script. Then a word of nothing but look-alikes is one of
    /// that script's.
    fn is_foreign(&mut self) -> bool {
        let text = self.text;
        // Of a word, the letter that is looked at first says it all.
        let mut known = 0;
        *self.foreign.get_or_insert_with(|| {
            text.char_indices().any(|(at, c)| {
                at >= known && matches!(c, '\u{370}'..='\u{52f}') && is_letter(c) && {
                    let (start, end) = word_around(text, at, at + c.len_utf8());
                    known = end;
                    script_of(text[start..end].chars()) == Word::Other
                }
            })
        })
    }

    /// Joiners and variation selectors belong to emoji and to some scripts, and direction marks to others. Beside
    /// ASCII letters they have no business.
    fn is_smuggled(&self, kind: Structure, character: char, at: usize, next: usize) -> bool {
        let before = self.text[..at].chars().next_back();
        let after = self.text[next..].chars().next();
        let plain = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic() || c == ' ');
        match (kind, character) {
            // What parts words in scripts without blanks.
            (Structure::ZeroWidth, '\u{200b}') if !self.is_name => {
                !before.is_some_and(is_unspaced) && !after.is_some_and(is_unspaced)
            }
            (Structure::ZeroWidth, '\u{200b}' | '\u{2060}'..='\u{2064}') => true,
            // Some scripts write joiners between their letters.
            (Structure::ZeroWidth, '\u{200c}' | '\u{200d}') => plain(before) || plain(after),
            (Structure::ZeroWidth, _) if self.is_name => true,
            // A byte order mark at the start, and soft hyphens, come with texts out of other programs.
            (Structure::ZeroWidth, '\u{feff}') => at > 0,
            (Structure::ZeroWidth, '\u{ad}') => false,
            (Structure::ZeroWidth, _) => plain(before) || plain(after),
            (Structure::VariationSelectors, '\u{e0100}'..='\u{e01ef}') => !before.is_some_and(is_ideograph),
            (Structure::VariationSelectors, _) => {
                plain(before) || before.and_then(invisible) == Some(Structure::VariationSelectors)
            }
            (Structure::BidiOverride, '\u{200e}' | '\u{200f}' | '\u{61c}') => plain(before) && plain(after),
            // As the W3C has Latin words set apart in Arabic and Hebrew ones.
            (Structure::BidiOverride, '\u{2066}'..='\u{2069}') => {
                self.is_name || !self.runs_leftwards(at, next)
            }
            (Structure::TagCharacters, _) => !is_in_flag(self.text, at),
            _ => true,
        }
    }

    /// Whether letters of a script that runs leftwards stand near.
    fn runs_leftwards(&self, at: usize, next: usize) -> bool {
        let mut near = self.text[..at].chars().rev().take(NEAR_CHARS);
        near.any(is_leftward) || self.text[next..].chars().take(NEAR_CHARS).any(is_leftward)
    }

    /// Whether a word of two letters or more ends at `at`, and another one begins behind the blanks from `next` on.
    fn is_between_words(&self, at: usize, next: usize) -> bool {
        let is_word = |chars: &mut dyn Iterator<Item = char>| {
            chars.take(2).filter(|c| is_letter(*c) && !is_blank(*c)).count() == 2
        };
        is_word(&mut self.text[..at].chars().rev())
            && is_word(&mut self.text[next..].chars().take(WORD_CHARS).skip_while(|c| is_blank(*c)))
    }

    fn mark(&mut self, kind: Structure, at: usize, end: usize) {
        let full = self.marks.len() >= MAX_MARKS;
        match self.marks.last_mut() {
            Some(last) if last.kind == kind && last.end == at => last.end = end,
            _ if full => {}
            _ => self.marks.push(Mark { kind, at, end }),
        }
    }
}

/// In which letters a word is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Latin ones and look-alikes: nobody writes so.
    Mixed,
    /// Only look-alikes.
    LookAlikes,
    /// Letters of another script.
    Other,
}

/// Where the word around the character from `at` to `next` begins and ends, as far as it is looked at.
fn word_around(text: &str, at: usize, next: usize) -> (usize, usize) {
    let in_word = |c: &char| is_letter(*c) || invisible(*c).is_some();
    let bytes = |chars: &mut dyn Iterator<Item = char>, most| {
        chars.take_while(in_word).take(most).map(char::len_utf8).sum::<usize>()
    };
    // What is found holds for some letters behind the character, too.
    (
        at - bytes(&mut text[..at].chars().rev(), WORD_CHARS),
        next + bytes(&mut text[next..].chars(), 2 * WORD_CHARS),
    )
}

fn script_of(word: impl Iterator<Item = char>) -> Word {
    let mut script = Word::LookAlikes;
    for letter in word.filter(|c| is_letter(*c)) {
        if letter.is_ascii_alphabetic() {
            return Word::Mixed;
        }
        if !look_alike(letter).is_some_and(|(_, always)| always) {
            script = Word::Other;
        }
    }
    script
}

#[cfg(test)]
mod tests;
