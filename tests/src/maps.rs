//! What is in the kernel's tables of an agent.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};

// From `enum bpf_cmd` in `linux/bpf.h`.
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_MAP_GET_FD_BY_ID: libc::c_long = 14;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; 16],
}

/// How many entries the table of this name has that a process holds.
///
/// # Errors
/// It holds none of this name.
pub fn entries(pid: u32, name: &str) -> Result<usize> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).context("no such process")?;
    let ids = infos
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok()));
    for id in ids {
        let map = open(id)?;
        let mut info = Info::default();
        let (address, length) = ((&raw mut info) as u64, size_of::<Info>() as u64);
        // `bpf_fd`, `info_len`, `info` of `union bpf_attr`.
        bpf(BPF_OBJ_GET_INFO_BY_FD, &mut [map.as_raw_fd() as u64 | length << 32, address])?;
        if info.name.starts_with(name.as_bytes()) && info.name.get(name.len()) == Some(&0) {
            return count(&map, info.key_size as usize).with_context(|| format!("cannot read {name}"));
        }
    }
    anyhow::bail!("process {pid} holds no table {name}")
}

fn open(id: u32) -> Result<OwnedFd> {
    let fd = bpf(BPF_MAP_GET_FD_BY_ID, &mut [u64::from(id)]).context("cannot open a table")?;
    // SAFETY: it was just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn count(map: &OwnedFd, key_size: usize) -> io::Result<usize> {
    let (mut key, mut next) = (vec![0_u8; key_size], vec![0_u8; key_size]);
    for entries in 0.. {
        let before = if entries == 0 { 0 } else { key.as_ptr() as u64 };
        // `map_fd`, `key`, `next_key`.
        match bpf(BPF_MAP_GET_NEXT_KEY, &mut [map.as_raw_fd() as u64, before, next.as_mut_ptr() as u64]) {
            Ok(_) => std::mem::swap(&mut key, &mut next),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(entries),
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

/// The system call. `attributes` is the beginning of `union bpf_attr`; what its addresses point at must be alive.
fn bpf(command: libc::c_long, attributes: &mut [u64]) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes as much as the size says; the rest counts as zeros.
    let outcome =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}
