//! The word that a line of text begins with, for each event.

use anstyle::{AnsiColor, Style};
use mcpwarden_policy::{
    EventBody,
    event::{Action, CallStatus, DefinitionChanged, GateAction, Severity, ToolChanged},
};

/// The word, as wide as all others, and its colour.
pub fn of(body: &EventBody) -> (&'static str, Style) {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match body {
        EventBody::AgentStarted(_) => ("agent   ", colour(AnsiColor::Blue)),
        EventBody::ConfigReloaded(_) => ("reloaded", colour(AnsiColor::Blue)),
        EventBody::ConfigRefused(_) => ("REFUSED ", colour(AnsiColor::Red)),
        EventBody::AgentStopped(_) => ("agent   ", colour(AnsiColor::Blue)),
        EventBody::StoreFailing(_) | EventBody::StoreReplaced(_) | EventBody::StoreReadersCut(_) => {
            ("STORE   ", colour(AnsiColor::Red))
        }
        EventBody::StoreTrimmed(_) => ("store   ", colour(AnsiColor::Yellow)),
        EventBody::ClockStep(_) => ("clock   ", colour(AnsiColor::Yellow)),
        EventBody::SinkFailing(_) => ("SINK    ", colour(AnsiColor::Red)),
        EventBody::GuardLoaded(_) => ("guard   ", colour(AnsiColor::Blue)),
        EventBody::GuardFailing(_) => ("GUARD   ", colour(AnsiColor::Red)),
        EventBody::GuardRecovered(_) => ("guard   ", colour(AnsiColor::Green)),
        EventBody::GuardDenied(_) => ("DENIES  ", colour(AnsiColor::Red)),
        EventBody::GuardModified(_) => ("modifies", colour(AnsiColor::Yellow)),
        EventBody::SinkRecovered(_) => ("sink    ", colour(AnsiColor::Green)),
        EventBody::AuditHead(_) => ("audit   ", colour(AnsiColor::BrightBlack)),
        EventBody::StoreRecovered(_) => ("store   ", colour(AnsiColor::Green)),
        EventBody::ServerStarted(_) => ("started ", colour(AnsiColor::Green)),
        EventBody::ServerExecuted(executed) if executed.mistaken_for.is_some() => {
            ("REPLACED", colour(AnsiColor::Red))
        }
        EventBody::ServerExecuted(_) => ("runs    ", colour(AnsiColor::Yellow)),
        EventBody::ServerPreloaded(_) => ("LOADS   ", colour(AnsiColor::Red)),
        EventBody::ServerVersionChanged(_) => ("version ", colour(AnsiColor::Cyan)),
        EventBody::CapacityExceeded(_) => ("FULL    ", colour(AnsiColor::Red)),
        EventBody::ServerInitialized(_) => ("ready   ", colour(AnsiColor::Green)),
        EventBody::ToolSeen(_) => ("tool    ", colour(AnsiColor::Cyan)),
        EventBody::InterfaceSeen(_) => ("shows   ", colour(AnsiColor::Cyan)),
        EventBody::ToolCalled(_) => ("call    ", colour(AnsiColor::Yellow)),
        EventBody::ToolChanged(ToolChanged { action: Action::Allow, .. })
        | EventBody::DefinitionChanged(DefinitionChanged { action: Action::Allow, .. }) => {
            ("changed ", colour(AnsiColor::Cyan))
        }
        EventBody::ToolChanged(_) | EventBody::DefinitionChanged(_) => ("CHANGED ", colour(AnsiColor::Red)),
        EventBody::ToolRemoved(_) => ("removed ", colour(AnsiColor::Cyan)),
        EventBody::ListChanged(_) => ("changed ", colour(AnsiColor::Cyan)),
        EventBody::Detected(found) if found.muted => ("muted   ", colour(AnsiColor::BrightBlack)),
        EventBody::DetectionMuted(_) => ("mutes   ", colour(AnsiColor::Magenta)),
        EventBody::DetectionUnmuted(_) => ("unmutes ", colour(AnsiColor::Magenta)),
        EventBody::Detected(found) if found.detection.severity < Severity::High => {
            ("found   ", colour(AnsiColor::Yellow))
        }
        EventBody::Detected(_) => ("FOUND   ", colour(AnsiColor::Red)),
        EventBody::CrossServerBlocked(_) | EventBody::RequestBlocked(_) => {
            ("BLOCKED ", colour(AnsiColor::Red))
        }
        EventBody::GateDecided(gate) if gate.action == GateAction::Passed => {
            ("UNJUDGED", colour(AnsiColor::Yellow))
        }
        EventBody::GateDecided(gate) if gate.action == GateAction::Unseen => {
            ("UNJUDGED", colour(AnsiColor::Red))
        }
        EventBody::GateDecided(_) => ("STOPPED ", colour(AnsiColor::Red)),
        EventBody::RequestWarned(_) => ("warned  ", colour(AnsiColor::Yellow)),
        EventBody::ProtocolViolation(_) => ("VIOLATES", colour(AnsiColor::Yellow)),
        EventBody::ApprovalRequested(_) => ("APPROVE?", colour(AnsiColor::Red)),
        EventBody::SessionSet(_) => ("set     ", colour(AnsiColor::Magenta)),
        EventBody::PinsReset(_) => ("forgot  ", colour(AnsiColor::Magenta)),
        EventBody::ApprovalGranted(_) | EventBody::DefinitionApproved(_) => {
            ("approved", colour(AnsiColor::Green))
        }
        EventBody::ApprovalEnded(_) => ("held    ", colour(AnsiColor::Magenta)),
        EventBody::ApprovalDenied(_) => ("denied  ", colour(AnsiColor::Magenta)),
        EventBody::ApprovalTimedOut(_) => ("expired ", colour(AnsiColor::Magenta)),
        EventBody::RequestTimedOut(_) => ("LATE    ", colour(AnsiColor::Red)),
        EventBody::ConcurrencyExceeded(_) => ("CROWDED ", colour(AnsiColor::Red)),
        EventBody::ToolResult(result) if result.status == CallStatus::Error => {
            ("error   ", colour(AnsiColor::Red))
        }
        EventBody::ToolResult(_) => ("result  ", colour(AnsiColor::Yellow)),
        EventBody::Message(_) => ("message ", colour(AnsiColor::BrightBlack)),
        EventBody::NetworkConnection(connection) if connection.connecting.action == Action::Block => {
            ("DENIED  ", colour(AnsiColor::Red))
        }
        EventBody::ServerEgress(egress) if egress.connecting.action == Action::Block => {
            ("DENIED  ", colour(AnsiColor::Red))
        }
        EventBody::NetworkConnection(_) | EventBody::ServerEgress(_) => {
            ("connects", colour(AnsiColor::Yellow))
        }
        EventBody::NetworkClosed(_) => ("CLOSED  ", colour(AnsiColor::Red)),
        EventBody::NetworkUninspected(_) | EventBody::ServerUncaptured(_) => {
            ("UNSEEN  ", colour(AnsiColor::Yellow))
        }
        EventBody::ToolCallIntercepted(_) => ("intent  ", colour(AnsiColor::Cyan)),
        EventBody::RequestRefused(_) => ("refused ", colour(AnsiColor::Yellow)),
        EventBody::ServerReachable(_) => ("reached ", colour(AnsiColor::Green)),
        EventBody::ServerUnreachable(_) => ("no list ", colour(AnsiColor::Yellow)),
        EventBody::TlsMismatch(_) => ("MISMATCH", colour(AnsiColor::Red)),
        EventBody::ServerDenied(_) => ("DENIED  ", colour(AnsiColor::Red)),
        EventBody::NetworkBlocked(_) | EventBody::CallsBlocked(_) => ("BLOCKED ", colour(AnsiColor::Red)),
        EventBody::NetworkUnblocked(_) | EventBody::CallsUnblocked(_) => {
            ("unblock ", colour(AnsiColor::Green))
        }
        EventBody::ServerExited(_) => ("exited  ", colour(AnsiColor::Magenta)),
        EventBody::CaptureGap(_) => ("GAP     ", colour(AnsiColor::Red)),
        EventBody::AgentLoss(_) => ("LOSS    ", colour(AnsiColor::Red)),
    }
}
