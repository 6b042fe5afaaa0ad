//! `mcpwarden reload`: the agent reads its configuration again.

use anyhow::Result;
use hyper::Method;
use mcpwarden_policy::event::ConfigReloaded;

use crate::{
    cli::ReloadOptions,
    control::{RELOAD, client::query_agent},
    output::{escaped, print_error, print_json_line, print_line},
};

/// Has it reloaded, and says what counts now.
///
/// # Errors
/// No agent answers, or the file cannot be used.
pub fn run(options: &ReloadOptions) -> Result<()> {
    let reloaded: ConfigReloaded = query_agent(&options.agent.socket, Method::POST, RELOAD, &())?;
    if options.json {
        print_json_line(&reloaded);
        return Ok(());
    }
    print_line(format!("{} is in force now", escaped(&reloaded.path)));
    if !reloaded.needs_restart.is_empty() {
        let keys = reloaded.needs_restart.join(", ");
        print_error(format!(
            "mcpwarden: what these keys say counts after a restart of the agent only: {}",
            escaped(&keys)
        ));
    }
    Ok(())
}
