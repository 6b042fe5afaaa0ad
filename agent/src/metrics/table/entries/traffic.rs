//! What goes by: frames, bytes, gaps, messages, HTTP.

use super::metric;
use crate::metrics::table::{
    COVERAGE, FRAME_BYTES, FRAMES, GAP_BYTES, GAPS, HTTP_COVERAGE, JUNK_BYTES, Metric, PASSED_BYTES,
    Source::{Counter, Counters, Events, Gauge, Total},
};

pub(super) static TABLE: &[Metric] = &[
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
    metric("mcpwarden_model_requests_total", Counter("model_requests"), "Requests to APIs of models."),
    metric("mcpwarden_model_answers_total", Counter("model_answers"), "Answers of models that were read."),
    metric(
        "mcpwarden_model_answers_broken_total",
        Counter("model_answers_broken"),
        "Answers of models that ended early, or of which some was not captured.",
    ),
    metric("mcpwarden_model_intents_total", Counter("intents"), "Tool calls that models wanted."),
    metric(
        "mcpwarden_model_intents_called_total",
        Counter("intents_called"),
        "Tool calls that models wanted and clients made.",
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
    metric(
        "mcpwarden_tls_bytes_total",
        Counters(
            "bytes",
            &[
                ("encrypted", "tls_encrypted_bytes"),
                ("plaintext", "tls_plaintext_bytes"),
                ("unread", "tls_unread_bytes"),
                ("unbound", "kernel_tls_unbound_bytes"),
            ],
        ),
        "Bytes of connections over TLS whose plaintext is read in the client: encrypted on the socket; plaintext read; encrypted, with the \
         plaintext not read; plaintext that the same clients exchanged over other connections, or before their socket was known.",
    ),
    metric(
        "mcpwarden_tls_untold_calls_total",
        Counter("kernel_tls_untold_calls"),
        "Calls of TLS libraries that returned, and of which it was not known what they were called with.",
    ),
];
