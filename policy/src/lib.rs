//! The sans-I/O core of mcpwarden: facts and frames of Model Context Protocol (MCP) servers go in, events and
//! requests to the kernel half come out. It is **not** an MCP client, server or proxy, and it has no clock, no
//! thread, no file, no socket and no kernel in it: time comes in as an argument, so that fed from the kernel it
//! is the daemon, and fed from a file it is a replay. Its two most important types are [`Input`], what can
//! happen, and [`Output`], what follows; [`Engine::handle`] leads from the one to the other.
//!
//! Layers, each using only those above it:
//!
//! | module | job |
//! |---|---|
//! | [`ids`] | newtypes: connections, servers, sessions, time, direction |
//! | [`protocol`] | a frame into JSON-RPC messages; which methods are MCP |
//! | [`wire`] | bytes of one direction into frames |
//! | [`http`] | bytes of TCP connections into frames |
//! | [`glob`] | names in rules |
//! | [`discovery`] | a command line into "an MCP server, called …" |
//! | [`redact`], [`hash`] | what may be recorded of values; identity of definitions |
//! | [`event`] | the schema of everything that is said |
//! | [`detect`] | what in a text is written to misuse the model that reads it |
//! | [`network`] | where connections may go: addresses, rules, the table of the kernel half |
//! | [`registry`] | what servers offered before, and what of it is pinned |
//! | [`guard`] | the contract of everything that judges |
//! | [`config`] | the configuration file: its keys, and what is wrong with one |
//! | [`classify`] | what a tool does, by its name and description |
//! | [`guards`] | the guards that are built in, and who asks them |
//! | [`gate`] | what can be said of calls before they are made, as one table for the kernel half |
//! | [`engine`] | state per connection: confirmation, pairing, relays, sessions |
//! | [`replay`] | recorded frames, for an engine |

pub mod classify;
pub mod config;
mod counters;
pub mod detect;
pub mod discovery;
pub mod engine;
pub mod event;
pub mod gate;
pub mod glob;
pub mod guard;
pub mod guards;
pub mod hash;
pub mod http;
pub mod ids;
pub mod network;
pub mod protocol;
pub mod redact;
pub mod registry;
pub mod replay;
pub mod wire;

pub use discovery::{Declared, NamePatterns};
pub use engine::{
    ByHand, CommandError, Connect, Counters, Decide, Definitions, Engine, EngineConfig, EngineLimits, Exec,
    ExitStatus, Found, Input, Inspect, OperatorCommand, Output, Payloads, Process, ProfileError, Reached,
    Traffic, WaitingTool,
};
pub use event::{Event, EventBody, GapCause};
pub use ids::{ConnectionId, Direction, ServerId, SessionId, Timestamp};
pub use wire::{Cut, FrameCutter, Limits};
