//! `mcpwarden detach`: what an agent left attached (`enforcement.persist`) is let go.

use anyhow::Result;
use mcpwarden_kernel::pins::{Kept, Left, Pins, Unread};
use mcpwarden_system::instance;
use serde_json::json;

use crate::{
    cli::DetachOptions,
    output::{print_json_line, print_line},
};

/// Detaches it, and says how much that was.
///
/// # Errors
/// An agent runs, or something cannot be removed.
pub fn run(options: &DetachOptions) -> Result<()> {
    let _lock = instance::lock(&options.runtime_dir)?;
    let Left { programs, unread, .. } = Pins::of(&options.runtime_dir).release(&Kept::default(), u64::MAX)?;
    if options.json {
        let Unread { records, bytes } = unread;
        print_json_line(&json!({"programs": programs, "unread_records": records, "unread_bytes": bytes}));
        return Ok(());
    }
    match programs {
        0 => print_line("nothing was left attached"),
        1 => print_line("1 program is detached: nobody captures or judges connections any more"),
        programs => {
            print_line(format!(
                "{programs} programs are detached: nobody captures or judges connections any more"
            ));
        }
    }
    if unread.records > 0 {
        let Unread { records, bytes } = unread;
        print_line(format!(
            "nobody read {records} of their records, with {bytes} bytes of what servers and clients said"
        ));
    }
    Ok(())
}
