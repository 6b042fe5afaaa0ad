//! The gate: calls that are stopped in the kernel. Where a kernel has none, each test says that it was skipped.

mod arguments;
mod block;
mod calls;
mod clients;
mod explain;
mod fallback;
mod forms;
mod framing;
mod guards;
mod history;
mod http;
mod life;
mod over_tls;
mod owner;
mod persist;
mod servers;
mod sockets;
mod undecided;
mod ways;
