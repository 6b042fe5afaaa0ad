//! The gate.

use super::metric;
use crate::metrics::table::{
    GATE, Metric,
    Source::{Counters, Events},
};

pub(super) static TABLE: &[Metric] = &[
    metric(
        GATE,
        Events(&["action", "reason"]),
        "Writes of clients that the gate stopped or found undecidable, by action and reason: the guard, or the code of the undecidable write.",
    ),
    metric(
        "mcpwarden_gate_tables_total",
        Counters("what", &[("made", "gate_tables"), ("refused", "gate_tables_refused")]),
        "Tables of the gate: made of what is known, and those that the policy was too large for.",
    ),
    metric(
        "mcpwarden_gate_left_total",
        Counters(
            "what",
            &[
                ("untold", "kernel_gate_untold"),
                ("channel_refused", "kernel_gated_refused"),
                ("connection_refused", "gate_connections_refused"),
                ("session_refused", "gate_sessions_refused"),
                ("endpoint_refused", "gate_endpoints_refused"),
                ("call_forgotten", "kernel_gate_forgotten"),
            ],
        ),
        "Stopped writes without an event; channels, connections, sessions, endpoints and calls that the gate has no capacity for.",
    ),
];
