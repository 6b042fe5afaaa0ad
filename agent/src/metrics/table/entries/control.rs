//! Who asks: the control socket, the metrics themselves.

use super::metric;
use crate::metrics::table::{
    FOLLOWERS, Metric,
    Source::{Counter, Counters, Gauge},
};

pub(super) static TABLE: &[Metric] = &[
    metric(
        "mcpwarden_control_requests_total",
        Counter("control_requests"),
        "Requests at the control socket.",
    ),
    metric(
        "mcpwarden_control_refused_total",
        Counters(
            "why",
            &[
                ("forbidden", "control_forbidden"),
                ("unusable", "control_unusable"),
                ("timed_out", "control_timed_out"),
            ],
        ),
        "Those of them that were refused.",
    ),
    metric(FOLLOWERS, Gauge(&[]), "Followers of events at the control socket."),
    metric(
        "mcpwarden_control_followers_refused_total",
        Counter("control_followers_refused"),
        "Followers that were refused: there was no capacity.",
    ),
    metric(
        "mcpwarden_control_events_total",
        Counters("outcome", &[("sent", "control_events_sent"), ("lost", "control_events_lost")]),
        "Events for followers, once for each: sent, or lost because the follower reads too slowly, which is reported to it.",
    ),
    metric(
        "mcpwarden_metrics_requests_total",
        Counter("metrics_requests"),
        "Requests for metrics and health.",
    ),
    metric(
        "mcpwarden_metrics_refused_total",
        Counters(
            "why",
            &[
                ("pushed_out", "metrics_pushed_out"),
                ("unusable", "metrics_unusable"),
                ("timed_out", "metrics_timed_out"),
            ],
        ),
        "Connections that were not answered: there were too many later ones, no HTTP or too long a head, too slow.",
    ),
];
