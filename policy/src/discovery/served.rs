//! Whether the program that a declaration demands is what runs. Paths are text that a process can arrange: a bind mount in a
//! namespace of its own, an `argv[0]`, another image. Files are compared, by device and inode, as the host has them.

use super::command::{self, MULTI_CALL};
use super::{Declared, names, program, windows};

/// What the kernel puts behind the path of a file that no path leads to any more (`/proc/PID/exe`).
const DELETED: &str = " (deleted)";

/// A file, whatever it is called: the device number of its filesystem, and its inode there (`stat(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// `st_dev`
    pub device: u64,
    /// `st_ino`
    pub inode: u64,
}

/// What the host has at a path, whatever a process may see there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFile {
    /// The path.
    pub path: String,
    /// The same without links; the path itself where nothing is there.
    pub resolved: String,
    /// The file; `None`: there is none.
    pub file: Option<FileId>,
    /// The mount that it is on, or else its directory (`STATX_MNT_ID`).
    pub mount: Option<u64>,
    /// Whether only root can put another file there.
    pub is_roots: bool,
    /// The interpreter that its first line names by an absolute path (`#!/usr/bin/python3`).
    pub interpreter: Option<Box<HostFile>>,
}

/// The files of a program that runs, and those of the host that a declaration demands. All of it was there at one moment soon
/// after the program was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The file that runs (`/proc/PID/exe`); `None`: the process has ended.
    pub runs: Option<FileId>,
    /// The mount that it was run from.
    pub mount: Option<u64>,
    /// What the host has at the path of what runs.
    pub at_path: HostFile,
    /// What the process itself has at the path of the script that it was told to run.
    pub script: Option<FileId>,
    /// Whether somebody else than root can change what a path leads to for this process: its mount namespace is a user's.
    pub has_own_mounts: bool,
    /// What the host has at the paths that declarations name.
    pub demanded: Vec<HostFile>,
}

impl Files {
    /// Memory that they take, about.
    pub(crate) fn bytes(&self) -> usize {
        let of = |file: &HostFile| size_of::<HostFile>() + file.path.len() + file.resolved.len();
        let demanded: usize = self.demanded.iter().map(of).sum();
        size_of::<Self>() + of(&self.at_path) + demanded
    }

    fn host(&self, path: &str) -> Option<&HostFile> {
        self.demanded.iter().find(|file| file.path == path)
    }
}

/// A program that runs, as it is told and as it is.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// Its command line.
    pub argv: &'a [String],
    /// Its working directory.
    pub cwd: Option<&'a str>,
    /// The path of what runs, as the kernel gives it.
    pub executable: Option<&'a str>,
    /// Its files. `None` of a recording, which has paths alone.
    pub files: Option<&'a Files>,
    /// Whether it ran before the agent did: what the host had when it began is not known.
    pub adopted: bool,
}

impl Running<'_> {
    /// The path of what runs, or ran: without what says that it is there no more; and whether it is not.
    fn path(&self) -> (&str, bool) {
        let path = self.executable.unwrap_or_default();
        path.strip_suffix(DELETED).map_or((path, false), |path| (path, true))
    }

    /// The path of the script that the interpreter loads first.
    fn script(&self) -> Option<String> {
        loads(self.argv, self.cwd, self.executable)
    }
}

/// The path of the script that this command line has its interpreter load, below `cwd` where it is relative. `argv[0]` is what
/// a process likes: where it is not called like `executable`, the command line is read as that program's.
///
/// A script that runs another one (`mcp run FILE`) is what is loaded, and not the other.
pub fn loads(argv: &[String], cwd: Option<&str>, executable: Option<&str>) -> Option<String> {
    let executable = executable?;
    let executable = executable.strip_suffix(DELETED).unwrap_or(executable);
    let (program, args) = argv.split_first()?;
    let (base, told) = (names::base(executable), names::base(program));
    let read = if MULTI_CALL.contains(&base) || family(base) == family(told.trim_start_matches('-')) {
        command::read(argv)
    } else {
        let real: Vec<String> = std::iter::once(executable.to_owned()).chain(args.iter().cloned()).collect();
        command::read(&real)
    };
    let script = read.loads.filter(|script| !script.is_empty())?;
    Some(match cwd {
        Some(cwd) if !windows::is_absolute(&script) => format!("{cwd}/{script}"),
        _ => script,
    })
}

/// A program's name without its version: `python3.12` is `python`.
fn family(name: &str) -> &str {
    name.trim_end_matches(|last: char| last.is_ascii_digit() || matches!(last, '.' | '-'))
}

/// Whether what a declaration demands is what runs. Without a demand anything may.
///
/// | what is demanded | runs where |
/// |---|---|
/// | a program | the file that runs is the one that the host has at that path |
/// | | or it was that one, and was replaced or removed since: see `was` |
/// | a script | the interpreter was told to load that path, the process has the host's file there, nobody but root made its mounts, and the interpreter is one of the below |
///
/// The interpreter of a script is the declared one; without one, the one that the script's first line names by its path, or
/// any at a path of the host where only root can put a file.
pub fn is_served_by(declared: &Declared, running: &Running<'_>) -> bool {
    let Some(path) = declared.executables.first() else { return true };
    let Some(files) = running.files else {
        let program = program(running.argv, running.cwd, running.executable);
        let is = |path: &String| running.executable == Some(path) || program == *path;
        return declared.executables.iter().any(is);
    };
    let Some(demanded) = files.host(path) else { return false };
    is_program(demanded, files, running) || is_script(declared, demanded, files, running)
}

/// Whether the file that runs is, or was, the one at this path of the host.
fn is_program(demanded: &HostFile, files: &Files, running: &Running<'_>) -> bool {
    files.runs.is_some() && (files.runs == demanded.file || was(demanded, files, running))
}

/// Whether what runs was at this path before an upgrade, or at that of another version: its path is one of the host's, and the
/// same but for what changes with a version. Of a program that was just run that needs its file to be gone.
fn was(demanded: &HostFile, files: &Files, running: &Running<'_>) -> bool {
    let (path, is_gone) = running.path();
    // The path is text until it is known whose it is: the mount is the host's, or the host has that file there.
    let is_hosts = files.mount.is_some() && files.mount == demanded.mount
        || files.at_path.path == path && files.at_path.file == files.runs;
    let lasting = program::known_as(path);
    let is_same = path == demanded.path
        || lasting == program::known_as(&demanded.path)
        || lasting == program::known_as(&demanded.resolved);
    (is_gone || running.adopted) && is_hosts && is_same
}

fn is_script(declared: &Declared, demanded: &HostFile, files: &Files, running: &Running<'_>) -> bool {
    let is_demanded = |script: &String| *script == demanded.path || *script == demanded.resolved;
    // One that was removed since cannot be told from the host's by its file.
    let is_file = files.script == demanded.file && (demanded.file.is_some() || running.adopted);
    !files.has_own_mounts
        && is_file
        && running.script().is_some_and(|script| is_demanded(&script))
        && is_interpreter(declared, demanded, files, running)
}

fn is_interpreter(declared: &Declared, script: &HostFile, files: &Files, running: &Running<'_>) -> bool {
    if let Some(interpreter) = &declared.interpreter {
        return files.host(interpreter).is_some_and(|host| is_program(host, files, running));
    }
    if script.interpreter.as_ref().is_some_and(|named| is_program(named, files, running)) {
        return true;
    }
    let (path, is_gone) = running.path();
    let host = &files.at_path;
    let is_there = host.file.is_some() && host.file == files.runs;
    let was_there = is_gone && host.mount.is_some() && host.mount == files.mount;
    host.path == path && host.is_roots && (is_there || was_there)
}

#[cfg(test)]
mod tests;
