//! Command lines among the words of a text.

use std::ops::Range;

use super::options::{Verdict, is_program, judge};
use super::said::is_sentence;
use super::shell;

/// Longest word in quotation marks, in bytes.
const MAX_QUOTED: usize = 256;

/// What stands in place of secrets behind options of known programs, line by line: `curl -u me:SECRET`.
pub(super) fn masked_options(text: &str) -> Vec<(Range<usize>, String)> {
    let mut edits = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let words = words(line);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        if texts.iter().any(|word| word.starts_with('-') || is_program(word)) {
            let mut before = "";
            for (word, verdict) in words.iter().zip(judge(&texts)) {
                // Programs have names that are words of sentences, too.
                let is_said = !before.starts_with('-') && is_sentence(&word.text, true);
                if let Verdict::Masked(masked) = verdict
                    && !is_said
                {
                    edits.push((start + word.range.start..start + word.range.end, masked));
                }
                before = &word.text;
            }
        }
        start += line.len();
    }
    edits
}

/// The words of a line of prose, without marks around them. An apostrophe begins no quotation.
fn words(line: &str) -> Vec<shell::Word> {
    let is_mark = |c: char| "\"'`*()[]{}<>“”‘’„«»".contains(c);
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(begin) = line.get(at..).and_then(|rest| rest.find(|c: char| !c.is_whitespace())) {
        let begin = at + begin;
        let rest = line.get(begin..).unwrap_or_default();
        let mut end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        // `-p'a b'`, `--user "me:a b"`
        let quote = word.find(['"', '\'']).filter(|at| *at == 0 || word.starts_with('-'));
        if let Some(open) = quote
            && let Some(mark) = word.get(open..).and_then(|rest| rest.chars().next())
            && let Some(close) =
                rest.get(open + 1..).and_then(|rest| rest.find(mark)).filter(|at| *at < MAX_QUOTED)
        {
            end = end.max(open + 1 + close + 1);
        }
        let whole = rest.get(..end).unwrap_or_default();
        let front = whole.len() - whole.trim_start_matches(is_mark).len();
        let text =
            whole.trim_matches(is_mark).trim_end_matches(['.', ',', ';', '!', '?', '|', ')', '"', '\'', '`']);
        let range = begin + front..begin + front + text.len();
        let text: String =
            text.chars().filter(|c| !text.starts_with('-') || !matches!(c, '"' | '\'')).collect();
        if !text.is_empty() {
            words.push(shell::Word { range, text });
        }
        at = begin + end;
    }
    words
}
