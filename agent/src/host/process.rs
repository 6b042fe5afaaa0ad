//! What /proc tells of a process, where the kernel half could not say it.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
};

use mcpwarden_capture::{Parent, Processes};
use mcpwarden_policy::Process;
use procfs::process::{MMPermissions, MMapPath};

use crate::host::cgroup;

/// Longest command line that is kept. Bytes.
const ARGV_BYTES: usize = 4096;

/// Completes what is known of a process: working directory, executable, and the command line where there is
/// none. The process may be gone; what is not there stays absent.
pub fn complete(process: &mut Process) {
    let Ok(entry) = procfs::process::Process::new(process.pid as i32) else { return };
    process.cwd = entry.cwd().ok().map(|path| path.to_string_lossy().into_owned());
    process.executable = entry.exe().ok().map(|path| path.to_string_lossy().into_owned());
    if process.argv.is_empty()
        && let Ok(argv) = entry.cmdline()
    {
        let mut room = ARGV_BYTES;
        for arg in argv {
            if arg.len() >= room {
                process.argv_truncated = true;
                break;
            }
            room -= arg.len() + 1;
            process.argv.push(arg);
        }
    }
    if process.uid.is_none() {
        process.uid = entry.status().ok().map(|status| status.ruid);
    }
}

/// What /proc tells, for capture.
pub struct Proc;

impl Processes for Proc {
    fn complete(&self, process: &mut Process) {
        complete(process);
    }

    fn client(&self, ancestors: &[u32], parent: Parent, is_fork: bool) -> Option<Process> {
        client(ancestors, parent, is_fork)
    }

    fn lives(&self, pid: u32, start_ns: u64) -> bool {
        lives(pid, start_ns)
    }
}

/// This process, as others see it.
pub fn this() -> Process {
    of(std::process::id())
}

/// A process, as far as /proc tells; it may be gone.
pub fn of(pid: u32) -> Process {
    let (start_ns, ancestors) = (started(pid).unwrap_or_default(), ancestors(pid));
    let mut process = Process { pid, start_ns, cgroup: cgroup(pid), ancestors, ..Process::default() };
    complete(&mut process);
    process
}

/// The path of what a process runs now.
pub fn executable(pid: u32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// The parents of a process, nearest first, as long as they live.
pub fn ancestors(pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| {
        let stat = procfs::process::Process::new(*pid as i32).ok()?.stat().ok()?;
        Some(stat.ppid.unsigned_abs()).filter(|parent| *parent != 0)
    };
    std::iter::successors(parent(&pid), parent).take(mcpwarden_abi::ANCESTORS).collect()
}

/// When a process started, as coarse as the kernel tells it to everybody: what it tells us and what it tells them are
/// then the same.
pub fn coarse(start_ns: u64) -> u64 {
    start_ns / tick_ns() * tick_ns()
}

/// Who the parent of each process is.
pub fn parents() -> BTreeMap<u32, u32> {
    let Ok(all) = procfs::process::all_processes() else { return BTreeMap::new() };
    let stats = all.filter_map(|process| process.ok()?.stat().ok());
    stats.map(|stat| (stat.pid.unsigned_abs(), stat.ppid.unsigned_abs())).collect()
}

/// Who holds each socket, by its inode, as far as /proc tells.
pub fn holders_of_sockets() -> HashMap<u64, Vec<u32>> {
    let mut holders: HashMap<u64, Vec<u32>> = HashMap::new();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // Gone, or of a kind that has none.
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Ok(target) = fs::read_link(descriptor.path()) else { continue };
            let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
            let Some(inode) = inode.and_then(|number| number.parse().ok()) else { continue };
            let pids = holders.entry(inode).or_default();
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
    }
    holders
}

/// The path of a process in the cgroup v2 tree (`0::/user.slice/…` in /proc/PID/cgroup).
fn cgroup(pid: u32) -> Option<String> {
    let cgroups = procfs::process::Process::new(pid as i32).ok()?.cgroups().ok()?;
    cgroups.into_iter().find(|cgroup| cgroup.hierarchy == 0).map(|cgroup| cgroup.pathname)
}

/// The kernel tells everybody else when a process started in these. Nanoseconds.
fn tick_ns() -> u64 {
    1_000_000_000 / procfs::ticks_per_second().max(1)
}

/// When a process started, in nanoseconds since boot, as exactly as the kernel tells it to everybody.
pub fn started(pid: u32) -> Option<u64> {
    /// `linux/sched.h`
    const PF_EXITING: u32 = 4;
    let stat = procfs::process::Process::new(pid as i32).ok()?.stat().ok()?;
    // A zombie is no client any more. One that ends has no memory some time before it is a zombie, longer on a busy host.
    let has_ended = matches!(stat.state, 'Z' | 'X') || stat.flags & PF_EXITING != 0;
    (!has_ended).then(|| stat.starttime * tick_ns())
}

/// Which process has a number, while it lives: when it started, and the path of what it runs.
pub fn running(pid: u32) -> Option<(u64, Option<String>)> {
    Some((started(pid)?, executable(pid)))
}

/// Whether a process that started then (as [`coarse`] says it) is still there.
pub fn lives(pid: u32, start_ns: u64) -> bool {
    started(pid) == Some(coarse(start_ns))
}

/// The client of a process: its parent, or who is above a parent that `is_fork` and has ended. A client that forks
/// twice does so to be nobody's parent.
///
/// `parent` is what the kernel half knows of the first of `ancestors`: that one may have ended.
fn client(ancestors: &[u32], parent: Parent, is_fork: bool) -> Option<Process> {
    let (pid, above) = ancestors.split_first()?;
    let mut client = match above.split_first() {
        Some((client, above)) if is_fork && started(*pid).is_none() => Process {
            pid: *client,
            start_ns: started(*client).unwrap_or(0),
            ancestors: above.to_vec(),
            ..Process::default()
        },
        _ => Process {
            pid: *pid,
            start_ns: coarse(parent.start_ns),
            uid: parent.uid,
            cgroup_id: parent.cgroup_id,
            ancestors: above.to_vec(),
            ..Process::default()
        },
    };
    complete(&mut client);
    client.cgroup = client.cgroup_id.and_then(cgroup::path_of).or_else(|| cgroup(client.pid));
    Some(client)
}

/// Gives what was freed back to the kernel, as a start and a reload leave it: compiling rules and programs takes tens of
/// megabytes, and what another thread took, glibc keeps for it in an arena of its own.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and any thread may call it at any time (malloc_trim(3)).
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

/// Gives back what the start alone needed of the program's file: the kernel half, parsers, help. The pages stay in the
/// kernel's cache of files, so what runs on is found there as it is needed and is not read from the disk
/// (`MADV_PAGEOUT` would have it read: it takes them from the cache, and the agent stands still at its first messages).
pub fn give_program_back() {
    let Ok(process) = procfs::process::Process::myself() else { return };
    let (Ok(program), Ok(maps)) = (process.exe(), process.smaps()) else { return };
    for map in maps {
        let is_ours = matches!(&map.pathname, MMapPath::Path(path) if *path == program);
        // What was changed in memory, as by relocations, the file does not have.
        let is_the_files = map.extension.map.get("Anonymous") == Some(&0);
        if is_ours && is_the_files && !map.perms.contains(MMPermissions::WRITE) {
            let (from, to) = map.address;
            // SAFETY: the range is a mapping of this process's own program that nothing writes to and no byte of which
            // differs from the file, so what is read there afterwards is what was there (madvise(2), MADV_DONTNEED).
            unsafe {
                nix::libc::madvise(from as *mut _, (to - from) as usize, nix::libc::MADV_DONTNEED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_nearest_live_ancestor() {
        let (own, none) = (std::process::id(), u32::MAX >> 1);
        let start = started(own).unwrap();
        // Ancestors, whether the parent is a fork, the client.
        type Case<'a> = (&'a [u32], bool, Option<(u32, u64)>);
        let cases: [Case<'_>; 6] = [
            (&[], false, None),
            (&[own, 1], false, Some((own, start))),
            (&[own, 1], true, Some((own, start))),
            (&[none, own], true, Some((own, start))),
            (&[none, own], false, Some((none, start))),
            (&[none], true, Some((none, start))),
        ];
        for (ancestors, is_fork, expected) in cases {
            let found = client(ancestors, Parent { start_ns: start + 1, ..Parent::default() }, is_fork)
                .map(|client| (client.pid, client.start_ns));
            assert_eq!(found, expected, "{ancestors:?} {is_fork}");
        }
    }

    #[test]
    fn socket_holders_are_found_by_inode() {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let inode = nix::sys::stat::fstat(&socket).unwrap().st_ino;
        assert_eq!(holders_of_sockets().get(&inode), Some(&vec![std::process::id()]));
    }

    #[test]
    fn process_fields_are_completed_from_proc() {
        let mut process = Process { pid: std::process::id(), ..Default::default() };
        complete(&mut process);
        assert!(process.executable.is_some() && process.cwd.is_some());
        assert!(!process.argv.is_empty());
        assert_eq!(process.uid, Some(nix::unistd::getuid().as_raw()));
        assert!(cgroup(std::process::id()).is_none_or(|path| path.starts_with('/')));
        assert_eq!(cgroup(u32::MAX >> 1), None);
        // One that is gone has none, and is not taken for root's.
        let mut gone = Process { pid: u32::MAX >> 1, ..Default::default() };
        complete(&mut gone);
        assert_eq!((gone.uid, gone.cgroup_id), (None, None));
        // What the kernel half knew of it stays.
        let parent = Parent { start_ns: 5, uid: Some(7), cgroup_id: Some(1) };
        let gone = client(&[u32::MAX >> 1], parent, false).unwrap();
        assert_eq!((gone.uid, gone.cgroup_id), (Some(7), Some(1)));
    }
}
