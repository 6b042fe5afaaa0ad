//! Every metric there is: its name, what it measures, and where its numbers come from; the list of them is in `entries`. `docs/reference/metrics.md` is generated from it.
//!
//! The agent counts in one place (`daemon/counters.rs`); most metrics are a view of that. Where a metric has labels that these
//! counters do not have, it is counted from events as they go by, and the counter is named here as what it adds up to.

mod entries;

use prometheus::proto::MetricType;

pub use entries::all;

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name, as it is served.
    pub name: &'static str,
    /// What it measures, in one line.
    pub help: &'static str,
    /// Where its numbers come from.
    pub source: Source,
}

/// Where numbers come from.
#[derive(Debug)]
pub enum Source {
    /// A counter of the agent's.
    Counter(&'static str),
    /// One of nanoseconds, in seconds.
    Nanoseconds(&'static str),
    /// Some of them, each with its value of a label.
    Counters(&'static str, &'static [(&'static str, &'static str)]),
    /// All of them whose name begins so: the rest of the name is the value of a label. Times a factor.
    Prefix(&'static str, &'static str, f64),
    /// Those that should stay at zero: see `loss.rs`.
    Losses,
    /// Counted from events, with these labels.
    Events(&'static [&'static str]),
    /// A histogram with these bounds, in seconds.
    Seconds(&'static [f64]),
    /// Added up each second, with these labels. It only grows.
    Total(&'static [&'static str]),
    /// Measured each second, with these labels.
    Gauge(&'static [&'static str]),
}

impl Metric {
    /// What Prometheus calls it.
    pub fn kind(&self) -> MetricType {
        match self.source {
            Source::Gauge(_) => MetricType::GAUGE,
            Source::Seconds(_) => MetricType::HISTOGRAM,
            _ => MetricType::COUNTER,
        }
    }

    /// The names of its labels.
    pub fn labels(&self) -> Vec<&'static str> {
        match self.source {
            Source::Counter(_) | Source::Nanoseconds(_) | Source::Seconds(_) => Vec::new(),
            Source::Counters(label, _) | Source::Prefix(label, ..) => vec![label],
            Source::Losses => vec!["counter"],
            Source::Events(labels) | Source::Total(labels) | Source::Gauge(labels) => labels.to_vec(),
        }
    }
}

/// The metric of this name. It is there: names are those of this module.
pub fn of(name: &str) -> &'static Metric {
    all().find(|metric| metric.name == name).unwrap_or(&NONE)
}

static NONE: Metric = Metric { name: "mcpwarden_unknown", help: "None.", source: Source::Gauge(&[]) };

pub const EVENTS: &str = "mcpwarden_events_total";
pub const CALLS: &str = "mcpwarden_calls_total";
pub const RESULTS: &str = "mcpwarden_call_results_total";
pub const CALL_SECONDS: &str = "mcpwarden_call_duration_seconds";
pub const LATENCY_SECONDS: &str = "mcpwarden_added_latency_seconds";
pub const ENGINE_SECONDS: &str = "mcpwarden_engine_seconds";
pub const GATE: &str = "mcpwarden_gate_decisions_total";
pub const GATE_SECONDS: &str = "mcpwarden_gate_lag_seconds";
pub const DETECTIONS: &str = "mcpwarden_detections_total";
pub const DETECTIONS_MUTED: &str = "mcpwarden_detections_muted_total";
pub const DENIALS: &str = "mcpwarden_denials_total";
pub const GUARD_ANSWERS: &str = "mcpwarden_guard_answers_total";
pub const GUARD_SECONDS: &str = "mcpwarden_guard_duration_seconds";
pub const GUARD_SAMPLE: &str = "mcpwarden_guard_sample";
pub const CONNECTIONS: &str = "mcpwarden_connections_total";
pub const GAPS: &str = "mcpwarden_gaps_total";
pub const GAP_BYTES: &str = "mcpwarden_gap_bytes_total";

pub const SERVERS: &str = "mcpwarden_servers";
pub const TOOLS: &str = "mcpwarden_tools";
pub const SESSIONS: &str = "mcpwarden_sessions";
pub const FRAMES: &str = "mcpwarden_frames_total";
pub const FRAME_BYTES: &str = "mcpwarden_frame_bytes_total";
pub const JUNK_BYTES: &str = "mcpwarden_junk_bytes_total";
pub const PASSED_BYTES: &str = "mcpwarden_passed_bytes_total";
pub const COVERAGE: &str = "mcpwarden_coverage_ratio";
pub const HTTP_COVERAGE: &str = "mcpwarden_http_coverage_ratio";
pub const RING_BYTES: &str = "mcpwarden_ring_bytes";
pub const RING_USED: &str = "mcpwarden_ring_used_bytes";
pub const DRAIN_AGE: &str = "mcpwarden_ring_drain_age_seconds";
pub const MAP_ENTRIES: &str = "mcpwarden_map_entries";
pub const MAP_CAPACITY: &str = "mcpwarden_map_capacity";
pub const WAITING_MESSAGES: &str = "mcpwarden_inspection_waiting_messages";
pub const WAITING_BYTES: &str = "mcpwarden_inspection_waiting_bytes";
pub const QUEUE: &str = "mcpwarden_queue_length";
pub const QUEUE_CAPACITY: &str = "mcpwarden_queue_capacity";
pub const SINK_EVENTS: &str = "mcpwarden_sink_events_total";
pub const SINK_FAILURES: &str = "mcpwarden_sink_failures_total";
pub const SINK_WRITABLE: &str = "mcpwarden_sink_writable";
pub const SINK_BYTES: &str = "mcpwarden_sink_queue_bytes";
pub const SINK_CAPACITY: &str = "mcpwarden_sink_queue_capacity_bytes";
pub const FOLLOWERS: &str = "mcpwarden_control_followers";
pub const STORE_WRITABLE: &str = "mcpwarden_store_writable";
pub const CLOCK_MOVED: &str = "mcpwarden_clock_moved_seconds";
pub const STORE_LOG_BYTES: &str = "mcpwarden_store_log_bytes";
pub const STORE_BYTES: &str = "mcpwarden_store_bytes";
pub const BUILD: &str = "mcpwarden_build_info";
pub const CONFIG: &str = "mcpwarden_config_info";
pub const SCORER: &str = "mcpwarden_scorer_info";
pub const RELOADED: &str = "mcpwarden_config_last_reload_success";
pub const RELOADED_AT: &str = "mcpwarden_config_last_reload_success_timestamp_seconds";
pub const LAG: &str = "mcpwarden_lag_seconds";
pub const QUEUE_BYTES: &str = "mcpwarden_ring_queue_bytes";
pub const QUEUE_BYTES_CAPACITY: &str = "mcpwarden_ring_queue_capacity_bytes";
pub const KERNEL: &str = "mcpwarden_kernel_info";
pub const BLIND_SPOTS: &str = "mcpwarden_blind_spots";
pub const CPU: &str = "process_cpu_seconds_total";
pub const RESIDENT: &str = "process_resident_memory_bytes";
pub const DESCRIPTORS: &str = "process_open_fds";
pub const STARTED: &str = "process_start_time_seconds";
