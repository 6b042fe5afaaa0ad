//! The client's end of a measurement.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::gated::NEUTRAL_BYTE;
use mcpwarden_tests::patience::patience;
use nix::fcntl::OFlag;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::ClockId;
use nix::unistd::{Pid, pipe2};

use crate::connect;
use crate::peer::Kind;

/// Bytes of a message.
const MESSAGE_BYTES: usize = 200;
/// Time for the agent to recognise the server before anything is measured.
const SETTLE: Duration = Duration::from_millis(80);
/// Time for the gate to have it in its table.
const JUDGED_WITHIN: Duration = Duration::from_secs(3);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Writes to /dev/null by a process that nobody watches.
    DevNull,
    /// Ping-pong over pipes that are nobody's stdin and stdout.
    UntrackedPipe,
    /// Ping-pong with a watched server over pipes.
    TrackedPipe,
    /// Ping-pong with a watched server over socket pairs.
    TrackedSocket,
    /// Calls to a watched server over pipes that reads them and answers.
    Call,
    /// Calls to a watched server that only reads.
    TrackedStream,
    /// Calls at a fixed rate to a watched server that only reads.
    Paced,
    /// Connections to this host.
    Connections,
    /// `connect` of a UDP socket.
    Datagrams,
    /// The same, to an address between those that rules name.
    NearDatagrams,
}

impl Workload {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::DevNull => "dev-null",
            Self::UntrackedPipe => "untracked-pipe",
            Self::TrackedPipe => "tracked-pipe",
            Self::TrackedSocket => "tracked-socket",
            Self::Call => "call",
            Self::TrackedStream => "tracked-stream",
            Self::Paced => "paced",
            Self::Connections => "connections",
            Self::Datagrams => "datagrams",
            Self::NearDatagrams => "near-datagrams",
        }
    }
}

/// The workloads that are compared, how many operations each takes, and the ratio that was promised.
pub fn ratios() -> [(Workload, u64, f64); 5] {
    [
        (Workload::DevNull, 1_000_000, 1.4),
        (Workload::UntrackedPipe, 60_000, 1.15),
        (Workload::TrackedPipe, 60_000, 1.6),
        (Workload::TrackedSocket, 60_000, 1.4),
        (Workload::TrackedStream, 200_000, 2.5),
    ]
}

/// What is counted as time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Time {
    /// What a clock on the wall shows.
    Wall,
    /// What both ends have of their processor. Where the agent has no other one, as in an emulator, what it does by itself is
    /// not in it.
    Processor,
}

impl Time {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Processor => "processor",
        }
    }

    /// Nanoseconds so far, of this process and of `other`.
    fn now(self, other: Option<&Child>) -> Result<u64> {
        let nanos = |clock: ClockId| -> Result<u64> {
            let now = Duration::from(clock.now().context("no such clock")?);
            Ok(u64::try_from(now.as_nanos())?)
        };
        match self {
            Self::Wall => nanos(ClockId::CLOCK_MONOTONIC),
            Self::Processor => {
                let own = nanos(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
                let other = other.map(|child| Pid::from_raw(child.id() as i32));
                let other = other.map(|pid| nanos(ClockId::pid_cpu_clock_id(pid)?)).transpose()?;
                Ok(own + other.unwrap_or(0))
            }
        }
    }
}

/// Runs one; nanoseconds an operation. With `judged` it begins once its server's calls are judged.
pub fn run(workload: Workload, count: u64, rate: u64, time: Time, judged: bool) -> Result<f64> {
    if workload != Workload::Paced {
        stay_on_one_processor()?;
    }
    match workload {
        Workload::DevNull => dev_null(count, time),
        Workload::UntrackedPipe => Line::pipes(Kind::EchoAside)?.ping_pong(count, time),
        Workload::TrackedPipe => Line::pipes(Kind::Echo)?.once(judged)?.ping_pong(count, time),
        Workload::TrackedSocket => Line::sockets(Kind::Echo)?.once(judged)?.ping_pong(count, time),
        Workload::Call => Line::pipes(Kind::Answer)?.once(judged)?.calls(count, time),
        Workload::TrackedStream => Line::pipes(Kind::Sink)?.stream(count),
        Workload::Paced => Line::pipes(Kind::Sink)?.paced(count, rate),
        Workload::Connections => connect::connections(count),
        Workload::Datagrams => connect::datagrams(connect::FAR, count),
        Workload::NearDatagrams => connect::datagrams(connect::NEAR, count),
    }
}

/// Both ends on the last processor: a ping-pong is then a switch, and the agent has the others.
fn stay_on_one_processor() -> Result<()> {
    let last = std::thread::available_parallelism()?.get() - 1;
    let mut set = CpuSet::new();
    set.set(last)?;
    sched_setaffinity(Pid::from_raw(0), &set).context("cannot pin to a processor")
}

fn dev_null(count: u64, time: Time) -> Result<f64> {
    let mut file = OpenOptions::new().write(true).open("/dev/null")?;
    let message = call(0);
    let start = time.now(None)?;
    for _ in 0..count {
        file.write_all(&message)?;
    }
    Ok((time.now(None)? - start) as f64 / count as f64)
}

/// The first request of a session.
pub const HELLO: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\"}}\n";

/// A `tools/call` of exactly [`MESSAGE_BYTES`].
pub fn call(id: u64) -> Vec<u8> {
    let head = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":""#
    );
    let tail = "\"}}}\n";
    let mut message = head.into_bytes();
    message.resize(MESSAGE_BYTES - tail.len(), b'x');
    message.extend_from_slice(tail.as_bytes());
    message
}

/// A call of a tool that is to be denied (`delete_*`).
const DENIED: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{\"name\":\"delete_it\"}}\n";

/// A connection to a peer.
struct Line {
    child: Child,
    to: File,
    from: File,
}

impl Line {
    fn pipes(kind: Kind) -> Result<Self> {
        let (request_read, request_write) = pipe2(OFlag::O_CLOEXEC)?;
        let (answer_read, answer_write) = pipe2(OFlag::O_CLOEXEC)?;
        Self::start(kind, request_read, answer_write, request_write, answer_read)
    }

    fn sockets(kind: Kind) -> Result<Self> {
        use std::os::unix::net::UnixStream;
        let (to, request) = UnixStream::pair()?;
        let (from, answer) = UnixStream::pair()?;
        Self::start(kind, request.into(), answer.into(), to.into(), from.into())
    }

    fn start(kind: Kind, stdin: OwnedFd, stdout: OwnedFd, to: OwnedFd, from: OwnedFd) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["peer", kind.name()]);
        if matches!(kind, Kind::EchoAside) {
            let (input, output) = (stdin.as_raw_fd(), stdout.as_raw_fd());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            // SAFETY: only dup2, which is safe between fork and exec. The descriptors are above 4, or where they
            // have to be.
            unsafe {
                command.pre_exec(move || {
                    let (input, output) = (libc::dup(input), libc::dup(output));
                    libc::fcntl(input, libc::F_DUPFD, 10);
                    if libc::dup2(input, 3) < 0 || libc::dup2(output, 4) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                    Ok(())
                });
            }
        } else {
            command.stdin(stdin).stdout(stdout);
        }
        let child = command.spawn()?;
        drop(command);
        let mut line = Self { child, to: to.into(), from: from.into() };
        // Its answer also says that the peer has started, which is not to be measured.
        line.to.write_all(HELLO)?;
        if !matches!(kind, Kind::Sink) {
            let mut buffer = [0; 4096];
            let _ = line.from.read(&mut buffer)?;
        }
        std::thread::sleep(patience(SETTLE));
        Ok(line)
    }

    /// Once its calls are judged, where they are to be: what is denied then comes back neutralized. The first calls of a server go
    /// by before the agent has put it into its table.
    fn once(mut self, judged: bool) -> Result<Self> {
        if !judged {
            return Ok(self);
        }
        let deadline = Instant::now() + patience(JUDGED_WITHIN);
        // In memory that may be written to: elsewhere it could not be neutralized, and would be refused.
        let denied = DENIED.to_vec();
        let mut answer = [0; 4096];
        loop {
            self.to.write_all(&denied)?;
            let size = self.from.read(&mut answer)?;
            if answer[..size].contains(&NEUTRAL_BYTE) {
                return Ok(self);
            }
            ensure!(Instant::now() < deadline, "calls are not judged");
            std::thread::sleep(SETTLE);
        }
    }

    fn ping_pong(mut self, count: u64, time: Time) -> Result<f64> {
        let message = call(1);
        let mut answer = [0; MESSAGE_BYTES];
        let start = time.now(Some(&self.child))?;
        for _ in 0..count {
            self.to.write_all(&message)?;
            self.from.read_exact(&mut answer)?;
        }
        let nanos = (time.now(Some(&self.child))? - start) as f64 / count as f64;
        self.end()?;
        Ok(nanos)
    }

    /// `count` calls, each once the one before has its answer.
    fn calls(self, count: u64, time: Time) -> Result<f64> {
        let Self { child, mut to, from } = self;
        let mut from = BufReader::new(from);
        let message = call(1);
        let mut answer = Vec::new();
        let start = time.now(Some(&child))?;
        for _ in 0..count {
            to.write_all(&message)?;
            answer.clear();
            from.read_until(b'\n', &mut answer)?;
        }
        let nanos = (time.now(Some(&child))? - start) as f64 / count as f64;
        Self { child, to, from: from.into_inner() }.end()?;
        Ok(nanos)
    }

    fn stream(mut self, count: u64) -> Result<f64> {
        let message = call(1);
        let start = Instant::now();
        for _ in 0..count {
            self.to.write_all(&message)?;
        }
        // Until the peer has read everything.
        self.end()?;
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    }

    /// `count` calls, `rate` of them a second.
    fn paced(mut self, count: u64, rate: u64) -> Result<f64> {
        let start = Instant::now();
        for id in 1..=count {
            self.to.write_all(&call(id))?;
            if id % 100 == 0 {
                let due = Duration::from_nanos(id * 1_000_000_000 / rate.max(1));
                if let Some(ahead) = due.checked_sub(start.elapsed()) {
                    std::thread::sleep(ahead);
                }
            }
        }
        let nanos = start.elapsed().as_nanos() as f64 / count as f64;
        self.end()?;
        Ok(nanos)
    }

    fn end(self) -> Result<()> {
        let Self { mut child, to, from } = self;
        drop((to, from));
        child.wait()?;
        Ok(())
    }
}
