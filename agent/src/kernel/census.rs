//! Who holds which channel, counted by the kernel itself: one pass over every descriptor on the host, in every
//! namespace, without touching /proc.

use std::{
    fs::{self, File},
    io::{self, Read},
};

use mcpwarden_abi::{ChannelKey, Holder};

use crate::{capture::record::read, clock::boot_ns};

/// What one pass found.
#[derive(Debug, Default)]
pub struct Census {
    /// When it began; nanoseconds since boot.
    pub began_ns: u64,
    /// Every descriptor that is a channel.
    pub holders: Vec<Holder>,
}

impl Census {
    /// Whether one of the holders of this channel is in the middle of a call that writes to it. What cannot be looked
    /// at (it takes CAP_SYS_PTRACE) counts as no.
    pub fn is_written(&self, key: &ChannelKey) -> bool {
        let holders = self.holders.iter().filter(|holder| holder.key == *key);
        let mut tasks = holders
            .filter_map(|holder| Some((holder.fd, fs::read_dir(format!("/proc/{}/task", holder.pid)).ok()?)))
            .flat_map(|(fd, tasks)| tasks.filter_map(move |task| Some((fd, task.ok()?.path()))));
        tasks.any(|(fd, task)| {
            fs::read_to_string(task.join("syscall")).is_ok_and(|line| writes_to(&line).contains(&Some(fd)))
        })
    }
}

/// The descriptor that the call in a line of `/proc/PID/syscall` writes to, as a 64-bit and as a 32-bit call: the number
/// and the arguments in hexadecimal. Numbers: `syscall_64.tbl` and `syscall_32.tbl` of `arch/x86`.
fn writes_to(line: &str) -> [Option<u32>; 2] {
    let mut words = line.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse().ok()) else { return [None; 2] };
    let arguments: Vec<&str> = words.take(6).collect();
    let descriptor = |at: Option<usize>| {
        let digits = arguments.get(at?)?.strip_prefix("0x")?;
        Some(u64::from_str_radix(digits, 16).ok()? as u32)
    };
    let native = match number {
        // write, writev, sendfile, sendto, sendmsg, vmsplice, sendmmsg, pwritev2
        1 | 20 | 40 | 44 | 46 | 278 | 307 | 328 => Some(0),
        // splice, tee
        275 => Some(2),
        276 => Some(1),
        _ => None,
    };
    let compat = match number {
        // write, writev, sendfile, sendfile64, vmsplice, sendmmsg, sendto, sendmsg, pwritev2
        4 | 146 | 187 | 239 | 316 | 345 | 369 | 370 | 379 => Some(0),
        313 => Some(2),
        315 => Some(1),
        _ => None,
    };
    [descriptor(native), descriptor(compat)]
}

/// Reads a census to its end. The time it takes grows with the descriptors open on the host (about a microsecond
/// each), so this is no work for the thread that drains the ring.
pub fn take(mut file: File) -> io::Result<Census> {
    let began_ns = boot_ns();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Census { began_ns, holders: bytes.chunks_exact(size_of::<Holder>()).filter_map(read).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_write() {
        let cases = [
            ("running", [None, None]),
            ("-1 0x7ffc 0x7f3b", [None, None]),
            ("1 0x4 0x7f6474bd1030 0xf4240 0x0 0x0 0x0 0x7ffd 0x7f64", [Some(4), None]),
            ("0 0x4 0x7f6474bd1030 0xf4240 0x0 0x0 0x0 0x7ffd 0x7f64", [None, None]),
            ("275 0x4 0x0 0x9 0x0 0x10 0x0 0x7ffd 0x7f64", [Some(9), None]),
            ("146 0x5 0x1000 0x2 0x0 0x0 0x0 0x7ffd 0x7f64", [None, Some(5)]),
            ("1", [None, None]),
        ];
        for (line, expected) in cases {
            assert_eq!(writes_to(line), expected, "{line}");
        }
    }
}
