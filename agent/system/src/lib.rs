//! What several parts of the agent need of the operating system, and each would else do in a way of its own.
//!
//! | module | job |
//! |---|---|
//! | `instance` | one agent a host, its directories, and keys that it makes for itself |
//! | `owner` | whether root and the agent alone decide what stands in a file |
//! | `secret_file` | secrets that an administrator puts into a file |
//! | `files` | files beside each other |
//! | `boot` | the clock since boot, and which boot that is |

pub mod boot;
pub mod files;
pub mod instance;
pub mod owner;
pub mod secret_file;

use std::{
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Waits for the end of a thread, until then at the latest; whether it came.
pub fn ends<T>(thread: &JoinHandle<T>, until: Instant) -> bool {
    while !thread.is_finished() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
