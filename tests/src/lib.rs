//! End-to-end tests of mcpwarden: what they are made of.
//!
//! - [`agent::Agent`] starts the real agent as root, collects its events and stops it.
//!   Tests run side by side, and every agent watches the whole host: [`others`] leaves out what another test started.
//! - [`command`] runs its other commands.
//! - [`transcript`] says what both sides of a connection really exchanged, and compares it with the events.
//! - [`replay`] plays recorded transcripts again.
//! - [`clients`] runs the official MCP clients against real servers; [`peer`] has a
//!   [`client_process`] do what the test says, or runs our client; [`memory`] is what it can write from.
//! - [`containers`] has a container engine; [`dial`] knows every way to reach an address, [`listener`] is what is
//!   reached, [`hold`] keeps sockets of every kind open, [`dns`] tells addresses of names, and a
//!   [`neighbour::Neighbour`] sits at the same hook.
//! - [`scrape`] asks for metrics as Prometheus does.
//! - [`cgroup::Cgroup`] is a cgroup of the test's own; [`maps`] counts what is in the kernel's tables.
//! - [`gate::Gate`] holds a script up until the test has done what has to be done in between.
//! - [`gated::Gated`] is a server whose calls are judged before they are made.
//! - [`http_server::HttpServer`] is an MCP server over HTTP, well-behaved or not. [`web`] is HTTP by hand: bodies in every
//!   form, written and read in pieces, and a server that answers as each request asks.
//! - [`patience`] says how long is too long.
//! - [`mini_server`], [`wiring`], [`addressed`], [`framing`], [`script`] and [`io_methods`] are what our own small programs in `src/bin`
//!   are built from: servers, a client, a relay and a sender that writes in every way there is.
//!
//! The tests themselves are in `tests/`; `cargo xtask test` sets up what they need and runs them as root.

pub mod addressed;
pub mod agent;
pub mod cgroup;
pub mod client_process;
pub mod clients;
pub mod command;
pub mod containers;
pub mod dial;
pub mod dns;
pub mod figures;
pub mod framing;
pub mod gate;
pub mod gated;
pub mod guard_service;
pub mod hold;
pub mod http_server;
pub mod io_methods;
pub mod kept;
pub mod listener;
pub mod maps;
pub mod memory;
pub mod mini_server;
pub mod neighbour;
pub mod others;
pub mod over_tls;
pub mod patience;
pub mod peer;
pub mod places;
pub mod programs;
pub mod remote;
pub mod replay;
pub mod scrape;
pub mod script;
pub mod sender;
pub mod stepped;
pub mod transcript;
pub mod web;
pub mod webhook;
pub mod wiring;
