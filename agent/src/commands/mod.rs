//! The commands that are small: one file each, named for what it is about.

pub mod approvals;
pub mod audit;
pub mod blocks;
pub mod call;
pub mod check;
pub mod decide;
pub mod detach;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod guard;
pub mod inspect;
pub mod learn;
mod lines;
pub mod man;
pub mod matching;
pub mod mutes;
pub mod pins;
pub mod refresh;
pub mod reload;
pub mod replay;
pub mod sessions;
pub mod status;
