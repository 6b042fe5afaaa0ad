//! A report for a terminal.

use std::fmt::Write as _;

use comfy_table::{Cell as TableCell, Color};

use super::document::{Cell, Document, Plot, Tone};
use crate::{
    output::{self, escaped},
    query::list::{NONE, coloured},
};

/// Heights of a bar, the least first.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes it.
pub fn write(document: &Document) -> String {
    let mut out = escaped(&document.title);
    out.push_str("\n\n");
    let mut facts = output::list(&["WHAT", "HOW MUCH"]);
    for (name, value) in &document.facts {
        facts.add_row(output::line([TableCell::new(name), cell(value)]));
    }
    for plot in &document.plots {
        facts.add_row(output::line([TableCell::new(plot.title), TableCell::new(bars(plot))]));
    }
    let _ = write!(out, "{}", output::list_text(&facts));
    for section in &document.sections {
        let _ = write!(out, "\n\n{}\n", section.title);
        if section.rows.is_empty() {
            out.push_str(section.nothing);
            continue;
        }
        let mut table = output::list(section.header);
        for row in &section.rows {
            table.add_row(output::line(row.iter().map(cell)));
        }
        out.push_str(&output::list_text(&table));
        if section.more > 0 {
            let _ = write!(out, "\nand {} more", section.more);
        }
    }
    out
}

fn cell(cell: &Cell) -> TableCell {
    let text = if cell.text.is_empty() { NONE.to_owned() } else { escaped(&cell.text) };
    match cell.tone {
        Tone::Plain => TableCell::new(text),
        Tone::Good => coloured(&text, Color::Green),
        Tone::Warning => coloured(&text, Color::Yellow),
        Tone::Bad => coloured(&text, Color::Red),
    }
}

/// A character for each bar, and how much the highest is.
fn bars(plot: &Plot) -> String {
    let highest = plot.bars.iter().map(|bar| bar.value).max().unwrap_or(0);
    if highest == 0 {
        return NONE.to_owned();
    }
    let height = |value: u64| match value {
        0 => ' ',
        value => {
            // More than nothing is at least the least.
            let height = (u128::from(value) * HEIGHTS.len() as u128).div_ceil(u128::from(highest));
            usize::try_from(height)
                .ok()
                .and_then(|height| HEIGHTS.get(height.saturating_sub(1)))
                .copied()
                .unwrap_or('█')
        }
    };
    let bars: String = plot.bars.iter().map(|bar| height(bar.value)).collect();
    format!("|{bars}| at most {highest}")
}
