//! What the kernel half reports of itself to whoever debugs it: `mcpwarden run --log kernel=debug`.
//!
//! Off otherwise, and free: the level is a constant to the verifier, which removes what is behind it. A message is a call of
//! its own, so that what it has on the stack is not there without it. Its arguments are numbers: bytes of clients and servers
//! are in no message but for a first one, as a number.
//!
//! Before 6.12 a call counts 32 bytes of stack even where it is dead. Callbacks of [`crate::syscall`] and [`crate::ring`] and
//! what they call have none left ("combined stack size"): messages are sent by those who call these.

use aya_log_ebpf::{
    debug,
    macro_support::{Level, level_enabled},
};

macro_rules! message {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*), $text:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($($argument: $type),*) {
            #[inline(never)]
            fn send($($argument: $type),*) {
                debug!((), target: "kernel", $text, $($argument),*);
            }
            if level_enabled(Level::Debug) {
                send($($argument),*);
            }
        }
    };
}

message! {
    /// Two descriptors of a process are a connection from now on.
    registered(connection: u64, tgid: u32), "connection {} registered for process {}"
}
message! {
    /// The requests of a candidate begin with a byte that begins no message.
    no_message(connection: u64, first: u8), "candidate {} dropped: its requests begin with byte {}, which begins no message"
}
message! {
    /// A TCP connection begins with something else than a request of HTTP, or its first bytes cannot be read.
    dropped_candidate(connection: u64, direction: u8), "candidate {} dropped: its first bytes (direction {}) are neither HTTP nor JSON"
}
message! {
    /// The ring had no room for the bytes of a call. (Of a call with several buffers they are counted only.)
    refused(connection: u64, bytes: u64), "ring full: a record of connection {} with {} bytes is lost"
}
message! {
    /// The gate has judged a write: `GATE_…` and `GATE_BECAUSE_…` of the crate `mcpwarden-abi`.
    judged(connection: u64, action: u8, because: u8, outcome: u16),
    "gate: connection {}: action {}, reason {}, outcome {}"
}
