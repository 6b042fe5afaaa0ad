//! One argument without what its names and forms say is a secret.

use std::ops::Range;

use super::MASK;
use super::marks::{find_mark, is_member, member_value, quotes};
use super::names::{is_secret_name, is_secret_parameter};
use super::settings::{end_of_braces, next_line, next_setting, sign};
use super::tokens::{is_known_secret, is_random};
use super::url::{mask_url, settings, userinfo};
use super::values::{
    begins_reference, is_harmless, is_plain_flag, is_public, is_reference, is_scheme, is_way,
};

/// One argument being masked.
pub(super) struct Masking<'a> {
    /// What is left of it.
    pub(super) rest: &'a str,
    /// Whether blanks end a value. Elsewhere the argument is one value, blanks and all.
    pub(super) shell: bool,
    /// Of a shell's line: whether another line has no secret, nor writes words of its own.
    has_no_secret: Option<fn(&str) -> bool>,
    /// Whether it is prose, in which `basic` is a word like others.
    pub(super) prose: bool,
    /// Whether words are masked that look random.
    random: bool,
    /// The quotation that `rest` is in.
    pub(super) quote: Option<char>,
    /// What stands before `rest`.
    before: Option<char>,
    pub(super) out: String,
    /// Which bytes of the argument are to be shown: the others are there for what they say of these.
    visible: Range<usize>,
    /// How long the argument is, and where in `out` what is shown begins, and ends, once that is known.
    length: usize,
    shown: usize,
    shown_to: Option<usize>,
}

impl<'a> Masking<'a> {
    pub(super) fn new(arg: &'a str, shell: bool) -> Self {
        let out = String::with_capacity(arg.len());
        let length = arg.len();
        Self {
            rest: arg,
            shell,
            has_no_secret: None,
            prose: false,
            random: true,
            quote: None,
            before: None,
            out,
            visible: 0..length,
            length,
            shown: 0,
            shown_to: None,
        }
    }

    /// Of a shell's line; `has_no_secret` says of another one whether it has none, nor writes words of its own.
    pub(super) fn line(line: &'a str, has_no_secret: fn(&str) -> bool) -> Self {
        Self { has_no_secret: Some(has_no_secret), ..Self::new(line, true) }
    }

    /// Of a text that is no command line: of these bytes of it.
    pub(super) fn prose(text: &'a str, visible: Range<usize>, random: bool) -> Self {
        Self { prose: true, random, visible, ..Self::new(text, true) }
    }

    pub(super) fn run(mut self) -> String {
        while let Some(first) = self.rest.chars().next() {
            let length = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
            if length > 0 {
                self.word(length);
                continue;
            }
            self.keep(first.len_utf8());
        }
        let to = self.shown_to.map_or(self.out.len(), |to| self.out.ceil_char_boundary(to));
        self.out.truncate(to);
        let shown = self.out.ceil_char_boundary(self.shown.min(to));
        self.out.split_off(shown)
    }

    /// Writes what stands in place of the bytes that were taken since `from` were left, or these themselves.
    fn write(&mut self, from: usize, text: &str, is_same: bool) {
        let at = self.length - from;
        let (to, Range { start, end }) = (self.length - self.rest.len(), self.visible.clone());
        if at < start {
            self.shown = match (to <= start, is_same) {
                (true, _) => self.out.len() + text.len(),
                (false, true) => self.out.len() + start - at,
                (false, false) => self.out.len(),
            };
        }
        if self.shown_to.is_none() && to >= end {
            self.shown_to = match (at >= end, is_same) {
                (true, _) => Some(self.out.len()),
                (false, true) => Some(self.out.len() + end - at),
                (false, false) if to == end => Some(self.out.len() + text.len()),
                // Whatever is cut off of what stands in place of a secret.
                (false, false) => Some(self.out.len() + text.len().min(MASK.len().max(end - at))),
            };
        }
        self.out.push_str(text);
    }

    /// Goes on behind the next `length` bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        for character in taken.chars() {
            // Behind a backslash it is part of what is quoted.
            if matches!(character, '"' | '\'') && self.before != Some('\\') {
                self.quote = match self.quote {
                    None => Some(character),
                    Some(quote) if quote == character => None,
                    other => other,
                };
            }
            self.before = Some(character);
        }
        taken
    }

    pub(super) fn keep(&mut self, length: usize) {
        let from = self.rest.len();
        let kept = self.take(length);
        self.write(from, kept, true);
    }

    pub(super) fn mask(&mut self, length: usize) {
        if length > 0 {
            let from = self.rest.len();
            self.take(length);
            self.write(from, MASK, false);
        }
    }

    /// A run of letters, digits, `-` and `_`, and what belongs to it.
    fn word(&mut self, length: usize) {
        let before = self.before;
        let (word, after) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        // `arn:aws:secretsmanager:…`, in which words are as names of secrets are.
        if !self.prose && begins_reference(self.rest) {
            let ends = [' ', '\t', '\n', '"', '\'', '\\', '<', '>', ',', ';'];
            let end = self.rest.find(ends).unwrap_or(self.rest.len());
            if self.rest.get(..end).is_some_and(is_reference) {
                return self.keep(end);
            }
        }
        if after.starts_with("://") {
            let end = self.rest.find([' ', '\t', '\n', '"', '\'', '\\', '<', '>']).unwrap_or(self.rest.len());
            // What stands behind is masked as other settings are.
            let end = self
                .rest
                .get(length + 3..end)
                .and_then(|rest| settings(&self.out, rest))
                .map_or(end, |at| length + 3 + at);
            let from = self.rest.len();
            let url = self.take(end);
            let is_git = self.out.ends_with("git+");
            return self.write(
                from,
                &mask_url(word, url.get(length + 3..).unwrap_or_default(), is_git),
                false,
            );
        }
        if let Some((user, end)) = userinfo(self.rest, before) {
            self.keep(user);
            return self.mask(end - user);
        }
        if is_known_secret(self.rest) {
            let inside = |c: char| is_name(c) || "./+=~%:$".contains(c);
            return self.mask(self.rest.find(|c| !inside(c)).unwrap_or(self.rest.len()));
        }
        // Directories and images have random names that are no secrets.
        let in_path = before == Some('/') || after.starts_with('/') || self.out.ends_with("sha256:");
        if self.random && is_random(word) && !in_path {
            self.mask(length);
            // `SK…:secret`.
            if let Some(secret) = after.strip_prefix(':').filter(|_| !self.prose) {
                self.keep(1);
                self.mask(
                    secret
                        .find(|c: char| !c.is_ascii_graphic() || "\"'\\,;@/".contains(c))
                        .unwrap_or(secret.len()),
                );
            }
            return;
        }
        if self.prose && !word.is_ascii() && self.said_within(word) {
            return;
        }
        self.keep(length);
        if is_scheme(word) && after.starts_with(' ') {
            self.keep(after.len() - after.trim_start().len());
            let end = self.end_of_word();
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_punctuation();
            let is_word = self.prose && self.rest.bytes().take(end).all(is_letter);
            let is_open = is_word || !self.prose && self.rest.get(..end).is_some_and(is_public);
            return if is_open { self.keep(end) } else { self.mask(end) };
        }
        if self.prose && !word.starts_with('-') && !is_tag(&self.out, word) {
            return self.said(word);
        }
        // Most words are in front of nothing, and no names.
        let announces = word.starts_with('-')
            || after.starts_with(['=', ':', '＝', '：', '"', '\'', '\\', ' ', '\t', '\n', ']', '}', '>']);
        if !announces || !self.is_secret_name(word, after, before) {
            return;
        }
        if let Some(end) = self.end_of_tag(word, after) {
            self.keep(end);
            let end = self.rest.find('<').unwrap_or(self.rest.len());
            return self.mask(end);
        }
        let closing = closing(after);
        let behind = after.get(closing..).unwrap_or_default();
        if let Some(length) = member_value(behind) {
            return self.value(word, closing + length, before);
        }
        let blanks = behind.len() - behind.trim_start().len();
        let next = behind.trim_start();
        if let Some(sign) = sign(next) {
            // `ghcr.io/acme/auth:latest` is an image.
            let is_image = matches!(before, Some('/' | '@')) && !self.is_windows_option(word);
            if !is_image || !sign.starts_with([':', '：']) {
                self.value(word, closing + blanks + sign.len(), before);
            }
            return;
        }
        match next.chars().next() {
            // `setenv('TOKEN', 'abc')`
            Some(',') if self.is_called_with(word, quotes(after)) => {
                let to = behind.find([',']).map_or(0, |at| at + 1);
                let value = behind.get(to..).unwrap_or_default();
                let opening = value.trim_start();
                let blanks = value.len() - opening.len();
                let mark = quotes(opening).max(usize::from(opening.starts_with('`')));
                let is_empty = opening.get(mark..2 * mark).is_some_and(|end| opening.starts_with(end));
                if mark > 0 && !is_empty {
                    self.keep(closing + to + blanks);
                    self.delimited(mark, |this| this.end_of_word());
                }
            }
            // `PASSWORD 'abc'` in SQL.
            Some('"' | '\'') if blanks > 0 && closing == 0 && !self.prose && !word.starts_with('-') => {
                self.keep(blanks);
                self.delimited(1, |this| this.end_of_word());
            }
            // `--token abc` in a shell's line, `"--token", "abc"` in JSON.
            Some(_) if word.starts_with('-') => {
                let separator = behind.find(|c| !matches!(c, ' ' | '\t' | ',')).unwrap_or(0);
                let opening = quotes(behind.get(separator..).unwrap_or_default());
                let value = behind.get(separator + opening..).unwrap_or_default();
                let end = value.find([' ', '\t', '\n', '"', '\'', '\\']).unwrap_or(value.len());
                let value = value.get(..end).unwrap_or_default();
                if separator > 0 && !is_plain_flag(value) && !self.is_harmless(word, value) {
                    self.keep(closing + separator);
                    self.delimited(opening, |this| this.end_of_word());
                }
            }
            _ => {}
        }
    }

    /// Whether a word in front of `after` is the name of a secret: of a parameter, where it stands as one.
    fn is_secret_name(&self, word: &str, after: &str, before: Option<char>) -> bool {
        let in_query = matches!(before, Some('?' | '&')) || before.is_none() && after.contains('&');
        // An option is no word of a sentence.
        let in_sentence = self.prose && !word.starts_with("--") && !is_tag(&self.out, word);
        is_secret_name(word, in_sentence)
            || !self.prose
                && (in_query
                    && after.starts_with('=')
                    && (!self.shell || self.quote.is_some())
                    && is_secret_parameter(word)
                    || word.eq_ignore_ascii_case("by") && ends_with_word(&self.out, "identified by"))
    }

    /// Where the opening tag ends that the word that was kept last is the name of, if its end is there: `<password>abc</password>`.
    fn end_of_tag(&self, word: &str, after: &str) -> Option<usize> {
        let front = self.out.strip_suffix(word)?;
        let tag = front.rsplit_once('<')?.1;
        let end = after.find('>').filter(|end| *end < MAX_TAG_BYTES)? + 1;
        let is_open = !tag.contains([' ', '>', '/'])
            && !after.get(..end)?.contains('<')
            && !after.get(..end)?.ends_with("/>");
        let content = after.get(end..)?;
        let content = content.strip_prefix("<![CDATA[").unwrap_or(content);
        let is_closed =
            content.find('<').is_some_and(|at| content.get(at..).is_some_and(|rest| rest.starts_with("</")))
                || content.contains("]]>");
        (is_open && is_closed).then_some(after.len() - content.len())
    }

    /// Whether the word that was kept last stands in these quotation marks as the first argument of a call.
    pub(super) fn is_called_with(&self, word: &str, marks: usize) -> bool {
        // `setProperty("acme.token", …)`
        let front =
            self.out.strip_suffix(word).map(|front| front.trim_end_matches(|c| is_name(c) || c == '.'));
        let front = front.and_then(|front| front.get(..front.len().checked_sub(marks)?));
        marks > 0 && front.is_some_and(|front| front.ends_with('('))
    }

    /// Whether the word that was kept last is an option as `/password:abc` is.
    fn is_windows_option(&self, word: &str) -> bool {
        let front = self.out.strip_suffix(word).and_then(|front| front.strip_suffix('/'));
        !self.prose && front.is_some_and(|front| front.is_empty() || front.ends_with(' '))
    }

    /// The value behind a separator that ends after `length` bytes; `before` stands in front of the name.
    fn value(&mut self, name: &str, length: usize, before: Option<char>) {
        self.keep(length);
        let blanks = self.rest.len() - self.rest.trim_start().len();
        // `TOKEN= command`: nothing is assigned, as it is in `TOKEN = 'abc'` of other languages.
        let is_spaced = || self.out.strip_suffix('=').is_some_and(|front| front.ends_with(' '));
        let is_line = self.shell && !self.prose && self.quote.is_none();
        if blanks > 0 && is_line && self.before == Some('=') && !is_spaced() {
            return;
        }
        self.keep(blanks);
        // What a command prints: it is masked as other commands are.
        let prints = self.rest.starts_with("$(") && !self.rest.starts_with("$((");
        if self.shell && self.quote != Some('\'') && prints {
            return self.keep(2);
        }
        let opening = quotes(self.rest);
        let value = self.rest.get(opening..).unwrap_or_default();
        let end = value.find([' ', '\t', '\n', '"', '\'', '\\', '&', ';', ',']).unwrap_or(value.len());
        let first = value.get(..end).unwrap_or_default();
        // Masked already, in a line within this one.
        if first == MASK {
            return self.keep(opening + end);
        }
        // `key="TOKEN" value="abc"`: another name.
        if is_member(first, value.get(end..).unwrap_or_default()) {
            return self.keep(opening);
        }
        if self.is_harmless(name, first) {
            return self.keep(opening + end);
        }
        // `"op://Shared Vault/a/b"`, `${{ secrets.NAME }}`
        let whole = self.end_of_whole(opening);
        let is_said = |value: &str| is_public(value) || self.is_printed_elsewhere(value);
        if !self.prose && value.get(..whole).is_some_and(is_said) {
            return self.keep(opening + whole);
        }
        if opening == 0 && self.begins_container() {
            return self.container(name);
        }
        let is_whole = whole == end || self.shell && self.quote.is_none() && self.before == Some('=');
        if !self.prose && is_whole && is_way(name, first) {
            return self.keep(opening + end);
        }
        // `Authorization: Bearer ${TOKEN}`
        if let Some((scheme, token)) = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme)) {
            let end = token.find([' ', '"', '\'', '\\']).unwrap_or(token.len());
            let is_whole = token.get(end..).is_some_and(|rest| !rest.starts_with(' '));
            if !self.prose && is_whole && token.get(..end).is_some_and(is_public) {
                return self.keep(opening + scheme.len() + 1 + end);
            }
        }
        self.delimited(opening, |this| this.end_of_value(before));
    }

    /// Where the value ends that stands behind `opening` bytes of quotation marks, counted from there.
    fn end_of_whole(&self, opening: usize) -> usize {
        let (mark, value) = self.rest.split_at_checked(opening).unwrap_or_default();
        match (opening, self.quote) {
            (0, Some(quote)) => find_mark(value, quote.encode_utf8(&mut [0; 4])),
            (0, None) if self.shell => self.end_of_word(),
            (0, None) => next_line(value).unwrap_or(value.len()),
            _ => find_mark(value, mark),
        }
    }

    /// `"$(pass show db/prod)"`: whether a value is what a command prints that names no secret itself.
    fn is_printed_elsewhere(&self, value: &str) -> bool {
        let command = value.strip_prefix("$(").filter(|rest| !rest.starts_with('('));
        self.shell
            && self.quote != Some('\'')
            && command
                .and_then(|rest| rest.strip_suffix(')'))
                .is_some_and(|command| self.has_no_secret.is_some_and(|has_none| has_none(command)))
    }

    /// Whether the value behind a name of a secret is none; a shell puts another in place of `$NAME`.
    pub(super) fn is_harmless(&self, name: &str, value: &str) -> bool {
        let is_variable = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        !self.prose
            && !value.is_empty()
            && (is_harmless(name, value) || self.shell && value.strip_prefix('$').is_some_and(is_variable))
    }

    /// Masks up to the quotation mark that `opening` bytes of quotation marks begin with, or, without them, to `end`.
    fn delimited(&mut self, opening: usize, end: impl Fn(&Self) -> usize) {
        if opening == 0 || self.shell && self.quote.is_none() {
            return self.mask(end(self));
        }
        let mark = self.rest.get(..opening).unwrap_or_default();
        self.keep(opening);
        let end = find_mark(self.rest, mark);
        self.mask(end);
        self.keep(mark.len().min(self.rest.len()));
    }

    fn end_of_word(&self) -> usize {
        let (mut quote, mut last) = (None, ' ');
        for (at, character) in self.rest.char_indices() {
            let before = std::mem::replace(&mut last, character);
            match character {
                '"' | '\'' if self.quote.is_some() => return at,
                _ if quote == Some(character) => quote = None,
                '"' | '\'' if quote.is_none() => quote = Some(character),
                ' ' | '\t' | '\n' | ';' | '|' | '&' if quote.is_none() => return at,
                ')' if quote.is_none() && self.shell && !self.prose && before != '\\' => return at,
                _ => {}
            }
        }
        self.rest.len()
    }

    fn end_of_value(&self, before: Option<char>) -> usize {
        let to = |ends: &[char]| self.rest.find(ends).unwrap_or(self.rest.len());
        match (before, self.quote) {
            (_, None) if self.shell => {
                let end = self.end_of_word();
                // `Authorization: Bearer abc` is two words.
                let next = self.rest.get(end + 1..).filter(|_| self.rest.get(..end).is_some_and(is_scheme));
                end + next.map_or(0, |next| 1 + next.find([' ', ';', '|', '&']).unwrap_or(next.len()))
            }
            (Some('?' | '&'), _) => to(&['&', '#', ' ', '"', '\'']),
            // Connection strings: `Server=x;Password=y`.
            (Some(';'), _) => {
                let braced = end_of_braces(self.rest);
                let ends = self.rest.get(braced..).unwrap_or_default().find([';', '"', '\'']);
                ends.map_or(self.rest.len(), |end| braced + end)
            }
            (_, quote) => {
                let end = quote
                    .map_or(self.rest.len(), |quote| find_mark(self.rest, quote.encode_utf8(&mut [0; 4])));
                let value = self.rest.get(..end).unwrap_or_default();
                let line = next_line(value).unwrap_or(end);
                next_setting(&self.out, value.get(..line).unwrap_or_default()).unwrap_or(line)
            }
        }
    }
}

/// Whether the word that a text ends with is the name of an element: `<password`.
fn is_tag(text: &str, word: &str) -> bool {
    let tag = text.strip_suffix(word).and_then(|front| front.rsplit_once('<')).map(|(_, tag)| tag);
    tag.is_some_and(|tag| !tag.contains([' ', '>', '/']))
}

/// Longest tag that is looked for, in bytes.
const MAX_TAG_BYTES: usize = 128;
/// How long what closes a name is: quotation marks, and brackets behind them (`environ['NAME']`, `$ENV{NAME}`).
fn closing(after: &str) -> usize {
    let marks = quotes(after);
    let behind = after.get(marks..).unwrap_or_default();
    marks + behind.len() - behind.trim_start_matches([']', '}']).len()
}

fn ends_with_word(text: &str, end: &str) -> bool {
    text.len()
        .checked_sub(end.len())
        .and_then(|at| text.get(at..))
        .is_some_and(|last| last.eq_ignore_ascii_case(end))
}

/// What names are of: letters and digits of any script, `-` and `_`.
fn is_name(character: char) -> bool {
    let is_mark = |c: char| {
        ('\u{2018}'..='\u{201f}').contains(&c)
            || ('\u{3000}'..='\u{3011}').contains(&c)
            || "«»，：；＝？！（）…—–".contains(c)
    };
    character.is_ascii_alphanumeric()
        || matches!(character, '-' | '_')
        || !character.is_ascii() && !character.is_whitespace() && !is_mark(character)
}
