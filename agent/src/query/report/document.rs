//! What a report looks like, whatever it is written in: facts, plots and tables. Their texts are strangers', and not made
//! harmless yet: each of the writers does that in its own way.

use mcpwarden_policy::event::{Action, Severity};

use super::{Part, Report, word_of};
use crate::{
    output::{seconds, word},
    query::{health::Health, servers},
};

/// A report, laid out.
pub struct Document {
    /// What stands above it.
    pub title: String,
    /// What there is, and how much.
    pub facts: Vec<(&'static str, Cell)>,
    /// What is plotted over the time.
    pub plots: [Plot; 2],
    /// The tables.
    pub sections: Vec<Section>,
}

/// How loud something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
}

/// A text.
#[derive(Clone, Debug)]
pub struct Cell {
    /// As it came.
    pub text: String,
    /// How loud it is.
    pub tone: Tone,
}

/// A number over the time.
pub struct Plot {
    /// Of what.
    pub title: &'static str,
    /// When the first bar begins, and when the last ends.
    pub span: [String; 2],
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar of a plot.
pub struct Bar {
    /// When it begins.
    pub time: String,
    /// How high it is.
    pub value: u64,
    /// How much of that is bad.
    pub bad: u64,
}

/// A table.
pub struct Section {
    /// What it is about.
    pub title: &'static str,
    /// What its cells are.
    pub header: &'static [&'static str],
    /// As many cells as the header has.
    pub rows: Vec<Vec<Cell>>,
    /// What is said where there are no rows.
    pub nothing: &'static str,
    /// So many there are that are not shown.
    pub more: u64,
}

impl Document {
    /// Lays a report out.
    pub fn new(report: &Report) -> Self {
        Self {
            title: match &report.session_id {
                Some(session) => format!("mcpwarden: session {session}"),
                None => "mcpwarden: what happened".to_owned(),
            },
            facts: facts(report),
            plots: [
                plot(report, "Calls", |part| (part.calls, part.blocked)),
                plot(report, "Detections", |part| (part.detections, part.detections)),
            ],
            sections: vec![
                of_servers(report),
                of_changes(report),
                of_detections(report),
                of_blocked(report),
                of_egress(report),
            ],
        }
    }
}

fn facts(report: &Report) -> Vec<(&'static str, Cell)> {
    let number = |number: u64| plain(number.to_string());
    let bad = |number: u64| Cell {
        tone: if number > 0 { Tone::Bad } else { Tone::Plain },
        ..plain(number.to_string())
    };
    let found: Vec<String> = report
        .by_severity()
        .filter(|(_, count)| *count > 0)
        .map(|(severity, count)| format!("{count} {}", word(&severity)))
        .collect();
    let worst = report.detections_by_severity.keys().next_back();
    let found = match (report.detections(), found.join(", ")) {
        (0, _) => "0".to_owned(),
        (all, each) => format!("{all} ({each})"),
    };
    let mut facts = vec![
        ("From", plain(seconds(report.since))),
        ("Until", plain(seconds(report.until))),
        ("Events", number(report.events)),
        ("Servers", number(report.servers_connected)),
        ("Sessions", number(report.sessions)),
        ("Tools", number(report.tools_seen)),
        ("Changed tools", bad(report.tools_changed)),
        ("Calls", number(report.calls)),
        ("Errors", number(report.errors)),
        ("Blocked calls", {
            let (blocked, stopped) = (report.calls_blocked, report.calls_stopped);
            Cell { text: format!("{blocked} ({stopped} stopped)"), ..bad(blocked) }
        }),
        ("Detections", Cell { text: found, tone: worst.map_or(Tone::Plain, |worst| tone_of(*worst)) }),
        ("Destinations", number(report.destinations)),
    ];
    if report.gap_bytes > 0 {
        facts.push(("Bytes not seen", Cell { tone: Tone::Warning, ..number(report.gap_bytes) }));
    }
    facts
}

fn plot(report: &Report, title: &'static str, of: impl Fn(&Part) -> (u64, u64)) -> Plot {
    let bar = |part: &Part| {
        let (value, bad) = of(part);
        Bar { time: seconds(part.timestamp), value, bad }
    };
    Plot {
        title,
        span: [seconds(report.since), seconds(report.until)],
        bars: report.timeline.iter().map(bar).collect(),
    }
}

fn of_servers(report: &Report) -> Section {
    let row = |server: &servers::Server| {
        let tone = match server.health {
            None => Tone::Plain,
            Some(Health::Healthy) => Tone::Good,
            Some(Health::Degraded) => Tone::Warning,
            Some(Health::Unhealthy) => Tone::Bad,
        };
        let worst = server.detections_by_severity.keys().next_back();
        vec![
            plain(server.server_id.clone()),
            plain(server.server_type.clone().unwrap_or_default()),
            plain(server.tools.to_string()),
            plain(server.calls.to_string()),
            plain(server.errors.to_string()),
            Cell {
                text: servers::spelled(&server.detections_by_severity),
                tone: worst.map_or(Tone::Plain, |worst| tone_of(*worst)),
            },
            plain(seconds(server.last_seen)),
            Cell { text: word_of(server.health.as_ref()), tone },
        ]
    };
    let header =
        &["Server", "Type", "Tools", "Calls", "Errors", "Detections", "Last seen", "Health, last hour"];
    section("Servers", header, &report.servers, row, "No server was seen.").of(report.servers_connected)
}

fn of_changes(report: &Report) -> Section {
    let short = |hash: &Option<String>| {
        let hash = hash.as_deref().unwrap_or_default();
        plain(hash.get(..12).unwrap_or(hash).to_owned())
    };
    section(
        "Changed tools",
        &["Time", "Server", "Tool", "Pinned", "Now", "Worst finding", "Action"],
        &report.changed_tools,
        |change| {
            vec![
                plain(seconds(change.timestamp)),
                text(&change.server_id),
                text(&change.tool_name),
                short(&change.previous_hash),
                short(&change.new_hash),
                of_severity(change.max_severity),
                of_action(change.action),
            ]
        },
        "No definition changed.",
    )
    .of(report.changes)
}

fn of_detections(report: &Report) -> Section {
    section(
        "Detections",
        &["Severity", "Count", "Server", "Tool", "Pattern", "Category"],
        &report.top_detections,
        |found| {
            vec![
                of_severity(found.severity),
                plain(found.count.to_string()),
                text(&found.server_id),
                text(&found.tool_name),
                text(&found.pattern),
                text(&found.category),
            ]
        },
        "Nothing was found.",
    )
    .count(report.detections(), report.top_detections.iter().map(|found| found.count).sum())
}

fn of_blocked(report: &Report) -> Section {
    section(
        "Blocked calls",
        &["Count", "Stopped", "Server", "Tool", "Guard", "Reason"],
        &report.blocked_calls,
        |blocked| {
            vec![
                plain(blocked.count.to_string()),
                plain(blocked.stopped.to_string()),
                text(&blocked.server_id),
                text(&blocked.tool_name),
                text(&blocked.guard),
                text(&blocked.reason),
            ]
        },
        "No call was blocked.",
    )
    .count(report.calls_blocked, report.blocked_calls.iter().map(|blocked| blocked.count).sum())
}

fn of_egress(report: &Report) -> Section {
    section(
        "Where servers connected to",
        &["Server", "Address", "Name", "Action", "Count", "Stopped"],
        &report.egress,
        |egress| {
            vec![
                text(&egress.server_id),
                text(&egress.remote_addr),
                text(&egress.remote_name),
                of_action(egress.action),
                plain(egress.count.to_string()),
                plain(egress.stopped.to_string()),
            ]
        },
        "No process of a server connected to anything.",
    )
    .of(report.egress_rows)
}

fn section<T>(
    title: &'static str,
    header: &'static [&'static str],
    rows: &[T],
    row: impl Fn(&T) -> Vec<Cell>,
    nothing: &'static str,
) -> Section {
    Section { title, header, rows: rows.iter().map(row).collect(), nothing, more: 0 }
}

impl Section {
    /// There are so many rows in all.
    fn of(self, all: u64) -> Self {
        let shown = self.rows.len() as u64;
        self.count(all, shown)
    }

    /// There are so many in all, and in the rows so many.
    fn count(self, all: u64, shown: u64) -> Self {
        Self { more: all.saturating_sub(shown), ..self }
    }
}

fn plain(text: String) -> Cell {
    Cell { text, tone: Tone::Plain }
}

fn text(text: &Option<String>) -> Cell {
    plain(text.clone().unwrap_or_default())
}

fn of_severity(severity: Option<Severity>) -> Cell {
    Cell { text: word_of(severity.as_ref()), tone: severity.map_or(Tone::Plain, tone_of) }
}

fn tone_of(severity: Severity) -> Tone {
    if severity < Severity::High { Tone::Warning } else { Tone::Bad }
}

fn of_action(action: Option<Action>) -> Cell {
    let tone = match action {
        None | Some(Action::Allow) => Tone::Plain,
        Some(Action::Alert) => Tone::Warning,
        Some(Action::Block) => Tone::Bad,
    };
    Cell { text: word_of(action.as_ref()), tone }
}
