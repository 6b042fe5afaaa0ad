//! A definition's identity: the hash of what a server tells the model, and what is different between two of them.

mod bounded;
pub mod canonical;
mod diff;
mod hash;
mod ui;

pub use bounded::{bounded, bounded_name, is_bounded};
pub use diff::{Diff, FieldChange};
pub use hash::{
    VARYING, bare_digest, bytes_hash, former_digest, hex, json_digest, json_hash, push_hex, text_hash,
};
pub use ui::grants;
