//! System calls by their 32-bit numbers, as a 64-bit program may make them too. No per-call tracepoint fires.

use std::arch::asm;
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::slice;

use super::all;

/// Numbers from `arch/x86/entry/syscalls/syscall_32.tbl`.
const READ: u32 = 3;
const WRITE: u32 = 4;
const WRITEV: u32 = 146;

/// Memory below 4 GiB, where 32-bit arguments can point to.
struct LowMemory {
    start: *mut u8,
    length: usize,
}

impl LowMemory {
    fn new(length: usize) -> io::Result<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT);
        // SAFETY: a new anonymous mapping overlaps nothing.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), length })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is of this length, zeroed, and only reachable through `self`.
        unsafe { slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// The address, which the flag of the mapping keeps below 2 GiB.
    fn address(&self) -> u32 {
        self.start.addr() as u32
    }
}

impl Drop for LowMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this start and length, and nothing points into it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// A 32-bit system call of three arguments.
fn call(number: u32, fd: RawFd, address: u32, length: u32) -> io::Result<usize> {
    let mut result = u64::from(number);
    // SAFETY: the callers pass addresses of live low memory. rbx cannot be named as an operand, so it is
    // exchanged before and after; int 0x80 clobbers r8 to r11.
    unsafe {
        asm!(
            "xchg {fd}, rbx",
            "int 0x80",
            "xchg {fd}, rbx",
            fd = inout(reg) u64::from(fd as u32) => _,
            inout("rax") result,
            in("rcx") u64::from(address),
            in("rdx") u64::from(length),
            out("r8") _,
            out("r9") _,
            out("r10") _,
            out("r11") _,
        );
    }
    let result = result as i32;
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// `write(2)`.
pub fn write(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        let mut memory = LowMemory::new(rest.len())?;
        memory.bytes().copy_from_slice(rest);
        call(WRITE, fd, memory.address(), rest.len() as u32)
    })
}

/// `writev(2)` with two buffers.
pub fn writev(fd: RawFd, data: &[u8]) -> io::Result<()> {
    all(data, |rest| {
        // `struct compat_iovec`: an address and a length of 32 bits each.
        const VECTORS_BYTES: usize = 2 * 8;
        let mut memory = LowMemory::new(VECTORS_BYTES + rest.len())?;
        let first = (rest.len() / 2) as u32;
        let data_at = memory.address() + VECTORS_BYTES as u32;
        let vectors = [data_at, first, data_at + first, rest.len() as u32 - first];
        let vectors: Vec<u8> = vectors.iter().flat_map(|word| word.to_ne_bytes()).collect();
        memory.bytes().copy_from_slice(&[&vectors, rest].concat());
        call(WRITEV, fd, memory.address(), 2)
    })
}

/// `read(2)`.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut memory = LowMemory::new(buffer.len())?;
    let length = call(READ, fd, memory.address(), buffer.len() as u32)?;
    if let (Some(to), Some(from)) = (buffer.get_mut(..length), memory.bytes().get(..length)) {
        to.copy_from_slice(from);
    }
    Ok(length)
}
