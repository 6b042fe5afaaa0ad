//! What a stream needs to hand on its bytes.

use crate::{bounds::CaptureCounters, output::Sink, socket::Sockets};

/// Where the output of a stream goes.
pub struct Outlet<'a> {
    /// Reads the bytes of TCP connections.
    pub sockets: &'a mut Sockets,
    /// What is counted on the way.
    pub counters: &'a mut CaptureCounters,
    /// Takes the outputs.
    pub sink: &'a mut Sink<'a>,
}
