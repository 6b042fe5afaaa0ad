//! What the agent denies and reports at the hooks of sockets, and what outlives it.

mod block;
mod connections;
mod found;
mod life;
mod load;
mod namespaces;
mod opened;
mod persist;
mod resume;
