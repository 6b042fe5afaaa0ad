//! Capture: records, the ring and the queue behind it, delays, losses, the kernel half.

use super::metric;
use crate::metrics::table::{
    DRAIN_AGE, ENGINE_SECONDS, GATE_SECONDS, LAG, LATENCY_SECONDS, MAP_CAPACITY, MAP_ENTRIES, Metric, QUEUE,
    QUEUE_BYTES, QUEUE_BYTES_CAPACITY, QUEUE_CAPACITY, RING_BYTES, RING_USED, SINK_BYTES, SINK_CAPACITY,
    SINK_EVENTS, SINK_FAILURES, SINK_WRITABLE,
    Source::{Counter, Counters, Gauge, Losses, Prefix, Seconds, Total},
    WAITING_BYTES, WAITING_MESSAGES,
};

pub(super) static TABLE: &[Metric] = &[
    metric("mcpwarden_records_total", Counter("capture_records"), "Records read from the ring."),
    metric("mcpwarden_captured_bytes_total", Counter("capture_bytes"), "Bytes of channels in them."),
    metric(
        "mcpwarden_missing_bytes_total",
        Counter("capture_missing_bytes"),
        "Bytes of channels that were not captured, of candidates too.",
    ),
    metric(
        "mcpwarden_ring_full_records_total",
        Counter("kernel_ring_full_records"),
        "Records for which the ring, or their user's share of it, had no room.",
    ),
    metric("mcpwarden_ring_full_bytes_total", Counter("kernel_ring_full_bytes"), "Bytes in them."),
    metric(
        "mcpwarden_user_share_bytes_total",
        Counters("where", &[("ring", "kernel_share_refused_bytes"), ("queue", "queue_refused_bytes")]),
        "Bytes of channels that were refused since their user's share of the ring, or of the queue behind it, was used up.",
    ),
    metric(
        "mcpwarden_user_share_records_total",
        Counters("where", &[("ring", "kernel_share_refused_records"), ("queue", "queue_refused_facts")]),
        "Records that were refused for that; of the queue only those that are no bytes of a channel.",
    ),
    metric(
        "mcpwarden_kernel_left_bytes_total",
        Counters("why", &[("suspect", "kernel_suspect_bytes"), ("unreadable", "kernel_unreadable_bytes")]),
        "Bytes that the kernel half left: of what cannot be MCP, and in memory that could not be read.",
    ),
    metric(
        "mcpwarden_memory_refused_frames_total",
        Counter("capture_memory_refused_frames"),
        "Unfinished frames given up for want of memory.",
    ),
    metric(
        "mcpwarden_memory_refused_bytes_total",
        Counter("capture_memory_refused_bytes"),
        "Bytes missing for it.",
    ),
    metric(
        "mcpwarden_execs_not_awaited_total",
        Counter("capture_execs_not_awaited"),
        "Connections whose bytes were read before their process was known.",
    ),
    metric(
        LATENCY_SECONDS,
        Seconds(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0]),
        "From the bytes of a tool call or its answer in the kernel to the event.",
    ),
    metric(
        ENGINE_SECONDS,
        Seconds(&[1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 5e-4, 1e-3, 1e-2, 0.1]),
        "Time that the policy core takes for one input; one of 64 records is timed.",
    ),
    metric(
        GATE_SECONDS,
        Seconds(&[0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0]),
        "From the bytes that define a tool, or a decision about one, to the gate's table that applies it.",
    ),
    metric(RING_BYTES, Gauge(&[]), "Size of the ring."),
    metric(RING_USED, Gauge(&[]), "Most that was in it when it was drained, within the last second."),
    metric(
        QUEUE_BYTES,
        Gauge(&[]),
        "Memory of records that were taken out of the ring and wait for the agent.",
    ),
    metric(QUEUE_BYTES_CAPACITY, Gauge(&[]), "What they may take; one user's at most two thirds of it."),
    metric(
        WAITING_MESSAGES,
        Gauge(&[]),
        "Messages, and other facts of their connections, that wait until a long message was inspected apart.",
    ),
    metric(WAITING_BYTES, Gauge(&[]), "Memory that they take, with the long ones."),
    metric(
        "mcpwarden_inspections_apart_total",
        Counter("inspections_apart"),
        "Long messages that were inspected apart from the thread that takes in records.",
    ),
    metric(
        "mcpwarden_inspections_given_up_total",
        Counter("inspections_given_up"),
        "Long messages of which most was not inspected, since too many waited or the agent ended.",
    ),
    metric(
        "mcpwarden_messages_delayed_total",
        Counter("messages_delayed"),
        "Messages that waited until a long one before them was inspected apart.",
    ),
    metric(
        LAG,
        Gauge(&[]),
        "How long a record waited at most, from its capture until the agent took it in, within the last second.",
    ),
    metric(
        DRAIN_AGE,
        Gauge(&[]),
        "How long ago the agent had last taken in all records that were in the ring at a time.",
    ),
    metric(QUEUE, Gauge(&["queue"]), "Bytes that wait in a queue: `output`, for standard output."),
    metric(QUEUE_CAPACITY, Gauge(&["queue"]), "Bytes that may."),
    metric(
        SINK_EVENTS,
        Total(&["sink", "outcome"]),
        "Events for a sink that were written, or dropped: no room, refused, or damaged on disk.",
    ),
    metric(SINK_FAILURES, Total(&["sink"]), "Times that writing to a sink failed; it is tried again."),
    metric(SINK_WRITABLE, Gauge(&["sink"]), "1 where a sink takes events, else 0."),
    metric(SINK_BYTES, Gauge(&["sink"]), "Bytes of events that wait for a sink."),
    metric(SINK_CAPACITY, Gauge(&["sink"]), "Bytes that may."),
    metric(MAP_ENTRIES, Gauge(&["map"]), "Entries of a table of the kernel half, as of the last look."),
    metric(MAP_CAPACITY, Gauge(&["map"]), "Places of such a table."),
    metric(
        "mcpwarden_program_runs_total",
        Prefix("program", "program_runs_", 1.0),
        "Runs of a program of the kernel half, while kernel.bpf_stats_enabled is on.",
    ),
    metric("mcpwarden_program_seconds_total", Prefix("program", "program_ns_", 1e-9), "Time in it."),
    metric(
        "mcpwarden_losses_total",
        Losses,
        "Counters that should stay at zero: each growth is an event `agent_loss`, too.",
    ),
];
