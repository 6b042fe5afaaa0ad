//! The agent's own messages, on standard error: `mcpwarden: …`, one line each. What was seen on the host is in the events.
//!
//! Where standard error is the journal, each line begins with its priority (`<3>`, `sd-daemon(3)`).

use std::{
    fmt::{self, Write as _},
    fs::File,
    io::{self, Write as _},
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    str::FromStr,
};

use tokio::io::{Interest, unix::AsyncFd};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

use mcpwarden_kernel::Messages;

/// All crates of the agent; of libraries nothing is shown unless it is asked for by name.
const OWN: &str = "mcpwarden";

/// Which messages are shown: a level for all of the agent's, and levels for some of its parts.
#[derive(Clone, Debug)]
pub struct Filter(Targets);

impl Default for Filter {
    fn default() -> Self {
        Self(Targets::new().with_target(OWN, LevelFilter::INFO))
    }
}

impl FromStr for Filter {
    type Err = String;

    /// Parses `LEVEL|TARGET=LEVEL,…`. A target is a part of the agent (`network`, `store`) or a library (`rmcp`).
    fn from_str(text: &str) -> Result<Self, String> {
        let Self(mut targets) = Self::default();
        for directive in text.split(',') {
            let (target, level) = directive.rsplit_once('=').unwrap_or(("", directive));
            let level = LevelFilter::from_str(level).ok().filter(|_| !level.is_empty()).ok_or_else(|| {
                format!("`{level}` is no level: `off`, `error`, `warn`, `info`, `debug` or `trace`")
            })?;
            targets = if target.is_empty() {
                targets.with_target(OWN, level)
            } else {
                // A part is a crate of its own or a module of the program.
                let (own_crate, module) = (format!("{OWN}_{target}"), format!("{OWN}::{target}"));
                targets.with_target(target, level).with_target(own_crate, level).with_target(module, level)
            };
        }
        Ok(Self(targets))
    }
}

/// Shows messages from now on.
pub fn start(filter: Filter) {
    let lines = Lines { is_journal: is_journal() };
    // Fails where it was called before: then they are shown already.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter.0)).try_init();
}

/// Shows messages of the kernel half as they come.
pub async fn show(messages: Messages) {
    if let Err(error) = follow(messages).await {
        tracing::error!("cannot show the messages of the kernel half: {error}");
    }
}

async fn follow(messages: Messages) -> io::Result<()> {
    // SAFETY: they own the descriptor of their ring, and keep it open and the same until they are dropped.
    let mut messages = unsafe { AsyncFd::register_with_interest(messages, Interest::READABLE) }?;
    loop {
        let mut ready = messages.readable_mut().await?;
        ready.get_inner_mut().flush();
        ready.clear_ready();
    }
}

/// Whether standard error is the stream to the journal that `JOURNAL_STREAM` names, by device and inode.
fn is_journal() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let Ok(metadata) = file.and_then(|file| file.metadata()) else { return false };
    stream.to_str() == Some(&format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// Writes each message as a line.
struct Lines {
    is_journal: bool,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let text = shown(*event.metadata().level(), event.metadata().target(), &message.0, self.is_journal);
        // There is nobody else to tell.
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    }
}

/// A message as it is written, its line breaks included.
fn shown(level: Level, target: &str, message: &str, is_journal: bool) -> String {
    // `sd-daemon(3)`
    let (priority, word) = match level {
        Level::ERROR => (3, ""),
        Level::WARN => (4, "warning: "),
        Level::INFO => (6, ""),
        Level::DEBUG => (7, "debug: "),
        Level::TRACE => (7, "trace: "),
    };
    let mut text = format!("mcpwarden: {word}");
    if level > Level::INFO {
        let _ = write!(text, "{target}: ");
    }
    text.push_str(message);
    let prefix = if is_journal { format!("<{priority}>") } else { String::new() };
    text.lines().map(|line| format!("{prefix}{line}\n")).collect()
}

/// The text of an event: its message, and its fields as `name=value`.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = match field.name() {
            "message" => write!(self.0, "{space}{value:?}"),
            name => write!(self.0, "{space}{name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_filter_admits_its_targets() {
        let cases: &[(&str, &str, Level, bool)] = &[
            ("info", "mcpwarden::run", Level::INFO, true),
            ("info", "mcpwarden::run", Level::DEBUG, false),
            ("info", "rmcp::service", Level::ERROR, false),
            ("debug", "mcpwarden_store", Level::DEBUG, true),
            ("debug", "hyper", Level::DEBUG, false),
            ("error", "mcpwarden", Level::WARN, false),
            ("off", "mcpwarden", Level::ERROR, false),
            ("store=debug", "mcpwarden::store::writer", Level::DEBUG, true),
            ("store=debug", "mcpwarden_store::writer", Level::DEBUG, true),
            ("store=debug", "mcpwarden::network", Level::DEBUG, false),
            ("store=debug", "mcpwarden::network", Level::INFO, true),
            ("warn,network=trace,rmcp=debug", "mcpwarden::network", Level::TRACE, true),
            ("warn,network=trace,rmcp=debug", "mcpwarden::store", Level::INFO, false),
            ("warn,network=trace,rmcp=debug", "rmcp::service", Level::DEBUG, true),
        ];
        for (text, target, level, expected) in cases {
            let filter: Filter = text.parse().unwrap();
            assert_eq!(filter.0.would_enable(target, level), *expected, "{text}: {target} {level}");
        }
    }

    #[test]
    fn log_filter_refuses_invalid_level() {
        for text in ["", "loud", "store=", "store=loud", "info,"] {
            let refused = text.parse::<Filter>();
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
    }

    #[test]
    fn log_line_carries_its_level() {
        let cases: &[(Level, &str, bool, &str)] = &[
            (Level::ERROR, "it failed", false, "mcpwarden: it failed\n"),
            (Level::WARN, "it may fail", false, "mcpwarden: warning: it may fail\n"),
            (Level::INFO, "it works", false, "mcpwarden: it works\n"),
            (Level::DEBUG, "it looks", false, "mcpwarden: debug: store: it looks\n"),
            (Level::ERROR, "it failed", true, "<3>mcpwarden: it failed\n"),
            (Level::INFO, "two\nlines", true, "<6>mcpwarden: two\n<6>lines\n"),
        ];
        for (level, message, is_journal, expected) in cases {
            assert_eq!(shown(*level, "store", message, *is_journal), *expected);
        }
    }
}
