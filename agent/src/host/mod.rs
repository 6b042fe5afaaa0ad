//! What only this host knows: its clocks, its processes and their cgroups, its users and files.

pub mod cgroup;
pub mod clock;
mod configured;
pub mod files;
pub mod mapped;
pub mod namespaces;
mod needed;
pub mod probes;
pub mod process;
mod rules;

pub use configured::{Checked, declared, idle, read_own, scorer, sessions};
pub use needed::needed;
pub use rules::rules;
