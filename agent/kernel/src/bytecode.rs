//! The kernel half as it was compiled.

/// Wrapped so that the object's ELF header is aligned as its reader wants it.
#[repr(C, align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// The object with all programs and tables.
pub static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/mcpwarden.bpf.o")));
