//! Where a call's bytes lie in the client's memory: one buffer, a vector of them, or a vector of messages.
//!
//! Layouts are those of `struct iovec`, `struct msghdr` and `struct mmsghdr` (`linux/socket.h`), and their
//! 32-bit forms (`net/compat.h`).

use core::arch::asm;

use aya_ebpf::helpers::bpf_probe_read_user;

/// A user-space address.
pub type User = u64;

/// One buffer or a vector of buffers.
#[derive(Clone, Copy)]
pub struct Source {
    /// The buffer, or the vector of buffers.
    pub address: User,
    /// Number of buffers in the vector; 0 where `address` is the buffer itself.
    pub buffers: u64,
    /// Whether the caller is a 32-bit program.
    pub compat: bool,
}

/// Reads user memory; `None` where it is not there.
#[inline(always)]
pub fn read<T>(address: User) -> Option<T> {
    // SAFETY: bpf_probe_read_user checks the address.
    unsafe { bpf_probe_read_user(address as *const T) }.ok()
}

/// Copies `size` bytes of user memory, and no more than `N`. Whether they are there.
///
/// The bound stands right before the call: before 6.8 the verifier forgets it with a value that the compiler keeps on the
/// stack meanwhile, or looks at in another register.
#[inline(always)]
pub fn read_bytes<const N: usize>(to: *mut [u8; N], size: u64, address: User) -> bool {
    let failed: i64;
    // SAFETY: `to` is N long and no more is written; 112 is `bpf_probe_read_user(to, size, address)`, which checks the
    // address. Helpers take r1 to r5, of which nothing is left, and answer in r0.
    unsafe {
        asm!(
            "if r2 <= {limit} goto +1",
            "r2 = {limit}",
            "call 112",
            limit = const N,
            inout("r1") to => _,
            inout("r2") size => _,
            inout("r3") address => _,
            out("r0") failed,
            out("r4") _,
            out("r5") _,
        );
    }
    failed == 0
}

impl Source {
    /// One buffer.
    #[inline(always)]
    pub fn buffer(address: User) -> Self {
        Self { address, buffers: 0, compat: false }
    }

    /// A vector of buffers.
    #[inline(always)]
    pub fn vector(address: User, buffers: u64, compat: bool) -> Self {
        Self { address, buffers, compat }
    }

    /// The vector in a `struct msghdr`.
    #[inline(always)]
    pub fn message(header: User, compat: bool) -> Option<Self> {
        if compat {
            let fields: [u32; 4] = read(header)?;
            Some(Self { address: fields[2] as u64, buffers: fields[3] as u64, compat })
        } else {
            let fields: [u64; 4] = read(header)?;
            Some(Self { address: fields[2], buffers: fields[3], compat })
        }
    }

    /// The `index`th buffer of the vector and its length.
    #[inline(always)]
    pub fn at(&self, index: u64) -> Option<(User, u64)> {
        if self.compat {
            let entry: [u32; 2] = read(self.address + index * 8)?;
            Some((entry[0] as u64, entry[1] as u64))
        } else {
            let entry: [u64; 2] = read(self.address + index * 16)?;
            Some((entry[0], entry[1]))
        }
    }
}

/// Size of a `struct mmsghdr` and the place of its `msg_len`.
#[inline(always)]
pub fn mmsghdr(compat: bool) -> (u64, u64) {
    if compat { (32, 28) } else { (64, 56) }
}
