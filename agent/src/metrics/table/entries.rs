//! The list of all metrics, a module for each subject.

mod agent;
mod calls;
mod capture;
mod control;
mod gate;
mod network;
mod servers;
mod store;
mod traffic;

use super::{Metric, Source};

const fn metric(name: &'static str, source: Source, help: &'static str) -> Metric {
    Metric { name, help, source }
}

/// All of them, in the order in which they are documented.
static TABLES: [&[Metric]; 12] = [
    agent::TABLE,
    servers::TABLE,
    traffic::TABLE,
    calls::TABLE,
    calls::FOUND,
    network::TABLE,
    gate::TABLE,
    capture::TABLE,
    agent::CLOCK,
    store::TABLE,
    control::TABLE,
    agent::PROCESS,
];

/// All metrics, in the order in which they are documented.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    TABLES.into_iter().flatten()
}
