//! The agent: what runs, its clock, its process.

use super::metric;
use crate::metrics::table::{
    BLIND_SPOTS, BUILD, CLOCK_MOVED, CONFIG, CPU, DESCRIPTORS, KERNEL, Metric, RELOADED, RELOADED_AT,
    RESIDENT, SCORER, STARTED,
    Source::{Counter, Gauge, Total},
};

/// What runs.
pub(super) static TABLE: &[Metric] = &[
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
];

/// The wall clock.
pub(super) static CLOCK: &[Metric] = &[
    metric("mcpwarden_clock_steps_total", Counter("clock_steps"), "Steps of the wall clock of 2 s or more."),
    metric(
        CLOCK_MOVED,
        Gauge(&[]),
        "How far the wall clock was set ahead since the start of the agent; negative where it was set back.",
    ),
];

/// The agent's process.
pub(super) static PROCESS: &[Metric] = &[
    metric(CPU, Total(&[]), "Processor time of the agent."),
    metric(RESIDENT, Gauge(&[]), "Resident memory of the agent."),
    metric(DESCRIPTORS, Gauge(&[]), "Open descriptors of the agent."),
    metric(STARTED, Gauge(&[]), "When the agent started, since the epoch."),
];
