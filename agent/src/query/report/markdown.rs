//! A report in Markdown, with the tables of GitHub's.

use std::fmt::Write as _;

use super::document::{Cell, Document};
use crate::output::escaped;

/// Writes it.
pub fn write(document: &Document) -> String {
    let mut out = format!("# {}\n\n", literal(&document.title));
    table(&mut out, &["", ""], document.facts.iter().map(|(name, value)| vec![literal(name), cell(value)]));
    for section in &document.sections {
        let _ = write!(out, "\n## {}\n\n", literal(section.title));
        if section.rows.is_empty() {
            let _ = writeln!(out, "{}", literal(section.nothing));
            continue;
        }
        table(&mut out, section.header, section.rows.iter().map(|row| row.iter().map(cell).collect()));
        if section.more > 0 {
            let _ = write!(out, "\nand {} more\n", section.more);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn table(out: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(out, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
}

fn cell(cell: &Cell) -> String {
    literal(&cell.text)
}

/// A text that means nothing: every sign of ASCII that could is behind a backslash (CommonMark 0.31, section 2.4), so that
/// there is no HTML, no link and no end of a cell in it.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in escaped(text).chars() {
        // They mean nothing within a line, and hurt to read where nothing is made of the text.
        if character.is_ascii_punctuation() && !matches!(character, ',' | '(' | ')' | '%' | '\'') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}
