//! Memory of several kinds, to write from.

use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::ptr;
use std::slice;

use serde::{Deserialize, Serialize};

/// What the memory is that a client writes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// The program's own, as it is allocated.
    Heap,
    /// A private mapping.
    Private,
    /// A private mapping that cannot be written to.
    PrivateReadOnly,
    /// A shared mapping.
    Shared,
    /// A shared mapping that cannot be written to.
    SharedReadOnly,
    /// A private mapping of a file, none of which is in memory yet.
    NotResident,
}

/// Bytes in memory of some kind.
#[derive(Debug)]
pub enum Bytes<'a> {
    /// Where they are already.
    Heap(&'a [u8]),
    /// In a mapping of their own, and how long that is.
    Mapped(&'static [u8], usize),
}

/// Puts bytes into memory of this kind.
///
/// # Errors
/// There is no memory, or no room for a file.
pub fn of(kind: Memory, bytes: &[u8]) -> io::Result<Bytes<'_>> {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, protection) = match kind {
        Memory::Heap => return Ok(Bytes::Heap(bytes)),
        Memory::NotResident => return not_resident(bytes),
        Memory::Private => (libc::MAP_PRIVATE, both),
        Memory::PrivateReadOnly => (libc::MAP_PRIVATE, libc::PROT_READ),
        Memory::Shared => (libc::MAP_SHARED, both),
        Memory::SharedReadOnly => (libc::MAP_SHARED, libc::PROT_READ),
    };
    let length = bytes.len().max(1);
    // SAFETY: a new mapping of its own, as long as what is copied there; nobody else knows of it.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), length, both, flags | libc::MAP_ANONYMOUS, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), bytes.len());
        if libc::mprotect(at, length, protection) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Bytes::Mapped(slice::from_raw_parts(at.cast(), bytes.len()), length))
    }
}

impl Bytes<'_> {
    /// They.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) | Self::Mapped(bytes, _) => bytes,
        }
    }

    /// Whether somebody, such as a program in the kernel, has changed them. Those of the heap are not looked at.
    pub fn differs_from(&self, before: &[u8]) -> bool {
        let Self::Mapped(bytes, _) = self else { return false };
        // SAFETY: within it. Read anew, since the kernel half may have written there.
        let now = (0..bytes.len()).map(|index| unsafe { ptr::read_volatile(bytes.as_ptr().add(index)) });
        !now.eq(before.iter().copied())
    }
}

impl Drop for Bytes<'_> {
    fn drop(&mut self) {
        if let Self::Mapped(bytes, length) = self {
            // SAFETY: the mapping is this value's alone.
            unsafe { libc::munmap(bytes.as_ptr().cast_mut().cast(), *length) };
        }
    }
}

/// Changes what memory this process has: a mapping comes and goes.
pub fn change_map() {
    const LENGTH: usize = 1 << 20;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_POPULATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of its own, which nobody else knows of.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), LENGTH, both, flags, -1, 0);
        if at != libc::MAP_FAILED {
            libc::munmap(at, LENGTH);
        }
    }
}

/// A file's bytes in memory that nobody has touched: the kernel reads them in when it has to.
fn not_resident(bytes: &[u8]) -> io::Result<Bytes<'static>> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let length = bytes.len().max(1);
    // SAFETY: a new mapping of its own, at no given place, of as many bytes as the file has.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Bytes::Mapped(slice::from_raw_parts(at.cast(), bytes.len()), length))
    }
}
