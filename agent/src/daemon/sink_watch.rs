//! Which sinks fail: each is reported once when it begins to, and once when it is over.

use std::collections::BTreeMap;

use mcpwarden_policy::{
    EventBody,
    event::{SinkFailing, SinkRecovered},
};
use mcpwarden_sinks::SinkCounters;

/// What was reported of sinks.
#[derive(Debug, Default)]
pub struct SinkWatch {
    failing: BTreeMap<String, Failing>,
}

#[derive(Debug)]
struct Failing {
    reason: String,
    /// Events that had been dropped when it began.
    dropped: u64,
}

impl SinkWatch {
    /// What is to be reported of these sinks. One that is not among them any more is forgotten.
    pub fn look<'a>(&mut self, sinks: impl Iterator<Item = (&'a str, SinkCounters)>) -> Vec<EventBody> {
        let (mut reported, mut failing) = (Vec::new(), BTreeMap::new());
        for (name, SinkCounters { dropped, failing: now, .. }) in sinks {
            match (self.failing.remove(name), now) {
                (Some(before), Some(reason)) => {
                    failing.insert(name.to_owned(), Failing { reason, ..before });
                }
                (None, Some(reason)) => {
                    reported.push(SinkFailing { sink: name.to_owned(), reason: reason.clone() }.into());
                    failing.insert(name.to_owned(), Failing { reason, dropped });
                }
                (Some(before), None) => {
                    let events_dropped = dropped.saturating_sub(before.dropped);
                    reported.push(SinkRecovered { sink: name.to_owned(), events_dropped }.into());
                }
                (None, None) => {}
            }
        }
        self.failing = failing;
        reported
    }

    /// The sinks that fail, and why, in words.
    pub fn failing(&self) -> Vec<String> {
        let words = |(name, failing): (&String, &Failing)| {
            format!("sinks[{name}] takes no events: {}", failing.reason)
        };
        self.failing.iter().map(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sinks do, a look each: name, events dropped so far, and why it fails; what is reported, and who fails then.
    #[test]
    fn sink_failure_is_reported_once_at_each_end() {
        type Look<'a> = &'a [(&'a str, u64, Option<&'a str>)];
        let cases: [(&str, Look<'_>, &[&str], usize); 11] = [
            ("all well", &[("stdout", 0, None), ("0:file", 0, None)], &[], 0),
            (
                "one fails",
                &[("stdout", 5, Some("Broken pipe")), ("0:file", 0, None)],
                &["stdout: Broken pipe"],
                1,
            ),
            ("it still does", &[("stdout", 9, Some("Broken pipe")), ("0:file", 0, None)], &[], 1),
            ("for another reason", &[("stdout", 9, Some("no write")), ("0:file", 0, None)], &[], 1),
            ("another, too", &[("stdout", 9, Some("x")), ("0:file", 2, Some("full"))], &["0:file: full"], 2),
            (
                "one is over",
                &[("stdout", 12, None), ("0:file", 2, Some("full"))],
                &["stdout again, 7 dropped"],
                1,
            ),
            ("nothing new", &[("stdout", 12, None), ("0:file", 2, Some("full"))], &[], 1),
            ("it begins again", &[("stdout", 12, Some("y")), ("0:file", 2, Some("full"))], &["stdout: y"], 2),
            ("one is gone", &[("stdout", 12, Some("y"))], &[], 1),
            ("it is back", &[("stdout", 12, None), ("0:file", 0, None)], &["stdout again, 0 dropped"], 0),
            ("none is left", &[], &[], 0),
        ];
        let mut watch = SinkWatch::default();
        for (name, sinks, expected, failing) in cases {
            let counters = |dropped, failing: Option<&str>| SinkCounters {
                dropped,
                failing: failing.map(str::to_owned),
                ..SinkCounters::default()
            };
            let reported =
                watch.look(sinks.iter().map(|(name, dropped, why)| (*name, counters(*dropped, *why))));
            let words = |body: &EventBody| match body {
                EventBody::SinkFailing(failing) => format!("{}: {}", failing.sink, failing.reason),
                EventBody::SinkRecovered(over) => {
                    format!("{} again, {} dropped", over.sink, over.events_dropped)
                }
                other => format!("{other:?}"),
            };
            assert_eq!(reported.iter().map(words).collect::<Vec<_>>(), expected, "{name}");
            assert_eq!(watch.failing().len(), failing, "{name}");
        }
    }
}
