//! Whether the agent does its work.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcpwarden_system::boot::boot_ns;

/// The ring is drained once a second where nothing comes; for so long it may be late.
const LATE: Duration = Duration::from_secs(5);

/// How far the agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It is not attached yet.
    Starting,
    /// It watches.
    Running,
    /// It ends.
    Ending,
}

/// What is known of that.
#[derive(Debug, Default)]
pub struct Health {
    stage: AtomicU8,
    /// When the ring was last drained to its end; nanoseconds since boot, or 0.
    drained_ns: AtomicU64,
    /// Why events cannot be stored, where that is so.
    store_failing: Mutex<Option<String>>,
    /// What else has to be looked at, in words. The agent does its work all the same.
    remarks: Mutex<Vec<String>>,
}

impl Health {
    /// Events cannot be stored, for this reason; or they can.
    pub fn store(&self, failing: Option<&str>) {
        *self.store_failing.lock().unwrap_or_else(PoisonError::into_inner) = failing.map(str::to_owned);
    }

    /// What else has to be looked at from now on, in words.
    pub fn remark(&self, remarks: Vec<String>) {
        *self.remarks.lock().unwrap_or_else(PoisonError::into_inner) = remarks;
    }

    /// What else has to be looked at.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ring was drained to its end.
    pub fn drained(&self) {
        self.drained_ns.store(boot_ns(), Ordering::Relaxed);
    }

    /// How far the agent is.
    pub fn stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// How long ago the ring was drained; `None`: not yet.
    pub fn drain_age(&self) -> Option<Duration> {
        self.drain_age_at(boot_ns())
    }

    fn drain_age_at(&self, now_ns: u64) -> Option<Duration> {
        let drained = self.drained_ns.load(Ordering::Relaxed);
        (drained > 0).then(|| Duration::from_nanos(now_ns.saturating_sub(drained)))
    }

    /// Whether the agent watches.
    ///
    /// # Errors
    /// It does not, in words.
    pub fn ready(&self) -> Result<(), String> {
        match self.stage.load(Ordering::Relaxed) {
            stage if stage == Stage::Running as u8 => Ok(()),
            stage if stage == Stage::Starting as u8 => Err("the agent is not attached yet".to_owned()),
            _ => Err("the agent ends".to_owned()),
        }
    }

    /// Whether it does its work.
    ///
    /// # Errors
    /// It does not, in words.
    pub fn healthy(&self) -> Result<(), String> {
        self.healthy_at(boot_ns())
    }

    fn healthy_at(&self, now_ns: u64) -> Result<(), String> {
        self.ready()?;
        match self.drain_age_at(now_ns) {
            Some(age) if age <= LATE => {
                match &*self.store_failing.lock().unwrap_or_else(PoisonError::into_inner) {
                    None => Ok(()),
                    Some(why) => Err(format!("events cannot be stored: {why}")),
                }
            }
            Some(age) => Err(format!(
                "the ring was last drained {} s ago: the agent is too slow, or the disk of its store is",
                age.as_secs()
            )),
            None => Err("the ring was not drained yet".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_store_is_ready_but_unhealthy() {
        let health = Health::default();
        health.stage(Stage::Running);
        health.drained();
        health.store(Some("database or disk is full"));
        assert_eq!(health.ready(), Ok(()));
        assert_eq!(health.healthy(), Err("events cannot be stored: database or disk is full".to_owned()));
        health.store(None);
        assert_eq!(health.healthy(), Ok(()));
    }

    #[test]
    fn health_follows_stage_and_last_drain() {
        const S: u64 = 1_000_000_000;
        for (stage, drained, now, ready, healthy) in [
            (Stage::Starting, 0, 10 * S, Some("not attached"), Some("not attached")),
            (Stage::Running, 0, 10 * S, None, Some("not drained yet")),
            (Stage::Running, 5 * S, 10 * S, None, None),
            (Stage::Running, 3 * S, 10 * S, None, Some("drained 7 s ago")),
            (Stage::Running, 11 * S, 10 * S, None, None),
            (Stage::Ending, 10 * S, 10 * S, Some("ends"), Some("ends")),
        ] {
            let health = Health::default();
            health.stage(stage);
            health.drained_ns.store(drained, Ordering::Relaxed);
            for (name, result, expected) in
                [("ready", health.ready(), ready), ("healthy", health.healthy_at(now), healthy)]
            {
                let as_expected = match (&result, expected) {
                    (Ok(()), None) => true,
                    (Err(why), Some(part)) => why.contains(part),
                    _ => false,
                };
                assert!(as_expected, "{stage:?} {drained} {name}: {result:?}");
            }
        }
    }
}
