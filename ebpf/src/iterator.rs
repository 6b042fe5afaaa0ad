//! Where the bytes lay that a function of the kernel has just moved.
//!
//! When it returns, its `struct iov_iter` stands behind them: walked back by their number it is at their start, wherever
//! a caller that calls several times began. Layout and the values of `enum iter_type` differ between kernels and come from
//! BTF.
//!
//! Where a copy ends in the middle of a page that is not there, the kernel leaves the iterator behind bytes that do not
//! count, and what is taken begins as many bytes too late. Only the client can bring that about, in its own memory, whose
//! bytes it could have rewritten by then anyway.

use aya_ebpf::helpers::generated::bpf_loop;
use core::ffi::c_void;

use crate::{
    kernel::{Ptr, load, offset, probe},
    source::{Coming, Source},
};

/// `sizeof(struct iovec)`
const IOVEC_BYTES: u64 = 16;
/// `UIO_MAXIOV` (`linux/uio.h`)
const MOST_BUFFERS: u32 = 1024;
/// `sizeof(struct iov_iter)`, 5.8 to 6.18. Read at once, since one read costs less than two, and since one kernel has fields in
/// a union, of which the verifier knows one member alone.
const ITERATOR_BYTES: usize = 40;

/// What kind of memory bytes lay in. No enum with the [`Source`] in it, as [`crate::capture::Payload`] is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// That of a process.
    User,
    /// Pages that were named beforehand: registered with io_uring, or taken from a pipe.
    Pages,
    /// The kernel's own.
    Kernel,
    /// Nobody knows.
    Unknown,
}

/// Where bytes lay.
#[derive(Clone, Copy)]
pub struct Location {
    /// In what.
    pub memory: Memory,
    /// Where in it; only in that of a process.
    pub source: Source,
}

impl Location {
    #[inline(always)]
    fn user(source: Source) -> Self {
        Self { memory: Memory::User, source }
    }

    #[inline(always)]
    fn other(memory: Memory) -> Self {
        Self { memory, source: Source::buffer(0) }
    }
}

/// The words of an iterator.
struct Words([u64; ITERATOR_BYTES / 8]);

impl Words {
    #[inline(always)]
    fn of(iterator: Ptr) -> Option<Self> {
        probe(iterator, 0).map(Self)
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> u64 {
        // SAFETY: the verifier refuses the program on a kernel whose iterators are longer.
        unsafe { core::ptr::read_volatile(self.0.as_ptr().cast::<u8>().add(offset).cast::<u64>()) }
    }
}

/// What kind of memory an iterator goes over, with no more than one load.
#[inline(always)]
pub fn memory(iterator: Ptr) -> Memory {
    let kind = load::<u8>(iterator, offset!(iter_type)) as usize;
    if kind == offset!(iter_is_bvec) {
        Memory::Pages
    } else if kind == offset!(iter_is_ubuf) || kind == offset!(iter_is_iovec) {
        Memory::User
    } else {
        Memory::Kernel
    }
}

/// Where the last `bytes` lay that an iterator went over.
#[inline(always)]
pub fn passed(iterator: Ptr, bytes: u64) -> Location {
    let kind = load::<u8>(iterator, offset!(iter_type)) as usize;
    if kind == offset!(iter_is_bvec) {
        return Location::other(Memory::Pages);
    }
    if kind != offset!(iter_is_ubuf) && kind != offset!(iter_is_iovec) {
        return Location::other(Memory::Kernel);
    }
    let Some(words) = Words::of(iterator) else { return Location::other(Memory::Unknown) };
    let offset = words.at(offset!(iter_offset));
    if kind == offset!(iter_is_ubuf) {
        let start = words.at(offset!(iter_ubuf));
        return Location::user(Source::buffer(start.wrapping_add(offset).wrapping_sub(bytes)));
    }
    back(words.at(offset!(iter_iov)), offset, bytes)
}

/// How many bytes an iterator is still to go over; as if it were some where that cannot be read.
#[inline(always)]
pub fn left(iterator: Ptr) -> u64 {
    probe::<u64>(iterator, offset!(iter_count)).unwrap_or(u64::MAX)
}

/// The bytes that an iterator is still to go over.
#[inline(always)]
pub fn ahead(iterator: Ptr) -> Coming {
    let kind = load::<u8>(iterator, offset!(iter_type)) as usize;
    let Some(words) = Words::of(iterator) else { return Coming::unknown() };
    let (offset, count) = (words.at(offset!(iter_offset)), words.at(offset!(iter_count)));
    if kind == offset!(iter_is_ubuf) {
        return Coming::at(Source::buffer(words.at(offset!(iter_ubuf)).wrapping_add(offset)), count);
    }
    if kind != offset!(iter_is_iovec) {
        return Coming::unknown();
    }
    let (vector, buffers) = (words.at(offset!(iter_iov)), words.at(offset!(iter_segments)));
    Coming::at(Source::copied(vector, buffers, offset as u32), count)
}

/// State of the walk back over a vector.
struct Back {
    /// The buffer that the walk is at: a `struct iovec` of the kernel's.
    at: u64,
    /// Bytes that lie before it.
    left: u64,
    /// Where in it the bytes begin, once `left` is 0.
    skip: u64,
}

/// From the buffer at `vector`, of which `offset` bytes were gone over.
#[inline(always)]
fn back(vector: u64, offset: u64, bytes: u64) -> Location {
    if bytes <= offset {
        return match probe::<u64>(vector as Ptr, 0) {
            Some(base) => Location::user(Source::buffer(base.wrapping_add(offset - bytes))),
            None => Location::other(Memory::Unknown),
        };
    }
    let mut walk = Back { at: vector, left: bytes - offset, skip: 0 };
    // SAFETY: the callback's signature is the one bpf_loop wants, and `walk` outlives the call.
    unsafe {
        bpf_loop(MOST_BUFFERS, step_back as *mut c_void, (&raw mut walk).cast(), 0);
    }
    if walk.left != 0 {
        return Location::other(Memory::Unknown);
    }
    // With the one that the iterator stands at, of which perhaps nothing was gone over: the bytes end before.
    let buffers = (vector.wrapping_sub(walk.at) / IOVEC_BYTES) + 1;
    Location::user(Source::copied(walk.at, buffers, walk.skip as u32))
}

/// One step of [`back`]: the buffer before. Returns 1 to end the loop.
unsafe extern "C" fn step_back(_index: u64, context: *mut c_void) -> i64 {
    // SAFETY: bpf_loop hands back the pointer that `back` gave it.
    let walk = unsafe { &mut *context.cast::<Back>() };
    walk.at = walk.at.wrapping_sub(IOVEC_BYTES);
    let Some(length) = probe::<u64>(walk.at as Ptr, 8) else { return 1 };
    if walk.left > length {
        walk.left -= length;
        return 0;
    }
    walk.skip = length - walk.left;
    walk.left = 0;
    1
}
