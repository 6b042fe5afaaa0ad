//! Where connections may go: addresses as rules write them, and the table that the kernel half looks destinations up in.
//!
//! Everything that decides about a connection (rules of `network`, `egress` of servers, denied servers, blocks) is
//! compiled into one [`Table`], so that the kernel needs two look-ups for the longest prefix and no rule twice. Names are
//! resolved by the agent; here they come in as addresses.

mod rules;
mod table;

pub use crate::terms::{Address, Endpoint, Host, Names, Prefix, reached};
pub use rules::{Block, FoundDenial, NetworkRules, NetworkServer, Rule, Target, Verdict, names_of};
pub use table::{Entry, Judgement, MAX_ENTRIES, Table, TableFull};
