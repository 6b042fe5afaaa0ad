//! What is stored.

use super::metric;
use crate::metrics::table::{
    Metric, STORE_BYTES, STORE_LOG_BYTES, STORE_WRITABLE,
    Source::{Counter, Counters, Gauge, Nanoseconds},
};

pub(super) static TABLE: &[Metric] = &[
    metric(
        "mcpwarden_store_events_total",
        Counters(
            "outcome",
            &[
                ("stored", "store_events_stored"),
                ("lost", "store_events_lost"),
                ("removed", "store_events_removed"),
            ],
        ),
        "Events that were stored, that could not be, and that were removed for their age or for want of room.",
    ),
    metric(
        "mcpwarden_store_events_trimmed_total",
        Counter("store_events_trimmed"),
        "Removed events that were younger than others: their user had the most.",
    ),
    metric(
        "mcpwarden_store_locked_total",
        Counter("store_locked"),
        "How often the database was locked by somebody for half a second; events wait meanwhile.",
    ),
    metric(
        "mcpwarden_store_readers_cut_total",
        Counter("store_readers_cut"),
        "How often all readers of the database were cut off, since one of them kept the agent from its work.",
    ),
    metric("mcpwarden_store_writes_total", Counter("store_writes"), "Transactions of events."),
    metric("mcpwarden_store_write_seconds_total", Nanoseconds("store_write_ns"), "Time in them."),
    metric(STORE_WRITABLE, Gauge(&[]), "1 where events can be stored, else 0."),
    metric(STORE_BYTES, Gauge(&[]), "Size of the database of events, with what is not merged into it yet."),
    metric(
        STORE_LOG_BYTES,
        Gauge(&[]),
        "Size of what is not merged into the database yet. Beyond 256 MiB, readers that are in the way are cut off.",
    ),
];
