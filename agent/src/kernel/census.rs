//! Who holds which channel, counted by the kernel itself: one pass over every descriptor on the host, in every
//! namespace, without touching /proc.

use std::{
    fs::File,
    io::{self, Read},
};

use mcpwarden_abi::Holder;

use crate::{capture::record::read, clock::boot_ns};

/// What one pass found.
#[derive(Debug)]
pub struct Census {
    /// When it began; nanoseconds since boot.
    pub began_ns: u64,
    /// Every descriptor that is a channel.
    pub holders: Vec<Holder>,
}

/// Reads a census to its end. The time it takes grows with the descriptors open on the host (about a microsecond
/// each), so this is no work for the thread that drains the ring.
pub fn take(mut file: File) -> io::Result<Census> {
    let began_ns = boot_ns();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Census { began_ns, holders: bytes.chunks_exact(size_of::<Holder>()).filter_map(read).collect() })
}
