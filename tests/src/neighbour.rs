//! Another program at the hook that ours are at: it denies IPv4 connections to one port.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use anyhow::{Context as _, Result};

/// A program that is attached until this is dropped.
pub struct Neighbour {
    program: OwnedFd,
    cgroup: File,
}

/// From `linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_DETACH: libc::c_long = 9;
const BPF_PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;
const BPF_CGROUP_INET4_CONNECT: u32 = 10;
const BPF_F_ALLOW_MULTI: u32 = 2;

/// `struct bpf_insn`: operation, registers (source in the upper half), offset, constant.
const fn instruction(code: u8, registers: u8, offset: i16, constant: i32) -> u64 {
    code as u64 | (registers as u64) << 8 | (offset as u16 as u64) << 16 | (constant as u32 as u64) << 32
}

fn bpf(command: libc::c_long, attributes: &mut [u64; 16]) -> io::Result<i32> {
    // SAFETY: the kernel reads as many bytes as the size says; what they point at is alive.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(result).unwrap_or(-1)) }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Neighbour {
    /// Attaches it to a cgroup (v2), beside others.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(cgroup: &Path, port: u16) -> Result<Self> {
        /// `offsetof(struct bpf_sock_addr, user_port)`
        const USER_PORT: i16 = 24;
        let program = [
            instruction(0x61, 0x12, USER_PORT, 0), // r2 = *(u32 *)(r1 + 24)
            instruction(0xb7, 0x00, 0, 1),         // r0 = 1
            instruction(0x55, 0x02, 1, i32::from(port.to_be())), // if r2 != port goto +1
            instruction(0xb7, 0x00, 0, 0),         // r0 = 0
            instruction(0x95, 0x00, 0, 0),         // exit
        ];
        let mut attributes = [0; 16];
        attributes[0] = pair(BPF_PROG_TYPE_CGROUP_SOCK_ADDR, program.len() as u32);
        attributes[1] = program.as_ptr() as u64;
        attributes[2] = c"GPL".as_ptr() as u64;
        // `expected_attach_type` is at 68.
        attributes[8] = pair(0, BPF_CGROUP_INET4_CONNECT);
        let program = bpf(BPF_PROG_LOAD, &mut attributes).context("cannot load another program")?;
        // SAFETY: the kernel just made it, and nobody else has it.
        let program = unsafe { OwnedFd::from_raw_fd(program) };
        let neighbour = Self { program, cgroup: File::open(cgroup)? };
        neighbour.call(BPF_PROG_ATTACH, BPF_F_ALLOW_MULTI).context("cannot attach another program")?;
        Ok(neighbour)
    }

    fn call(&self, command: libc::c_long, flags: u32) -> io::Result<()> {
        let mut attributes = [0; 16];
        let number = |fd: i32| u32::try_from(fd).unwrap_or(0);
        attributes[0] = pair(number(self.cgroup.as_raw_fd()), number(self.program.as_raw_fd()));
        attributes[1] = pair(BPF_CGROUP_INET4_CONNECT, flags);
        bpf(command, &mut attributes).map(drop)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.call(BPF_PROG_DETACH, 0);
    }
}
