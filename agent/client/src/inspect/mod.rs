//! One server, for a person who asks what it offers: reached or started, within the time that it has.
//!
//! | module | job |
//! |---|---|
//! | `session` | the server, from its start to its last list |
//! | `program` | a server that is started |
//! | `user` | who servers run as |
//! | `variables` | what a client's configuration takes from the environment |
//! | `options` | headers and authorities from the command line |

pub mod options;
pub(crate) mod program;
pub mod session;
pub mod user;
pub mod variables;

pub use program::Launch;
