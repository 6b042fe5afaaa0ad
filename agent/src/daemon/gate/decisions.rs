//! The records of the gate, as events report them.

use mcpwarden_abi::{self as abi, GateInfo, RecordHeader};
use mcpwarden_gate::{BY_BURST, BY_FLOW, BY_READ_THEN_SEND, BY_TOOL_RATE, BY_WHAT_IT_MAY_DO};
use mcpwarden_policy::{
    event::{GateAction, GateDecided},
    gate::GateOutcome,
    guard::GuardKind,
};

/// What the gate did to a write. `outcome`: the meaning of its number, where that is remembered.
pub fn decided(header: &RecordHeader, info: &GateInfo, outcome: Option<&GateOutcome>) -> GateDecided {
    let action = match info.action {
        abi::GATE_NEUTRALIZED => GateAction::Neutralized,
        abi::GATE_REFUSED => GateAction::Refused,
        abi::GATE_UNSEEN => GateAction::Unseen,
        _ => GateAction::Passed,
    };
    let form = |code: &str, reason: &str| (code.to_owned(), reason.to_owned());
    let by_table = || {
        outcome.map_or_else(
            || form("unknown", "the table that decided is not remembered any more"),
            |outcome| {
                let reason = match outcome.guard {
                    Some(guard) => format!("{}: {}", guard.name(), outcome.code),
                    None => outcome.code.clone(),
                };
                (outcome.code.clone(), reason)
            },
        )
    };
    let because = info.because & !abi::GATE_NOT_NEUTRALIZABLE;
    let mut guard = outcome.and_then(|outcome| outcome.guard);
    let (code, mut reason) = match because {
        abi::GATE_BECAUSE_LONG => form("long_write", "the write is longer than `enforcement.window_bytes`"),
        abi::GATE_BECAUSE_LOST => {
            form("after_unread", "it goes on with a message that was not read from its beginning")
        }
        abi::GATE_BECAUSE_UNREADABLE => {
            form("unreadable_write", "the client's memory could not be read without faulting")
        }
        abi::GATE_BECAUSE_UNKNOWN => {
            form("unknown_write", "io_uring, or a system call that the gate does not know")
        }
        abi::GATE_BECAUSE_RACE => form("racing_writes", "another write to the same server had not returned"),
        abi::GATE_BECAUSE_CHANGED => form("policy_changed", "the policy changed while it was read"),
        abi::GATE_BECAUSE_UNSEEN => form(
            "unseen_write",
            "splice, tee, vmsplice, sendfile, or a registered buffer of io_uring: no hook is asked",
        ),
        abi::GATE_BECAUSE_MISSED => form(
            "missed_write",
            "the kernel did not ask the gate: it skipped the program, or asks about the first of several messages alone",
        ),
        abi::GATE_BECAUSE_HTTP => {
            form("unreadable_http", "it is no HTTP/1.1, or can be read as such in more than one way")
        }
        abi::GATE_BECAUSE_CODED => {
            form("coded_body", "the body of its request is in a coding, which the gate does not read")
        }
        abi::GATE_BECAUSE_FORGOTTEN => {
            form("forgotten_calls", "there is no room to remember the calls that it is to be judged by")
        }
        abi::GATE_BECAUSE_CALLS.. => {
            let (by, code, reason) = by_calls(because - abi::GATE_BECAUSE_CALLS);
            guard = Some(by);
            form(code, &format!("{}: {reason}", by.name()))
        }
        _ => by_table(),
    };
    if info.because != because {
        reason.push_str(
            "; it could not be neutralized: the client's memory is shared, or must not be written to",
        );
    }
    let explained = info.is_rewritten != 0;
    GateDecided { action, guard, code, reason, pid: header.pid, bytes: info.bytes, explained }
}

/// Which guard's rule the calls before break, its code, and why in words.
pub fn by_calls(by: u8) -> (GuardKind, &'static str, &'static str) {
    match by {
        BY_READ_THEN_SEND => {
            (GuardKind::CrossServer, "read_then_send", "it sends, and another server was read from before")
        }
        BY_BURST => (GuardKind::CrossServer, "burst", "its server was called too often"),
        BY_FLOW => (
            GuardKind::CrossServer,
            "cross_server_flow",
            "it writes or sends, and another server was read from before",
        ),
        BY_TOOL_RATE => (GuardKind::RateLimit, "rate_limited", "the tool was called too often"),
        BY_WHAT_IT_MAY_DO => (
            GuardKind::CrossServer,
            "unlisted_tool",
            "its server does not list it, so it may send or write, and another server was read from before",
        ),
        _ => (GuardKind::RateLimit, "rate_limited", "its server was called too often"),
    }
}
