//! Lines about connections and blocks.

use mcpwarden_policy::event::{
    Action, Connecting, NetworkBlocked, NetworkClosed, NetworkUnblocked, NetworkUninspected, ServerDenied,
};

use super::Line;
use crate::words::{clean, who, word};

/// Where somebody connects to, who, and why that is denied.
pub(super) fn connecting(connecting: &Connecting, line: &mut Line) {
    line.plain(&format!("  {}", clean(&connecting.remote_addr)));
    if let Some(name) = &connecting.remote_name {
        line.plain(&format!(" ({})", clean(name)));
    }
    if connecting.action == Action::Block && !connecting.enforced {
        line.plain("  not enforced");
    }
    if connecting.adopted {
        line.plain("  open before the agent");
    }
    if let Some(reason) = &connecting.reason {
        line.plain(&format!("  {}", clean(reason)));
    }
    let program = clean(connecting.executable.as_deref().unwrap_or("?"));
    line.dim(&format!("  {program} ({})", connecting.pid));
}

/// Open connections were closed.
pub(super) fn closed(closed: &NetworkClosed, line: &mut Line) {
    line.plain(&format!("  {} connections to {}", closed.closed, closed.remote_addr));
    if closed.left > 0 {
        line.plain(&format!("  {} could not be closed", closed.left));
    }
}

/// A connection is not inspected.
pub(super) fn uninspected(found: &NetworkUninspected, line: &mut Line) {
    line.plain(&format!("  {} is not inspected: {}", clean(&found.remote_addr), clean(&found.reason)));
    line.plain(&format!("  client {}", found.pid));
}

/// Connections to a server are denied.
pub(super) fn denied(denied: &ServerDenied, line: &mut Line) {
    line.plain(&format!("  {}  {}", denied.remote_addr, clean(&denied.reason)));
    if let Some(obstacle) = &denied.obstacle {
        line.plain(&format!("; its address is not: {}", clean(obstacle)));
    } else if !denied.enforced {
        line.plain("; connections are only observed (enforcement.network)");
    }
}

/// Somebody blocked a destination or calls.
pub(super) fn blocked(blocked: &NetworkBlocked, line: &mut Line) {
    line.plain(&format!("  {} by {}", clean(&blocked.target), who(blocked.uid, blocked.user.as_ref())));
    if let Some(until) = blocked.until {
        line.plain(&format!(" until {until}"));
    }
    if let Some(reason) = &blocked.reason {
        line.plain(&format!("  {}", clean(reason)));
    }
}

/// A block ended.
pub(super) fn unblocked(unblocked: &NetworkUnblocked, line: &mut Line) {
    line.plain(&format!("  {} {}", clean(&unblocked.target), word(&unblocked.reason)));
    if let Some(uid) = unblocked.uid {
        line.plain(&format!(" by {}", who(uid, unblocked.user.as_ref())));
    }
}
