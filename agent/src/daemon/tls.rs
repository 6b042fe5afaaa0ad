//! Clients whose TLS is read: their libraries are searched for the functions to be probed and these are probed on a thread of their own, since a
//! search of a large program takes up to a second and a probe some milliseconds; what was found in a file is remembered.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::File,
    io,
    os::fd::AsRawFd as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use mcpwarden_abi::{
    TLS_FREE, TLS_HANDSHAKE, TLS_NO_ARGUMENT, TLS_RAX, TLS_RBX, TLS_READ, TLS_WRITE, TlsCookie,
};
use mcpwarden_kernel::{Kernel, TlsFunction, TlsProbes, TlsPrograms, TlsReturn};
use mcpwarden_tls::{
    Cache, FileId, Function, Image, Located, Location, Register, Returned, Role, Signatures, Stack, Value,
    Way, locate,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::host::{
    self,
    mapped::{self, Mapped},
    process,
};

/// What was found in files, below the state directory.
const CACHE: &str = "tls.json";
/// Most searches at once, one for each user. A process for which there is none left is searched at its next connection.
const MOST_SEARCHES: usize = 4;
/// How long the files of one process are searched at most.
const LONGEST_SEARCH: Duration = Duration::from_secs(10);
/// A process in which nothing was found is not searched again before that: its user could have the agent do nothing else.
const SEARCHED_AGAIN: Duration = Duration::from_secs(60);
/// How many of the files that are not read are named, and how much of each name. Bytes.
const MOST_NAMED: usize = 4;
const MOST_NAME_BYTES: usize = 256;
/// Most processes that are probed at once, and of one user. The others are reported as not inspected.
const MOST_PROCESSES: usize = 256;
const MOST_OF_USER: usize = 64;
/// Most descriptors for the probes of one process: of a library they are some ten, of a Go program some thirty.
const MOST_LINKS: usize = 96;

/// Which process: its id, and when it started in nanoseconds since boot.
pub type Client = (u32, u64);

/// What came of the search of a process.
pub struct Searched {
    /// Which one.
    pub client: Client,
    /// The probes.
    pub probes: TlsProbes,
    /// Why some or all of its TLS is not read.
    pub unread: Option<String>,
}

/// The clients whose TLS is to be read.
pub struct Tls {
    found: Arc<Mutex<Found>>,
    outcomes: (UnboundedSender<Searched>, UnboundedReceiver<Searched>),
    /// By process: its user.
    searching: HashMap<Client, Option<u32>>,
    probed: HashMap<Client, (Option<u32>, TlsProbes)>,
    /// Those in which nothing was found, when, and why.
    fruitless: HashMap<Client, (Instant, String)>,
    /// Why no process can be probed.
    unable: Option<String>,
}

/// What was found in files, and by what.
struct Found {
    cache: Cache,
    /// Where it is kept, and whether it has more than what is there.
    path: PathBuf,
    is_changed: bool,
    signatures: Option<Signatures>,
}

impl Tls {
    /// None yet; what was found in files is kept in a directory of the agent's own.
    pub fn open(directory: &Path) -> Self {
        let path = directory.join(CACHE);
        let signatures = Signatures::built_in();
        if let Err(error) = &signatures {
            tracing::error!("tls: the built-in signatures cannot be read: {error}; no TLS is read");
        }
        let signatures = signatures.ok();
        let version = signatures.as_ref().map_or("", Signatures::version);
        let (cache, error) = Cache::open(&path, version);
        if let Some(error) = error {
            tracing::warn!("tls: {error}");
        }
        let found = Found { cache, path, is_changed: false, signatures };
        Self {
            found: Arc::new(Mutex::new(found)),
            outcomes: unbounded_channel(),
            searching: HashMap::new(),
            probed: HashMap::new(),
            fruitless: HashMap::new(),
            unable: host::probes::unable(),
        }
    }

    /// Clients may connect soon: has the kernel take the programs of probes, which takes it some 100 ms.
    pub fn prepare(&self, kernel: &Kernel) {
        if self.unable.is_some() {
            return;
        }
        let programs = kernel.tls_programs();
        // Where no thread can be had, or the kernel refuses, that is reported with the first connection.
        let _ = thread::Builder::new().name("tls".to_owned()).spawn(move || match programs.load() {
            Ok(way) => tracing::debug!("tls: functions are probed by {way}"),
            Err(error) => tracing::debug!("tls: {error}"),
        });
    }

    /// A client has connected over TLS to what is to be read: has it searched and probed, unless it was.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn connected(
        &mut self,
        client: Client,
        uid: Option<u32>,
        kernel: &Kernel,
    ) -> Result<(), Cow<'static, str>> {
        if self.searching.contains_key(&client) || self.probed.contains_key(&client) {
            return Ok(());
        }
        if let Some((at, why)) = self.fruitless.get(&client)
            && at.elapsed() < SEARCHED_AGAIN
        {
            return Err(why.clone().into());
        }
        if let Some(why) = &self.unable {
            return Err(why.clone().into());
        }
        let of_user = self.probed.values().filter(|(user, _)| *user == uid).count();
        if self.probed.len() >= MOST_PROCESSES || of_user >= MOST_OF_USER {
            return Err("as many processes are probed as may be".into());
        } else if self.searching.len() >= MOST_SEARCHES || self.searching.values().any(|user| *user == uid) {
            return Err("another process was being searched".into());
        }
        let programs = kernel.tls_programs();
        let (found, sender) = (Arc::clone(&self.found), self.outcomes.0.clone());
        let search = move || {
            let searched = catch_unwind(AssertUnwindSafe(|| probe_process(client, &found, &programs)));
            let failed = |_| Searched {
                client,
                probes: TlsProbes::default(),
                unread: Some("the search of its files failed".to_owned()),
            };
            // Nobody waits for it any more where the agent ends.
            let _ = sender.send(searched.unwrap_or_else(failed));
            keep(&found);
        };
        let thread = thread::Builder::new().name("tls".to_owned()).spawn(search);
        thread.map_err(|error| format!("a thread that searches its files cannot be started: {error}"))?;
        self.searching.insert(client, uid);
        Ok(())
    }

    /// Waits for the next outcome; for ever where nothing is searched.
    pub async fn searched(&mut self) -> Option<Searched> {
        self.outcomes.1.recv().await
    }

    /// Keeps the probes of a process. One that has none is searched again at a connection that it makes later.
    pub fn keep(&mut self, client: Client, probes: TlsProbes, unread: Option<&str>) {
        let uid = self.searching.remove(&client).flatten();
        if probes.functions() > 0 {
            self.fruitless.remove(&client);
            self.probed.insert(client, (uid, probes));
        } else {
            self.fruitless.insert(client, (Instant::now(), unread.unwrap_or_default().to_owned()));
        }
    }

    /// Detaches the probes of processes that have ended, as `lives` says.
    pub fn forget_ended(&mut self, lives: impl Fn(Client) -> bool) {
        self.fruitless.retain(|client, _| lives(*client));
        let ended: Vec<TlsProbes> =
            self.probed.extract_if(|client, _| !lives(*client)).map(|(_, (_, probes))| probes).collect();
        if !ended.is_empty() {
            // Where no thread can be had, they are detached here.
            let _ = thread::Builder::new().name("tls".to_owned()).spawn(move || drop(ended));
        }
    }
}

/// Searches all files that a process runs code of, and probes what is found.
fn probe_process(client: Client, found: &Mutex<Found>, programs: &TlsPrograms) -> Searched {
    let (files, mut unread) = search(client.0, found);
    let mut probes = TlsProbes::default();
    for (file, functions) in files {
        if probes.links() + TlsProbes::most_links(&functions) > MOST_LINKS {
            unread = Some("it has more functions of TLS libraries than are probed".to_owned());
            continue;
        }
        // The file that was searched, whatever is where it was found.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        match programs.attach(client.0, &path, &functions) {
            Ok(more) => probes.add(more),
            Err(error) => {
                tracing::warn!("tls: {error}");
                unread = Some(error.to_string());
            }
        }
    }
    // Of another process with the same number nothing was found.
    if process::started(client.0) != Some(client.1) {
        (probes, unread) = (TlsProbes::default(), None);
    }
    tracing::debug!("tls: {} functions of process {} are probed", probes.functions(), client.0);
    Searched { client, probes, unread }
}

/// The files that a process runs code of and that have functions to be probed, and these; and why some or all of its TLS is not read.
fn search(pid: u32, found: &Mutex<Found>) -> (Vec<(File, Vec<TlsFunction>)>, Option<String>) {
    let mapped = i32::try_from(pid).map_err(|error| error.to_string());
    let mapped = mapped.and_then(|pid| mapped::code_of(pid).map_err(|error| error.to_string()));
    let mapped = match mapped {
        Ok(mapped) => mapped,
        Err(error) => return (Vec::new(), Some(format!("its memory map cannot be read: {error}"))),
    };
    let begun = Instant::now();
    let mut files = Vec::new();
    let mut unread = Vec::new();
    for Mapped { path, link } in mapped {
        if begun.elapsed() > LONGEST_SEARCH {
            unread.push("files that were not searched, since that took too long".to_owned());
            break;
        }
        let opened = File::open(&link);
        if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            let why = "the files that it runs code of cannot be opened; this takes CAP_CHECKPOINT_RESTORE";
            return (Vec::new(), Some(why.to_owned()));
        }
        let opened = opened.map_err(|error| error.to_string());
        let (file, located) =
            match opened.and_then(|file| located(&file, found).map(|located| (file, located))) {
                Ok(located) => located,
                Err(error) => {
                    unread.push(format!("{path} ({error})"));
                    continue;
                }
            };
        let mut functions = Vec::new();
        for stack in &located.stacks {
            match probes(stack) {
                Some(probes) => functions.extend(probes),
                None => unread.push(format!("{} in {path}", stack.library)),
            }
        }
        unread.extend(
            located.unknown.iter().map(|unknown| format!("{} in {path} ({})", unknown.library, unknown.why)),
        );
        if !functions.is_empty() {
            files.push((file, functions));
        }
    }
    // Whether it is the one that is used shows only with its connections.
    let why = match unread.as_slice() {
        _ if !files.is_empty() => None,
        [] => Some("none of its files has TLS of a known library".to_owned()),
        libraries => {
            let named: Vec<&str> = libraries.iter().take(MOST_NAMED).map(|name| clip(name)).collect();
            let more = libraries.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Some(format!("these files are not read: {}{more}", named.join(", ")))
        }
    };
    (files, why)
}

fn located(file: &File, found: &Mutex<Found>) -> Result<Located, String> {
    let id = FileId::of(file).map_err(|error| error.to_string())?;
    let signatures = {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.cache.get(id) {
            return Ok(known.clone());
        }
        found.signatures.clone().ok_or("there are no signatures")?
    };
    let mut image = Image::of_file(file).map_err(|error| error.to_string())?;
    let located = locate(&mut image, &signatures).map_err(|error| error.to_string())?;
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.cache.insert(id, located.clone());
    found.is_changed = true;
    Ok(located)
}

/// Writes what was found, where anything is new.
fn keep(found: &Mutex<Found>) {
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut found.is_changed)
        && let Err(error) = found.cache.write(&found.path)
    {
        tracing::warn!("tls: {error}");
    }
}

/// The beginning of a name.
fn clip(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MOST_NAME_BYTES)).unwrap_or(name)
}

/// The functions of a library, where both directions of its plaintext can be read by probes at entries and returns.
fn probes(stack: &Stack) -> Option<Vec<TlsFunction>> {
    let mut probes: Vec<TlsFunction> = stack.functions.iter().filter_map(probe).collect();
    let has = |role| probes.iter().any(|probe| probe.cookie.role == role);
    let (is_whole, shows_handshakes) = (has(TLS_WRITE) && has(TLS_READ), has(TLS_HANDSHAKE));
    for probe in &mut probes {
        probe.cookie.shows_handshakes = shows_handshakes;
    }
    is_whole.then_some(probes)
}

fn probe(function: &Function) -> Option<TlsFunction> {
    let role = match function.role {
        Role::Write => TLS_WRITE,
        Role::Read => TLS_READ,
        Role::Handshake => TLS_HANDSHAKE,
        Role::Free => TLS_FREE,
        Role::Seal | Role::Open | Role::Cipher => return None,
    };
    let register = |value: Value| {
        let argument = function.arguments.iter().find(|argument| argument.value == value)?;
        match argument.at {
            Location::Register(register) => number(register),
            Location::Stack(_) => None,
        }
    };
    let moves = matches!(role, TLS_WRITE | TLS_READ);
    let none = TLS_NO_ARGUMENT;
    let done = match function.returned {
        _ if !moves => none,
        Returned::Bytes => none,
        Returned::Status => register(Value::Done)?,
        Returned::Nothing => return None,
    };
    // It would be read twice.
    if moves && function.repeats {
        return None;
    }
    let cookie = TlsCookie {
        role,
        connection: register(Value::Connection)?,
        buffer: if moves { register(Value::Buffer)? } else { none },
        length: if moves { register(Value::Length)? } else { none },
        done,
        shows_handshakes: false,
        is_go: function.way == Way::GoTable,
    };
    let returns = match &function.returns {
        _ if !moves => TlsReturn::None,
        Some(places) if places.is_empty() => return None,
        Some(places) => TlsReturn::Places(places.clone()),
        None => TlsReturn::Probed(function.offset),
    };
    Some(TlsFunction { entry: function.probe.offset, returns, cookie })
}

/// Which register of arguments it is, as in [`TlsCookie`].
fn number(register: Register) -> Option<u8> {
    Some(match register {
        Register::Rdi => 0,
        Register::Rsi => 1,
        Register::Rdx => 2,
        Register::Rcx => 3,
        Register::R8 => 4,
        Register::R9 => 5,
        Register::Rax => TLS_RAX,
        Register::Rbx => TLS_RBX,
        _ => return None,
    })
}
