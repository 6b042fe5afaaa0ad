//! Where a call's bytes lie in the client's memory: one buffer, a vector of them, or a vector of messages.
//!
//! Layouts are those of `struct iovec`, `struct msghdr` and `struct mmsghdr` (`linux/socket.h`), and their
//! 32-bit forms (`net/compat.h`).

use aya_ebpf::helpers::bpf_probe_read_user;

use crate::kernel::{Ptr, copy_bytes, probe};

/// A user-space address.
pub type User = u64;

/// How a vector of buffers lies in memory. No enum: whoever walks makes the verifier forget what it knows of them.
mod form {
    /// In the caller's memory, as 64-bit programs have it; 1 where it is that of a 32-bit program.
    pub const NATIVE: u32 = 0;
    /// The kernel's own copy, in its memory.
    pub const KERNEL: u32 = 2;
}

/// One buffer or a vector of buffers.
#[derive(Clone, Copy)]
pub struct Source {
    /// The buffer, or the vector of buffers.
    pub address: User,
    /// Number of buffers in the vector; 0 where `address` is the buffer itself.
    pub buffers: u64,
    /// One of `form::…`.
    form: u32,
    /// Bytes of the vector's first buffer that do not count; only of the kernel's copy.
    skip: u32,
}

/// Bytes that are about to be written.
///
/// No `Option`, as [`crate::capture::Payload`] is no enum.
#[derive(Clone, Copy)]
pub struct Coming {
    /// Where they lie.
    pub source: Source,
    /// How many; [`UNTOLD`] where a vector alone says.
    pub length: u64,
    /// Whether that is known.
    pub is_known: bool,
}

/// See [`Coming::length`].
pub const UNTOLD: u64 = u64::MAX;

impl Coming {
    /// They lie there.
    #[inline(always)]
    pub fn at(source: Source, length: u64) -> Self {
        Self { source, length, is_known: true }
    }

    /// Nobody knows where they lie.
    #[inline(always)]
    pub fn unknown() -> Self {
        Self { source: Source::buffer(0), length: UNTOLD, is_known: false }
    }
}

/// Reads user memory; `None` where it is not there.
#[inline(always)]
pub fn read<T>(address: User) -> Option<T> {
    // SAFETY: bpf_probe_read_user checks the address.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

/// Copies `size` bytes of user memory, and no more than `N`. Whether they are there.
#[inline(always)]
pub fn read_bytes<const N: usize>(to: *mut [u8; N], size: u64, address: User) -> bool {
    copy_bytes::<112, N>(to, size, address)
}

impl Source {
    /// One buffer.
    #[inline(always)]
    pub fn buffer(address: User) -> Self {
        Self { address, buffers: 0, form: form::NATIVE, skip: 0 }
    }

    /// A vector of buffers.
    #[inline(always)]
    pub fn vector(address: User, buffers: u64, compat: bool) -> Self {
        // A number that the verifier does not know, where the form is not one of the program's.
        Self { address, buffers, form: core::hint::black_box(compat as u32), skip: 0 }
    }

    /// A vector of buffers that the kernel has copied to `address`, without the first `skip` bytes.
    #[inline(always)]
    pub fn copied(address: u64, buffers: u64, skip: u32) -> Self {
        Self { address, buffers, form: form::KERNEL, skip }
    }

    /// The vector in a `struct msghdr`.
    #[inline(always)]
    pub fn message(header: User, compat: bool) -> Option<Self> {
        if compat {
            let fields: [u32; 4] = read(header)?;
            Some(Self::vector(fields[2] as u64, fields[3] as u64, compat))
        } else {
            let fields: [u64; 4] = read(header)?;
            Some(Self::vector(fields[2], fields[3], compat))
        }
    }

    /// The `index`th buffer of the vector and its length.
    #[inline(always)]
    pub fn at(&self, index: u64) -> Option<(User, u64)> {
        if self.form != form::KERNEL {
            // Without a comparison of the forms: of each the verifier would go both ways, and through all that comes behind.
            let compat = self.form as u64;
            let at = self.address + (index * 16 >> compat);
            let (first, second): (u64, u64) = (read(at)?, read(at + 8).unwrap_or(0));
            let narrow = compat.wrapping_neg();
            let length = second & !narrow | (first >> 32) & narrow;
            return Some((first & u64::MAX >> (compat << 5), length));
        }
        let at = self.address + index * 16;
        let entry: [u64; 2] = probe(at as Ptr, 0)?;
        let skip = if index == 0 { self.skip as u64 } else { 0 };
        Some((entry[0] + skip, entry[1].saturating_sub(skip)))
    }
}

/// Size of a `struct mmsghdr` and the place of its `msg_len`.
#[inline(always)]
pub fn mmsghdr(compat: bool) -> (u64, u64) {
    if compat { (32, 28) } else { (64, 56) }
}
