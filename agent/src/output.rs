//! Events for people and for machines.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use bytes::Bytes;
use comfy_table::{Cell, ContentArrangement, Row, Table, presets};
use mcpwarden_policy::{Event, Timestamp};
use tokio::sync::mpsc;

use serde::Serialize;

use mcpwarden_system::ends;
pub use mcpwarden_text::{clean, escaped, one_line, summary, word, write_json};

/// Exit status of a program whose output nobody reads any more: that of one that SIGPIPE ended.
pub const PIPE_CLOSED: u8 = 128 + 13;
/// Exit status where something could not be done, in place of an answer.
pub const FAILED: u8 = 2;

/// Prints a line on standard output. Where that cannot be written to, the program ends: quietly if it is a pipe whose
/// reader is gone, as in `… | head -1`.
pub fn print_line(line: impl Display) {
    if let Err(error) = writeln!(anstream::stdout().lock(), "{line}") {
        std::process::exit(i32::from(unwritable(&error)));
    }
}

/// Says that standard output cannot be written to, unless it is a pipe whose reader is gone. The exit status.
pub fn unwritable(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return PIPE_CLOSED;
    }
    anstream::eprintln!("mcpwarden: cannot write: {error}");
    FAILED
}

/// Standard output cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("cannot write: {0}")]
pub struct Unwritable(#[source] pub io::Error);

/// Prints a value as JSON on one line.
pub fn print_json_line(value: &impl Serialize) {
    let mut line = Vec::new();
    write_json(value, &mut line);
    print_line(String::from_utf8_lossy(&line));
}

/// Columns of a terminal below which words would be torn apart; one that does not know how wide it is says 0.
const NARROWEST: u16 = 60;

/// A table for people, as wide as the terminal.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    let width = table.width().filter(|width| *width >= NARROWEST && io::stdout().is_terminal());
    table.set_width(width.unwrap_or(120)).set_header(header);
    table
}

/// A table of which every row is one line: what is too long for a terminal is cut off there (`…`), and whole elsewhere.
pub fn list(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = table.width().filter(|width| *width >= NARROWEST && io::stdout().is_terminal()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
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

/// A time to the second, which is what people want to know.
pub fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", text.get(..19).unwrap_or(&text).replace('T', " "))
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// One readable line an event, with colours or without.
    Text {
        /// Whether to use ANSI colours.
        colour: bool,
    },
}

/// What `--output` can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// Readable lines on a terminal, JSON lines elsewhere.
    #[default]
    Auto,
    /// One readable line an event.
    Text,
    /// One JSON object a line.
    Json,
}

impl Output {
    /// Looks at the terminal, `NO_COLOR` and the like.
    pub fn format(self) -> Format {
        let stdout = io::stdout();
        let text = match self {
            Self::Text => true,
            Self::Json => false,
            Self::Auto => stdout.is_terminal(),
        };
        if text {
            Format::Text { colour: anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never }
        } else {
            Format::Json
        }
    }
}

impl Format {
    /// Appends an event and a line feed.
    pub fn write(self, event: &Event, line: &mut Vec<u8>) {
        match self {
            Self::Json => write_json(event, line),
            Self::Text { colour } => mcpwarden_text::write_line(event, colour, line),
        }
        line.push(b'\n');
    }
}

/// Chunks of lines that may wait for a slow reader of our output. Beyond that the ring is read more slowly, and
/// beyond the ring there are gaps that are counted.
pub const WAITING_CHUNKS: usize = 64;

/// How long an ending agent waits for its output to be taken and its database to be closed.
pub const PATIENCE: Duration = Duration::from_millis(600);

/// Writes to standard output from a thread of its own.
pub struct Writer {
    sender: mpsc::Sender<Bytes>,
    thread: std::thread::JoinHandle<io::Result<()>>,
}

impl Writer {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING_CHUNKS);
        let thread = std::thread::Builder::new().name("output".into()).spawn(move || {
            let mut stdout = io::stdout().lock();
            while let Some(chunk) = receiver.blocking_recv() {
                stdout.write_all(&chunk)?;
                stdout.flush()?;
            }
            Ok(())
        })?;
        Ok(Self { sender, thread })
    }

    /// Where chunks go; it is closed when standard output is.
    pub fn sender(&self) -> mpsc::Sender<Bytes> {
        self.sender.clone()
    }

    /// Lets the thread finish, until then at the latest: whoever does not read our output must not keep us from ending.
    pub fn finish(self, until: Instant) {
        drop(self.sender);
        if !ends(&self.thread, until) {
            tracing::error!(
                "the reader of standard output is gone or too slow: the last events were not printed"
            );
        }
    }
}
