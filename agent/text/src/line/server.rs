//! Lines about the life of servers.

use mcpwarden_policy::event::{ServerExecuted, ServerExited, ServerInitialized, ServerStarted};

use super::Line;
use crate::words::clean;

/// A server was found.
pub(super) fn started(started: &ServerStarted, line: &mut Line) {
    if let Some(pid) = started.pid {
        line.plain(&format!("  pid {pid}"));
    }
    if let Some(client) = &started.client {
        let program = client.executable.as_deref().or(client.argv.first().map(String::as_str));
        let name = program.map_or("?", |path| path.rsplit('/').next().unwrap_or(path));
        line.plain(&format!("  for {} ({})", clean(name), client.pid));
    }
    line.dim(&format!("  {}", clean(&started.argv.join(" "))));
    if let Some(declared) = &started.mistaken_for {
        line.plain(&format!("  (not the declared {}: it is another program)", clean(&declared.0)));
    }
    if started.adopted {
        line.dim("  (ran before)");
    }
}

/// A server and its client agreed on a protocol.
pub(super) fn initialized(ready: &ServerInitialized, line: &mut Line) {
    let text = |field: &Option<String>| clean(field.as_deref().unwrap_or("?"));
    line.plain(&format!(
        "  {} {} for {}, protocol {}",
        text(&ready.server_name),
        text(&ready.server_version),
        text(&ready.client_name),
        text(&ready.protocol_version)
    ));
    if let Some(instructions) = &ready.instructions {
        line.dim(&format!("  {}", clean(instructions)));
    }
}

/// A server runs another program.
pub(super) fn executed(executed: &ServerExecuted, line: &mut Line) {
    let program = executed.executable.as_deref().unwrap_or("?");
    let serves = if executed.serves { "" } else { ", beside the process that serves" };
    line.plain(&format!("  pid {} runs {}{serves}", executed.pid, clean(program)));
    if let Some(declared) = &executed.mistaken_for {
        line.plain(&format!(" (not the declared {} any more)", clean(&declared.0)));
    }
    line.dim(&format!("  {}", clean(&executed.argv.join(" "))));
}

/// A server ended, with its totals.
pub(super) fn exited(exited: &ServerExited, line: &mut Line) {
    if let Some(pid) = exited.pid {
        line.plain(&format!("  pid {pid}"));
    }
    if let Some(code) = exited.exit_code {
        line.plain(&format!("  code {code}"));
    }
    if let Some(signal) = exited.signal {
        line.plain(&format!("  signal {signal}"));
    }
    line.dim(&format!("  {} calls in {:.1} s", exited.calls, exited.duration_ns as f64 / 1e9));
    if exited.unanswered > 0 {
        line.plain(&format!("  {} requests unanswered", exited.unanswered));
    }
    if exited.junk_bytes > 0 {
        line.plain(&format!("  {} bytes that were no message", exited.junk_bytes));
    }
}
