//! Rows of lists: which there are, in which order, and what is in their columns.

use std::cmp::Reverse;

use mcpwarden_policy::{
    Event, EventBody, Timestamp,
    event::{Action, CallStatus, Severity},
};

use super::{
    model::{BySeverity, Kept, Model, Server, Session, Tally},
    view::{Sort, Tab, View},
};
use crate::output::{clean, seconds, word};

/// How something looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// As text does.
    #[default]
    Plain,
    /// Of no interest now.
    Dim,
    /// Well.
    Good,
    /// Worth a look.
    Warned,
    /// Bad.
    Bad,
}

/// What is in a column.
pub type Cell = (String, Look);

/// A column: title, columns of the terminal (0: what is left), and how soon it goes where there is no room (0: never).
#[derive(Clone, Copy, Debug)]
pub struct Column(pub &'static str, pub u16, pub u8);

/// What a list has in its columns.
pub fn columns(tab: Tab) -> &'static [Column] {
    match tab {
        Tab::Servers => &[
            Column("SERVER", 0, 0),
            Column("TYPE", 5, 6),
            Column("STATE", 9, 2),
            Column("SESSIONS", 8, 8),
            Column("CALLS", 8, 0),
            Column("CALLS/S", 7, 1),
            Column("P50", 7, 5),
            Column("P95", 7, 3),
            Column("ERRORS", 6, 5),
            Column("BLOCKED", 7, 4),
            Column("DETECTIONS", 11, 4),
            Column("WAIT", 4, 9),
            Column("SEEN", 5, 7),
        ],
        Tab::Sessions => &[
            Column("SESSION", 0, 0),
            Column("CLIENT", 16, 4),
            Column("PID", 7, 6),
            Column("STATE", 9, 3),
            Column("SERVERS", 7, 7),
            Column("CALLS", 8, 0),
            Column("CALLS/S", 7, 1),
            Column("P95", 7, 5),
            Column("BLOCKED", 7, 4),
            Column("DETECTIONS", 11, 4),
            Column("SEEN", 5, 7),
        ],
        Tab::Calls => &[
            Column("TIME", 8, 1),
            Column("SERVER", 20, 0),
            Column("TOOL", 0, 0),
            Column("ACTION", 8, 2),
            Column("ANSWER", 8, 3),
            Column("LATENCY", 7, 4),
            Column("SESSION", 18, 5),
        ],
        Tab::Detections => &[
            Column("TIME", 8, 1),
            Column("SEVERITY", 8, 0),
            Column("RULE", 26, 2),
            Column("SERVER", 20, 0),
            Column("TOOL", 0, 0),
            Column("WHERE", 12, 4),
            Column("ACTION", 6, 3),
        ],
        Tab::Losses => {
            &[Column("TIME", 8, 2), Column("WHAT", 30, 0), Column("COUNT", 12, 0), Column("MEANING", 0, 1)]
        }
    }
}

/// A row.
pub enum Row<'a> {
    /// A server, and its id.
    Server(&'a str, &'a Server),
    /// A session, and its id.
    Session(&'a str, &'a Session),
    /// A call, a detection, a gap or a loss.
    Kept(&'a Kept),
    /// A counter that should be 0: name, value, meaning.
    Lost(&'a str, u64, &'a str),
}

/// The rows of the list that is looked at, filtered and sorted.
pub fn list<'a>(model: &'a Model, view: &View, now: Timestamp) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = match view.tab {
        Tab::Servers => model.servers.iter().map(|(id, server)| Row::Server(id, server)).collect(),
        Tab::Sessions => model.sessions.iter().map(|(id, session)| Row::Session(id, session)).collect(),
        Tab::Calls => model.calls.iter().rev().map(Row::Kept).collect(),
        Tab::Detections => model.detections.iter().rev().map(Row::Kept).collect(),
        Tab::Losses => {
            let counters =
                model.lost().into_iter().map(|(name, value, meaning)| Row::Lost(name, value, meaning));
            counters.chain(model.losses.iter().rev().map(Row::Kept)).collect()
        }
    };
    let filter = view.filter.to_lowercase();
    if !filter.is_empty() {
        rows.retain(|row| row.names().iter().any(|name| name.to_lowercase().contains(&filter)));
    }
    // Stable: rows that are alike stay by name, or the newest first.
    match view.sort() {
        Sort::Rate => rows.sort_by(|a, b| b.rate(now).total_cmp(&a.rate(now))),
        Sort::Calls => rows.sort_by_key(|row| Reverse(row.tally().map(|tally| tally.calls))),
        Sort::Latency => rows.sort_by_key(|row| Reverse(row.latency())),
        Sort::Detections => rows.sort_by_key(|row| Reverse(row.found())),
        // The others are so already.
        Sort::Seen => rows.sort_by_key(|row| Reverse(row.tally().map(|tally| tally.last))),
        Sort::Name => {}
    }
    rows
}

/// Where the selected row is; the first where it is not there any more.
pub fn place(rows: &[Row<'_>], view: &View) -> usize {
    let selected = (!view.selected.is_empty()).then_some(view.selected.as_str());
    selected.and_then(|key| rows.iter().position(|row| row.has_key(key))).unwrap_or_default()
}

impl Row<'_> {
    /// What it is known by, whatever its place.
    pub fn key(&self) -> String {
        match self {
            Self::Server(id, _) | Self::Session(id, _) | Self::Lost(id, ..) => (*id).to_owned(),
            Self::Kept(kept) => kept.number.to_string(),
        }
    }

    fn has_key(&self, key: &str) -> bool {
        match self {
            Self::Server(id, _) | Self::Session(id, _) | Self::Lost(id, ..) => *id == key,
            Self::Kept(kept) => key.parse() == Ok(kept.number),
        }
    }

    fn tally(&self) -> Option<&Tally> {
        match self {
            Self::Server(_, server) => Some(&server.tally),
            Self::Session(_, session) => Some(&session.tally),
            Self::Kept(_) | Self::Lost(..) => None,
        }
    }

    fn rate(&self, now: Timestamp) -> f64 {
        self.tally().map_or(0.0, |tally| tally.rate.per_second(now))
    }

    fn latency(&self) -> Option<u64> {
        match self {
            Self::Kept(kept) => kept.answer.map(|(_, latency)| latency),
            row => row.tally().and_then(|tally| tally.latencies.quantiles()).map(|(_, most)| most),
        }
    }

    fn found(&self) -> BySeverity {
        match self {
            Self::Kept(kept) => {
                let mut found = [0; 4];
                if let EventBody::Detected(detected) = &kept.event.body
                    && let Some(count) = found.get_mut(3 - detected.detection.severity as usize)
                {
                    *count = 1;
                }
                found
            }
            row => row.tally().map_or([0; 4], |tally| {
                let mut found = tally.found;
                // The worst first: so they are compared.
                found.reverse();
                found
            }),
        }
    }

    /// What a filter looks at.
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Server(id, server) => {
                let argv = server.started.as_ref().and_then(|event| match &event.body {
                    EventBody::ServerStarted(started) => started.executable.as_deref(),
                    _ => None,
                });
                [Some(*id), argv].into_iter().flatten().collect()
            }
            Self::Session(id, session) => {
                let client = session.client.as_ref().and_then(|client| client.executable.as_deref());
                [Some(*id), client].into_iter().flatten().collect()
            }
            Self::Kept(Kept { event, .. }) => {
                let what = match &event.body {
                    EventBody::Detected(found) => Some(found.detection.pattern.as_str()),
                    EventBody::AgentLoss(loss) => Some(loss.counter.as_str()),
                    _ => None,
                };
                let server = event.server_id.as_ref().map(|id| &*id.0);
                let session = event.session_id.as_ref().map(|id| &*id.0);
                [server, session, event.body.tool_name(), what].into_iter().flatten().collect()
            }
            Self::Lost(name, ..) => vec![name],
        }
    }

    /// What is in its columns, in their order.
    pub fn cells(&self, model: &Model, now: Timestamp) -> Vec<Cell> {
        match self {
            Self::Server(id, server) => {
                let tally = &server.tally;
                let (middle, most) = spans(tally);
                vec![
                    plain(clean(id)),
                    server.kind.map_or_else(nothing, |kind| plain(word(&kind))),
                    state(tally),
                    plain(server.sessions.count()),
                    plain(tally.calls.to_string()),
                    rate(tally, now),
                    middle,
                    most,
                    count(tally.errors, Look::Warned),
                    count(tally.blocked, Look::Bad),
                    found(tally),
                    count(model.waiting_of(id).count() as u64, Look::Warned),
                    plain(ago(tally.last, now)),
                ]
            }
            Self::Session(id, session) => {
                let tally = &session.tally;
                let client = session.client.as_ref();
                let program = client.and_then(|client| client.executable.as_deref());
                let program = program.map(|path| path.rsplit('/').next().unwrap_or(path));
                vec![
                    plain(clean(id)),
                    program.map_or_else(nothing, |name| plain(clean(name))),
                    client.map_or_else(nothing, |client| plain(client.pid.to_string())),
                    state(tally),
                    plain(session.servers.count()),
                    plain(tally.calls.to_string()),
                    rate(tally, now),
                    spans(tally).1,
                    count(tally.blocked, Look::Bad),
                    found(tally),
                    plain(ago(tally.last, now)),
                ]
            }
            Self::Kept(kept) => kept_cells(kept),
            Self::Lost(name, value, meaning) => {
                vec![nothing(), plain(clean(name)), (value.to_string(), Look::Bad), plain(clean(meaning))]
            }
        }
    }
}

fn kept_cells(kept: &Kept) -> Vec<Cell> {
    let event = &kept.event;
    let name = |text: Option<&str>| text.map_or_else(nothing, |text| plain(clean(text)));
    let server = name(event.server_id.as_ref().map(|id| &*id.0));
    match &event.body {
        EventBody::ToolCalled(call) => {
            let (answer, span) = match kept.answer {
                None => (nothing(), nothing()),
                Some((status, latency)) => {
                    let look = if status == CallStatus::Error { Look::Warned } else { Look::Plain };
                    ((word(&status), look), plain(span(latency)))
                }
            };
            let session = name(event.session_id.as_ref().map(|id| &*id.0));
            vec![
                clock(event),
                server,
                plain(clean(&call.tool_name)),
                action(call.decided.action),
                answer,
                span,
                session,
            ]
        }
        EventBody::Detected(found) => {
            let severity = found.detection.severity;
            vec![
                clock(event),
                (word(&severity), badness(severity)),
                plain(clean(&found.detection.pattern)),
                server,
                name(found.tool_name.as_deref()),
                plain(word(&found.subject)),
                action(found.action),
            ]
        }
        EventBody::CaptureGap(gap) => vec![
            clock(event),
            plain(format!("gap: {}", word(&gap.cause))),
            (gap.bytes.to_string(), Look::Bad),
            plain(format!("bytes of {} were not seen", server.0)),
        ],
        EventBody::AgentLoss(loss) => vec![
            clock(event),
            plain(clean(&loss.counter)),
            (loss.count.to_string(), Look::Bad),
            plain(clean(&loss.meaning)),
        ],
        // None else is kept.
        other => vec![clock(event), plain(other.kind().to_owned())],
    }
}

fn plain(text: String) -> Cell {
    (text, Look::Plain)
}

fn nothing() -> Cell {
    ("-".to_owned(), Look::Dim)
}

/// A number that is worth a look where it is not 0.
fn count(count: u64, look: Look) -> Cell {
    if count == 0 { nothing() } else { (count.to_string(), look) }
}

fn rate(tally: &Tally, now: Timestamp) -> Cell {
    let rate = tally.rate.per_second(now);
    if rate > 0.0 { (format!("{rate:.1}"), Look::Good) } else { nothing() }
}

fn state(tally: &Tally) -> Cell {
    match tally.running.len() {
        0 if tally.ended => ("exited".to_owned(), Look::Dim),
        0 => nothing(),
        1 => ("live".to_owned(), Look::Good),
        _ => (format!("live {}", tally.running.count()), Look::Good),
    }
}

fn spans(tally: &Tally) -> (Cell, Cell) {
    tally
        .latencies
        .quantiles()
        .map_or_else(|| (nothing(), nothing()), |(middle, most)| (plain(span(middle)), plain(span(most))))
}

fn found(tally: &Tally) -> Cell {
    let Some(worst) = tally.worst() else { return nothing() };
    // Low, medium, high, critical.
    let counts = tally.found.iter().zip(["L", "M", "H", "C"]).rev().filter(|(count, _)| **count > 0);
    let text: Vec<String> = counts.map(|(count, letter)| format!("{count}{letter}")).collect();
    (text.join(" "), badness(worst))
}

/// How bad a severity looks.
pub fn badness(severity: Severity) -> Look {
    if severity < Severity::High { Look::Warned } else { Look::Bad }
}

/// What came of something.
pub fn action(action: Action) -> Cell {
    let look = match action {
        Action::Allow => Look::Plain,
        Action::Alert => Look::Warned,
        Action::Block => Look::Bad,
    };
    (word(&action), look)
}

fn clock(event: &Event) -> Cell {
    plain(seconds(event.timestamp).get(11..19).unwrap_or_default().to_owned())
}

/// How long something took, in at most 7 columns.
pub fn span(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0 => "-".to_owned(),
        1..1_000_000 => format!("{:.0} us", value / 1e3),
        1_000_000..100_000_000 => format!("{:.1} ms", value / 1e6),
        100_000_000..1_000_000_000 => format!("{:.0} ms", value / 1e6),
        1_000_000_000..100_000_000_000 => format!("{:.1} s", value / 1e9),
        _ => format!("{:.0} s", value / 1e9),
    }
}

/// How long ago something was, in at most 5 columns for years.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.nanos_since(time) / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
