//! What a call reports besides its verdict: lines of the log and samples of metrics, both bounded and counted.

use std::time::Duration;

use wasmtime::component::{ComponentType, Lift};

use crate::limits::cut;

/// Lines of the log that one call keeps.
const LOG_LINES: usize = 32;
/// Bytes of one line of the log.
pub(crate) const LOG_BYTES: usize = 1024;
/// Samples of metrics that one call keeps.
const METRICS: usize = 32;
/// Labels of one sample.
const LABELS: usize = 4;
/// Bytes of the value of a label.
const LABEL_BYTES: usize = 64;
/// Bytes of the name of a metric or a label.
const NAME_BYTES: usize = 64;

/// The severity that a guard gives to a line of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
pub enum LogLevel {
    /// `trace`
    #[component(name = "trace")]
    Trace,
    /// `debug`
    #[component(name = "debug")]
    Debug,
    /// `info`; also the standard output of the guard
    #[component(name = "info")]
    Info,
    /// `warn`; also the standard error of the guard
    #[component(name = "warn")]
    Warn,
    /// `error`
    #[component(name = "error")]
    Error,
}

/// One line of the log of a guard. The text is untrusted and may hold control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its severity.
    pub level: LogLevel,
    /// At most 1 KiB.
    pub text: String,
}

/// One sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// `[a-zA-Z_][a-zA-Z0-9_]{0,63}`
    pub name: String,
    /// Finite.
    pub value: f64,
    /// At most four, with different names of the same form as `name`; values of at most 64 bytes.
    pub labels: Vec<(String, String)>,
}

/// What one call reports besides its verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallReport {
    /// The first 32 lines of the log, in order.
    pub logs: Vec<LogLine>,
    /// The first 32 valid samples, in order.
    pub metrics: Vec<Metric>,
    /// Lines of the log beyond these.
    pub logs_dropped: u64,
    /// Kept lines that were longer than 1 KiB, and were cut.
    pub logs_cut: u64,
    /// Samples beyond these, and invalid ones.
    pub metrics_dropped: u64,
    /// Units of fuel that the call used: about one for each WebAssembly instruction. Allocators of guests need more in a
    /// fresh instance. A call that trapped or timed out used more than this: the engine counts at the end of functions.
    pub fuel_used: u64,
    /// From the begin of [`Guard::evaluate`](crate::Guard::evaluate) to its end, with the wait for an instance.
    pub elapsed: Duration,
}

impl CallReport {
    /// Adds a line to the log, or counts it.
    pub(crate) fn log(&mut self, level: LogLevel, mut text: String) {
        if self.logs.len() >= LOG_LINES {
            self.logs_dropped = self.logs_dropped.saturating_add(1);
            return;
        }
        if cut(&mut text, LOG_BYTES) {
            self.logs_cut = self.logs_cut.saturating_add(1);
            // The capacity of the whole text, which may be a thousand times the line, must not stay with the report.
            text.shrink_to_fit();
        }
        self.logs.push(LogLine { level, text });
    }

    /// Adds a sample of a metric, or counts it.
    pub(crate) fn metric(&mut self, name: String, value: f64, labels: Vec<(String, String)>) {
        if self.metrics.len() < METRICS && is_name(&name) && value.is_finite() && are_labels(&labels) {
            self.metrics.push(Metric { name, value, labels });
        } else {
            self.metrics_dropped = self.metrics_dropped.saturating_add(1);
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= NAME_BYTES
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn are_labels(labels: &[(String, String)]) -> bool {
    labels.len() <= LABELS
        && labels.iter().enumerate().all(|(index, (name, value))| {
            is_name(name)
                && value.len() <= LABEL_BYTES
                && labels.iter().take(index).all(|(earlier, _)| earlier != name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn invalid_metrics_are_counted() {
        let long = "a".repeat(65);
        type Labels = Vec<(String, String)>;
        let cases: &[(&str, f64, Labels, bool)] = &[
            ("hits", 1.0, vec![], true),
            ("_x9", -0.5, labels(&[("tool", "read"), ("kind", "")]), true),
            (&long[..64], 1.0, vec![], true),
            (&long, 1.0, vec![], false),
            ("", 1.0, vec![], false),
            ("9x", 1.0, vec![], false),
            ("a-b", 1.0, vec![], false),
            ("a\nb", 1.0, vec![], false),
            ("hits", f64::NAN, vec![], false),
            ("hits", f64::INFINITY, vec![], false),
            ("hits", 1.0, labels(&[("a", "1"), ("a", "2")]), false),
            ("hits", 1.0, labels(&[("a b", "1")]), false),
            ("hits", 1.0, labels(&[("a", &long[..64])]), true),
            ("hits", 1.0, labels(&[("a", &long)]), false),
            ("hits", 1.0, labels(&[("a", ""), ("b", ""), ("c", ""), ("d", "")]), true),
            ("hits", 1.0, labels(&[("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "")]), false),
        ];
        for (name, value, labels, valid) in cases {
            let mut report = CallReport::default();
            report.metric((*name).to_owned(), *value, labels.clone());
            assert_eq!(report.metrics.len(), usize::from(*valid), "{name:?} {value} {labels:?}");
            assert_eq!(report.metrics_dropped, u64::from(!*valid), "{name:?} {value} {labels:?}");
        }
    }

    #[test]
    fn lines_and_metrics_beyond_the_bounds_are_counted() {
        let mut report = CallReport::default();
        for index in 0..40 {
            report.log(LogLevel::Info, format!("{index} {}", "ä".repeat(600)));
            report.metric("hits".to_owned(), f64::from(index), vec![]);
        }
        assert_eq!((report.logs.len(), report.logs_dropped, report.logs_cut), (32, 8, 32));
        assert!(
            report.logs.iter().all(|line| line.text.len() <= LOG_BYTES && line.text.capacity() <= LOG_BYTES)
        );
        assert_eq!((report.metrics.len(), report.metrics_dropped), (32, 8));
    }
}
