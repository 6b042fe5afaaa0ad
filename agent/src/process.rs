//! What /proc tells of a process, where the kernel half could not say it.

use mcpwarden_policy::Process;

/// Longest command line that is kept. Bytes.
const ARGV_BYTES: usize = 4096;

/// The arguments in a NUL-separated command line.
pub fn split_argv(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

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
        if process.uid == 0
            && let Ok(status) = entry.status()
        {
            process.uid = status.ruid;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv() {
        let cases: [(&[u8], &[&str]); 5] = [
            (b"", &[]),
            (b"a\0", &["a"]),
            (b"a\0b c\0\0d\0", &["a", "b c", "", "d"]),
            (b"cut of", &["cut of"]),
            (b"\xff\0", &["\u{fffd}"]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(split_argv(bytes), expected);
        }
    }

    #[test]
    fn this_process() {
        let mut process = Process { pid: std::process::id(), ..Default::default() };
        complete(&mut process);
        assert!(process.executable.is_some() && process.cwd.is_some());
        assert!(!process.argv.is_empty());
    }
}
