//! Servers whose standard input and output cannot be captured.

use super::connections::declared;
use super::context::Context;
use super::io::Process;
use crate::discovery;
use crate::event::{Event, ServerType, ServerUncaptured, Transport};
use crate::terms::Timestamp;

/// A process runs whose messages, if it has any, go through what is not captured: it is reported where its command line says
/// that it is a server. Terminals are most programs' standard input and output.
pub(super) fn found(cx: &mut Context<'_>, process: &Process, transport: Transport, time: Timestamp) {
    let declared = declared(cx.config, process).map(|declared| declared.id.clone());
    if declared.is_none() && cx.config.patterns.matches(&process.argv).is_none() {
        return;
    }
    cx.reporter.counters.servers_uncaptured += 1;
    let server = declared.unwrap_or_else(|| discovery::server_id(&process.argv, process.cwd.as_deref()));
    let body = ServerUncaptured {
        pid: process.pid,
        uid: process.uid,
        executable: process.executable.clone(),
        transport,
        reason: reason(transport).to_owned(),
    };
    cx.reporter.emit(Event {
        server_id: Some(server),
        server_type: Some(ServerType::Stdio),
        ..Event::agent(time, body.into())
    });
}

fn reason(transport: Transport) -> &'static str {
    match transport {
        Transport::Pty => "its standard input or output is a terminal, which is not captured",
        Transport::PacketSocket => {
            "its standard input or output is a Unix socket of datagrams or sequenced packets, which is not captured"
        }
    }
}
