//! The list of all metrics.

use super::{
    BLIND_SPOTS, BUILD, CALL_SECONDS, CALLS, CLOCK_MOVED, CONFIG, CONNECTIONS, COVERAGE, CPU, DENIALS,
    DESCRIPTORS, DETECTIONS, DRAIN_AGE, ENGINE_SECONDS, EVENTS, FOLLOWERS, FRAME_BYTES, FRAMES, GAP_BYTES,
    GAPS, GATE, GATE_SECONDS, GUARD_ANSWERS, GUARD_SAMPLE, GUARD_SECONDS, HTTP_COVERAGE, JUNK_BYTES, KERNEL,
    LAG, LATENCY_SECONDS, MAP_CAPACITY, MAP_ENTRIES, Metric, PASSED_BYTES, QUEUE, QUEUE_BYTES,
    QUEUE_BYTES_CAPACITY, QUEUE_CAPACITY, RELOADED, RELOADED_AT, RESIDENT, RESULTS, RING_BYTES, RING_USED,
    SCORER, SERVERS, SESSIONS, SINK_BYTES, SINK_CAPACITY, SINK_EVENTS, SINK_FAILURES, SINK_WRITABLE, STARTED,
    STORE_BYTES, STORE_LOG_BYTES, STORE_WRITABLE,
    Source::{self, Counter, Counters, Events, Gauge, Losses, Nanoseconds, Prefix, Seconds, Total},
    TOOLS, WAITING_BYTES, WAITING_MESSAGES,
};

const fn metric(name: &'static str, source: Source, help: &'static str) -> Metric {
    Metric { name, help, source }
}

/// All of them, in the order in which they are documented.
pub static TABLE: &[Metric] = &[
    metric(BUILD, Gauge(&["version"]), "The agent that runs; always 1."),
    metric(CONFIG, Gauge(&["hash"]), "SHA-256 of the configuration in force, defaults included; always 1."),
    metric(
        SCORER,
        Gauge(&["model"]),
        "The model of the learned scorer: the beginning of its SHA-256, or `none`; always 1.",
    ),
    metric(RELOADED, Gauge(&[]), "1 where the configuration was usable when it was read last, else 0."),
    metric(RELOADED_AT, Gauge(&[]), "When a usable configuration was read last; seconds since the epoch."),
    metric(KERNEL, Gauge(&["release", "backend"]), "The kernel, and how bytes are captured; always 1."),
    metric(
        BLIND_SPOTS,
        Gauge(&[]),
        "Things that the agent cannot see on this kernel or from its namespaces: `unseen` of mcpwarden status.",
    ),
    // What is watched.
    metric(SERVERS, Gauge(&["transport"]), "MCP servers that run."),
    metric(TOOLS, Gauge(&["transport"]), "Tools that they offer, as far as they were listed."),
    metric(SESSIONS, Gauge(&[]), "Clients that have a server."),
    metric("mcpwarden_servers_found_total", Counter("servers"), "Connections found to be MCP servers."),
    metric(
        "mcpwarden_servers_mistaken_total",
        Counter("servers_mistaken"),
        "Servers with the command line of a declared one that another program serves.",
    ),
    metric(
        "mcpwarden_servers_preloaded_total",
        Counter("servers_preloaded"),
        "Declared servers with variables in their environment, or options that are not declared, that name code to load.",
    ),
    metric(
        "mcpwarden_later_programs_total",
        Counter("later_programs"),
        "Programs that ran with a server's standard streams after its first answer.",
    ),
    metric(
        "mcpwarden_pins_borrowed_total",
        Counter("registry_pins_borrowed"),
        "Times that a server's pins were read for one list, and not kept in memory, since there were too many.",
    ),
    metric(
        "mcpwarden_list_entries_refused_total",
        Counter("registry_entries_refused"),
        "Items of lists that were compared and not remembered, since there were too many.",
    ),
    metric("mcpwarden_conversations_total", Counter("reached"), "Conversations with servers at addresses."),
    metric(
        "mcpwarden_execs_total",
        Counter("execs"),
        "Programs run with channels as standard input and output.",
    ),
    metric(
        "mcpwarden_candidates_dropped_total",
        Counter("candidates_dropped"),
        "Of these, connections found not to be MCP servers.",
    ),
    metric(
        "mcpwarden_listings_total",
        Counters(
            "outcome",
            &[
                ("listed", "listing_listed"),
                ("failed", "listing_failed"),
                ("left_out", "listing_servers_left_out"),
            ],
        ),
        "Listings of declared servers by the agent itself; servers left out of them.",
    ),
    // What goes by.
    metric(FRAMES, Total(&["transport", "direction"]), "Frames of servers that were inspected."),
    metric(FRAME_BYTES, Total(&["transport", "direction"]), "Bytes in them."),
    metric(
        PASSED_BYTES,
        Total(&["transport"]),
        "Bytes of servers that passed: inspected, no message, or not seen.",
    ),
    metric(
        COVERAGE,
        Gauge(&["transport"]),
        "Bytes inspected of bytes that passed, since the start of the agent.",
    ),
    metric(
        "mcpwarden_http_server_bytes_total",
        Counters("read", &[("all", "http_server_bytes"), ("no", "http_server_bytes_unread")]),
        "Bytes of TCP connections to servers that passed; how many of them could not be read.",
    ),
    metric(
        HTTP_COVERAGE,
        Gauge(&[]),
        "Bytes of TCP connections to servers that were read of those that passed, since the start of the agent.",
    ),
    metric(
        JUNK_BYTES,
        Total(&["transport"]),
        "Bytes of servers that are no message, such as log text on standard output, and pieces of messages next to gaps.",
    ),
    metric(GAPS, Events(&["transport", "cause"]), "Gaps in the traffic of servers."),
    metric(
        GAP_BYTES,
        Events(&["transport", "direction", "cause"]),
        "Bytes in them, which nobody has inspected.",
    ),
    metric(
        "mcpwarden_core_frames_total",
        Counter("frames"),
        "Frames handed to the policy core, of candidates too.",
    ),
    metric(
        "mcpwarden_core_gaps_total",
        Counter("gaps"),
        "Gaps handed to the policy core, of candidates too.",
    ),
    metric("mcpwarden_core_gap_bytes_total", Counter("gap_bytes"), "Bytes in them."),
    metric(
        "mcpwarden_events_folded_total",
        Counter("events_folded"),
        "Events that were not reported by themselves: another one says how many of its like there were.",
    ),
    metric(
        "mcpwarden_core_junk_bytes_total",
        Counter("junk_bytes"),
        "Bytes handed to the policy core that are no frame, of candidates too.",
    ),
    metric("mcpwarden_messages_total", Counter("messages"), "JSON-RPC messages found in frames."),
    metric(
        "mcpwarden_odd_messages_total",
        Counters(
            "oddity",
            &[
                ("invalid_frame", "invalid_frames"),
                ("lossy_frame", "lossy_frames"),
                ("repaired_frame", "repaired_frames"),
                ("unversioned", "unversioned_messages"),
                ("misdirected", "misdirected_messages"),
                ("id_reused", "id_reused"),
                ("unmatched_response", "unmatched_responses"),
                ("early_response", "early_responses"),
                ("repeated_response", "repeated_responses"),
                ("irregular", "irregular_messages"),
                ("protocol_violation", "protocol_violations"),
                ("invalid_list", "invalid_lists"),
                ("invalid_tool", "invalid_tools"),
                ("relayed_request", "relayed_requests"),
                ("retry", "retries"),
                ("input_request", "input_requests"),
            ],
        ),
        "Frames and messages that are not as they should be, or came otherwise than they should.",
    ),
    metric(
        "mcpwarden_uninspected_total",
        Counter("uninspected"),
        "Connections to servers, or messages, that could not be inspected.",
    ),
    metric(
        "mcpwarden_servers_uncaptured_total",
        Counter("servers_uncaptured"),
        "Servers with standard input and output that are not captured: a terminal, or a Unix socket of packets.",
    ),
    metric(
        "mcpwarden_http_bytes_total",
        Counters(
            "lost",
            &[
                ("uninspected", "http_uninspected_bytes"),
                ("gap", "http_gap_bytes"),
                ("unsynchronised", "http_unsynchronised_bytes"),
            ],
        ),
        "Bytes of HTTP that were not read.",
    ),
    metric(
        "mcpwarden_http_oddities_total",
        Counters(
            "oddity",
            &[
                ("connection_refused", "http_connections_refused"),
                ("stream_refused", "http_streams_refused"),
                ("link_refused", "http_links_refused"),
                ("uninspected_stream", "http_uninspected_streams"),
                ("not_mcp", "http_not_mcp"),
                ("frame_too_long", "http_frames_too_long"),
                ("undecodable", "http_undecodable"),
                ("bomb", "http_bombs"),
                ("memory_given_up", "http_memory_given_up"),
                ("unpaired", "http_unpaired"),
                ("unfinished", "http_unfinished"),
                ("resent", "http_resent"),
                ("redirected", "http_redirected"),
                ("unwanted", "http_unwanted"),
                ("h2_fault", "http_h2_faults"),
                ("h2_stream_dropped", "http_h2_streams_dropped"),
                ("h2_stream_unread", "http_h2_streams_unread"),
                ("head_field_unknown", "http_head_fields_unknown"),
                ("head_cut", "http_heads_cut"),
            ],
        ),
        "What HTTP between clients and servers showed that was left out, refused or odd.",
    ),
    metric(
        "mcpwarden_http_multiplexed_connections_total",
        Counter("http_h2_connections"),
        "Connections between clients and servers that spoke HTTP/2.",
    ),
    // Calls and decisions.
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
    // What was found.
    metric(
        DETECTIONS,
        Events(&["category", "severity"]),
        "Detections in texts that are severe enough for an event.",
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
    // Network.
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
    // The gate.
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
    // Capture.
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
    // The wall clock.
    metric("mcpwarden_clock_steps_total", Counter("clock_steps"), "Steps of the wall clock of 2 s or more."),
    metric(
        CLOCK_MOVED,
        Gauge(&[]),
        "How far the wall clock was set ahead since the start of the agent; negative where it was set back.",
    ),
    // What is stored.
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
    // Who asks.
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
    // The agent's process.
    metric(CPU, Total(&[]), "Processor time of the agent."),
    metric(RESIDENT, Gauge(&[]), "Resident memory of the agent."),
    metric(DESCRIPTORS, Gauge(&[]), "Open descriptors of the agent."),
    metric(STARTED, Gauge(&[]), "When the agent started, since the epoch."),
];
