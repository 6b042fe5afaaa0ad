//! A run of tests: its output goes through to the terminal, is counted on the way, and what hangs is ended.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::util::{command_line, plain, target_dir};

/// How a test's line begins that says that it could not run here, and why.
pub const SKIPPED: &str = "SKIPPED ";
/// The variable that names the file for such lines.
const SKIPS: &str = "MCPWARDEN_TEST_SKIPS";
/// A test that says nothing for so long never will. The longest takes two minutes.
const SILENCE: Duration = Duration::from_secs(600);

/// How many tests passed, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Of those that passed, the ones that failed before.
    pub flaky: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.flaky += other.flaky;
    }

    /// Counts what one line of a test run says: libtest's `test result: ok. 3 passed; 0 failed; 1 ignored; …`, nextest's
    /// `Summary [ 1.2s] 4 tests run: 4 passed (1 flaky), 0 skipped`, or the harness's word that a test had nothing to run on,
    /// which test runners count as passed. What nextest calls skipped was not chosen.
    pub fn read(&mut self, line: &str) {
        // In a guest it stands behind the test's name: there is one console for both.
        if line.starts_with(SKIPPED) || line.contains(&format!(" ... {SKIPPED}")) {
            self.skipped += 1;
            return;
        }
        let (results, is_nextest) = if let Some(results) = line.strip_prefix("test result: ") {
            (results, false)
        } else if let Some((_, results)) =
            line.trim_start().strip_prefix("Summary [").and_then(|rest| rest.split_once(" run: "))
        {
            (results, true)
        } else {
            return;
        };
        for part in results.split(['.', ';', ',', '(', ')']) {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += number,
                Some("flaky") => self.flaky += number,
                // Of nextest's too: `timed out`, `exec failed`.
                Some("failed" | "timed" | "exec") => self.failed += number,
                Some("ignored") if !is_nextest => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs tests. Gives what was counted, and why it failed if it did.
///
/// # Errors
/// It cannot be started.
pub fn run_tests(command: &mut Command) -> Result<(Counts, Option<String>)> {
    if std::io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let skips = target_dir().join("test-skips");
    fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
    let (mut counts, problem) = counted(command.env(SKIPS, &skips), SILENCE)?;
    let skipped = fs::read_to_string(&skips).unwrap_or_default();
    for line in skipped.lines() {
        println!("{line}");
        counts.skipped += 1;
        // Its runner knows of no test that ends without having found out something.
        counts.passed = counts.passed.saturating_sub(1);
    }
    Ok((counts, problem))
}

fn counted(command: &mut Command, silence: Duration) -> Result<(Counts, Option<String>)> {
    let line = command_line(command);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let last_word = Mutex::new(Instant::now());
    let (counts, status, hung) = thread::scope(|scope| {
        let on_stderr = scope.spawn(|| stderr.map(|stream| copy(stream, std::io::stderr(), &last_word)));
        let (ended, end) = mpsc::channel::<()>();
        let watch = scope.spawn({
            let (pid, last_word) = (child.id(), &last_word);
            move || end_what_hangs(pid, last_word, silence, &end)
        });
        let mut counts = stdout.map(|stream| copy(stream, std::io::stdout(), &last_word)).unwrap_or_default();
        if let Ok(Some(more)) = on_stderr.join() {
            counts.add(more);
            counts.passed = counts.passed.saturating_sub(more.skipped);
        }
        let status = child.wait();
        drop(ended);
        (counts, status, watch.join().unwrap_or_default())
    });
    let status = status.with_context(|| format!("cannot wait for `{line}`"))?;
    let problem = match hung {
        0 if status.success() => None,
        0 => Some(format!("`{line}` ({status})")),
        hung => Some(format!("`{line}` ({status}; {hung} of its programs hung and were ended)")),
    };
    Ok((counts, problem))
}

/// Copies `from` to `to` as it comes, a test's name before it runs, and counts what the lines say.
fn copy(from: impl Read, mut to: impl Write, last_word: &Mutex<Instant>) -> Counts {
    let mut counts = Counts::default();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while let Ok(part @ [_, ..]) = from.fill_buf() {
        *last_word.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        // A terminal that went away is no reason to stop the tests.
        let _ = to.write_all(part).and_then(|()| to.flush());
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                counts.read(&plain(&String::from_utf8_lossy(&line)));
                line.clear();
            }
        }
        let length = part.len();
        from.consume(length);
    }
    counts.read(&plain(&String::from_utf8_lossy(&line)));
    counts
}

/// Whenever nothing was said for `silence`: ends what the process `cargo` has started, so that it goes on with its next
/// program. Gives how often.
fn end_what_hangs(
    cargo: u32,
    last_word: &Mutex<Instant>,
    silence: Duration,
    end: &mpsc::Receiver<()>,
) -> usize {
    let mut hung = 0;
    loop {
        let silent = last_word.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        let Some(left) = silence.checked_sub(silent) else {
            println!("\nnothing was said for {} s: what runs is ended", silence.as_secs());
            for pid in descendants(cargo) {
                let _ = kill(pid, Signal::SIGKILL);
            }
            hung += 1;
            *last_word.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            continue;
        };
        if end.recv_timeout(left.max(Duration::from_millis(1))) != Err(mpsc::RecvTimeoutError::Timeout) {
            return hung;
        }
    }
}

/// What a process has started, and what that has, itself left out.
fn descendants(of: u32) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // `pid (name) state parent …`; the name may hold anything.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = i32::try_from(of).into_iter().collect::<Vec<_>>();
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(Pid::from_raw(child));
            next.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_counts_are_parsed_from_output_lines() {
        let cases = [
            (
                "test result: ok. 3 passed; 1 failed; 2 ignored; 0 measured; 9 filtered out; finished in 0.01s",
                (3, 1, 2, 0),
            ),
            ("test result: \u{1b}[32mok\u{1b}[m. 12 passed; 0 failed; 0 ignored; 0 measured", (12, 0, 0, 0)),
            ("     Summary [   0.010s] 5 tests run: 5 passed, 3 skipped", (5, 0, 0, 0)),
            (
                "\u{1b}[32;1m     Summary\u{1b}[0m [   9.1s] \u{1b}[1m8\u{1b}[0m tests run: \u{1b}[1m6\u{1b}[0m passed \
                 (1 slow, \u{1b}[1m2\u{1b}[0m flaky), 1 failed, 1 timed out, 0 skipped",
                (6, 2, 0, 2),
            ),
            ("     Summary [   0.010s] 1 test run: 0 passed, 1 exec failed, 0 skipped", (0, 1, 0, 0)),
            ("SKIPPED corpus: no transcripts", (0, 0, 1, 0)),
            ("test corpus ... SKIPPED corpus: no transcripts", (0, 0, 1, 0)),
            ("test result_is_kept ... ok", (0, 0, 0, 0)),
            ("5 passed", (0, 0, 0, 0)),
        ];
        for (line, (passed, failed, skipped, flaky)) in cases {
            let mut counts = Counts::default();
            counts.read(&plain(line));
            assert_eq!(counts, Counts { passed, failed, skipped, flaky }, "{line}");
        }
    }

    #[test]
    fn hung_test_program_is_killed_and_reported() -> Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", "(sleep 600; true); echo 'test result: ok. 2 passed; 0 failed'"]);
        let (counts, problem) = counted(&mut command, Duration::from_millis(300))?;
        assert_eq!(counts, Counts { passed: 2, ..Counts::default() });
        assert!(problem.is_some_and(|problem| problem.contains("1 of its programs hung")));
        Ok(())
    }
}
