//! An allocator that counts, for tests and benchmarks that hold memory to a bound: of the program that this is part of.

#![allow(dead_code, reason = "no program needs all of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// What one thread allocated. The test harness has others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// How often something was allocated, or moved to grow.
    pub allocations: u64,
    /// Bytes that are allocated and not freed; below zero where another thread's were freed.
    pub live: i64,
    /// The most that these were since [`Memory::reset_peak`].
    pub peak: i64,
}

thread_local! {
    static MEMORY: Cell<Memory> = const { Cell::new(Memory { allocations: 0, live: 0, peak: 0 }) };
}

impl Memory {
    /// Of this thread, so far.
    pub fn now() -> Self {
        MEMORY.get()
    }

    /// The most is what is allocated now.
    pub fn reset_peak() {
        let memory = MEMORY.get();
        MEMORY.set(Self { peak: memory.live, ..memory });
    }

    fn count(allocations: u64, bytes: i64) {
        let memory = MEMORY.get();
        let live = memory.live + bytes;
        let allocations = memory.allocations + allocations;
        MEMORY.set(Self { allocations, live, peak: memory.peak.max(live) });
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

// SAFETY: everything is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Memory::count(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Memory::count(1, size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Memory::count(0, -(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
