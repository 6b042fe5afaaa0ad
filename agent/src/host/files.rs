//! The files of programs that run, and those that this host has at a path, whatever a process may see there: the facts that
//! `mcpwarden_policy::discovery::is_served_by` decides by.
//!
//! The host is the mount namespace of process 1: the agent's own may hide parts of it (`PrivateTmp=` of its unit). Where that may
//! not be looked at, it is the agent's own.

use std::{
    fs::{self, File, Metadata},
    io::Read as _,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::Path,
};

use mcpwarden_policy::{
    Process,
    discovery::{Declared, FileId, Files, HostFile, code_variables, loads},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    libc,
};

/// Most bytes of a script's first line that are read: more the kernel does not read either (`BINPRM_BUF_SIZE`).
const FIRST_LINE_BYTES: u64 = 256;

/// `linux/openat2.h`, which the crates do not have: only what the kernel has in memory is looked up.
const RESOLVE_CACHED: u64 = 0x20;

/// How often a path is looked up that changes meanwhile.
const LOOKUPS: usize = 64;

/// Most bytes of an environment that are read.
const ENVIRONMENT_BYTES: u64 = 256 << 10;

/// Completes what is known of a server's program, as far as declared servers ask for it.
pub fn complete(process: &mut Process, declared: &[Declared]) {
    process.files = of(process, declared);
    if !declared.is_empty() {
        process.code_variables = code_variables(&environment(process.pid));
    }
}

/// The environment that a process was started with; empty where it has ended.
fn environment(pid: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/environ")) {
        // What was read before an error is what there is.
        let _ = file.take(ENVIRONMENT_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

/// The files of what a process runs, and the host's at the paths that declared servers demand. `None` where none demands any.
pub fn of(process: &Process, declared: &[Declared]) -> Option<Box<Files>> {
    let demands = |declared: &Declared| !declared.executables.is_empty();
    if !declared.iter().any(demands) {
        return None;
    }
    let named = declared.iter().flat_map(|one| one.executables.first().into_iter().chain(&one.interpreter));
    let mut paths: Vec<&String> = named.collect();
    paths.sort_unstable();
    paths.dedup();
    let root = Root::of(host_process());
    let host = |path: &str, lookup| match &root {
        Some(root) => root.file(path, lookup),
        None => unknown(path),
    };
    let demanded: Vec<HostFile> = paths.iter().map(|path| host(path, Lookup::Script)).collect();
    let pid = process.pid.to_string();
    let runs = Opened::at(&format!("/proc/{pid}/exe"));
    let path = process.executable.as_deref().unwrap_or_default();
    Some(Box::new(Files {
        runs: runs.as_ref().map(Opened::id),
        mount: runs.as_ref().and_then(Opened::mount),
        at_path: host(path.strip_suffix(" (deleted)").unwrap_or(path), Lookup::Cached),
        script: script(process, &demanded),
        has_own_mounts: has_own_mounts(&pid),
        demanded,
    }))
}

fn unknown(path: &str) -> HostFile {
    HostFile { path: path.to_owned(), resolved: path.to_owned(), ..HostFile::default() }
}

/// What a process itself has at the path of the script that it was told to run, where that is a demanded one. Other paths are
/// not looked at: whoever chose them may have mounted what never answers there.
fn script(process: &Process, demanded: &[HostFile]) -> Option<FileId> {
    let Process { pid, argv, cwd, executable, .. } = process;
    let path = loads(argv, cwd.as_deref(), executable.as_deref())?;
    demanded.iter().find(|file| file.path == path || file.resolved == path)?;
    let root = Root::of(&pid.to_string())?;
    if !loads(argv, None, executable.as_deref())?.starts_with('/') {
        // The directory that it works in is the one of that path: it may have been mounted over since.
        let works_in = Opened::at(&format!("/proc/{pid}/cwd"))?.id();
        root.open(cwd.as_deref()?, Lookup::Plain).filter(|found| found.id() == works_in)?;
    }
    root.open(&path, Lookup::Plain).map(|found| found.id())
}

/// The process whose namespaces are the host's.
fn host_process() -> &'static str {
    if fs::metadata("/proc/1/ns/mnt").is_ok() { "1" } else { "self" }
}

/// Whether the mount namespace of a process is neither the host's nor one that the host's root has made.
fn has_own_mounts(pid: &str) -> bool {
    let namespace =
        |pid: &str, kind: &str| fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok().map(|file| id(&file));
    let own = namespace(pid, "mnt");
    let host = host_process();
    let is_hosts = own.is_some() && own == namespace(host, "mnt");
    let owner = || owner(&File::open(format!("/proc/{pid}/ns/mnt")).ok()?);
    !is_hosts && owner().is_none_or(|owner| Some(owner) != namespace(host, "user"))
}

/// The user namespace that a namespace belongs to (ioctl_nsfs(2), `NS_GET_USERNS`).
fn owner(namespace: &File) -> Option<FileId> {
    /// `_IO(0xb7, 0x1)`
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: the request takes no argument and returns a new descriptor, or -1.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    // SAFETY: the descriptor is new and nobody else's.
    let owner = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
    File::from(owner).metadata().ok().map(|file| id(&file))
}

fn id(file: &Metadata) -> FileId {
    FileId { device: file.dev(), inode: file.ino() }
}

/// How a path is looked up.
#[derive(Clone, Copy, PartialEq)]
enum Lookup {
    /// As it is.
    Plain,
    /// As it is, and the interpreter that it names as well.
    Script,
    /// Only as far as the kernel knows it already, as it knows the path of what runs: a path that a process chose may lead to a
    /// filesystem that never answers.
    Cached,
}

/// A file that was found, by a descriptor that cannot read it (`O_PATH`).
struct Opened {
    file: File,
    stat: libc::statx,
}

impl Opened {
    fn of(file: File) -> Option<Self> {
        // Without asking a filesystem that may be a user's and never answer.
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        let mask = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
        let mut stat = std::mem::MaybeUninit::<libc::statx>::zeroed();
        // SAFETY: the path is an empty text, and the kernel writes at most one `statx` to a place that is one.
        let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, mask, stat.as_mut_ptr()) };
        // SAFETY: all zeroes are a `statx`, and so is what the kernel wrote.
        (result == 0).then(|| Self { file, stat: unsafe { stat.assume_init() } })
    }

    /// Where a path leads for the agent.
    fn at(path: &str) -> Option<Self> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let fd = nix::fcntl::open(path, flags, nix::sys::stat::Mode::empty()).ok()?;
        Self::of(File::from(fd))
    }

    fn id(&self) -> FileId {
        let libc::statx { stx_dev_major, stx_dev_minor, stx_ino, .. } = self.stat;
        FileId { device: libc::makedev(stx_dev_major, stx_dev_minor), inode: stx_ino }
    }

    fn is_regular(&self) -> bool {
        u32::from(self.stat.stx_mode) & libc::S_IFMT == libc::S_IFREG
    }

    /// The mount that it was reached by.
    fn mount(&self) -> Option<u64> {
        (self.stat.stx_mask & libc::STATX_MNT_ID != 0).then_some(self.stat.stx_mnt_id)
    }

    /// Its path without links.
    fn path(&self) -> Option<String> {
        let path = fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()?;
        path.into_os_string().into_string().ok()
    }

    /// Its first bytes, of a regular file.
    fn first_line(&self) -> Option<Vec<u8>> {
        if !self.is_regular() {
            return None;
        }
        let mut bytes = Vec::new();
        let file = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()?;
        file.take(FIRST_LINE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Whether only root decides what it is.
    fn is_roots(&self) -> bool {
        let others = if self.stat.stx_gid == 0 { 0o002 } else { 0o022 };
        self.stat.stx_uid == 0 && self.stat.stx_mode & others == 0
    }
}

/// The root directory of a process: paths lead where they lead for that process.
struct Root(File);

impl Root {
    fn of(pid: &str) -> Option<Self> {
        Opened::at(&format!("/proc/{pid}/root")).map(|root| Self(root.file))
    }

    /// What a path leads to.
    fn open(&self, path: &str, lookup: Lookup) -> Option<Opened> {
        let mut resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        if lookup == Lookup::Cached {
            resolve |= ResolveFlag::from_bits_retain(RESOLVE_CACHED);
        }
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
        // Whoever renames or mounts something at this moment makes such a look-up fail, wherever that is.
        let mut results = (0..LOOKUPS).map(|_| openat2(&self.0, path, how));
        let settled = results.find(|result| !matches!(result, Err(Errno::EAGAIN)));
        settled?.ok().and_then(|fd| Opened::of(File::from(fd)))
    }

    /// What there is at a path.
    fn file(&self, path: &str, lookup: Lookup) -> HostFile {
        let found = self.open(path, lookup).filter(Opened::is_regular);
        let resolved = found.as_ref().and_then(Opened::path).unwrap_or_else(|| path.to_owned());
        let line = found.as_ref().filter(|_| lookup == Lookup::Script).and_then(Opened::first_line);
        let interpreter = line.and_then(|line| named(&line));
        let is_there = |path: &Path| self.open(path.to_str()?, lookup);
        let above: Vec<Opened> = Path::new(&resolved).ancestors().skip(1).filter_map(is_there).collect();
        HostFile {
            path: path.to_owned(),
            file: found.as_ref().map(Opened::id),
            mount: found.as_ref().or(above.first()).and_then(Opened::mount),
            is_roots: !above.is_empty() && above.iter().chain(&found).all(Opened::is_roots),
            interpreter: interpreter.map(|path| Box::new(self.file(&path, Lookup::Plain))),
            resolved,
        }
    }
}

/// The interpreter that a script's first line names by its path. `env` finds one by its name, which is no path.
fn named(line: &[u8]) -> Option<String> {
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let path = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    (path.starts_with('/') && !path.ends_with("/env")).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use mcpwarden_policy::{ServerId, discovery::is_served_by};

    use super::*;
    use crate::host::process;

    /// `read(2)` of x86-64.
    const SYS_READ: u32 = 0;

    /// A process that waits until its input ends.
    struct Waiting(Child);

    impl Waiting {
        /// Starts it, and waits until it reads. Its parent goes on before the kernel has set where its arguments and environment lie
        /// (`begin_new_exec` closes descriptors before `create_elf_tables`).
        fn start(command: &mut Command) -> Self {
            let process = Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
            let call = format!("/proc/{}/syscall", process.0.id());
            let read = format!("{SYS_READ} 0x0 ");
            for _ in 0..1_000 {
                if fs::read_to_string(&call).unwrap().starts_with(&read) {
                    return process;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("{command:?} does not read its input");
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn declared(executable: &Path, interpreter: Option<&Path>) -> Vec<Declared> {
        let text = |path: &Path| path.display().to_string();
        vec![Declared {
            id: ServerId("a".into()),
            command: "a".into(),
            args: Vec::new(),
            executables: vec![text(executable)],
            interpreter: interpreter.map(text),
        }]
    }

    /// Whether what runs in a process is what is declared.
    fn is(process: &Waiting, declared: &[Declared], adopted: bool) -> bool {
        let process = process::of(process.0.id());
        let files = of(&process, declared);
        let running = mcpwarden_policy::discovery::Running {
            argv: &process.argv,
            cwd: process.cwd.as_deref(),
            executable: process.executable.as_deref(),
            files: files.as_deref(),
            adopted,
        };
        is_served_by(&declared[0], &running)
    }

    /// A directory of this host, with `cat` in it as this.
    fn with_cat(name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::copy("/bin/cat", &path).unwrap();
        (directory, path)
    }

    #[test]
    fn running_program_is_compared_with_the_hosts_file() {
        let (directory, cat) = with_cat("cat");
        let link = directory.path().join("link");
        symlink(&cat, &link).unwrap();
        let (_other, evil) = with_cat("evil");
        for (name, program, demanded, expected) in [
            ("the program", &cat, &cat, true),
            ("by a link", &cat, &link, true),
            ("run by a link", &link, &cat, true),
            ("another one", &evil, &cat, false),
            ("one that is not there", &evil, &directory.path().join("none"), false),
        ] {
            let process = Waiting::start(&mut Command::new(program));
            assert_eq!(is(&process, &declared(demanded, None), false), expected, "{name}");
        }
        assert_eq!(of(&process::this(), &[]), None, "nobody asks");
    }

    #[test]
    fn upgraded_program_stays_the_declared_one() {
        let (_directory, cat) = with_cat("cat");
        let process = Waiting::start(&mut Command::new(&cat));
        fs::remove_file(&cat).unwrap();
        assert!(is(&process, &declared(&cat, None), true), "removed");
        fs::copy("/bin/true", &cat).unwrap();
        assert!(is(&process, &declared(&cat, None), true), "replaced");
        let (_other, evil) = with_cat("evil");
        let process = Waiting::start(&mut Command::new(&evil));
        fs::remove_file(&evil).unwrap();
        assert!(!is(&process, &declared(&cat, None), true), "another one that was removed");
    }

    /// A shell runs a script; what it runs it with, and whether that is the declared one.
    #[test]
    fn script_needs_its_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("a.sh");
        fs::write(&script, "#!/bin/sh\nread x\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let (_other, evil) = with_cat("sh");
        let by_itself = Waiting::start(&mut Command::new(&script));
        assert!(is(&by_itself, &declared(&script, None), false), "by its first line");
        let told = Waiting::start(Command::new("/bin/sh").arg(&script));
        assert!(is(&told, &declared(&script, None), false), "by the interpreter");
        let relative = Waiting::start(Command::new("/bin/sh").arg("a.sh").current_dir(directory.path()));
        assert!(is(&relative, &declared(&script, None), false), "below its directory");
        // It is called like a shell, and waits for its input.
        let fake = Waiting::start(Command::new(&evil).args(["-", script.to_str().unwrap()]));
        assert!(!is(&fake, &declared(&script, None), false), "by another program");
        let text =
            Waiting::start(Command::new("/bin/sh").args(["-c", "read x; :", script.to_str().unwrap()]));
        assert!(!is(&text, &declared(&script, None), false), "another text");
    }

    /// Names leave, values do not.
    #[test]
    fn environment_is_read_for_names_alone() {
        let mut command = Command::new("/bin/cat");
        let process = Waiting::start(command.env_clear().env("LD_LIBRARY_PATH", "/secret").env("A", "b"));
        let mut found = process::of(process.0.id());
        complete(&mut found, &[]);
        assert!(found.code_variables.is_empty(), "nobody asks");
        complete(&mut found, &declared(Path::new("/bin/cat"), None));
        assert_eq!(found.code_variables, ["LD_LIBRARY_PATH"]);
        assert!(!format!("{found:?}").contains("secret"));
    }

    /// A first line, and the interpreter that it names.
    #[test]
    fn first_line_names_an_interpreter() {
        for (line, expected) in [
            (&b"#!/bin/sh\n"[..], Some("/bin/sh")),
            (b"#! /usr/bin/python3 -u\n", Some("/usr/bin/python3")),
            (b"#!/v/bin/python", Some("/v/bin/python")),
            (b"#!/usr/bin/env node\n", None),
            (b"#!node\n", None),
            (b"#!\n", None),
            (b"\x7fELF", None),
            (b"#!\xff\n", None),
            (b"", None),
        ] {
            assert_eq!(named(line).as_deref(), expected, "{line:?}");
        }
    }
}
