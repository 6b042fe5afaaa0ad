//! How much is in the ring: the positions that the kernel keeps in its first two pages (`kernel/bpf/ringbuf.c`).

use std::{
    io,
    os::fd::{AsRawFd, RawFd},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::libc;

/// The two positions, mapped.
pub struct Fill {
    /// The consumer's; the producer's is a page behind.
    consumer: *const AtomicU64,
    page_bytes: usize,
    ring_bytes: u64,
}

// SAFETY: the mapping is nobody's in particular, and is read by atomic loads alone.
unsafe impl Send for Fill {}

impl Fill {
    /// Maps those of a ring of so many bytes. They stay mapped whatever becomes of the descriptor.
    ///
    /// # Errors
    /// No memory.
    pub fn map(ring: &impl AsRawFd, ring_bytes: u32) -> io::Result<Self> {
        let fd: RawFd = ring.as_raw_fd();
        // SAFETY: no pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_bytes = usize::try_from(page_bytes).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: a new mapping, of pages that every ring has, for reading alone.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), page_bytes * 2, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { consumer: start.cast(), page_bytes, ring_bytes: u64::from(ring_bytes) })
    }

    /// Bytes in the ring now, headers of records included.
    pub fn used(&self) -> u64 {
        // SAFETY: both pages are mapped as long as this lives, and the kernel writes whole words there.
        let [consumed, produced] = unsafe {
            [&*self.consumer, &*self.consumer.byte_add(self.page_bytes)]
                .map(|position| position.load(Ordering::Acquire))
        };
        produced.saturating_sub(consumed)
    }

    /// Bytes that fit.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody else has it.
        unsafe { libc::munmap(self.consumer.cast_mut().cast(), self.page_bytes * 2) };
    }
}
