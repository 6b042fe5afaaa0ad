//! `mcpwarden top`: what a running agent sees, live on a terminal.
//!
//! Data goes one way: `feed` (the agent's socket and database, on a thread) → `model` (what is known, with `window` for
//! rates) → `rows` and `detail` (what is worth showing of it) → `draw` (cells of the terminal). `keys` says what a key means,
//! `view` what is looked at, and `act` does what is wanted. Of these only `feed` and this module touch files, clocks and the terminal.

mod act;
mod detail;
mod draw;
mod feed;
mod keys;
mod model;
mod rows;
mod view;
mod window;

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
    mpsc::SyncSender,
};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{FlowArg, tcflow};
use ratatui::crossterm::event::{self, Event as Input};
use ratatui::crossterm::terminal::disable_raw_mode;

use crate::commands::{approvals, blocks};
use crate::host::clock::Clock;
use crate::{cli::TopOptions, output::Format, output::Output};
use act::Effect;
use feed::Update;
use model::Model;
use view::{Command, View};

/// The least time between two drawings, and about that between two looks for events.
const FRAME: Duration = Duration::from_millis(100);
/// Updates that are counted between two looks at the keys.
const UPDATES: usize = 16;
/// Signals that end it.
const SIGNALS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
/// How long a second signal waits for the end that the first one asked for.
const GRACE: Duration = Duration::from_millis(500);
/// Ends the screen of a program that has one of its own (DECRST 1049), and shows the cursor (DECTCEM).
const RESTORE: &[u8] = b"\x1b[?1049l\x1b[?25h";

/// Shows the running agent until the user or a signal ends it.
///
/// # Errors
/// Standard output is no terminal, no agent answers, or what it stores cannot be read.
pub fn run(options: &TopOptions) -> Result<()> {
    ensure!(
        stdout().is_terminal(),
        "standard output is no terminal, on which `top` could draw: use `mcpwarden status`, or `mcpwarden events --follow`"
    );
    let socket = &options.agent.socket;
    // All threads inherit it: the one that waits gets them.
    let signals = SigSet::from_iter(SIGNALS);
    signals.thread_block().context("cannot block signals")?;
    let (sender, updates) = feed::start(socket)?;
    let ended = Arc::new(AtomicBool::new(false));
    let requested = Arc::clone(&ended);
    thread::Builder::new().name("signals".into()).spawn(move || {
        while let Ok(signal) = signals.wait() {
            if requested.swap(true, Ordering::Relaxed) {
                give_up(signal);
            }
        }
    })?;
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let colour = Output::Text.format() == Format::Text { colour: true };
    let (mut model, mut view) = (Model::default(), View::new(colour));
    let failed = "cannot draw on this terminal, or read its keys";
    let mut screen = Screen::open().context(failed)?;
    let (mut drawn, mut second): (Option<Instant>, u64) = (None, 0);
    let mut changed = true;
    while !ended.load(Ordering::Relaxed) {
        let now = Clock::new().now();
        // Ages and rates change with the clock.
        changed |= second != now.0 / 1_000_000_000;
        let wait = drawn.map_or(Duration::ZERO, |drawn| FRAME.saturating_sub(drawn.elapsed()));
        if changed && wait.is_zero() {
            screen.0.draw(|frame| draw::draw(frame, &host, &model, &view, now)).context(failed)?;
            (drawn, second, changed) = (Some(Instant::now()), now.0 / 1_000_000_000, false);
        }
        let wait = if changed { wait } else { FRAME };
        if event::poll(wait).context(failed)? {
            match event::read().context(failed)? {
                Input::Key(key) => {
                    let action = keys::action(&view, key);
                    changed |= action.is_some();
                    match action.and_then(|action| view.apply(action, &model, now)) {
                        Some(Effect::Quit) => return Ok(()),
                        Some(Effect::Do(command)) => perform(socket, command, sender.clone())?,
                        None => {}
                    }
                }
                Input::Resize(..) => changed = true,
                _ => {}
            }
        }
        for update in updates.try_iter().take(UPDATES) {
            changed = true;
            match update {
                Update::Status(status, at) => model.status(status, at),
                Update::Waiting(tools) => model.waiting = tools,
                Update::Events(events, others) => {
                    others.into_iter().for_each(|time| model.count(time));
                    events.into_iter().for_each(|event| model.add(event));
                }
                Update::Skipped(count) => model.skipped += count,
                Update::Down(why) => model.down(why),
                Update::Done(outcome) => view.done(outcome),
            }
        }
    }
    Ok(())
}

/// Ends although the terminal takes nothing (Ctrl-S, or nobody reads it), so that drawing does not return; the terminal is
/// as it was before, as far as that can be had without waiting for it.
fn give_up(signal: Signal) -> ! {
    // Where its user stopped it, that was all, and the other thread ends now.
    let _ = tcflow(stdout(), FlowArg::TCOON);
    thread::sleep(GRACE);
    let _ = disable_raw_mode();
    // The other thread holds the lock of standard output. Opened anew, since not to wait is a setting that others who have
    // this terminal would share.
    let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
    let terminal = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/1");
    let _ = terminal.and_then(|mut terminal| terminal.write_all(RESTORE));
    std::process::exit(128 + signal as i32)
}

/// Has the agent do something, on a thread of its own: it may take seconds.
fn perform(socket: &Path, command: Command, updates: SyncSender<Update>) -> Result<()> {
    let socket = socket.to_owned();
    thread::Builder::new().name("command".into()).spawn(move || {
        let outcome = match &command {
            Command::Approve(new) => {
                approvals::request(&socket, new).map(|decided| approvals::sentences(new, &decided).join("; "))
            }
            Command::Block(new) => blocks::request(&socket, new).map(|block| {
                blocks::idle(&block).unwrap_or_else(|| format!("blocked {}", blocks::sentence(&block)))
            }),
        };
        let _ = updates.send(Update::Done(outcome.map_err(|error| format!("{error:#}"))));
    })?;
    Ok(())
}

/// The terminal, which is as it was before once this is gone; so it is when the program panics.
struct Screen(ratatui::DefaultTerminal);

impl Screen {
    fn open() -> Result<Self> {
        Ok(Self(ratatui::try_init()?))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where that fails, there is no terminal any more.
        let _ = ratatui::try_restore();
    }
}

#[cfg(test)]
mod tests;
