//! Processes, as records tell of them, and what somebody else has to find out.

use mcpwarden_policy::Process;

/// What the kernel half knows of a process's parent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parent {
    /// When it started; nanoseconds since boot.
    pub start_ns: u64,
    /// Its user.
    pub uid: Option<u32>,
    /// Its cgroup (v2).
    pub cgroup_id: Option<u64>,
}

/// What records do not say of processes. Capture does not look it up itself.
pub trait Processes {
    /// Completes what is known of a process: working directory, executable, and the command line where there is none. The
    /// process may be gone; what is not there stays absent.
    fn complete(&self, process: &mut Process);

    /// The client of a process: its parent, or who is above a parent that `is_fork` and has ended. `parent` is what the kernel
    /// half knows of the first of `ancestors`: that one may have ended.
    fn client(&self, ancestors: &[u32], parent: Parent, is_fork: bool) -> Option<Process>;

    /// Whether a process that started then, in nanoseconds since boot, is still there.
    fn lives(&self, pid: u32, start_ns: u64) -> bool;
}

/// The arguments in a NUL-separated command line.
pub fn split_argv(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv_is_split_at_nul_bytes() {
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
}
