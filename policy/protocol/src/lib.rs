//! What clients and servers of the Model Context Protocol (MCP) write, taken apart: the bytes of one direction into frames,
//! a frame into JSON-RPC messages, a definition into its identity. It is no client and no server: it sends nothing, pairs no
//! answer with its request and judges nothing. Its two most important types are [`wire::FrameCutter`], which takes bytes as
//! they come, and [`message::Message`], what is said in a frame.

pub mod definition;
pub mod message;
mod wide;
pub mod wire;
