//! The state of one instance besides the memory of the guest: limits, clock, randomness, log.

use std::{sync::Arc, time::Instant};

use wasmtime::ResourceLimiter;

use crate::{
    limits::{CORE_INSTANCES, Limits, MEMORIES, TABLES, WasmConfig},
    report::CallReport,
    sandbox::{Clock, Random, StdStreams},
};

/// The state that host functions see.
pub(crate) struct State {
    /// What `get-config` reads.
    pub config: Arc<WasmConfig>,
    /// Memory and tables.
    pub bounds: Bounds,
    /// When the call must end; none: no call may run.
    pub deadline: Option<Instant>,
    pub report: CallReport,
    pub clock: Clock,
    pub random: Random,
    pub streams: StdStreams,
}

impl State {
    pub(crate) fn new(config: Arc<WasmConfig>, limits: &Limits) -> Self {
        Self {
            config,
            bounds: Bounds::new(limits),
            deadline: None,
            report: CallReport::default(),
            clock: Clock::default(),
            random: Random::default(),
            streams: StdStreams::default(),
        }
    }

    /// Sets everything that one call must not learn from another. Handles that the guest holds stay valid.
    pub(crate) fn begin(&mut self, now_ns: u64, seed: u64, deadline: Instant) {
        self.deadline = Some(deadline);
        self.report = CallReport::default();
        self.bounds.refused = None;
        self.clock.set(now_ns);
        self.random = Random::new(seed);
        self.streams = StdStreams::default();
    }
}

/// Counts the memory and the tables of one instance.
pub(crate) struct Bounds {
    memory_bytes: Bound,
    table_elements: Bound,
    /// What was refused during this call: a trap afterwards is most probably a consequence.
    refused: Option<Refused>,
}

impl Bounds {
    fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes: Bound { limit: limits.memory_bytes, used: 0, last: 0 },
            table_elements: Bound { limit: limits.table_elements, used: 0, last: 0 },
            refused: None,
        }
    }

    /// Bytes of all memories.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.used
    }

    /// What was refused during this call, if anything.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.refused
    }
}

/// What a guest asked for beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Memory,
    Table,
}

/// One limited quantity.
struct Bound {
    limit: usize,
    used: usize,
    /// The last growth, to take back if it fails later.
    last: usize,
}

impl Bound {
    fn grow(&mut self, current: usize, desired: usize) -> bool {
        self.last = 0;
        let growth = desired.saturating_sub(current);
        match self.used.checked_add(growth) {
            Some(total) if total <= self.limit => {
                self.used = total;
                self.last = growth;
                true
            }
            _ => false,
        }
    }

    fn take_back(&mut self) {
        self.used = self.used.saturating_sub(std::mem::take(&mut self.last));
    }
}

impl ResourceLimiter for Bounds {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let allowed = self.memory_bytes.grow(current, desired);
        if !allowed {
            self.refused = Some(Refused::Memory);
        }
        Ok(allowed)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory_bytes.take_back();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let allowed = self.table_elements.grow(current, desired);
        if !allowed {
            self.refused = Some(Refused::Table);
        }
        Ok(allowed)
    }

    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.table_elements.take_back();
        Ok(())
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_share_one_limit() {
        let mut bounds = Bounds::new(&Limits { memory_bytes: 100, table_elements: 10, ..Limits::default() });
        // (from, to, allowed, used afterwards)
        for (current, desired, allowed, used) in [
            (0, 60, true, 60),
            (0, 50, false, 60),
            (60, 90, true, 90),
            (0, 10, true, 100),
            (0, 1, false, 100),
        ] {
            assert_eq!(
                bounds.memory_growing(current, desired, None).unwrap(),
                allowed,
                "{current}-{desired}"
            );
            assert_eq!(bounds.memory_bytes(), used, "{current}-{desired}");
        }
        assert_eq!(bounds.refused(), Some(Refused::Memory));
        assert!(!bounds.table_growing(0, 11, None).unwrap());
        assert_eq!(bounds.refused(), Some(Refused::Table));
    }

    #[test]
    fn failed_growth_is_taken_back_once() {
        let mut bounds = Bounds::new(&Limits { memory_bytes: 100, ..Limits::default() });
        assert!(bounds.memory_growing(0, 40, None).unwrap());
        assert!(bounds.memory_growing(40, 90, None).unwrap());
        for _ in 0..2 {
            bounds.memory_grow_failed(wasmtime::format_err!("no memory")).unwrap();
            assert_eq!(bounds.memory_bytes(), 40);
        }
    }
}
