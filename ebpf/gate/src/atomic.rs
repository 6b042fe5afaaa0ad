//! A number that several processors change at once. For the kernel the compiler has these operations, and the library does not
//! offer them.

use core::sync::atomic::AtomicU64;

/// One number.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// 0.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// What it is.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        operations::get(&self.0)
    }

    /// Makes it another.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        operations::set(&self.0, value);
    }

    /// Adds, and says what it was.
    #[inline(always)]
    pub fn add(&self, value: u64) -> u64 {
        operations::add(&self.0, value)
    }

    /// Sets bits, and says what it was.
    #[inline(always)]
    pub fn or(&self, bits: u64) -> u64 {
        operations::or(&self.0, bits)
    }

    /// Makes it another, and says what it was.
    #[inline(always)]
    pub fn exchange(&self, value: u64) -> u64 {
        operations::exchange(&self.0, value)
    }

    /// Makes it `new` if it is `known`, and says what it was.
    #[inline(always)]
    pub fn replace(&self, known: u64, new: u64) -> u64 {
        operations::replace(&self.0, known, new)
    }
}

#[cfg(not(target_arch = "bpf"))]
mod operations {
    use core::sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    };

    pub fn get(number: &AtomicU64) -> u64 {
        number.load(Relaxed)
    }

    pub fn set(number: &AtomicU64, value: u64) {
        number.store(value, Relaxed);
    }

    pub fn add(number: &AtomicU64, value: u64) -> u64 {
        number.fetch_add(value, SeqCst)
    }

    pub fn or(number: &AtomicU64, bits: u64) -> u64 {
        number.fetch_or(bits, SeqCst)
    }

    pub fn exchange(number: &AtomicU64, value: u64) -> u64 {
        number.swap(value, SeqCst)
    }

    pub fn replace(number: &AtomicU64, known: u64, new: u64) -> u64 {
        number.compare_exchange(known, new, SeqCst, SeqCst).unwrap_or_else(|other| other)
    }
}

#[cfg(target_arch = "bpf")]
mod operations {
    use core::{
        intrinsics::{AtomicOrdering, atomic_cxchg, atomic_or, atomic_xadd, atomic_xchg},
        sync::atomic::AtomicU64,
    };

    // Not relaxed: for that LLVM 22 emits the operations that return nothing, and what they return is garbage.
    const ORDER: AtomicOrdering = AtomicOrdering::SeqCst;

    #[inline(always)]
    pub fn get(number: &AtomicU64) -> u64 {
        // SAFETY: a live number; one that is loaded at once, as all of its size are.
        unsafe { number.as_ptr().read_volatile() }
    }

    #[inline(always)]
    pub fn set(number: &AtomicU64, value: u64) {
        // SAFETY: as above.
        unsafe { number.as_ptr().write_volatile(value) };
    }

    #[inline(always)]
    pub fn add(number: &AtomicU64, value: u64) -> u64 {
        // SAFETY: a number that is only ever changed so.
        unsafe { atomic_xadd::<u64, u64, ORDER>(number.as_ptr(), value) }
    }

    #[inline(always)]
    pub fn or(number: &AtomicU64, bits: u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic_or::<u64, u64, ORDER>(number.as_ptr(), bits) }
    }

    #[inline(always)]
    pub fn exchange(number: &AtomicU64, value: u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic_xchg::<u64, ORDER>(number.as_ptr(), value) }
    }

    #[inline(always)]
    pub fn replace(number: &AtomicU64, known: u64, new: u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic_cxchg::<u64, ORDER, ORDER>(number.as_ptr(), known, new).0 }
    }
}
