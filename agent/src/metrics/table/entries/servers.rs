//! What is watched: servers, tools, sessions.

use super::metric;
use crate::metrics::table::{
    Metric, SERVERS, SESSIONS,
    Source::{Counter, Counters, Gauge},
    TOOLS,
};

pub(super) static TABLE: &[Metric] = &[
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
];
