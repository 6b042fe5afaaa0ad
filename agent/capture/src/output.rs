//! The one exit of capture: all that it hands on goes through a [`Sink`].

use mcpwarden_abi::{ConnectInfo, Endpoint, GateInfo, RecordHeader, SocketInfo};
use mcpwarden_policy::Input;

/// Takes the outputs of capture, in their order. It is called while [`Capture`](crate::Capture) works: a taker that has to
/// call capture again does so afterwards.
pub type Sink<'a> = dyn FnMut(Output<'_>) + 'a;

/// One output of capture.
#[allow(clippy::large_enum_variant, reason = "an output is handed on once; a box for each would cost more")]
#[derive(Debug)]
pub enum Output<'a> {
    /// For the policy core.
    Input(Input<'a>),
    /// A record of which others know more than capture does.
    Record(SideRecord),
    /// For the kernel half.
    Kernel(KernelAction),
}

impl<'a> From<Input<'a>> for Output<'a> {
    fn from(input: Input<'a>) -> Self {
        Self::Input(input)
    }
}

/// A record that is no part of a stream.
#[derive(Clone, Copy, Debug)]
pub enum SideRecord {
    /// A process connects, or sends to an address.
    Connect(RecordHeader, ConnectInfo),
    /// The bytes of a connection of sockets are captured from now on: see [`Capture::open_socket`](crate::Capture::open_socket).
    Socket(RecordHeader, SocketInfo),
    /// The gate acted on a write, or the write was undecidable.
    Gate(RecordHeader, GateInfo),
}

/// A change in the kernel half, for one TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelAction {
    /// It is an MCP server's: capture all of what has this key.
    Lift(u64),
    /// A server is there, or (`false`) it is not: as long as it is, what connects there is captured from the first byte on.
    Found(Endpoint, bool),
    /// It is over: what the gate remembers of the connection with this number is of no use.
    Ended(u64),
    /// It is none, or there is no capacity: capture no more of it.
    Drop {
        /// Its key.
        key: u64,
        /// Its number.
        number: u64,
    },
}
