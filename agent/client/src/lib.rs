//! A client of MCP: what `inspect` and the listing of declared servers ask servers themselves.
//!
//! | module | job |
//! |---|---|
//! | `lists` | the conversation: greeted, listed, left, by the official SDK |
//! | `address` | a server at an address, by whichever transport it knows |
//! | `http`, `sse` | those transports |
//! | `pin` | a certificate that is known beforehand |
//! | `tap` | what a server sends: bounded, and kept as it was sent |
//! | `inspect` | one server, reached or started, for a person who asks |
//! | `call` | one declared server, for a person who calls a tool of it |
//! | `listing` | declared servers, again and again, for the agent |

mod address;
pub mod call;
mod http;
pub mod inspect;
pub mod listing;
mod lists;
mod pin;
mod sse;
mod tap;

pub use address::{Spoken, talk_http};
pub use http::{Advice, Settings, secret};
pub use lists::{
    Definition, LISTS, List, Listed, Opening, Progress, TOOLS, either_way, instructions_of, is_refusal, talk,
};
pub use pin::{Mismatch, Pin};
pub use tap::{Failure, Frame, MAX_BYTES, Tap};
