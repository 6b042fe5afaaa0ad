//! The client of a test as a process of its own: the program `peer`, which starts servers and writes to and reads from them as
//! the test says.
//!
//! A test has threads that take and give back memory, such as the one that collects the agent's events. The gate cannot
//! neutralize what a process writes while another thread of it changes its memory map, so that a test must not be the
//! client that the gate looks at. The process is started with the first server and ends with the test's process: all servers of
//! a test are of one client, and so of one session.
//!
//! The test and the process talk over a Unix socket, one connection for each thread of the client: a `Header` in JSON and
//! bytes behind it, each with its length in front.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::addressed;
use crate::io_methods::WriteMethod;
use crate::memory::{self, Memory};
use crate::patience::{LIMIT, patience};
use crate::places;
use crate::wiring::{Wired, Wiring};

/// Most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// What the test asks of a thread of the client; bytes to be written follow.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Start a server, whose only client this thread is. Gives its process id.
    Start(Program),
    /// Write to the same server as the thread that started it.
    Share(u32),
    /// Write all bytes, from memory of this kind.
    Write(WriteMethod, Memory),
    /// Call `write(2)` once. Gives how many bytes were written.
    WriteOnce,
    /// Call `send(2)` with `MSG_OOB`. Gives how many bytes were sent.
    SendUrgent,
    /// Set or clear `O_NONBLOCK` of the server's input.
    Nonblocking(bool),
    /// Read what there is, and wait for it.
    Read,
    /// Close the server's input.
    Close,
    /// Wait for the server's end. Gives its raw status.
    Wait,
    /// End the server by SIGKILL.
    Kill,
    /// Have another thread change the memory map of the process for as long as this is set.
    ChangeMemory(bool),
}

/// What to start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Program {
    wiring: Wiring,
    /// The program and its arguments, as bytes: they need not be UTF-8.
    words: Vec<Vec<u8>>,
    /// Variables that are set or, without a value, removed.
    environment: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    directory: Option<PathBuf>,
}

impl Program {
    /// What `command` would start.
    pub fn of(wiring: Wiring, command: &Command) -> Self {
        let bytes = |word: &std::ffi::OsStr| word.as_bytes().to_vec();
        let words = std::iter::once(command.get_program()).chain(command.get_args()).map(bytes).collect();
        let environment = command.get_envs().map(|(name, value)| (bytes(name), value.map(bytes))).collect();
        Self { wiring, words, environment, directory: command.get_current_dir().map(Path::to_owned) }
    }

    fn start(self) -> io::Result<Wired> {
        let mut words = self.words.into_iter().map(OsString::from_vec);
        let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
        command.args(words);
        for (name, value) in self.environment {
            let name = OsString::from_vec(name);
            match value {
                Some(value) => command.env(name, OsString::from_vec(value)),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        if self.wiring.is_addressed() {
            return addressed::start(self.wiring, &mut command);
        }
        self.wiring.channels()?.spawn(&mut command)
    }
}

/// What came of it; bytes that were read follow.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// A number, or the error of the kernel.
    pub outcome: Result<i64, i32>,
    /// Whether the memory that was written from is not what it was before.
    pub is_changed: bool,
}

/// A thread of the client, to be told what to do.
#[derive(Debug)]
pub struct ClientThread(UnixStream);

impl ClientThread {
    /// A new one.
    ///
    /// # Errors
    /// The process cannot be started, or has ended.
    pub fn start() -> Result<Self> {
        let process = process()?;
        let stream = UnixStream::connect(&process.socket).context("the client has ended")?;
        Ok(Self(stream))
    }

    /// Has it do something: the kernel's number and what was read.
    ///
    /// # Errors
    /// The kernel's, or the process has ended.
    pub fn ask(&mut self, request: &Request, bytes: &[u8]) -> io::Result<(i64, Vec<u8>)> {
        let (reply, bytes) = self.reply(request, bytes)?;
        Ok((reply.outcome.map_err(io::Error::from_raw_os_error)?, bytes))
    }

    /// The same, with what became of the memory.
    ///
    /// # Errors
    /// The process has ended.
    pub fn reply(&mut self, request: &Request, bytes: &[u8]) -> io::Result<(Reply, Vec<u8>)> {
        send(&mut self.0, request, bytes)?;
        receive(&mut self.0)
    }

    /// Writes all bytes with one or more `write(2)`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_by(WriteMethod::Write, bytes)
    }

    /// Writes all bytes in this way.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_by(&mut self, method: WriteMethod, bytes: &[u8]) -> io::Result<()> {
        self.ask(&Request::Write(method, Memory::Heap), bytes).map(drop)
    }

    /// Calls `write(2)` once; how many bytes were written.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_once(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (count, _) = self.ask(&Request::WriteOnce, bytes)?;
        usize::try_from(count).map_err(io::Error::other)
    }

    /// Has writes fail where there is no room, or wait for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn nonblocking(&mut self, is_set: bool) -> io::Result<()> {
        self.ask(&Request::Nonblocking(is_set), &[]).map(drop)
    }
}

/// The process id of the client.
///
/// # Errors
/// It cannot be started.
pub fn pid() -> Result<u32> {
    Ok(process()?.child.id())
}

struct Process {
    child: Child,
    socket: PathBuf,
    _directory: TempDir,
}

/// The one client of this process. It ends when its standard input does, which is when this process ends.
fn process() -> Result<&'static Process> {
    static PROCESS: Mutex<Option<&'static Process>> = Mutex::new(None);
    let mut known = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(process) = *known {
        return Ok(process);
    }
    let directory = tempfile::Builder::new().prefix("mcpwarden-peer-").tempdir()?;
    let socket = directory.path().join("socket");
    // Its standard output is no channel: a process with two of them would be taken for a server.
    let mut child = Command::new(places::program("peer"))
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the program `peer`")?;
    let deadline = Instant::now() + patience(LIMIT);
    while UnixStream::connect(&socket).is_err() {
        ensure!(
            Instant::now() < deadline && child.try_wait()?.is_none(),
            "the program `peer` does not listen"
        );
        thread::sleep(std::time::Duration::from_millis(1));
    }
    // Never freed, as a static.
    let process = Box::leak(Box::new(Process { child, socket, _directory: directory }));
    *known = Some(process);
    Ok(process)
}

/// What the program `peer` does: serves threads until its standard input ends.
///
/// # Errors
/// It cannot listen.
pub fn serve(socket: &Path) -> Result<()> {
    let listener = std::os::unix::net::UnixListener::bind(socket)?;
    let shared = Arc::new(Shared::default());
    let threads = Arc::clone(&shared);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = Arc::clone(&threads);
            thread::spawn(move || {
                Thread { shared: &shared, input: None, server: None, is_addressed: false }.serve(stream)
            });
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    // The directory of the socket is the test's, which can be gone without having cleaned up.
    if let Some(directory) = socket.parent() {
        let _ = std::fs::remove_dir_all(directory);
    }
    shared.servers().values().for_each(|server| server.kill());
    Ok(())
}

/// What all threads of the client know.
#[derive(Default)]
struct Shared {
    servers: Mutex<HashMap<u32, Input>>,
    changes_memory: AtomicBool,
}

/// The input of a server.
struct Input {
    fd: OwnedFd,
    pid: u32,
}

impl Input {
    fn kill(&self) {
        if let Ok(pid) = i32::try_from(self.pid) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

impl Shared {
    fn servers(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Input>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread of the client.
struct Thread<'a> {
    shared: &'a Arc<Shared>,
    input: Option<OwnedFd>,
    server: Option<(Child, std::fs::File)>,
    /// Whether its input and output are one connection.
    is_addressed: bool,
}

impl Thread<'_> {
    fn serve(mut self, mut stream: UnixStream) {
        while let Ok((request, bytes)) = receive::<Request>(&mut stream) {
            let mut read = Vec::new();
            let mut is_changed = false;
            let outcome = self.execute(request, &bytes, &mut read, &mut is_changed);
            let outcome = outcome.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO));
            if send(&mut stream, &Reply { outcome, is_changed }, &read).is_err() {
                break;
            }
        }
        if let Some((mut child, _)) = self.server {
            self.shared.servers().remove(&child.id());
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn execute(
        &mut self,
        request: Request,
        bytes: &[u8],
        read: &mut Vec<u8>,
        is_changed: &mut bool,
    ) -> io::Result<i64> {
        let count = |count: usize| i64::try_from(count).map_err(io::Error::other);
        match request {
            Request::Start(program) => {
                self.is_addressed = program.wiring.is_addressed();
                let Wired { child, to_child, from_child } = program.start()?;
                let pid = child.id();
                let input = OwnedFd::from(to_child);
                self.shared.servers().insert(pid, Input { fd: input.try_clone()?, pid });
                self.input = Some(input);
                self.server = Some((child, from_child));
                Ok(pid.into())
            }
            Request::Share(pid) => {
                let servers = self.shared.servers();
                self.input = Some(servers.get(&pid).ok_or(io::ErrorKind::NotFound)?.fd.try_clone()?);
                Ok(0)
            }
            Request::Write(method, kind) => {
                let input = self.input()?;
                let memory = memory::of(kind, bytes)?;
                let written = method.write(input.as_fd(), memory.bytes());
                *is_changed = memory.differs_from(bytes);
                written.map(|()| 0)
            }
            Request::WriteOnce => count(nix::unistd::write(self.input()?.as_fd(), bytes)?),
            Request::SendUrgent => {
                let fd = self.input()?.as_raw_fd();
                // SAFETY: a buffer of that length.
                let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_OOB) };
                if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as i64) }
            }
            Request::Nonblocking(is_set) => {
                let flags = if is_set { OFlag::O_NONBLOCK } else { OFlag::empty() };
                Ok(fcntl(self.input()?, FcntlArg::F_SETFL(flags))?.into())
            }
            Request::Read => {
                let (_, from_server) = self.server.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                let timeout = PollTimeout::try_from(patience(LIMIT)).map_err(io::Error::other)?;
                if poll(&mut [PollFd::new(from_server.as_fd(), PollFlags::POLLIN)], timeout)? == 0 {
                    return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
                }
                read.resize(READ_BYTES, 0);
                let length = from_server.read(read)?;
                read.truncate(length);
                count(length)
            }
            Request::Close => {
                if let Some(input) = self.input.take().filter(|_| self.is_addressed) {
                    // What the server writes is read from the same socket.
                    shutdown(input.as_raw_fd(), Shutdown::Write)?;
                }
                if let Some((child, _)) = &self.server {
                    self.shared.servers().remove(&child.id());
                }
                Ok(0)
            }
            Request::Wait | Request::Kill => {
                let (child, _) = self.server.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                if matches!(request, Request::Kill) {
                    child.kill()?;
                }
                Ok(std::os::unix::process::ExitStatusExt::into_raw(child.wait()?).into())
            }
            Request::ChangeMemory(is_set) => {
                if self.shared.changes_memory.swap(is_set, Ordering::Relaxed) != is_set && is_set {
                    let shared = Arc::clone(self.shared);
                    thread::spawn(move || {
                        while shared.changes_memory.load(Ordering::Relaxed) {
                            memory::change_map();
                        }
                    });
                }
                Ok(0)
            }
        }
    }

    fn input(&self) -> io::Result<&OwnedFd> {
        self.input.as_ref().ok_or(io::ErrorKind::NotConnected.into())
    }
}

fn send(to: &mut impl Write, header: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut message = Vec::with_capacity(header.len() + bytes.len() + 16);
    for part in [&header[..], bytes] {
        message.extend_from_slice(&(part.len() as u64).to_le_bytes());
        message.extend_from_slice(part);
    }
    to.write_all(&message)
}

fn receive<T: for<'de> Deserialize<'de>>(from: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut part = || -> io::Result<Vec<u8>> {
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let length = usize::try_from(u64::from_le_bytes(length)).map_err(io::Error::other)?;
        let mut part = vec![0; length];
        from.read_exact(&mut part)?;
        Ok(part)
    };
    let header = serde_json::from_slice(&part()?)?;
    Ok((header, part()?))
}
