//! Why a file was not searched to its end.

use std::io;

use crate::bounds::READ_BYTES;

/// Why a file was not searched, or not to its end. Nothing is known of such a file: it may hold TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// It begins otherwise.
    #[error("it is no ELF file")]
    NotElf,
    /// It is for 32 bits, big-endian, no program and no library.
    #[error("ELF files of this kind are not searched: {0}")]
    Unsupported(&'static str),
    /// Something lies outside of the file, or of what it maps: the file lies about its sizes, or became shorter meanwhile.
    #[error("{what} lies outside of the file, at {offset:#x}")]
    Outside {
        /// What was looked for.
        what: &'static str,
        /// Its alleged offset, in bytes.
        offset: u64,
    },
    /// There is more of something than the bound.
    #[error("{what}: more than {bound}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        bound: u64,
    },
    /// It made the search read too much.
    #[error("the search read {READ_BYTES} bytes, and gave up")]
    Budget,
    /// The system refused to read.
    #[error("cannot read it: {0}")]
    Io(io::ErrorKind),
}

/// What a step of the search gives.
pub(crate) type Result<T> = std::result::Result<T, LocateError>;
