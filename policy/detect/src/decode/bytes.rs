//! Runs of characters that stand for bytes, and the bytes as text.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use mcpwarden_terms::Form;

use super::super::finder::{is_word, position};

/// Shortest run of base64 or hexadecimal digits that is tried. Bytes.
pub(super) const MIN_RUN: usize = 24;
/// How far from each other the places are at which it is looked for, and how many bytes there: every such run has one
/// of those places in it, with as many bytes behind it. Bytes.
const RUN_STEP: usize = 8;
const RUN_WINDOW: usize = MIN_RUN - RUN_STEP;
/// Most bytes of one run that are decoded at once, and of a longer one in each of a few places. A multiple of four.
pub(super) const MAX_RUN: usize = 64 << 10;
/// Fewest bytes that are spelt out in digits which are set apart. As text they are twice a window long, and one.
const MIN_SET_APART: usize = 11;
/// How far from each other the places are at which those are looked for, and how many bytes there. Bytes.
const APART_WINDOW: usize = 16;
/// Fewest digits in such a window. Indentation has none.
const APART_DIGITS: u8 = 4;
/// Most digits that stand together there, and most that is between them. Bytes.
const MAX_GROUP: usize = 8;
const MAX_SEPARATOR: usize = 6;
/// Letters of other scripts that are prose without any blank.
const FOREIGN_LETTERS: usize = 4;

/// Runs of [`MIN_RUN`] or more base64 digits (which the hexadecimal ones are among).
pub(super) fn tokens(text: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    // Of a `matches!` the compiler makes a table, and no instructions on sixteen bytes.
    let digit = |&byte: &u8| is_word(byte) | (byte == b'+') | (byte == b'/') | (byte == b'-');
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(window) = text[at.min(text.len())..].first_chunk::<RUN_WINDOW>() {
            // A loop over an array that the compiler makes instructions on sixteen bytes of.
            if !window.iter().fold(true, |all, byte| all & digit(byte)) {
                at += RUN_STEP;
                continue;
            }
            let before = text[..at].iter().rev().take_while(|byte| digit(byte)).count();
            let after = position(&text[at..], |byte| !digit(&byte)).unwrap_or(text.len() - at);
            let range = at - before..at + after;
            at = range.end;
            if range.len() >= MIN_RUN {
                return Some(range);
            }
        }
        None
    })
}

/// Bytes in hexadecimal digits with something between them: `69 67`, `69:67`, `6967-6e6f`, `0x69, 0x67`, `\x69\x67`.
pub(super) fn set_apart(text: &[u8]) -> impl Iterator<Item = (Range<usize>, Vec<u8>)> + '_ {
    // Digits, what stands between them, and the letter of a prefix. As in `tokens`, these are loops on sixteen bytes.
    let part = |byte: &u8| is_hex(byte) | between(byte);
    let mut at = 0;
    let mut found = Vec::new().into_iter();
    std::iter::from_fn(move || {
        loop {
            if let Some(run) = found.next() {
                return Some(run);
            }
            let window = text[at.min(text.len())..].first_chunk::<APART_WINDOW>()?;
            let all = window.iter().fold(true, |all, byte| all & part(byte));
            let digits: u8 = window.iter().map(|byte| u8::from(is_hex(byte))).sum();
            if !all || digits < APART_DIGITS {
                at += APART_WINDOW;
                continue;
            }
            let before = text[..at].iter().rev().take(APART_WINDOW).take_while(|byte| part(byte)).count();
            let after = text[at..].iter().take(MAX_RUN).take_while(|byte| part(byte)).count();
            let range = at - before..at + after;
            at = range.end.next_multiple_of(APART_WINDOW);
            found = groups(text, range).into_iter();
        }
    })
}

fn is_hex(byte: &u8) -> bool {
    let letter = byte | 0x20;
    byte.is_ascii_digit() | (b'a'..=b'f').contains(&letter)
}

/// Whether a byte may stand between two groups of digits.
fn between(byte: &u8) -> bool {
    let sign = (*byte == b',') | (*byte == b':') | (*byte == b';') | (*byte == b'-') | (*byte == b'|');
    let quote = (*byte == b'"') | (*byte == b'\'') | (*byte == b'\\') | (*byte == b'x');
    byte.is_ascii_whitespace() | sign | quote
}

/// The bytes that groups of digits in this part of a text spell, where there are enough without anything else between.
fn groups(text: &[u8], range: Range<usize>) -> Vec<(Range<usize>, Vec<u8>)> {
    let (mut runs, mut run, mut bytes) = (Vec::new(), range.start..range.start, Vec::new());
    let mut at = range.start;
    while at < range.end {
        // The zero of `0x` is none of the digits.
        let prefix = text[at..range.end].starts_with(b"0x") || text[at..range.end].starts_with(b"0X");
        if prefix || !is_hex(&text[at]) {
            at += if prefix { 2 } else { 1 };
            continue;
        }
        let length = text[at..range.end].iter().take_while(|byte| is_hex(byte)).count();
        // A group is a whole word, unless its prefix is before it.
        let is_whole = !text[..at].last().is_some_and(|byte| is_word(*byte) && *byte != b'x')
            && !text.get(at + length).is_some_and(|byte| is_word(*byte));
        let group = text.get(at..at + length).and_then(|digits| std::str::from_utf8(digits).ok());
        let group = group.filter(|_| is_whole && length.is_multiple_of(2) && length <= MAX_GROUP);
        if group.is_none() || at > run.end + MAX_SEPARATOR {
            keep(&mut runs, run.clone(), &mut bytes);
        }
        if bytes.is_empty() {
            run = at..at;
        }
        if let Some(more) = group.and_then(from_hex) {
            bytes.extend(more);
            run.end = at + length;
        }
        at += length;
    }
    keep(&mut runs, run, &mut bytes);
    runs
}

fn keep(runs: &mut Vec<(Range<usize>, Vec<u8>)>, run: Range<usize>, bytes: &mut Vec<u8>) {
    if bytes.len() >= MIN_SET_APART {
        runs.push((run, std::mem::take(bytes)));
    }
    bytes.clear();
}

/// What is prose among bytes that may as well be numbers: most of it letters.
pub(super) fn spelt_out(bytes: &[u8]) -> Option<String> {
    let text = utf16(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    let is_other = |c: char| c.is_control() && !c.is_ascii_whitespace() || c == char::REPLACEMENT_CHARACTER;
    let is_wordy = |piece: &&str| {
        let letters = piece.chars().filter(|c| c.is_alphabetic()).count();
        4 * letters >= 3 * piece.chars().count() && is_prose(piece)
    };
    let pieces: Vec<&str> = text.split(is_other).filter(is_wordy).collect();
    (!pieces.is_empty()).then(|| pieces.join(" "))
}

fn from_hex(run: &str) -> Option<Vec<u8>> {
    (0..run.len()).step_by(2).map(|at| u8::from_str_radix(run.get(at..at + 2)?, 16).ok()).collect()
}

fn from_base64(run: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    static STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    static URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
    let engine = if run.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    // A single digit too many is no byte.
    let run = if run.len() % 4 == 1 { run.get(..run.len() - 1)? } else { run };
    // Data shows in its first bytes that it is no text.
    let mut head = [0; MIN_RUN];
    let length = engine.decode_slice(run.get(..MIN_RUN)?, &mut head).ok()?;
    let head = &head[..length];
    if utf16(head).is_none() && head.iter().any(|byte| *byte < 0x20 && !byte.is_ascii_whitespace()) {
        return None;
    }
    engine.decode(run).ok()
}

/// Whether what stands where a file in base64 does may be read as text: because it is none, or the file's first bytes are text.
pub(crate) fn may_be_text(run: &str) -> bool {
    let digits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let is_base64 = run.bytes().all(|byte| digits(byte) || byte.is_ascii_whitespace());
    // Data shows in its first bytes that it is no text.
    let head: String = run.chars().filter(|c| !c.is_ascii_whitespace() && *c != '=').take(MIN_RUN).collect();
    !is_base64 || head.len() < MIN_RUN || from_base64(&head).is_some()
}

/// What a run of digits stands for, and what they are.
pub(super) fn decoded(run: &str) -> (Option<Vec<u8>>, Form) {
    if run.len().is_multiple_of(2) && run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        (from_hex(run), Form::Hex)
    } else {
        (from_base64(run), Form::Base64)
    }
}

/// The bytes as text, if they are one: valid, printable, and with white space as prose has it; or if they are digits that
/// stand for one.
pub(super) fn prose(bytes: Vec<u8>) -> Option<String> {
    let text = readable(bytes)?;
    if is_prose(&text) {
        return Some(text);
    }
    let run = text.trim().trim_end_matches('=');
    let whole = tokens(run.as_bytes()).next().is_some_and(|range| range == (0..run.len()));
    let inner = whole.then(|| decoded(run).0).flatten();
    inner.and_then(readable).filter(|text| is_prose(text))
}

fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = utf16(&bytes).or_else(|| String::from_utf8(bytes).ok())?;
    text.chars().all(|c| !c.is_control() || c.is_ascii_whitespace()).then_some(text)
}

fn is_prose(text: &str) -> bool {
    let foreign = |c: &char| !c.is_ascii() && c.is_alphabetic();
    text.split_ascii_whitespace().nth(1).is_some()
        || text.chars().filter(foreign).nth(FOREIGN_LETTERS - 1).is_some()
}

/// The text that these bytes are as UTF-16, if they begin with its mark or with Latin letters in it.
fn utf16(bytes: &[u8]) -> Option<String> {
    let begins_with_zeros_at = |place: usize| {
        let head = &bytes[..bytes.len().min(16)];
        let zeros = head.iter().skip(place).step_by(2).filter(|byte| **byte == 0).count();
        // A blank or a letter in eight may be of another script.
        head.len() >= 8 && zeros + 1 >= head.len() / 2
    };
    let big = match bytes {
        [0xff, 0xfe, ..] => false,
        [0xfe, 0xff, ..] => true,
        _ if begins_with_zeros_at(1) => false,
        _ if begins_with_zeros_at(0) => true,
        _ => return None,
    };
    let (pairs, _) = bytes.as_chunks();
    let unit = |pair: &[u8; 2]| if big { u16::from_be_bytes(*pair) } else { u16::from_le_bytes(*pair) };
    let text = String::from_utf16(&pairs.iter().map(unit).collect::<Vec<u16>>()).ok()?;
    Some(text.trim_start_matches('\u{feff}').to_owned())
}
