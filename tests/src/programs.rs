//! Which programs are in the kernel, and who holds them.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::patience::patience;

/// How long the kernel may take to free what a process held.
const FREE_TIMEOUT: Duration = Duration::from_secs(2);

/// The ids of the kernel programs that a process holds, by itself or through links.
pub fn held_by(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return Vec::new() };
    let mut ids: Vec<u32> = entries
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Waits until none of these programs is in the kernel any more. Ids are not given out again for a long time.
///
/// # Errors
/// Some stay.
pub fn await_gone(programs: &[u32]) -> Result<()> {
    let deadline = Instant::now() + patience(FREE_TIMEOUT);
    loop {
        let left: Vec<u32> = programs.iter().copied().filter(|id| program_exists(*id)).collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "programs stay in the kernel: {left:?} (`bpftool prog show`)");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the kernel has a program with this id: `BPF_PROG_GET_NEXT_ID` from the one before gives it.
fn program_exists(id: u32) -> bool {
    /// From `enum bpf_cmd` in `linux/bpf.h`.
    const BPF_PROG_GET_NEXT_ID: libc::c_long = 11;
    // `start_id`, `next_id`, `open_flags` of `union bpf_attr`.
    let mut attributes = [id.saturating_sub(1), 0_u32, 0];
    // SAFETY: the kernel reads and writes the three words that the size says, and they are alive.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_GET_NEXT_ID, attributes.as_mut_ptr(), size_of_val(&attributes))
    };
    outcome == 0 && attributes[1] == id
}
