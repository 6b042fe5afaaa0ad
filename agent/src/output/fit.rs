//! Tables on a terminal: each line fits, however narrow the terminal is.

use std::io::{self, IsTerminal as _};

use comfy_table::{Cell, ContentArrangement, Row, Table, presets};
use unicode_width::UnicodeWidthChar as _;

/// Columns of a terminal below which a table is not made for its width: words would be torn apart.
const NARROWEST: u16 = 60;
/// Columns of a table of which nobody knows how wide it may be.
const USUAL: u16 = 120;
/// Before a line that goes on with the one before.
const INDENT: &str = "  ";

/// Columns of the terminal that standard output is. One that does not know how wide it is says 0.
fn columns() -> Option<u16> {
    let width = || Table::new().width().filter(|width| *width > 0);
    if io::stdout().is_terminal() { width() } else { None }
}

/// A table for people, as wide as the terminal; [`table_text`] makes a text of it.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(columns().unwrap_or(USUAL).max(NARROWEST)).set_header(header);
    table
}

/// The text of a [`table`]: on a narrow terminal a line for each cell, after the name of its column.
pub fn table_text(table: &Table) -> String {
    match columns() {
        Some(columns) if columns < NARROWEST => records(table, columns.into()),
        _ => table.to_string(),
    }
}

/// A table of which every row is one line: what is too long for a terminal is cut off there (`…`), and whole elsewhere.
/// [`list_text`] makes a text of it.
pub fn list(header: &[&str]) -> Table {
    list_for(header, columns())
}

fn list_for(header: &[&str], columns: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(columns) = columns {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns.max(NARROWEST));
    }
    table.set_header(line(header.iter().map(Cell::new)));
    table
}

/// A row of a [`list`].
pub fn line(cells: impl IntoIterator<Item = Cell>) -> Row {
    let mut row = Row::from(cells);
    row.max_height(1);
    row
}

/// The text of a [`list`].
pub fn list_text(table: &Table) -> String {
    cut_lines(&table.trim_fmt(), columns())
}

fn cut_lines(text: &str, columns: Option<u16>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    text.lines().map(|line| cut(line, columns.into())).collect::<Vec<_>>().join("\n")
}

/// The begin of a line that fits into so many columns, with `…` behind it; all of it where it fits. Escape sequences, which are
/// the agent's own, take no column and stay whole.
fn cut(line: &str, columns: usize) -> String {
    let (mut width, mut kept, mut styled) = (0, 0, false);
    let mut rest = line.char_indices();
    while let Some((at, character)) = rest.next() {
        if character == '\u{1b}' {
            styled = true;
            // `ESC [ … m`
            rest.by_ref().find(|(_, character)| character.is_ascii_alphabetic());
            continue;
        }
        width += character.width().unwrap_or(0);
        if width > columns {
            let reset = if styled { "\u{1b}[0m" } else { "" };
            return format!("{}…{reset}", line.get(..kept).unwrap_or_default());
        }
        if width < columns {
            kept = at + character.len_utf8();
        }
    }
    line.to_owned()
}

/// Each cell on lines of its own, in so many columns; a blank line between two rows.
fn records(table: &Table, columns: usize) -> String {
    let header: Vec<String> =
        table.header().map(|row| row.cell_iter().map(Cell::content).collect()).unwrap_or_default();
    let of_row = |row: &Row| {
        let cells = header.iter().zip(row.cell_iter().map(Cell::content));
        let cells = cells.filter(|(_, text)| !text.is_empty());
        let named =
            |(name, text): (&String, String)| if name.is_empty() { text } else { format!("{name}: {text}") };
        cells.map(named).flat_map(|text| wrap(&text, columns)).collect::<Vec<_>>().join("\n")
    };
    table.row_iter().map(of_row).collect::<Vec<_>>().join("\n\n")
}

/// Lines of so many columns at most. Words stay whole, but for those that are wider than a line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut line, mut width) = (Vec::new(), String::new(), 0);
    for word in text.split_whitespace() {
        let of_word: usize = word.chars().map(|character| character.width().unwrap_or(0)).sum();
        let is_first = line.trim().is_empty();
        if !is_first && width + 1 + of_word > columns {
            lines.push(std::mem::replace(&mut line, INDENT.to_owned()));
            width = INDENT.len();
        } else if !is_first {
            line.push(' ');
            width += 1;
        }
        for character in word.chars() {
            let of_character = character.width().unwrap_or(0);
            if width + of_character > columns && !line.trim().is_empty() {
                lines.push(std::mem::replace(&mut line, INDENT.to_owned()));
                width = INDENT.len();
            }
            line.push(character);
            width += of_character;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(line: &str) -> usize {
        let plain = anstream::adapter::strip_str(line).to_string();
        plain.chars().map(|character| character.width().unwrap_or(0)).sum()
    }

    /// A line, columns, and what is shown.
    #[test]
    fn long_lines_are_cut_at_the_last_column() {
        for (line, columns, expected) in [
            ("", 5, ""),
            ("abc", 5, "abc"),
            ("abcde", 5, "abcde"),
            ("abcdef", 5, "abcd…"),
            ("äöüßéè", 5, "äöüß…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語x", 6, "日本…"),
            ("\u{1b}[31mabc\u{1b}[0m", 3, "\u{1b}[31mabc\u{1b}[0m"),
            ("\u{1b}[31mabcd\u{1b}[0m", 3, "\u{1b}[31mab…\u{1b}[0m"),
            ("ab\u{1b}[1mcd\u{1b}[0mef", 5, "ab\u{1b}[1mcd…\u{1b}[0m"),
            ("abcdef", 1, "…"),
        ] {
            assert_eq!(cut(line, columns), expected, "{line:?} {columns}");
            assert!(width(&cut(line, columns)) <= columns, "{line:?} {columns}");
        }
    }

    #[test]
    fn long_texts_are_wrapped_between_words() {
        for (text, columns, expected) in [
            ("", 5, &[""][..]),
            ("a b c", 5, &["a b c"]),
            ("aa bb cc", 5, &["aa bb", "  cc"]),
            ("abcdefgh", 5, &["abcde", "  fgh"]),
            ("a bcdefgh", 5, &["a", "  bcd", "  efg", "  h"]),
            ("NAME: x", 20, &["NAME: x"]),
            ("日本語", 4, &["日本", "  語"]),
        ] {
            assert_eq!(wrap(text, columns), expected, "{text:?} {columns}");
        }
    }

    /// At each width of a terminal: no line is wider, no row is lost, and a table loses no character.
    #[test]
    fn tables_fit_every_width() {
        const HEADER: [&str; 8] = ["SERVER", "UID", "KIND", "NAME", "STATE", "APPROVED BY", "SEEN", "HASH"];
        let long = "a-name-that-is-longer-than-the-narrowest-terminal-of-all";
        let row = |number: usize| {
            let server = if number == 1 { long.to_owned() } else { format!("server-{number}") };
            let text = "words of 日本語 that go on and on";
            [
                server,
                "1000".into(),
                "tool".into(),
                text.into(),
                "-".into(),
                String::new(),
                "x".into(),
                "0123456789ab".into(),
            ]
        };
        for columns in (20..=200).chain([0]) {
            let known = Some(columns).filter(|columns| *columns > 0);
            let mut list = list_for(&HEADER, known);
            (0..3).for_each(|number| {
                let cells = row(number).map(|text| Cell::new(text).fg(comfy_table::Color::Red));
                list.add_row(line(cells));
            });
            let text = cut_lines(&list.trim_fmt(), known);
            assert_eq!(text.lines().count(), 4, "{columns}: {text}");
            for line in text.lines().filter(|_| columns > 0) {
                assert!(width(line) <= columns.into(), "{columns}: {line:?}");
            }
            assert!(text.contains(long) || columns > 0, "{columns}: {text}");
            let (mut table, columns) = (table(HEADER), usize::from(columns.max(20)));
            (0..3).for_each(|number| {
                table.add_row(row(number));
            });
            let text = records(&table, columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}: {text}");
            let dense = |text: &str| text.split_whitespace().collect::<String>();
            for cell in (0..3).flat_map(row) {
                assert!(dense(&text).contains(&dense(&cell)), "{columns}: {cell:?} is not in {text}");
            }
        }
    }
}
