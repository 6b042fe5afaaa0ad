//! A definition's identity: the hash of what a server tells the model, and what is different between two of them.

mod diff;
mod hash;
mod ui;

pub use diff::{Diff, FieldChange};
pub use hash::{
    VARYING, bare_digest, bounded, bounded_name, bytes_hash, former_digest, hex, is_bounded, json_digest,
    json_hash, push_hex, text_hash,
};
pub use ui::grants;
