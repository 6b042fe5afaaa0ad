//! Bytes at hand, of which eight can be looked at from any on.

#[cfg(target_arch = "bpf")]
use core::arch::asm;

/// A power of two.
const SIZE: usize = 256;
/// Zeros behind the bytes, so that whoever looks ahead needs no check: nothing goes on over a control character.
const BEYOND: usize = 16;
/// Most bytes that a chunk has: what is looked at from one of them on begins within `SIZE`.
pub const CHUNK_BYTES: usize = SIZE - BEYOND;

/// Bytes at hand: up to [`CHUNK_BYTES`], and zeros behind them.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct Chunk([u8; SIZE + BEYOND]);

impl Default for Chunk {
    fn default() -> Self {
        Self([0; SIZE + BEYOND])
    }
}

impl Chunk {
    /// Where its bytes are put, before it is told [how many](Self::end_at) these are.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut [u8; SIZE] {
        // SAFETY: its first bytes.
        unsafe { &mut *(&raw mut self.0).cast() }
    }

    /// Only those before `end` count, which is [`CHUNK_BYTES`] at most.
    #[inline(always)]
    pub fn end_at(&mut self, end: u32) {
        #[cfg(not(target_arch = "bpf"))]
        {
            let from = end as usize & (SIZE - 1);
            if let Some(beyond) = self.0.get_mut(from..from + BEYOND) {
                beyond.fill(0);
            }
        }
        // As with words below.
        // SAFETY: of the bytes and what is behind them.
        #[cfg(target_arch = "bpf")]
        unsafe {
            asm!(
                "{end} &= {mask}",
                "{end} += {to}",
                "*(u64 *)({end} + 0) = {zero}",
                "*(u64 *)({end} + 8) = {zero}",
                end = inout(reg) end as u64 => _,
                to = in(reg) self.0.as_mut_ptr(),
                zero = in(reg) 0_u64,
                mask = const SIZE - 1,
                options(nostack),
            );
        }
    }

    /// The byte at an index up to [`CHUNK_BYTES`].
    #[inline(always)]
    pub fn byte(&self, at: u32) -> u8 {
        self.word(at) as u8
    }

    /// The eight bytes from there on, the first lowest.
    #[inline(always)]
    pub fn word(&self, at: u32) -> u64 {
        self.words::<0>(at)
    }

    /// The eight bytes behind those.
    #[inline(always)]
    pub fn next_word(&self, at: u32) -> u64 {
        self.words::<8>(at)
    }

    #[inline(always)]
    fn words<const BEHIND: usize>(&self, at: u32) -> u64 {
        const { assert!(BEHIND + 8 <= BEYOND) };
        #[cfg(not(target_arch = "bpf"))]
        {
            let from = at as usize & (SIZE - 1);
            let bytes = self.0.get(from + BEHIND..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        }
        // The compiler would read byte after byte, and mask another register than it adds: the bound has to be seen right before it
        // counts.
        #[cfg(target_arch = "bpf")]
        {
            let word: u64;
            // SAFETY: of the bytes and what is behind them.
            unsafe {
                asm!(
                    "{at} &= {mask}",
                    "{at} += {from}",
                    "{at} = *(u64 *)({at} + {behind})",
                    at = inout(reg) at as u64 => word,
                    from = in(reg) self.0.as_ptr(),
                    mask = const SIZE - 1,
                    behind = const BEHIND,
                    options(pure, readonly, nostack),
                );
            }
            word
        }
    }
}
