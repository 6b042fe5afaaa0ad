//! Events for people and for machines.

mod dates;
mod fit;

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use mcpwarden_policy::{Event, Timestamp, event::GrantLimits};
use mcpwarden_text::Shown;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use serde::Serialize;

pub use dates::Dates;
pub use fit::{line, list, list_text, table, table_text};
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
    print_error(format!("mcpwarden: cannot write: {error}"));
    FAILED
}

/// Prints a line on standard error. Where that cannot be written to there is nobody left to tell, and all else goes on.
pub fn print_error(line: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Prints a text that is to be written over on standard error, as [`print_error`] does a line.
pub fn print_progress(text: impl Display) {
    let _ = write!(anstream::stderr().lock(), "{text}");
}

/// Standard output cannot be written to.
#[derive(Debug, thiserror::Error)]
#[error("cannot write: {0}")]
pub struct Unwritable(#[source] pub io::Error);

/// Waits so long, for more to print.
///
/// # Errors
/// Whoever reads standard output is gone.
pub fn rest(period: Duration) -> Result<(), Unwritable> {
    is_read(io::stdout().as_fd(), period).map_err(Unwritable)
}

/// Waits so long, or until the reader of a pipe, a socket or a terminal is gone, which is an error.
fn is_read(output: BorrowedFd<'_>, period: Duration) -> io::Result<()> {
    let until = Instant::now() + period;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // Of these it is told unasked.
        let mut output = [PollFd::new(output, PollFlags::empty())];
        match poll(&mut output, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Ok(0) => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Prints a value as JSON on one line.
pub fn print_json_line(value: &impl Serialize) {
    let mut line = Vec::new();
    write_json(value, &mut line);
    print_line(String::from_utf8_lossy(&line));
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
    /// Appends an event and a line feed. `dates`: those of the lines before.
    pub fn write(self, event: &Event, dates: &mut Dates, line: &mut Vec<u8>) {
        match self {
            Self::Json => write_json(event, line),
            Self::Text { colour } => {
                let dated = dates.are_needed(event.timestamp);
                mcpwarden_text::write_line(event, Shown { colour, dated }, line);
            }
        }
        line.push(b'\n');
    }
}

/// What an approval is limited to, behind its tool.
pub fn limits_text(limits: &GrantLimits) -> String {
    let arguments = limits.arguments.iter().map(|(pointer, test)| format!("{pointer} {test}"));
    let arguments: Vec<String> = arguments.collect();
    let arguments = if arguments.is_empty() {
        String::new()
    } else {
        format!(", if {}", escaped(&arguments.join(" and ")))
    };
    let once = if limits.once { ", for one call" } else { "" };
    let until = limits.until.map(|until| format!(", until {}", seconds(until))).unwrap_or_default();
    format!("{once}{arguments}{until}")
}

#[cfg(test)]
mod tests;
