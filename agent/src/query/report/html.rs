//! A report as one file of HTML that loads nothing and runs nothing.

use std::fmt::Write as _;

use super::document::{Bar, Cell, Document, Plot, Section, Tone};
use crate::output::escaped;

/// Whoever opens it loads nothing, whatever is in it.
const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --bar: #4a7ebb; --good: #2e7d32; --warning: #b26a00; --bad: #c62828; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --bar: #7aa7dd; --good: #81c784; --warning: #ffb74d; --bad: #ef9a9a; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(12rem, 1fr)); gap: .75rem; margin: 1rem 0; }
dl div { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .75rem; }
dt { font-size: .8rem; opacity: .75; } dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
.good { color: var(--good); } .warning { color: var(--warning); } .bad { color: var(--bad); }
svg { width: 100%; height: auto; } rect { fill: var(--bar); } rect.bad { fill: var(--bad); }
svg text { font-size: 11px; fill: currentColor; } svg line { stroke: var(--line); }
</style>
"#;

/// Size of a plot, without and with the times below it. Pixels, at its own size.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 100.0;
const WITH_TIMES: f64 = 118.0;

/// Writes it.
pub fn write(document: &Document) -> String {
    let title = literal(&document.title);
    let mut out = format!("{HEAD}<title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n<dl>\n");
    for (name, value) in &document.facts {
        let _ = writeln!(out, "<div><dt>{}</dt>{}</div>", literal(name), element("dd", value));
    }
    out.push_str("</dl>\n");
    for plot in &document.plots {
        draw(&mut out, plot);
    }
    for section in &document.sections {
        table(&mut out, section);
    }
    out.push_str("</body>\n</html>");
    out
}

fn table(out: &mut String, section: &Section) {
    let _ = writeln!(out, "<h2>{}</h2>", literal(section.title));
    if section.rows.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", literal(section.nothing));
        return;
    }
    out.push_str("<div class=\"wide\"><table>\n<tr>");
    for name in section.header {
        let _ = write!(out, "<th>{}</th>", literal(name));
    }
    out.push_str("</tr>\n");
    for row in &section.rows {
        let cells: String = row.iter().map(|cell| element("td", cell)).collect();
        let _ = writeln!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</table></div>\n");
    if section.more > 0 {
        let _ = writeln!(out, "<p>and {} more</p>", section.more);
    }
}

/// Bars from left to right; what is bad of each stands at its foot.
fn draw(out: &mut String, plot: &Plot) {
    let highest = plot.bars.iter().map(|bar| bar.value).max().unwrap_or(0);
    let title = literal(plot.title);
    let _ = writeln!(out, "<h2>{title} over time</h2>");
    if highest == 0 {
        out.push_str("<p>None.</p>\n");
        return;
    }
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {WITH_TIMES}\" role=\"img\" aria-label=\"{title} over time, at most {highest}\">"
    );
    let step = WIDTH / plot.bars.len() as f64;
    let height = |value: u64| HEIGHT * value as f64 / highest as f64;
    for (index, Bar { time, value, bad }) in plot.bars.iter().enumerate().filter(|(_, bar)| bar.value > 0) {
        let mut bar = |class: &str, value: u64| {
            let (x, height) = (step * index as f64, height(value));
            let (y, width) = (HEIGHT - height, (step - 1.0).max(1.0));
            let _ = write!(
                out,
                "<rect{class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">"
            );
            let _ = writeln!(out, "<title>{}: {value}</title></rect>", literal(time));
        };
        bar("", *value);
        if *bad > 0 {
            bar(" class=\"bad\"", *bad);
        }
    }
    let [from, until] = [&plot.span[0], &plot.span[1]].map(|time| literal(time));
    let _ = writeln!(
        out,
        "<line x1=\"0\" y1=\"{HEIGHT}\" x2=\"{WIDTH}\" y2=\"{HEIGHT}\"/>\n<text x=\"0\" y=\"114\">{from}</text>\
         <text x=\"{WIDTH}\" y=\"114\" text-anchor=\"end\">{until}</text>\
         <text x=\"{WIDTH}\" y=\"10\" text-anchor=\"end\">at most {highest}</text>\n</svg>"
    );
}

fn element(name: &str, cell: &Cell) -> String {
    let class = match cell.tone {
        Tone::Plain => "",
        Tone::Good => " class=\"good\"",
        Tone::Warning => " class=\"warning\"",
        Tone::Bad => " class=\"bad\"",
    };
    format!("<{name}{class}>{}</{name}>", literal(&cell.text))
}

/// A text that means nothing, in an element and in an attribute.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in escaped(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
