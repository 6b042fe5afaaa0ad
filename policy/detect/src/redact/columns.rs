//! Tables with a column of secrets: `user | password`, and a line for each user.

use std::ops::Range;

use super::names::{is_secret_name, is_secret_phrase};

/// What stands between the cells of a line.
const SEPARATORS: [char; 3] = ['|', '\t', ','];
/// Longest heading of a column, in bytes and in words.
const MAX_HEADING: usize = 32;
const MAX_WORDS: usize = 3;

/// Where the cells of a text's tables are whose heading is the name of a secret.
pub(super) fn secret_cells(text: &str) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        lines.push((start, line));
        start += line.len();
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, (_, heading)) in lines.iter().enumerate() {
        for separator in SEPARATORS {
            let headings = cells(heading, separator);
            let rest = lines.get(at + 1..).unwrap_or_default();
            let Some((_, next)) = rest.first() else { break };
            if headings.len() < 2 || !headings.iter().all(|(_, cell)| is_heading(cell, separator)) {
                continue;
            }
            let has_rule = is_rule(next);
            let secrets: Vec<usize> = (0..headings.len())
                .filter(|column| {
                    headings.get(*column).is_some_and(|(_, cell)| is_name(cell))
                        // `password | X` is a line of its own.
                        && (has_rule || headings.len() > 2 || *column > 0)
                })
                .collect();
            if secrets.is_empty() {
                continue;
            }
            for (start, line) in rest.iter().skip(usize::from(has_rule)) {
                let cells = cells(line, separator);
                // `user | lena | password | X`, line by line: no headings.
                let is_name = |column: &usize| cells.get(*column).is_some_and(|(_, cell)| is_name(cell));
                if cells.len() != headings.len() || secrets.iter().any(is_name) {
                    break;
                }
                let of_line = secrets.iter().filter_map(|column| cells.get(*column));
                let values = of_line.filter(|(_, cell)| !cell.is_empty());
                found.extend(values.map(|(from, cell)| start + from..start + from + cell.len()));
            }
        }
    }
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by(|next, before| next.start < before.end);
    found
}

/// The cells of a line, each with where it begins, without blanks and marks around it.
fn cells(line: &str, separator: char) -> Vec<(usize, &str)> {
    let is_outer = |c: char| c.is_whitespace() || c == '|';
    let inner = line.trim_end();
    let inner = if separator == '|' { inner.trim_matches(is_outer) } else { inner };
    let mut at = line.find(inner).unwrap_or(0);
    let mut cells = Vec::new();
    for part in inner.split(separator) {
        let cell = part.trim_matches([' ', '*', '`', '"']);
        cells.push((at + part.find(cell).unwrap_or(0), cell));
        at += part.len() + separator.len_utf8();
    }
    cells
}

/// `|---|:--|`: the line between headings and cells.
pub(super) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.contains("--") && line.chars().all(|c| "|-:+= ".contains(c))
}

/// Whether a heading is the name of a secret, and not of what is said of one: `password`, not `password policy`.
fn is_name(heading: &str) -> bool {
    let last = heading.split_whitespace().last().unwrap_or_default();
    is_secret_name(last, false) && is_secret_name(heading, false) || is_secret_phrase(heading)
}

fn is_heading(cell: &str, separator: char) -> bool {
    let most = if separator == ',' { 1 } else { MAX_WORDS };
    cell.len() <= MAX_HEADING && cell.split_whitespace().count() <= most && !cell.contains([':', '=', '.'])
}
