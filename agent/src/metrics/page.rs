//! The page: numbers of the agent in the text format of Prometheus.

use std::collections::{BTreeMap, HashMap};

use prometheus::{
    TextEncoder,
    proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType},
};

use super::table::{self, Source, all};
use crate::loss::WATCHED;

/// One number with labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric, one of the table.
    pub name: &'static str,
    /// Values of its labels, in the table's order.
    pub labels: Vec<String>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// A number with labels.
    pub fn new(name: &'static str, labels: &[&str], value: f64) -> Self {
        Self { name, labels: labels.iter().map(|label| (*label).to_owned()).collect(), value }
    }
}

/// What the agent knows of itself at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Everything that is counted anywhere, by name.
    pub counters: BTreeMap<String, u64>,
    /// What is measured or added up otherwise.
    pub samples: Vec<Sample>,
}

/// The page, of a snapshot and what was counted from events.
///
/// # Errors
/// None that is known: a family without numbers is left out.
pub fn text(snapshot: &Snapshot, observed: Vec<MetricFamily>) -> prometheus::Result<String> {
    let mut observed: HashMap<String, MetricFamily> =
        observed.into_iter().map(|family| (family.name().to_owned(), family)).collect();
    let families = all().filter_map(|metric| match metric.source {
        Source::Events(_) | Source::Seconds(_) => observed.remove(metric.name),
        _ => family(metric, snapshot),
    });
    let families: Vec<MetricFamily> = families.filter(|family| !family.get_metric().is_empty()).collect();
    TextEncoder::new().encode_to_string(&families)
}

fn family(metric: &table::Metric, snapshot: &Snapshot) -> Option<MetricFamily> {
    let count = |name: &str| snapshot.counters.get(name).map(|count| *count as f64);
    let named = |(value, name): &(&str, &str)| Some((vec![(*value).to_owned()], count(name)?));
    let numbers: Vec<(Vec<String>, f64)> = match metric.source {
        Source::Counter(name) => vec![(Vec::new(), count(name)?)],
        Source::Nanoseconds(name) => vec![(Vec::new(), count(name)? * 1e-9)],
        Source::Counters(_, list) => list.iter().filter_map(named).collect(),
        Source::Losses => WATCHED.iter().filter_map(|(name, _)| named(&(name, name))).collect(),
        Source::Prefix(_, prefix, factor) => {
            let counters = snapshot.counters.range(prefix.to_owned()..);
            let ours = counters.map_while(|(name, count)| Some((name.strip_prefix(prefix)?, *count)));
            ours.map(|(name, count)| (vec![name.to_owned()], count as f64 * factor)).collect()
        }
        Source::Total(_) | Source::Gauge(_) => {
            let ours = snapshot.samples.iter().filter(|sample| sample.name == metric.name);
            ours.map(|sample| (sample.labels.clone(), sample.value)).collect()
        }
        Source::Events(_) | Source::Seconds(_) => return None,
    };
    let labels = metric.labels();
    let mut family = MetricFamily::default();
    family.set_name(metric.name.to_owned());
    family.set_help(metric.help.to_owned());
    family.set_field_type(metric.kind());
    let line = |(values, number): (Vec<String>, f64)| {
        let pairs = labels.iter().zip(values).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(value);
            pair
        });
        let mut line = Metric::from_label(pairs.collect());
        if metric.kind() == MetricType::GAUGE {
            let mut gauge = Gauge::default();
            gauge.set_value(number);
            line.set_gauge(gauge);
        } else {
            let mut counter = Counter::default();
            counter.set_value(number);
            line.set_counter(counter);
        }
        line
    };
    family.set_metric(numbers.into_iter().map(line).collect());
    Some(family)
}
