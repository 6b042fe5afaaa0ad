//! Secrets in texts of any kind: what is said of a password (`the password is X`), tables, elements, and command lines among the
//! words. The names and the options are those of command lines.
//!
//! What is said about passwords stays: the value behind a name is none where it is a word of a sentence (`password: see
//! the wiki`, `the token is valid`).

use std::borrow::Cow;
use std::ops::Range;

use super::MASK;
use super::codes::{MIN_CODE, codes};
use super::columns::{is_rule, secret_cells};
use super::commands::masked_options;
use super::copulas::{COPULAS, JOINED_COPULAS, OF, SET, is_own_copula};
use super::marks::{is_member, member_value, quotes};
use super::mask::Masking;
use super::names::{is_secret_name, is_secret_phrase};
use super::pem::private_keys;
use super::said::{is_bare, is_place, is_sentence};
use super::settings;
use super::values::{is_credential, is_harmless, is_scheme};

/// How far behind a name its value may stand, in words: `the password to the database is X`.
const MAX_WORDS_BETWEEN: usize = 8;
/// Longest value in quotation marks, in bytes; and longest gap in parentheses.
const MAX_QUOTED: usize = 256;
const MAX_PARENTHESIS: usize = 48;
/// Shortest row of dots between a name and its value, in bytes.
const MIN_LEADERS: usize = 3;
/// Most words of a mnemonic (BIP-39), and of a passphrase.
const MAX_MNEMONIC: usize = 24;
const MAX_PASSPHRASE: usize = 8;

/// What closes a name: quotation marks, brackets, and the marks of Markdown.
const CLOSING: [char; 13] = ['"', '\'', '`', '*', '\\', ')', ']', '}', '”', '’', '»', '」', '』'];
/// What a value ends with that is of the sentence.
const ENDING: [char; 20] =
    ['.', ',', ';', ':', '!', '?', ')', ']', '}', '*', '\'', '`', '"', '\\', '”', '’', '»', '」', '。', '，'];
/// Settings whose value stands behind them with nothing in between: redis.conf, ldap.conf(5), slapd.conf(5).
const DIRECTIVES: [&str; 4] = ["requirepass", "masterauth", "bindpw", "rootpw"];
/// These bytes of a text for an event, with what looks like a secret replaced by `***`, as in command lines; the text around them says what
/// it is. With `random` false but for words that only look random, which in a definition may be what is to be
/// seen.
pub(crate) fn redact_prose(text: &str, shown: Range<usize>, random: bool) -> String {
    let keys = private_keys(text).into_iter().map(|range| (range, MASK.to_owned())).collect();
    let (text, shown) = edited(text, shown, keys);
    let (text, shown) = edited(&text, shown, masked_options(&text));
    let cells = secret_cells(&text).into_iter().map(|range| (range, MASK.to_owned())).collect();
    let (text, shown) = edited(&text, shown, cells);
    Masking::prose(&text, shown, random).run()
}

/// A text with other words in place of some, and where what stood at `shown` stands then: with what is replaced around its ends.
fn edited(
    text: &str,
    shown: Range<usize>,
    edits: Vec<(Range<usize>, String)>,
) -> (Cow<'_, str>, Range<usize>) {
    if edits.is_empty() {
        return (text.into(), shown);
    }
    let (mut out, mut copied, mut moved) = (String::with_capacity(text.len()), 0, shown.clone());
    for (range, instead) in edits {
        out.push_str(text.get(copied..range.start).unwrap_or_default());
        let within = |at: usize| range.start < at && range.end > at;
        if within(shown.start) {
            moved.start = out.len();
        }
        out.push_str(&instead);
        if within(shown.end) {
            moved.end = out.len();
        }
        if range.end <= shown.start {
            moved.start = out.len() + (shown.start - range.end);
        }
        if range.end <= shown.end {
            moved.end = out.len() + (shown.end - range.end);
        }
        copied = range.end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    (out.into(), moved)
}

/// How a value is introduced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// `password: X`, `password = X`.
    Sign,
    /// `the password is X`, `password — X`.
    Word,
    /// `| password | X |`: up to this.
    Cell(char),
    /// `password X`.
    Nothing,
}

impl Masking<'_> {
    /// Masks the value of the name that was kept last, if it is one of a secret, and one is there.
    pub(super) fn said(&mut self, name: &str) {
        let Some((length, by)) = self.introduced(name) else { return };
        let Some((opening, value)) = value(self.rest.get(length..).unwrap_or_default(), by, name) else {
            return;
        };
        let text = self.rest.get(length + opening..length + opening + value).unwrap_or_default();
        let is_secret = match by {
            // An object has names of its own, and a command is masked as others are.
            By::Sign => {
                opening > 0
                    || !text.starts_with(['{', '('])
                        && text != "$"
                        && !text.starts_with("$(")
                        && !is_sentence(text, false)
            }
            // Headings have no values beside them.
            By::Cell(_) => {
                let behind = self.rest.get(length..).unwrap_or_default();
                !is_sentence(text, false) && !behind.split('\n').nth(1).is_some_and(is_rule)
            }
            By::Word => opening > 0 || !is_sentence(text, true) && !is_place(text),
            By::Nothing if opening > 0 => !is_sentence(text, true) && !name.eq_ignore_ascii_case("key"),
            By::Nothing => {
                let is_setting =
                    DIRECTIVES.iter().any(|one| name.eq_ignore_ascii_case(one)) || self.is_netrc();
                is_bare(text) || is_setting && self.rest.starts_with([' ', '\n'])
            }
        };
        // `key="TOKEN" value="X"`: the name itself.
        let is_name = self.rest.get(length + opening + value..).is_some_and(|rest| is_member(text, rest));
        if value == 0 || !is_secret || is_name || is_harmless(name, text) || !self.is_named(name) {
            return;
        }
        self.keep(length + opening);
        let value = self.whole(name, value);
        self.mask(value);
    }

    /// `machine HOST login USER password`: netrc(5).
    fn is_netrc(&self) -> bool {
        let mut words = self.out.split_whitespace().rev();
        words.next() == Some("password") && words.nth(1) == Some("login")
    }

    /// `密码是X`, `パスワードはX`: masks the value that stands in the word that `rest` begins with.
    pub(super) fn said_within(&mut self, word: &str) -> bool {
        let names = word.char_indices().filter(|(_, c)| JOINED_COPULAS.contains(c));
        let named = names.map(|(at, c)| (at, at + c.len_utf8()));
        let Some((name, length)) = named
            .map(|(at, end)| (word.get(..at).unwrap_or_default(), end))
            .find(|(name, _)| is_secret_name(name, false))
        else {
            return false;
        };
        let behind = self.rest.get(length..).unwrap_or_default();
        let length = length + behind.len() - behind.trim_start_matches(' ').len();
        let Some((opening, value)) = value(behind.trim_start_matches(' '), By::Word, name) else {
            return false;
        };
        let is_there = self.rest.get(length + opening..).is_some_and(|rest| {
            opening > 0 || rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c.is_ascii_punctuation())
        });
        if value > 0 && is_there {
            self.keep(length + opening);
            self.mask(value);
        }
        value > 0 && is_there
    }

    /// Whether the word that was kept last names a secret, by itself or with those before it: `mot de passe`, not `sort key`.
    fn is_named(&self, word: &str) -> bool {
        let front = self.out.strip_suffix(word).unwrap_or_default();
        let front = front.get(front.floor_char_boundary(front.len().saturating_sub(MAX_PARENTHESIS))..);
        let front = front.unwrap_or_default().rsplit(['\n', '.', '!', '?', ';', ':', ',', '|', '"']).next();
        let mut before = front.unwrap_or_default().split_whitespace().rev();
        let phrases: Vec<String> = match (before.next(), before.next()) {
            (Some(last), Some(first)) => vec![format!("{last} {word}"), format!("{first} {last} {word}")],
            (Some(last), None) => vec![format!("{last} {word}")],
            _ => Vec::new(),
        };
        if is_secret_name(word, false) {
            // Keys that are none.
            let is_key = word.to_lowercase().ends_with("key");
            return !is_key || phrases.first().is_none_or(|phrase| is_secret_name(phrase, false));
        }
        let is_sql = word.eq_ignore_ascii_case("by")
            && phrases.first().is_some_and(|phrase| phrase.eq_ignore_ascii_case("identified by"));
        is_sql || phrases.iter().any(|phrase| is_secret_phrase(phrase))
    }

    /// How far it is from here to where a value may begin, and by what that is introduced.
    fn introduced(&self, name: &str) -> Option<(usize, By)> {
        let rest = self.rest;
        let closing = rest.len() - rest.trim_start_matches(CLOSING).len();
        let after = rest.get(closing..)?;
        let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\u{a0}']).len();
        // `<td>password</td><td>X</td>`
        if let Some(tag) =
            after.strip_prefix("</").and_then(|tag| tag.split_once('>')).map(|(_, next)| next.trim_start())
            && tag.starts_with('<')
            && !tag.starts_with("</")
            && let Some(end) = tag.find('>').filter(|end| *end < MAX_PARENTHESIS)
        {
            return Some((rest.len() - tag.len() + end + 1, By::Cell('<')));
        }
        if let Some(length) = member_value(after) {
            return Some((closing + length + blanks(after.get(length..)?), By::Sign));
        }
        let mut at = closing + blanks(after);
        let mut next = rest.get(at..)?;
        if let Some(argument) = next.strip_prefix(',').map(str::trim_start)
            && self.is_called_with(name, quotes(rest))
        {
            return argument
                .starts_with(['"', '\'', '`', '\\'])
                .then(|| (rest.len() - argument.len(), By::Sign));
        }
        if next.starts_with('\t') {
            return Some((at + 1, By::Cell('\t')));
        }
        // A pipe of a shell is none.
        let line = self.out.rsplit('\n').next().unwrap_or_default().trim_start();
        let of_line = next.split('\n').next().unwrap_or_default();
        if next.starts_with('|')
            && settings::sign(next).is_none()
            && (line.starts_with('|') || of_line.matches('|').count() > 1)
        {
            return Some((at + 1, By::Cell('|')));
        }
        if next.starts_with(['(', '（'])
            && let Some(end) = next.find([')', '）']).filter(|end| *end < MAX_PARENTHESIS)
        {
            at += end + next.get(end..)?.chars().next()?.len_utf8();
            at += blanks(rest.get(at..)?);
            next = rest.get(at..)?;
        }
        // `password ...... X`
        let leaders = next.len() - next.trim_start_matches(['.', '…', '·']).len();
        if leaders >= MIN_LEADERS {
            at += leaders + blanks(rest.get(at + leaders..)?);
            next = rest.get(at..)?;
            return Some(sign(next).map_or((at, By::Word), |(length, by)| (at + length, by)));
        }
        if let Some((length, by)) = sign(next) {
            return Some((at + length, by));
        }
        // `the password's value is X`
        if let Some(behind) = ["'s ", "’s "].iter().find_map(|end| rest.strip_prefix(end))
            && ["value ", "content ", "text "].iter().any(|word| behind.starts_with(word))
        {
            return self.told(name, rest.len() - behind.len(), true);
        }
        if at == 0 || closing > 0 && at == closing {
            return None;
        }
        self.told(name, at, false).or(Some((at, By::Nothing)))
    }

    /// The same, of words: ` is `, ` to the database is `, ` was changed to `.
    fn told(&self, of: &str, from: usize, mut is_of: bool) -> Option<(usize, By)> {
        let line = self.rest.get(from..)?.split('\n').next()?;
        let mut at = 0;
        let mut is_said = false;
        for (number, part) in line.split_inclusive([' ', '\u{a0}']).take(MAX_WORDS_BETWEEN + 4).enumerate() {
            let word = part.trim_end();
            let is = |list: &[&str]| list.iter().any(|one| word.eq_ignore_ascii_case(one));
            let name = word.trim_end_matches([':', '=', '：']);
            match () {
                _ if is_said && (is(&SET) || word == ":") => {}
                _ if is_said => return Some((from + at, By::Word)),
                _ if COPULAS.iter().any(|one| name.eq_ignore_ascii_case(one)) => is_said = true,
                _ if number == 0 && is(&["to"]) && self.is_change() => is_said = true,
                _ if number == 0 && is_own_copula(of, word) => is_said = true,
                _ if number == 0 && is(&OF) => is_of = true,
                _ if number == 0 && (is(&["changed", "set", "reset"]) || line.starts_with("has been ")) => {
                    is_said = true
                }
                _ if !is_of => return None,
                // `password for the database: X`
                _ if name.len() < word.len() => return Some((from + at + part.len(), By::Word)),
                _ if word.ends_with(['.', '!', '?', ';', ',']) => return None,
                _ => {}
            }
            at += part.len();
        }
        // `Your password is:`, and the next line.
        let next = self.rest.get(from + at..)?.trim_start();
        let is_announced = at < line.len() || line.trim_end().ends_with(':');
        (is_said && is_announced && !next.is_empty()).then_some((self.rest.len() - next.len(), By::Word))
    }

    /// Whether the words before the last one say that something is set: `set the password`.
    fn is_change(&self) -> bool {
        const CHANGES: [&str; 8] =
            ["set", "sets", "change", "changed", "reset", "update", "updated", "setting"];
        let last = self.out.rsplit(['.', '\n']).next().unwrap_or_default().split_whitespace().rev();
        last.skip(1).take(3).any(|word| CHANGES.iter().any(|change| word.eq_ignore_ascii_case(change)))
    }

    /// How long the value is that `rest` begins with, `first` of which is its first word: headers and phrases have several.
    fn whole(&self, name: &str, first: usize) -> usize {
        let text = |end: usize| self.rest.get(..end).unwrap_or_default();
        let next = |end: usize| {
            let blank = self.rest.get(end..).filter(|rest| rest.starts_with(' '))?;
            let (opening, value) = value(blank.get(1..)?, By::Sign, name)?;
            (value > 0).then_some(end + 1 + opening + value)
        };
        let name = name.to_lowercase();
        let mut end = first;
        if name.ends_with("codes") {
            // The first may stand behind its number.
            let behind = self.rest.get(first..).unwrap_or_default();
            let mark = usize::from(first < MIN_CODE && behind.starts_with(['.', ')']));
            return first + mark + codes(behind.get(mark..).unwrap_or_default());
        }
        // `482 913`
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_of_groups =
            ["code", "otp", "pin"].iter().any(|kind| name.ends_with(kind)) && is_number(text(end));
        while is_of_groups
            && let Some(to) = next(end).filter(|to| self.rest.get(end + 1..*to).is_some_and(is_number))
        {
            end = to;
        }
        // `Authorization: Bearer abc`, `Authorization: Digest a="b", c="d"`, `Cookie: a=b; c=d`
        let is_scheme = is_scheme(text(end)) || name.contains("auth") && is_credential(text(end));
        let behind = |from: usize| self.rest.get(from..).and_then(member).map(|length| from + length);
        if is_scheme && self.rest.get(end..).is_some_and(|rest| rest.starts_with(' ')) {
            end = behind(end + 1).or_else(|| next(end)).unwrap_or(end);
        }
        let separator = if name.contains("cookie") { "; " } else { ", " };
        while (is_scheme || name.contains("cookie"))
            && self.rest.get(end..).is_some_and(|rest| rest.starts_with(separator))
            && let Some(to) = behind(end + separator.len())
        {
            end = to;
        }
        let is_lower = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
        let most = match () {
            _ if !is_lower(text(end)) => 0,
            _ if ["mnemonic", "seed", "phrase"].contains(&name.as_str()) => MAX_MNEMONIC,
            _ if name.ends_with("passphrase") => MAX_PASSPHRASE,
            _ => 0,
        };
        for _ in 1..most {
            let Some(to) = next(end) else { break };
            let word = self.rest.get(end + 1..to).unwrap_or_default();
            let is_end =
                self.rest.get(end..end + 1) != Some(" ") || most != MAX_MNEMONIC && is_sentence(word, false);
            if !is_lower(word) || is_end {
                break;
            }
            end = to;
        }
        end
    }
}

/// How long the member of a header is that a text begins with: `a=b`, `a="b c"`.
fn member(text: &str) -> Option<usize> {
    let sign = text.find(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c)).filter(|at| *at > 0)?;
    let value =
        text.get(sign..)?.strip_prefix('=').filter(|value| !value.is_empty() && !value.starts_with('='))?;
    let length = match value.strip_prefix('"') {
        Some(quoted) => quoted.find('"')? + 2,
        None => value.find([' ', ',', ';', '\n', '"']).unwrap_or(value.len()),
    };
    Some(sign + 1 + length)
}

/// A sign between a name and its value, with the blanks behind it: its length.
fn sign(text: &str) -> Option<(usize, By)> {
    let (signs, by) = match text.chars().next()? {
        _ if let Some(sign) = settings::sign(text) => (text.get(sign.len()..)?, By::Sign),
        '→' | '⇒' | '—' | '–' => (text.trim_start_matches(['→', '⇒', '—', '–']), By::Word),
        '-' => (text.strip_prefix("->").or_else(|| text.strip_prefix("- "))?, By::Word),
        _ => return None,
    };
    // `**Password:** X`
    let marked = signs.trim_start_matches('*');
    let behind = if marked.starts_with(char::is_whitespace) { marked } else { signs };
    let value = behind.trim_start();
    // A block of YAML: `password: |`, and the next line.
    let line = value.split('\n').next()?;
    let is_block = ["|", ">", "|-", ">-", "|+", ">+"].contains(&line.trim_end());
    let value = if is_block { value.get(line.len()..)?.trim_start() } else { value };
    Some((text.len() - value.len(), by))
}

/// A value that a text begins with: how long what opens it is, and how long it is itself.
fn value(text: &str, by: By, name: &str) -> Option<(usize, usize)> {
    if let By::Cell(end) = by {
        let cell = text.split([end, '\n']).next()?;
        let opening = cell.len() - cell.trim_start_matches([' ', '`', '*', '"']).len();
        let value = cell.trim_matches([' ', '`', '*', '"', '\r']);
        let is_rule = value.chars().all(|c| matches!(c, '-' | ':' | '='));
        return (!is_rule).then_some((opening, value.len()));
    }
    let marks = text.len() - text.trim_start_matches(['*', '\\']).len();
    let rest = text.get(marks..)?;
    let mark = rest.chars().next()?;
    // A list of secrets.
    if mark == '['
        && let Some(end) = rest.find(']').filter(|end| *end < MAX_QUOTED)
    {
        return Some((marks, end + 1));
    }
    // Of several lines: TOML, Python.
    if let Some(mark) = ["\"\"\"", "'''"].into_iter().find(|mark| rest.starts_with(mark)) {
        let inside = rest.get(mark.len()..)?;
        let end = inside.find(mark).filter(|end| *end < MAX_QUOTED)?;
        let blanks = inside.len() - inside.trim_start().len();
        return Some((
            marks + mark.len() + blanks,
            inside.get(..end)?.trim_end().len().saturating_sub(blanks),
        ));
    }
    let close = match mark {
        '"' | '\'' | '`' => Some(mark),
        '“' | '„' | '”' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        '「' => Some('」'),
        '『' => Some('』'),
        _ => None,
    };
    let quoted = rest.get(mark.len_utf8()..)?;
    if let Some(close) = close {
        let escape = if text.starts_with('\\') { text.get(..marks)? } else { "" };
        let is_end = |at: &usize| {
            let front = quoted.get(..*at).unwrap_or_default();
            *at < MAX_QUOTED
                && !front.contains('\n')
                && if escape.is_empty() { !front.ends_with('\\') } else { front.ends_with(escape) }
        };
        let mut ends = quoted.match_indices([close, mark]).map(|(at, _)| at);
        let end = ends.find(is_end).map(|end| end - escape.len());
        // `"abc` without its end is as long as its line has no blank.
        let end = end.unwrap_or_else(|| quoted.find(char::is_whitespace).unwrap_or(quoted.len()));
        let is_phrase = by == By::Nothing && quoted.get(..end)?.contains(' ');
        return (!is_phrase).then_some((marks + mark.len_utf8(), end));
    }
    let is_wide = |c: char| c >= '\u{2e80}';
    let is_latin = rest.starts_with(|c: char| c.is_ascii()) && name.contains(is_wide);
    let is_end = |(at, c): (usize, char)| {
        let next = rest.get(at + c.len_utf8()..).unwrap_or_default();
        let is_pair = || {
            let end = next.find(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c));
            end.is_some_and(|end| end > 0 && next.get(end..).is_some_and(|rest| rest.starts_with(['=', ':'])))
        };
        match c {
            '"' | '<' | '>' | '|' | '`' | '。' | '，' | '、' | '！' | '」' | '；' => true,
            '}' if rest.get(..at).is_some_and(|front| front.contains('{')) => false,
            ';' | '&' | ',' | '}' | ')' => {
                next.is_empty()
                    || next.starts_with(char::is_whitespace)
                    || next.starts_with(['"', '\'', '}', ',', ')'])
                    || is_pair()
            }
            _ => c.is_whitespace() || is_latin && is_wide(c),
        }
    };
    let end = rest.char_indices().find(|part| is_end(*part)).map_or(rest.len(), |(at, _)| at);
    let mut value = rest.get(..end)?;
    while let Some(front) = value.strip_suffix(ENDING) {
        // `${NAME}`
        let last = value.get(front.len()..)?;
        if [("}", '{'), (")", '('), ("]", '[')]
            .iter()
            .any(|(close, open)| last == *close && front.contains(*open))
        {
            break;
        }
        value = front;
    }
    Some((marks, value.len()))
}
