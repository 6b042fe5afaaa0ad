//! Calls and decisions, and what was found.

use super::metric;
use crate::metrics::table::{
    CALL_SECONDS, CALLS, DENIALS, DETECTIONS, DETECTIONS_MUTED, EVENTS, GUARD_ANSWERS, GUARD_SAMPLE,
    GUARD_SECONDS, Metric, RESULTS,
    Source::{Counter, Counters, Events, Gauge, Seconds},
};

/// Calls and decisions.
pub(super) static TABLE: &[Metric] = &[
    metric(
        CALLS,
        Events(&["server", "action"]),
        "Tool calls, by what was decided. Servers beyond the first 100 are `other`.",
    ),
    metric(RESULTS, Events(&["server", "status"]), "Answers to tool calls."),
    metric(
        CALL_SECONDS,
        Seconds(&[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0]),
        "From a tool call to its answer.",
    ),
    metric(
        DENIALS,
        Events(&["guard", "enforced"]),
        "Messages that a guard denied, carried out or only reported.",
    ),
    metric("mcpwarden_objections_total", Counter("denials"), "Objections of guards."),
    metric(
        "mcpwarden_guards_total",
        Counters(
            "outcome",
            &[("asked", "guards_asked"), ("denied", "guards_denied"), ("failed", "guards_failed")],
        ),
        "Evaluations of guards, by outcome.",
    ),
    metric(
        "mcpwarden_guard_questions_total",
        Counters(
            "outcome",
            &[
                ("asked", "external_guards_asked"),
                ("allowed", "external_guards_allowed"),
                ("denied", "external_guards_denied"),
                ("modified", "external_guards_modified"),
                ("timed_out", "external_guards_timed_out"),
                ("failed", "external_guards_failed"),
                ("unexpected", "external_guards_unexpected"),
            ],
        ),
        "Questions to guards that others wrote, by what came of them in the policy core.",
    ),
    metric(
        GUARD_ANSWERS,
        Events(&["guard", "answer"]),
        "Questions to guards that others wrote, by the name of the guard and the answer: `allow`, `deny`, `modify`, \
         `timeout`, `limit`, `error`, `refused`.",
    ),
    metric(
        GUARD_SECONDS,
        Seconds(&[0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0]),
        "From a question to a guard that others wrote to its answer.",
    ),
    metric(
        GUARD_SAMPLE,
        Gauge(&["guard", "metric", "labels"]),
        "The last sample of a metric of a WebAssembly guard; `labels` are its own, as `name=value`.",
    ),
    metric(
        "mcpwarden_approvals_total",
        Counters(
            "outcome",
            &[
                ("requested", "approvals_requested"),
                ("granted", "approvals_granted"),
                ("used", "limited_approvals_used"),
                ("denied", "approvals_denied"),
                ("timed_out", "approvals_timed_out"),
            ],
        ),
        "Tools that wait for approval, and what came of it; `used`: calls that a limited approval let pass.",
    ),
    metric(
        "mcpwarden_requests_timed_out_total",
        Counter("requests_timed_out"),
        "Requests that were unanswered for too long.",
    ),
    metric(
        "mcpwarden_requests_refused_total",
        Counter("requests_refused"),
        "Requests that servers at addresses refused by a status of HTTP.",
    ),
    metric(
        "mcpwarden_concurrency_exceeded_total",
        Counter("concurrency_exceeded"),
        "Times that a server had too many open requests.",
    ),
];

/// What was found.
pub(super) static FOUND: &[Metric] = &[
    metric(
        DETECTIONS,
        Events(&["category", "severity"]),
        "Detections in texts that are severe enough for an event, and not muted.",
    ),
    metric(
        DETECTIONS_MUTED,
        Events(&["category"]),
        "Detections that are recorded, and are no alerts since a mute applies.",
    ),
    metric(
        "mcpwarden_mutes_total",
        Counters(
            "outcome",
            &[("muted", "mutes_made"), ("ended", "mutes_ended"), ("refused", "mutes_refused")],
        ),
        "Mutes of detections: of operators, mutes that ended, and those refused since too many are in force.",
    ),
    metric(
        "mcpwarden_registry_total",
        Counters(
            "what",
            &[
                ("page", "registry_pages"),
                ("unknown_page", "registry_unknown_pages"),
                ("loose_page", "registry_loose_pages"),
                ("list_change", "registry_list_changes"),
                ("changed", "registry_changed"),
                ("removed", "registry_removed"),
                ("contradiction", "registry_contradictions"),
                ("cross_server_order", "registry_orders_across_servers"),
            ],
        ),
        "Pages of definitions, definitions that changed or were removed, servers that contradict themselves.",
    ),
    metric(EVENTS, Events(&["type"]), "Events, by type."),
];
