//! Who holds which channel, counted by the kernel itself: one pass over every descriptor on the host, in every
//! namespace, without touching /proc.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read},
};

use mcpwarden_abi::record::read;
use mcpwarden_abi::{CARRIER_PACKETS, CARRIER_PTY, ChannelKey, Holder, PENDING_UNKNOWN};

use mcpwarden_system::boot::boot_ns;

/// Threads of one process that are looked at, to find whether one is in the middle of a call.
const TASKS_OF_ONE: usize = 4096;
/// Threads of all processes that one fd scan looks at: some ten microseconds each.
const TASKS: usize = 32_768;

/// One side of a channel, and what is done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    /// The channel.
    pub key: ChannelKey,
    /// Whether it is written to; else it is read from.
    pub writes: bool,
}

/// What is not captured, though messages could go through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Unix sockets of datagrams or sequenced packets.
    Packets,
    /// A terminal.
    Pty,
}

impl Carrier {
    /// What an entry of the scan says.
    fn of(key: &ChannelKey) -> Option<Self> {
        match key.inode {
            CARRIER_PACKETS => Some(Self::Packets),
            CARRIER_PTY => Some(Self::Pty),
            _ => None,
        }
    }
}

/// What one pass found.
#[derive(Debug, Default)]
pub struct FdScan {
    /// When it began; nanoseconds since boot.
    pub began_ns: u64,
    /// When it had seen every descriptor; nanoseconds since boot.
    pub ended_ns: u64,
    /// Every descriptor that is a channel.
    pub holders: Vec<Holder>,
    /// Processes with stdin and stdout that are not captured, though a server's messages could go through them.
    pub uncaptured: Vec<(u32, Carrier)>,
    /// The sides that were asked for where nobody is in the middle of a call, and how many bytes wait to be read there,
    /// at most: 0 on a side that is written to.
    pub idle: HashMap<Side, u64>,
    /// Processes with more threads than were looked at.
    pub tasks_skipped: u64,
}

/// Reads an fd scan to its end, and then looks at what the holders of the sides asked for are doing. The time it takes
/// grows with the descriptors open on the host (about a microsecond each), so this is no work for the thread that drains
/// the ring.
pub fn take(mut file: File, sides: &HashSet<Side>) -> io::Result<FdScan> {
    let began_ns = boot_ns();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let found = bytes.chunks_exact(size_of::<Holder>()).filter_map(read::<Holder>);
    let (uncaptured, holders): (Vec<Holder>, Vec<Holder>) = found.partition(|found| found.key.device == 0);
    let uncaptured = uncaptured.into_iter().filter_map(|found| Some((found.pid, Carrier::of(&found.key)?)));
    let uncaptured = uncaptured.collect();
    let mut fd_scan = FdScan { began_ns, ended_ns: boot_ns(), holders, uncaptured, ..FdScan::default() };
    let mut holders_of: HashMap<ChannelKey, Vec<&Holder>> =
        sides.iter().map(|side| (side.key, Vec::new())).collect();
    for holder in &fd_scan.holders {
        if let Some(holders) = holders_of.get_mut(&holder.key) {
            holders.push(holder);
        }
    }
    let mut calls = Calls::new(TASKS_OF_ONE, TASKS);
    for side in sides {
        let holders = holders_of.get(&side.key).map_or(&[][..], Vec::as_slice);
        if let Some(waiting) = waiting(side, holders)
            && !holders.iter().any(|holder| calls.is_in(holder, side.writes))
        {
            fd_scan.idle.insert(*side, waiting);
        }
    }
    fd_scan.tasks_skipped = calls.skipped;
    Ok(fd_scan)
}

/// How many bytes wait to be read on a side, at most; `None` where that is not known.
fn waiting(side: &Side, holders: &[&Holder]) -> Option<u64> {
    if side.writes {
        return Some(0);
    }
    let waiting = holders.iter().map(|holder| holder.pending).max();
    waiting.filter(|bytes| *bytes != PENDING_UNKNOWN)
}

/// A call that moves bytes and waits: of which descriptor, and whether it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    fd: u32,
    writes: bool,
}

/// In the middle of which calls processes are, each looked at once.
struct Calls {
    by_process: HashMap<u32, HashSet<Call>>,
    of_one: usize,
    room: usize,
    skipped: u64,
}

impl Calls {
    fn new(of_one: usize, room: usize) -> Self {
        Self { by_process: HashMap::new(), of_one, room, skipped: 0 }
    }

    /// Whether a thread of the holder is in the middle of a call on its descriptor. What cannot be looked at (it takes
    /// CAP_SYS_PTRACE) counts as no, and so do the threads beyond the bounds: nobody hides behind threads.
    fn is_in(&mut self, holder: &Holder, writes: bool) -> bool {
        if !self.by_process.contains_key(&holder.pid) {
            let calls = self.look(holder.pid);
            self.by_process.insert(holder.pid, calls);
        }
        let call = Call { fd: holder.fd, writes };
        self.by_process.get(&holder.pid).is_some_and(|calls| calls.contains(&call))
    }

    fn look(&mut self, pid: u32) -> HashSet<Call> {
        let mut calls = HashSet::new();
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return calls };
        for (count, task) in tasks.filter_map(Result::ok).enumerate() {
            if count >= self.of_one || self.room == 0 {
                self.skipped += 1;
                break;
            }
            self.room -= 1;
            if let Ok(line) = fs::read_to_string(task.path().join("syscall")) {
                calls.extend(waits_in(&line).into_iter().flatten());
            }
        }
        calls
    }
}

/// `linux/socket.h`
const MSG_WAITALL: u64 = 0x100;

/// The call in a line of `/proc/PID/syscall`, as a 64-bit and as a 32-bit one, if it can wait with bytes that it has
/// already moved: all that write, and those that read until a buffer or a vector is full. The line holds the number and
/// the arguments in hexadecimal. Numbers: `syscall_64.tbl` and `syscall_32.tbl` of `arch/x86`.
fn waits_in(line: &str) -> [Option<Call>; 2] {
    let mut words = line.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse().ok()) else { return [None; 2] };
    let arguments: Vec<u64> =
        words.take(6).map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    let writes = |at: usize| Some(Call { fd: *arguments.get(at)? as u32, writes: true });
    let reads = |flags: Option<usize>| {
        let waits = match flags {
            Some(at) => arguments.get(at)? & MSG_WAITALL != 0,
            None => true,
        };
        waits.then_some(Call { fd: *arguments.first()? as u32, writes: false })
    };
    let native = match number {
        // write, writev, sendfile, sendto, sendmsg, vmsplice, sendmmsg, pwritev2
        1 | 20 | 40 | 44 | 46 | 278 | 307 | 328 => writes(0),
        // splice, tee
        275 => writes(2),
        276 => writes(1),
        // recvfrom, recvmsg, recvmmsg
        45 => reads(Some(3)),
        47 => reads(Some(2)),
        299 => reads(None),
        _ => None,
    };
    let compat = match number {
        // write, writev, sendfile, sendfile64, vmsplice, sendmmsg, sendto, sendmsg, pwritev2
        4 | 146 | 187 | 239 | 316 | 345 | 369 | 370 | 379 => writes(0),
        313 => writes(2),
        315 => writes(1),
        // recvfrom, recvmsg, recvmmsg
        371 => reads(Some(3)),
        372 => reads(Some(2)),
        337 | 417 => reads(None),
        _ => None,
    };
    [native, compat]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_io_calls_are_parsed() {
        let writes = |fd| Some(Call { fd, writes: true });
        let reads = |fd| Some(Call { fd, writes: false });
        let cases = [
            ("running", [None, None]),
            ("-1 0x7ffc 0x7f3b", [None, None]),
            ("1 0x4 0x7f6474bd1030 0xf4240 0x0 0x0 0x0 0x7ffd 0x7f64", [writes(4), None]),
            ("0 0x4 0x7f6474bd1030 0xf4240 0x0 0x0 0x0 0x7ffd 0x7f64", [None, None]),
            ("275 0x4 0x0 0x9 0x0 0x10 0x0 0x7ffd 0x7f64", [writes(9), None]),
            ("146 0x5 0x1000 0x2 0x0 0x0 0x0 0x7ffd 0x7f64", [None, writes(5)]),
            ("45 0x6 0x1000 0x80 0x100 0x0 0x0 0x7ffd 0x7f64", [reads(6), None]),
            ("45 0x6 0x1000 0x80 0x0 0x0 0x0 0x7ffd 0x7f64", [None, None]),
            ("47 0x6 0x1000 0x140 0x0 0x0 0x0 0x7ffd 0x7f64", [reads(6), None]),
            ("299 0x6 0x1000 0x4 0x0 0x0 0x0 0x7ffd 0x7f64", [reads(6), None]),
            ("1", [None, None]),
        ];
        for (line, expected) in cases {
            assert_eq!(waits_in(line), expected, "{line}");
        }
    }

    /// A thread of this process waits in a write, and is found, unless the bounds leave it out.
    #[test]
    fn thread_scan_is_bounded() {
        use std::{io::Write as _, os::fd::AsRawFd as _, thread, time::Duration};
        let (reader, mut writer) = io::pipe().unwrap();
        let fd = writer.as_raw_fd() as u32;
        let thread = thread::spawn(move || writer.write_all(&[0; 1 << 20]));
        thread::sleep(Duration::from_millis(200));
        let holder = Holder { pid: std::process::id(), fd, ..Holder::default() };
        for (name, of_one, room, found, skipped) in [
            ("all", TASKS_OF_ONE, TASKS, true, 0),
            ("none of one process", 0, TASKS, false, 1),
            ("none at all", TASKS_OF_ONE, 0, false, 1),
        ] {
            let mut calls = Calls::new(of_one, room);
            assert_eq!(calls.is_in(&holder, true), found, "{name}");
            assert!(!calls.is_in(&holder, false), "{name}: it does not read");
            assert_eq!(calls.skipped, skipped, "{name}: looked at once");
        }
        drop(reader);
        assert!(thread.join().unwrap().is_err());
    }
}
