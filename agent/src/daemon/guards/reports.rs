//! What components report besides their answers: lines of a log, and samples of metrics. Both are theirs, so both are bounded.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mcpwarden_policy::{Timestamp, terms::contract::GuardName};
use mcpwarden_wasm::{LogLevel, LogLine, Metric};

use crate::{external::Answered, output::escaped};

/// Lines that one guard may write to the agent's log within a period.
const LINES: u32 = 20;
/// That period.
const PERIOD: Duration = Duration::from_secs(10);
/// Series of samples of all guards.
const SERIES: usize = 512;

/// A series: the guard, the metric, and its labels as `name=value`, sorted.
type Series = (Arc<GuardName>, String, String);

/// The last sample of each series, and what was dropped.
#[derive(Default)]
pub struct Reports {
    series: BTreeMap<Series, f64>,
    lines: BTreeMap<Arc<GuardName>, (Timestamp, u32)>,
    lines_dropped: u64,
    samples_dropped: u64,
}

impl Reports {
    /// Takes a report in. Lines go to the agent's log, as far as the guard has not written too many.
    pub fn take(&mut self, answered: &Answered, now: Timestamp) {
        let Some(report) = &answered.report else { return };
        self.lines_dropped += report.logs_dropped;
        self.samples_dropped += report.metrics_dropped;
        for line in &report.logs {
            self.log(&answered.guard, line, now);
        }
        for metric in &report.metrics {
            self.sample(&answered.guard, metric);
        }
    }

    /// Forgets guards that are configured no more.
    pub fn keep_of(&mut self, is_kept: impl Fn(&GuardName) -> bool) {
        self.series.retain(|(guard, ..), _| is_kept(guard));
        self.lines.retain(|guard, _| is_kept(guard));
    }

    /// Every series: guard, metric, labels, value.
    pub fn series(&self) -> impl Iterator<Item = (&str, &str, &str, f64)> {
        self.series
            .iter()
            .map(|((guard, metric, labels), value)| (&*guard.name, &**metric, &**labels, *value))
    }

    /// What was dropped, by name.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [("guard_log_lines_dropped", self.lines_dropped), ("guard_samples_dropped", self.samples_dropped)]
    }

    fn log(&mut self, guard: &Arc<GuardName>, line: &LogLine, now: Timestamp) {
        let (since, written) = self.lines.entry(Arc::clone(guard)).or_insert((now, 0));
        if now >= since.after(PERIOD) {
            (*since, *written) = (now, 0);
        }
        if *written >= LINES {
            self.lines_dropped += 1;
            return;
        }
        *written += 1;
        let text = format!("guard {}: {}", guard.name, escaped(&line.text));
        match line.level {
            LogLevel::Error => tracing::error!("{text}"),
            LogLevel::Warn => tracing::warn!("{text}"),
            LogLevel::Info => tracing::info!("{text}"),
            LogLevel::Debug => tracing::debug!("{text}"),
            LogLevel::Trace => tracing::trace!("{text}"),
        }
    }

    fn sample(&mut self, guard: &Arc<GuardName>, metric: &Metric) {
        let mut labels: Vec<String> =
            metric.labels.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        labels.sort_unstable();
        let series = (Arc::clone(guard), metric.name.clone(), labels.join(","));
        if self.series.len() >= SERIES && !self.series.contains_key(&series) {
            self.samples_dropped += 1;
            return;
        }
        self.series.insert(series, metric.value);
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::terms::{GuardKind, contract::GuardReply};
    use mcpwarden_wasm::CallReport;

    use super::*;

    fn answered(report: CallReport) -> Answered {
        Answered {
            id: "1".into(),
            guard: Arc::new(GuardName { kind: GuardKind::Wasm, name: "g".into() }),
            answer: Ok(GuardReply::Allow),
            elapsed: Duration::ZERO,
            report: Some(Box::new(report)),
        }
    }

    #[test]
    fn lines_are_bounded_in_time() {
        let mut reports = Reports::default();
        let line = LogLine { level: LogLevel::Debug, text: "x".into() };
        let report = CallReport { logs: vec![line; 15], ..CallReport::default() };
        for (seconds, dropped) in [(0, 0), (1, 10), (2, 25), (10, 25), (11, 35)] {
            reports.take(&answered(report.clone()), Timestamp(seconds * 1_000_000_000));
            assert_eq!(reports.counters()[0].1, dropped, "{seconds}");
        }
    }

    #[test]
    fn series_are_bounded_and_keep_their_last_value() {
        let mut reports = Reports::default();
        let metric = |name: &str, labels: &[(&str, &str)], value| Metric {
            name: name.into(),
            value,
            labels: labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        };
        let metrics = vec![
            metric("a", &[("y", "2"), ("x", "1\n")], 1.0),
            metric("a", &[("x", "1\n"), ("y", "2")], 2.0),
            metric("b", &[], -1.5),
        ];
        reports.take(&answered(CallReport { metrics, ..CallReport::default() }), Timestamp(0));
        let all: Vec<_> = reports.series().collect();
        assert_eq!(all, [("g", "a", "x=1 ,y=2", 2.0), ("g", "b", "", -1.5)]);
        let many = (0..600).map(|number| metric(&format!("m{number}"), &[], 0.0)).collect();
        reports.take(&answered(CallReport { metrics: many, ..CallReport::default() }), Timestamp(0));
        assert_eq!((reports.series().count(), reports.counters()[1].1), (SERIES, 90));
        reports.keep_of(|_| false);
        assert_eq!(reports.series().count(), 0);
    }
}
