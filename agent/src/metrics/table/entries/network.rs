//! Connections.

use super::metric;
use crate::metrics::table::{
    CONNECTIONS, Metric,
    Source::{Counters, Events},
};

pub(super) static TABLE: &[Metric] = &[
    metric(
        CONNECTIONS,
        Events(&["kind", "action", "enforced"]),
        "Reported connections: to servers and denied ones (`network`), and by servers (`egress`).",
    ),
    metric(
        "mcpwarden_connects_total",
        Counters("what", &[("judged", "connects"), ("denied", "connects_denied"), ("egress", "egress")]),
        "Connects handed to the policy core; those of them that are denied, and those of servers' processes that were reported.",
    ),
    metric(
        "mcpwarden_network_total",
        Counters(
            "what",
            &[
                ("dns_missed", "network_dns_missed"),
                ("judged_by_forgotten", "network_judged_by_forgotten"),
                ("destination_forgotten", "destinations_overflow"),
                ("message_repeated", "kernel_messages_repeated"),
            ],
        ),
        "Answers of name servers that were not seen, connections judged by previous rules, destinations reported again, messages to an address that was just reported.",
    ),
    metric(
        "mcpwarden_sockets_not_captured_total",
        Counters(
            "why",
            &[
                ("refused", "kernel_sockets_refused"),
                ("foreign", "kernel_sockets_foreign"),
                ("unread", "kernel_sockets_unread"),
            ],
        ),
        "Connections of sockets whose bytes are not captured: no room, neither HTTP nor lines of JSON, or not to be read.",
    ),
];
