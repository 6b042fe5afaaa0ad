//! The ring that the kernel half writes records to.

use std::{
    ops::Deref,
    os::fd::{AsRawFd, RawFd},
};

use aya::maps::{MapData, RingBuf};

/// Records that nobody has read yet, in the order in which they were begun.
pub struct Ring(pub(crate) RingBuf<MapData>);

impl Ring {
    /// The next record, where there is one; its place is free again when it is dropped.
    pub fn pop(&mut self) -> Option<impl Deref<Target = [u8]> + '_> {
        self.0.next()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
