//! The kernel half as it was compiled: an ELF object, which aya and [`modify_return`](super::modify_return) read.

/// Wrapped so that the object's ELF header is aligned as its reader wants it.
#[repr(C, align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// All of it.
pub static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/mcpwarden.bpf.o")));
