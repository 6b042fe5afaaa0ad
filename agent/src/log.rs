//! The agent's own messages, on standard error: `mcpwarden: …`, one line each. What was seen on the host is in the events.
//!
//! Where standard error is the journal, each line begins with its priority (`<3>`, `sd-daemon(3)`). Where it cannot be written
//! to, or its reader has stopped, lines of the agent are lost and counted: the agent does not wait for them.

use std::{
    fmt::{self, Write as _},
    fs::File,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::MetadataExt as _,
    },
    str::FromStr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
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

/// Whoever reads standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A command waits for them.
    IsAwaited,
    /// The agent does not, longer than a moment.
    MayStop,
}

/// Shows messages from now on.
pub fn start(filter: Filter, reader: Reader) {
    let lines = Lines { is_journal: is_journal(), reader };
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

/// Messages that were not written.
static LOST: AtomicU64 = AtomicU64::new(0);
/// The reader of standard error did not take the last message in time.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// How long the agent waits for whoever reads standard error; not again, until they read. Milliseconds.
const PATIENCE_MS: u16 = 50;

/// How many messages of the agent were not written.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Writes all of a text, and waits for the reader as long as told each time that there is no room.
///
/// # Errors
/// It cannot be written, or not in time (`EAGAIN`).
fn write(to: BorrowedFd<'_>, mut text: &[u8], wait: PollTimeout) -> nix::Result<()> {
    while !text.is_empty() {
        let mut ready = [PollFd::new(to, PollFlags::POLLOUT)];
        match poll(&mut ready, wait) {
            Ok(0) => return Err(Errno::EAGAIN),
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error),
        }
        // A pipe that is ready has room for so much, and a write of more could wait for the rest.
        let part = text.get(..libc::PIPE_BUF).unwrap_or(text);
        match nix::unistd::write(to, part) {
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes each message as a line.
struct Lines {
    is_journal: bool,
    reader: Reader,
}

impl Lines {
    fn write(&self, text: &str) {
        let wait = match self.reader {
            Reader::IsAwaited => PollTimeout::NONE,
            Reader::MayStop if STOPPED.load(Ordering::Relaxed) => PollTimeout::ZERO,
            Reader::MayStop => PollTimeout::from(PATIENCE_MS),
        };
        // Lines of several threads do not mix.
        let stderr = io::stderr().lock();
        let result = write(stderr.as_fd(), text.as_bytes(), wait);
        STOPPED.store(result == Err(Errno::EAGAIN), Ordering::Relaxed);
        if result.is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let text = shown(*event.metadata().level(), event.metadata().target(), &message.0, self.is_journal);
        self.write(&text);
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

    /// What standard error is, whether all of a text is written, and why not.
    #[test]
    fn unwritable_standard_error_is_no_panic_and_no_wait() {
        use std::os::fd::OwnedFd;
        let full_pipe = |nonblocking: bool| {
            let (reader, writer) = io::pipe().unwrap();
            let flags = nix::fcntl::OFlag::O_NONBLOCK;
            nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
            while nix::unistd::write(&writer, &[b'x'; 4096]).is_ok() {}
            if !nonblocking {
                let flags = nix::fcntl::OFlag::empty();
                nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
            }
            std::mem::forget(reader);
            OwnedFd::from(writer)
        };
        let full_socket = || {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            while nix::unistd::write(&ours, &[b'x'; 4096]).is_ok() {}
            ours.set_nonblocking(false).unwrap();
            std::mem::forget(theirs);
            OwnedFd::from(ours)
        };
        let empty_pipe = || {
            let (reader, writer) = io::pipe().unwrap();
            std::mem::forget(reader);
            OwnedFd::from(writer)
        };
        let device = |path: &str| OwnedFd::from(File::options().write(true).open(path).unwrap());
        let (line, long) = ("mcpwarden: it failed\n".to_owned(), "x".repeat(1 << 20));
        let cases: [(&str, OwnedFd, &str, nix::Result<()>); 11] = [
            ("a device", device("/dev/null"), &line, Ok(())),
            ("a long line to a device", device("/dev/null"), &long, Ok(())),
            ("a pipe", empty_pipe(), &line, Ok(())),
            ("more than a pipe holds", empty_pipe(), &long, Err(Errno::EAGAIN)),
            ("a full pipe", full_pipe(false), &line, Err(Errno::EAGAIN)),
            ("a full pipe that does not block", full_pipe(true), &line, Err(Errno::EAGAIN)),
            ("a full socket", full_socket(), &line, Err(Errno::EAGAIN)),
            ("a closed pipe", io::pipe().unwrap().1.into(), &line, Err(Errno::EPIPE)),
            ("a full disk", device("/dev/full"), &line, Err(Errno::ENOSPC)),
            ("a descriptor to read from", File::open("/dev/null").unwrap().into(), &line, Err(Errno::EBADF)),
            ("nothing to write", device("/dev/full"), "", Ok(())),
        ];
        for (name, output, text, expected) in cases {
            let start = std::time::Instant::now();
            assert_eq!(write(output.as_fd(), text.as_bytes(), PollTimeout::from(20u16)), expected, "{name}");
            assert!(start.elapsed().as_secs() < 10, "{name}: {:?}", start.elapsed());
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
