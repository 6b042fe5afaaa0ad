//! What stands on the terminal: a function of what is known and what is looked at.
//!
//! Every text that is no constant of ours has been through [`crate::output::escaped`], and is bounded.

use mcpwarden_policy::Timestamp;
use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Paragraph, Row as Cells, Table},
};

use super::{
    detail::{self, Choice},
    keys::HELP,
    model::Model,
    rows::{self, Column, Look, ago},
    view::{Mode, Tab, View},
};
use crate::output::{clean, escaped};

/// Columns that the one without a width has at least.
const NAME: u16 = 14;
/// Columns of the words before facts.
const WORD: usize = 11;
/// Columns of the words before the lines that can be selected, and of those before what else is known of one.
const ITEM: usize = 9;
/// See [`ITEM`].
const MORE: usize = 6;
/// Columns of text for which there must be room, or lines that go on are not set in.
const TEXT: usize = 20;

impl View {
    fn style(&self, look: Look) -> Style {
        let style = Style::new();
        match look {
            Look::Plain => style,
            Look::Dim => style.add_modifier(Modifier::DIM),
            // Without colours, too, what is bad stands out.
            Look::Bad if !self.colour => style.add_modifier(Modifier::BOLD),
            _ if !self.colour => style,
            Look::Good => style.fg(Color::Green),
            Look::Warned => style.fg(Color::Yellow),
            Look::Bad => style.fg(Color::Red),
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, host: &str, model: &Model, view: &View, now: Timestamp) {
    let last = last(view, frame.area().width);
    let lines = u16::try_from(last.len()).unwrap_or(u16::MAX).min(frame.area().height);
    // What is asked is seen whole, where there is room at all.
    let [rest, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(lines)]).areas(frame.area());
    let areas = [Constraint::Length(2), Constraint::Length(1), Constraint::Fill(1)];
    let [head, tabs, body] = Layout::vertical(areas).areas(rest);
    frame.render_widget(Paragraph::new(vec![about(host, model, view, now), state(model, view)]), head);
    frame.render_widget(names(view), tabs);
    match view.mode() {
        Mode::Help => help(frame, body),
        _ if view.open => full(frame, body, model, view),
        _ => list(frame, body, model, view, now),
    }
    frame.render_widget(Paragraph::new(last), foot);
}

/// Who is looked at, and how much happens there.
fn about<'a>(host: &str, model: &Model, view: &View, now: Timestamp) -> Line<'a> {
    let agent = match &model.agent.status {
        Some(status) => format!("mcpwarden {} up {}", clean(&status.version), ago(status.since, now)),
        None => "mcpwarden".to_owned(),
    };
    let rates = format!(
        "  {:.1} calls/s  {:.1} frames/s  {:.1} events/s",
        model.call_rate.per_second(now),
        model.agent.frames_per_second,
        model.rate.per_second(now)
    );
    Line::from(vec![
        Span::styled(clean(host), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw("  "),
        Span::styled(agent, view.style(Look::Good)),
        Span::raw(rates),
    ])
}

/// What is wrong, or that nothing is.
fn state<'a>(model: &Model, view: &View) -> Line<'a> {
    if let Some(why) = &model.agent.down {
        return Line::styled(format!("no agent: {}", clean(why)), view.style(Look::Bad));
    }
    let mut spans = Vec::new();
    let lost = model.lost();
    if !lost.is_empty() {
        let lost: Vec<String> = lost.iter().map(|(name, value, _)| format!("{name} {value}")).collect();
        spans.push(Span::styled(format!("lost: {}  ", lost.join(", ")), view.style(Look::Bad)));
    }
    if let Some(status) = &model.agent.status {
        for trouble in &status.troubles {
            spans.push(Span::styled(format!("{}  ", clean(trouble)), view.style(Look::Bad)));
        }
        if status.approvals > 0 {
            let text = format!("{} tools wait for approval  ", status.approvals);
            spans.push(Span::styled(text, view.style(Look::Warned)));
        }
        if spans.is_empty() {
            spans.push(Span::raw("all is well  "));
        }
        let text = format!(
            "{} servers of {} clients, {} blocks by hand",
            status.servers, status.sessions, status.blocks
        );
        spans.push(Span::raw(text));
    }
    Line::from(spans)
}

fn names<'a>(view: &View) -> Line<'a> {
    let mut spans = Vec::new();
    for (place, tab) in Tab::ALL.into_iter().enumerate() {
        let style = if tab == view.tab { Modifier::BOLD | Modifier::REVERSED } else { Modifier::empty() };
        spans.push(Span::styled(format!(" {} {} ", place + 1, tab.name()), Style::new().add_modifier(style)));
    }
    if !view.filter.is_empty() || view.typing {
        let cursor = if view.typing { "_" } else { "" };
        let text = format!("  /{}{cursor}", clean(&view.filter));
        spans.push(Span::styled(text, view.style(Look::Warned)));
    }
    Line::from(spans)
}

/// The last lines: what is asked, what came of it, or the keys.
fn last<'a>(view: &View, width: u16) -> Vec<Line<'a>> {
    let whole = |text: &str, style: Style| -> Vec<Line<'a>> {
        wrap(text, width.into(), 0).into_iter().map(|line| Line::styled(line, style)).collect()
    };
    if let Some((question, _)) = &view.requested {
        let style = view.style(Look::Warned).add_modifier(Modifier::BOLD);
        // What can be answered comes first: names may be longer than the screen.
        return whole(&format!("y/n  {question}"), style);
    }
    match &view.message {
        // Of the agent or ours, and escaped where it was made; a second time does no harm to what is clean.
        Some((text, bad)) => whole(&escaped(text), view.style(if *bad { Look::Bad } else { Look::Good })),
        None => {
            let keys = match view.mode() {
                Mode::Typing => "type what names must hold; Enter keeps it, Esc takes it away",
                Mode::Detail => "Esc back  a approve  b block  j k select, scroll  ? help  q quit",
                _ => "q quit  ? help  Tab next  Enter detail  / filter  s sort",
            };
            vec![Line::styled(keys, view.style(Look::Dim))]
        }
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.iter().map(|(keys, what)| Line::raw(format!(" {keys:<WORD$}  {what}")));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn list(frame: &mut Frame<'_>, area: Rect, model: &Model, view: &View, now: Timestamp) {
    let rows = rows::list(model, view, now);
    if rows.is_empty() {
        let since = match model.since {
            Some(_) if !view.filter.is_empty() => "nothing with that in its name: Esc takes the filter away",
            Some(_) => "none so far",
            None => "nothing happened so far",
        };
        return frame.render_widget(Paragraph::new(since), area);
    }
    let place = rows::place(&rows, view);
    let shown = fit(rows::columns(view.tab), area.width);
    // The header takes one.
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let first = (place + 1).saturating_sub(height);
    let lines = rows.iter().enumerate().skip(first).take(height).map(|(index, row)| {
        let cells = row.cells(model, now);
        let cells: Vec<Text<'_>> = shown
            .iter()
            .filter_map(|(index, column)| cells.get(*index).map(|cell| (cell, column)))
            .map(|((text, look), column)| {
                Text::styled(text.clone(), view.style(*look)).alignment(side(column))
            })
            .collect();
        let chosen = if index == place { Modifier::REVERSED } else { Modifier::empty() };
        Cells::new(cells).style(Style::new().add_modifier(chosen))
    });
    let widths = shown.iter().map(|(_, Column(_, width, _))| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let header = Cells::new(shown.iter().map(|(_, column)| Text::from(column.0).alignment(side(column))));
    let table = Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(header.style(Style::new().add_modifier(Modifier::BOLD)))
        .column_spacing(1);
    frame.render_widget(table, area);
}

/// Numbers stand at the right of their columns.
fn side(column: &Column) -> Alignment {
    match column.0 {
        "SESSIONS" | "SERVERS" | "CALLS" | "CALLS/S" | "P50" | "P95" | "ERRORS" | "BLOCKED" | "WAIT"
        | "SEEN" | "PID" | "COUNT" | "LATENCY" => Alignment::Right,
        _ => Alignment::Left,
    }
}

/// The columns for which there is room, with their places.
fn fit(columns: &'static [Column], width: u16) -> Vec<(usize, Column)> {
    let mut shown: Vec<(usize, Column)> = columns.iter().copied().enumerate().collect();
    loop {
        let needed: u16 =
            shown.iter().map(|(_, column)| column.1.max(if column.1 == 0 { NAME } else { 0 }) + 1).sum();
        let next = shown.iter().enumerate().max_by_key(|(_, (_, column))| column.2);
        match next {
            Some((place, (_, Column(.., 1..)))) if needed > width + 1 => {
                shown.remove(place);
            }
            _ => return shown,
        }
    }
}

fn full(frame: &mut Frame<'_>, area: Rect, model: &Model, view: &View) {
    let Some(detail) = detail::of(model, view) else {
        return frame.render_widget(Paragraph::new("it is not remembered any more: Esc"), area);
    };
    let (width, height) = (usize::from(area.width), usize::from(area.height).max(1));
    let chosen = detail.place(view.item.as_ref());
    let mut lines = Vec::new();
    let mut add = |text: &str, indent, style| {
        lines.extend(wrap(text, width, indent).into_iter().map(|line| Line::styled(line, style)));
        lines.len()
    };
    let mut end = add(&detail.title, 0, Style::new().add_modifier(Modifier::BOLD));
    for (word, text) in detail.facts {
        end = add(&format!("{word:<WORD$}{text}"), WORD, Style::new());
    }
    let mut selected = 0..0;
    for (place, Choice { text: (text, look), more, .. }) in detail.items.into_iter().enumerate() {
        let start = end;
        if chosen != Some(place) {
            end = add(&text, ITEM, view.style(look));
            continue;
        }
        end = add(&text, ITEM, view.style(look).add_modifier(Modifier::REVERSED));
        for (word, text) in more {
            end = add(&format!("{:ITEM$}{word:<MORE$}{text}", ""), ITEM + MORE, Style::new());
        }
        selected = start..end;
    }
    // So far down that what is selected is seen, its beginning above all; and as much further as the user wants and can.
    let seen = selected.end.saturating_sub(height).min(selected.start);
    let first = seen.saturating_add_signed(view.scrolled.get()).min(end.saturating_sub(height));
    view.scrolled.set(first.cast_signed().saturating_sub_unsigned(seen));
    view.below.set(selected.end.saturating_sub(first + height).cast_signed());
    frame.render_widget(Paragraph::new(lines.split_off(first.min(lines.len()))), area);
}

/// Lines of at most so many columns; those behind the first are set in, where there is room for that.
fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let indent = if width < indent + TEXT { 0 } else { indent };
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for character in text.chars() {
        let columns = Span::raw(&*character.encode_utf8(&mut [0; 4])).width();
        // One that is wider than the terminal stands alone.
        if used + columns > width.max(1) && used > 0 {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            used = indent;
        }
        line.push(character);
        used += columns;
    }
    lines.push(line);
    lines
}
