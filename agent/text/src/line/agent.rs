//! Lines about the agent itself, its losses and its database.

use mcpwarden_policy::event::{
    AgentLoss, AgentStarted, AgentStopped, ConfigReloaded, CutReason, StoreReadersCut, StoreReplaced,
};

use super::Line;
use crate::words::clean;

/// The agent watches.
pub(super) fn started(started: &AgentStarted, line: &mut Line) {
    line.plain(&format!(
        "  mcpwarden {} watches this host (kernel {}, {} backend, {} servers already running)",
        started.version, started.kernel, started.backend, started.servers_adopted
    ));
    for blind_spot in &started.blind_spots {
        line.plain(&format!("; {}", clean(blind_spot)));
    }
    if let Some(left) = &started.taken_over {
        let fate = if left.resumed { "go on" } else { "ran until now" };
        line.plain(&format!(
            "; {} programs of the agent before {fate}, {} records of theirs ({} bytes of streams) nobody read",
            left.programs, left.unread_records, left.unread_bytes
        ));
    }
}

/// Another configuration is in force.
pub(super) fn reloaded(reloaded: &ConfigReloaded, line: &mut Line) {
    line.plain(&format!("  {} counts ({})", clean(&reloaded.path), clean(&reloaded.reason)));
    if !reloaded.needs_restart.is_empty() {
        let keys = reloaded.needs_restart.join(", ");
        line.plain(&format!("; after a restart only: {}", clean(&keys)));
    }
}

/// The agent stopped, with a few of its counters.
pub(super) fn stopped(stopped: &AgentStopped, line: &mut Line) {
    line.plain(&format!("  stopped: {}", clean(&stopped.reason)));
    for name in ["servers", "calls", "messages", "gap_bytes"] {
        if let Some(value) = stopped.counters.get(name) {
            line.dim(&format!("  {name} {value}"));
        }
    }
}

/// The database was damaged, and another one is in its place.
pub(super) fn store_replaced(replaced: &StoreReplaced, line: &mut Line) {
    line.plain(&format!("  {} was damaged: {}", clean(&replaced.path), clean(&replaced.reason)));
    line.plain(&format!("  it is {} now", clean(&replaced.set_aside)));
    if let Some(pins) = replaced.pins_restored {
        line.plain(&format!(", {pins} pins were restored"));
    }
}

/// All readers of the database were cut off.
pub(super) fn readers_cut(cut: &StoreReadersCut, line: &mut Line) {
    line.plain(match cut.reason {
        CutReason::Locked => "  a reader of the database held the lock of the writer",
        CutReason::LogTooLarge => "  a reader of the database kept a transaction open",
    });
    if let Some(pid) = cut.pid {
        line.plain(&format!(" (pid {pid})"));
    }
    line.plain(": all readers were cut off");
    if cut.closed_seconds > 0 {
        line.plain(&format!(", and only root can read for {} s", cut.closed_seconds));
    }
}

/// Something was lost.
pub(super) fn loss(loss: &AgentLoss, line: &mut Line) {
    line.plain(&format!("  {} {}: {}", loss.count, clean(&loss.counter), clean(&loss.meaning)));
    if let Some(uid) = loss.uid {
        line.plain(&format!("  user {uid}"));
    }
}
