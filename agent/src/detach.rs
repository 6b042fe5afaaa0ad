//! `mcpwarden detach`: what an agent left attached (`enforcement.persist`) is let go.

use anyhow::Result;

use crate::{
    cli::DetachOptions,
    instance,
    kernel::pins::{Kept, Pins},
    output::say,
};

/// Detaches it, and says how much that was.
///
/// # Errors
/// An agent runs, or something cannot be removed.
pub fn run(options: &DetachOptions) -> Result<()> {
    let _lock = instance::lock(&options.runtime_dir)?;
    match Pins::of(&options.runtime_dir).release(&Kept::default(), u64::MAX)?.programs {
        0 => say("nothing was left attached"),
        1 => say("1 program is detached: nobody judges connections any more"),
        programs => say(format!("{programs} programs are detached: nobody judges connections any more")),
    }
    Ok(())
}
