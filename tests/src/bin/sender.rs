//! Writes to a child in every way there is, and says what went both ways.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use mcpwarden_tests::io_methods::{ReadMethod, WriteMethod};
use mcpwarden_tests::script::{Flow, Report, Step, Write};
use mcpwarden_tests::wiring::{Channels, Wiring};

/// Starts a child, writes to its standard input as a script says, reads its standard output, and prints a
/// report in JSON: what was sent and received, each with length and SHA-256.
#[derive(Parser)]
struct Cli {
    /// What the child's standard input and output are made of
    #[arg(long, value_enum, default_value_t)]
    wiring: Wiring,
    /// How to write where the script does not say it
    #[arg(long, value_enum, default_value_t)]
    write: WriteMethod,
    /// How to read
    #[arg(long, value_enum, default_value_t)]
    read: ReadMethod,
    /// How many bytes a read asks for
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024)]
    read_bytes: usize,
    /// The script: a JSON array of steps (see the module `script`)
    #[arg(long, value_name = "FILE", required_unless_present = "lines")]
    script: Option<PathBuf>,
    /// In place of a script: send this line and wait for a line of answer; may be repeated
    #[arg(long = "line", value_name = "TEXT", conflicts_with = "script")]
    lines: Vec<String>,
    /// Save what was sent
    #[arg(long, value_name = "FILE")]
    save_sent: Option<PathBuf>,
    /// Save what was received
    #[arg(long, value_name = "FILE")]
    save_received: Option<PathBuf>,
    /// Give up on the child after so long
    #[arg(long, value_name = "N", default_value_t = 90)]
    timeout_s: u64,
    /// The child
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let steps = steps(&cli)?;
    let mut sender = Sender::new(&cli)?;
    if !steps.contains(&Step::Spawn) {
        sender.spawn()?;
    }
    for (number, step) in steps.into_iter().enumerate() {
        sender.play(&step).with_context(|| format!("step {} of the script: {step:?}", number + 1))?;
    }
    let report = sender.finish()?;
    println!("{}", serde_json::to_string(&report).context("cannot write the report")?);
    Ok(ExitCode::SUCCESS)
}

fn steps(cli: &Cli) -> Result<Vec<Step>> {
    match &cli.script {
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            serde_json::from_str(&text).with_context(|| format!("{} is no script", path.display()))
        }
        None => {
            let numbered = cli.lines.iter().zip(1..);
            Ok(numbered.flat_map(|(line, number)| [Step::line(line), Step::AwaitLines(number)]).collect())
        }
    }
}

/// A child that runs, and the thread that reads from it.
struct Running {
    child: Child,
    /// The number of lines so far, after each read.
    lines: Receiver<usize>,
    reader: JoinHandle<std::io::Result<Vec<u8>>>,
}

struct Sender<'a> {
    cli: &'a Cli,
    timeout: Duration,
    /// Until the child is started.
    channels: Option<Channels>,
    to_child: Option<OwnedFd>,
    running: Option<Running>,
    sent: Vec<u8>,
    lines: usize,
}

impl<'a> Sender<'a> {
    fn new(cli: &'a Cli) -> Result<Self> {
        let channels = cli.wiring.channels().context("cannot make the channels")?;
        // A duplicate, so that writing does not depend on whether the child has been started.
        let to_child = channels.to_child.try_clone().context("cannot duplicate a descriptor")?;
        Ok(Self {
            cli,
            timeout: Duration::from_secs(cli.timeout_s),
            channels: Some(channels),
            to_child: Some(to_child),
            running: None,
            sent: Vec::new(),
            lines: 0,
        })
    }

    fn spawn(&mut self) -> Result<()> {
        let channels = self.channels.take().context("the child was started before")?;
        let (program, arguments) = self.cli.command.split_first().context("a command is needed")?;
        let wired = channels
            .spawn(Command::new(program).args(arguments))
            .with_context(|| format!("cannot start {program}"))?;
        let (method, size) = (self.cli.read, self.cli.read_bytes);
        let (sender, lines) = mpsc::channel();
        let from_child = wired.from_child;
        let reader = thread::spawn(move || receive(&from_child, method, size, &sender));
        self.running = Some(Running { child: wired.child, lines, reader });
        Ok(())
    }

    fn play(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Write(write) => self.write(write),
            Step::AwaitLines(count) => self.await_lines(*count),
            Step::SleepMs(milliseconds) => {
                thread::sleep(Duration::from_millis(*milliseconds));
                Ok(())
            }
            Step::Pause(path) => {
                fs::read(path).map(drop).with_context(|| format!("cannot read {}", path.display()))
            }
            Step::Spawn => self.spawn(),
            Step::Close => {
                self.to_child = None;
                Ok(())
            }
        }
    }

    fn write(&mut self, write: &Write) -> Result<()> {
        let bytes = bytes(write)?;
        let to_child = self.to_child.as_ref().context("the child's input was closed before")?;
        let how = write.how.unwrap_or(self.cli.write);
        let chunk = if write.chunk == 0 { bytes.len().max(1) } else { write.chunk };
        for piece in bytes.chunks(chunk) {
            how.write(to_child.as_fd(), piece).with_context(|| format!("{how:?} failed"))?;
        }
        self.sent.extend(bytes);
        Ok(())
    }

    fn await_lines(&mut self, count: usize) -> Result<()> {
        let running = self.running.as_ref().context("the child is not started yet")?;
        let deadline = Instant::now() + self.timeout;
        while self.lines < count {
            let left = deadline.saturating_duration_since(Instant::now());
            match running.lines.recv_timeout(left) {
                Ok(lines) => self.lines = lines,
                Err(_) => bail!("the child wrote {} lines, not {count}", self.lines),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Report> {
        self.to_child = None;
        let mut running = self.running.take().context("the script never started the child")?;
        let child_pid = running.child.id();
        let deadline = Instant::now() + self.timeout;
        while !running.reader.is_finished() {
            if Instant::now() > deadline {
                running.child.kill().context("cannot end the child")?;
                bail!("the child did not end when its input was closed");
            }
            thread::sleep(Duration::from_millis(1));
        }
        let received = running.reader.join().ok().context("the reader panicked")?.context("cannot read")?;
        let status = running.child.wait().context("cannot wait for the child")?;
        save(self.cli.save_sent.as_ref(), &self.sent)?;
        save(self.cli.save_received.as_ref(), &received)?;
        Ok(Report {
            pid: std::process::id(),
            child_pid,
            child_code: status.code(),
            sent: Flow::of(&self.sent),
            received: Flow::of(&received),
        })
    }
}

fn save(path: Option<&PathBuf>, bytes: &[u8]) -> Result<()> {
    match path {
        Some(path) => fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display())),
        None => Ok(()),
    }
}

fn bytes(write: &Write) -> Result<Vec<u8>> {
    match (&write.text, &write.hex, &write.file) {
        (Some(text), None, None) => Ok(text.clone().into_bytes()),
        (None, Some(hex), None) => hex
            .as_bytes()
            .chunks(2)
            .map(|digits| u8::from_str_radix(&String::from_utf8_lossy(digits), 16))
            .collect::<Result<_, _>>()
            .context("`hex` takes pairs of hexadecimal digits"),
        (None, None, Some(path)) => fs::read(path).with_context(|| format!("cannot read {}", path.display())),
        _ => bail!("a write takes exactly one of `text`, `hex` and `file`"),
    }
}

/// Reads to the end, and tells after each read how many lines there are.
fn receive(
    from: &File,
    method: ReadMethod,
    size: usize,
    lines: &mpsc::Sender<usize>,
) -> std::io::Result<Vec<u8>> {
    let mut reader = method.reader(from.as_fd());
    let mut buffer = vec![0; size.max(1)];
    let (mut received, mut count) = (Vec::new(), 0);
    loop {
        let length = reader.read(&mut buffer)?;
        let bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(received);
        }
        received.extend_from_slice(bytes);
        count += bytes.iter().filter(|byte| **byte == b'\n').count();
        // Nobody may be waiting for lines any more.
        let _ = lines.send(count);
    }
}
