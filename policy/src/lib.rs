//! The sans-I/O core of mcpwarden: facts and frames of Model Context Protocol (MCP) servers go in, events and
//! requests to the kernel half come out. It is **not** an MCP client, server or proxy, and it has no clock, no
//! thread, no file, no socket and no kernel in it: time comes in as an argument, so that fed from the kernel it
//! is the daemon, and fed from a file it is a replay. Its two most important types are [`Input`], what can
//! happen, and [`Output`], what follows; [`Engine::handle`] leads from the one to the other.
//!
//! It stands on crates of its own, which are re-exported here under the names of their jobs:
//!
//! | crate | here | job |
//! |---|---|---|
//! | `mcpwarden-terms` | [`terms`], [`glob`] | the words that everything else is written in: ids, kinds, severities, addresses, globs |
//! | `mcpwarden-protocol` | [`wire`], [`protocol`], [`definition`] | bytes into frames, frames into JSON-RPC messages, a definition into its identity |
//! | `mcpwarden-http` | [`http`] | bytes of TCP connections into frames |
//! | `mcpwarden-event` | [`event`] | the schema of everything that is reported |
//! | `mcpwarden-detect` | [`detect`], [`redact`] | texts into detections; what may be recorded of values |
//! | `mcpwarden-config` | [`config`] | the configuration file into plain data, every mistake with its place |
//!
//! Its own modules, each using only those above it:
//!
//! | module | job |
//! |---|---|
//! | [`network`] | where connections may go: rules, the table of the kernel half |
//! | [`discovery`] | a command line into "an MCP server, called …" |
//! | [`mutes`] | detections that are recorded, and are no alerts |
//! | [`guard`] | the contract of everything that judges |
//! | [`registry`] | what servers offered before, and what of it is pinned |
//! | [`settings`] | what the configuration says to each module |
//! | [`classify`] | what a tool does, by its name and description |
//! | [`guards`] | the guards that are built in, and who asks them |
//! | [`gate`] | what can be said of calls before they are made, as one table for the kernel half |
//! | [`lint`] | what a configuration says that does not do what it seems to |
//! | [`engine`] | state per connection: confirmation, pairing, relays, sessions |
//! | [`replay`] | recorded frames, for an engine |

pub mod classify;
pub mod discovery;
pub mod engine;
pub mod gate;
pub mod guard;
pub mod guards;
pub mod lint;
pub mod mutes;
pub mod network;
pub mod registry;
pub mod replay;
pub mod settings;
#[cfg(test)]
mod testing;

pub use mcpwarden_config as config;
pub use mcpwarden_detect as detect;
pub use mcpwarden_detect::redact;
pub use mcpwarden_event as event;
pub use mcpwarden_http as http;
pub use mcpwarden_intent as intent;
pub use mcpwarden_protocol::definition as hash;
pub use mcpwarden_protocol::{definition, message as protocol, wire};
pub use mcpwarden_terms::{self as terms, glob};

pub use discovery::{Declared, NamePatterns};
pub use engine::{
    ByHand, CommandError, Connect, Counters, Decide, Definitions, Engine, EngineConfig, EngineLimits, Exec,
    ExitStatus, Found, GuardQuestion, Input, Inspect, Inspected, LongMessage, ModelPart, ModelRequest,
    ModelTraffic, MuteDetections, OperatorCommand, Output, Payloads, Process, ProfileError, Reached,
    ServerAddress, Traffic, WaitingTool,
};
pub use event::{Event, EventBody};
pub use terms::{ConnectionId, Direction, GapCause, ServerId, SessionId, Timestamp};
pub use wire::{Cut, FrameCutter, Framing, Limits};
