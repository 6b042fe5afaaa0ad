//! The tables: each source apart, the sources that no rule was fitted to first.

use std::collections::{BTreeMap, BTreeSet};

use mcpwarden_policy::detect::digest;
use mcpwarden_policy::terms::{Detection, Severity};
use mcpwarden_tests::figures::{Share, interval_of_mean, mean, threshold};

use crate::corpus::{Kind, Part, SESSION_SERVERS, Sample};

/// The least score that is reported.
const LEAST: u32 = 25;
/// The shares of honest tools at which recall is measured.
const RATES: [f64; 2] = [0.005, 0.01];
/// From so many entries on, a source counts in the mean over sources.
const LEAST_OF_SOURCE: usize = 10;
/// Rules that are listed as causes of false positives.
const MAX_CAUSES: usize = 30;

/// Whether the rules and the scorer report it at high.
fn is_high(sample: &Sample) -> bool {
    sample.found.shipped.max_severity() >= Some(Severity::High)
}

/// Whether they report it at all.
fn is_any(sample: &Sample) -> bool {
    !sample.found.shipped.detections.is_empty()
}

/// Whether the rules alone report it at high.
fn is_high_by_rules(sample: &Sample) -> bool {
    sample.found.rules.max_severity() >= Some(Severity::High)
}

/// Whether they report it at all.
fn is_any_by_rules(sample: &Sample) -> bool {
    !sample.found.rules.detections.is_empty()
}

/// The first line of a table.
fn print_header(what: &str, thresholds: [u32; 2]) {
    println!(
        "\n{what:<34}{:>7}  {:<22}{:<22}{:<22}{:<22}{:<12}{:<12}",
        "number",
        "rules: high",
        "with scorer: high",
        "rules: any",
        "with scorer: any",
        rate(0, thresholds),
        rate(1, thresholds)
    );
}

/// Prints all tables.
pub fn print(samples: &[Sample], with_strata: bool) {
    let thresholds = thresholds(samples);
    for part in Part::ALL {
        let of_part: Vec<&Sample> = samples.iter().filter(|sample| sample.part == part).collect();
        if of_part.is_empty() {
            continue;
        }
        println!("\n== {}", heading(part));
        honest(&of_part, thresholds);
        attacks(&of_part, thresholds, with_strata);
    }
}

fn heading(part: Part) -> &'static str {
    match part {
        Part::Unseen => "UNSEEN: sources that no rule was fitted to, the half that nobody read",
        Part::Seen => "SEEN: the same sources, the half that may be read",
        Part::Given => "GIVEN: the file that was named",
        Part::InSample => "IN-SAMPLE: the sources that rules were fitted to; no evidence of anything else",
    }
}

/// The scores at which so many of the honest tools are reported, by those tools that the unseen half has nothing of.
fn thresholds(samples: &[Sample]) -> [u32; 2] {
    let known = samples.iter().filter(|sample| sample.part != Part::Unseen && is_honest_tool(sample));
    let scores: Vec<u32> = known.map(Sample::score).collect();
    RATES.map(|rate| threshold(&scores, rate, LEAST))
}

fn is_honest_tool(sample: &Sample) -> bool {
    !sample.is_attack && sample.kind == Kind::Definition && !sample.server.is_empty()
}

/// False positives: over tools and texts, and as the mean over servers.
fn honest(samples: &[&Sample], thresholds: [u32; 2]) {
    let honest: Vec<&Sample> = samples.iter().copied().filter(|sample| !sample.is_attack).collect();
    print_header("honest, % reported", thresholds);
    for (kind, of_kind) in by(&honest, |sample| sample.kind) {
        let sources = by(&of_kind, |sample| sample.source.clone());
        for (source, of) in &sources {
            row(&format!("{}, {source}", name(kind)), of, thresholds);
        }
        if sources.len() > 1 {
            row(&format!("{}, all sources", name(kind)), &of_kind, thresholds);
        }
    }
    let tools: Vec<&Sample> = honest.iter().copied().filter(|sample| is_honest_tool(sample)).collect();
    if tools.is_empty() {
        return;
    }
    row("all tools", &tools, thresholds);
    let servers = by(&tools, |sample| (sample.source.clone(), sample.server.clone()));
    let shares = |holds: fn(&Sample) -> bool| -> Vec<f64> {
        servers.values().map(|tools| Share::count(tools.iter().map(|tool| holds(tool))).percent()).collect()
    };
    println!(
        "{:<34}{:>7}  {:<22}{:<22}{:<22}{:<22}",
        "mean over servers",
        servers.len(),
        mean_cell(&shares(is_high_by_rules)),
        mean_cell(&shares(is_high)),
        mean_cell(&shares(is_any_by_rules)),
        mean_cell(&shares(is_any))
    );
    let with = |holds: fn(&Sample) -> bool| {
        cell(Share::count(servers.values().map(|tools| tools.iter().any(|tool| holds(tool)))))
    };
    println!(
        "{:<34}{:>7}  {:<22}{:<22}{:<22}{:<22}",
        "servers with such a tool",
        servers.len(),
        with(is_high_by_rules),
        with(is_high),
        with(is_any_by_rules),
        with(is_any)
    );
    let across = across_servers(&servers);
    println!("{:<34}{:>7}  {}: {}", "order across servers", across.all, across.of, cell(across));
}

/// Honest tools that order something about a tool of another server, in sessions of some servers each.
fn across_servers(servers: &BTreeMap<(String, String), Vec<&Sample>>) -> Share {
    let servers: Vec<&Vec<&Sample>> = servers.values().collect();
    let mut found = Vec::new();
    for session in servers.chunks(SESSION_SERVERS) {
        let names = |tools: &[&Sample]| -> BTreeSet<u64> {
            tools.iter().filter_map(|tool| tool.orders.as_ref()).map(|(name, _)| digest(name)).collect()
        };
        let all: BTreeSet<u64> = session.iter().flat_map(|tools| names(tools)).collect();
        for tools in session {
            let own = names(tools);
            found.extend(tools.iter().filter_map(|tool| tool.orders.as_ref()).map(|(_, ordered)| {
                ordered.digests().any(|digest| all.contains(&digest) && !own.contains(&digest))
            }));
        }
    }
    Share::count(found)
}

/// Recall, each source apart.
fn attacks(samples: &[&Sample], thresholds: [u32; 2], with_strata: bool) {
    let attacks: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.is_attack).collect();
    print_header("attacks, % found", thresholds);
    for kind in [Kind::Definition, Kind::Result, Kind::Text] {
        let mut shares = Vec::new();
        let of_kind: Vec<&Sample> = attacks.iter().copied().filter(|sample| sample.kind == kind).collect();
        for ((in_text, source), of) in by(&of_kind, |sample| (!sample.is_in_text, sample.source.clone())) {
            let what = if in_text { "beside the text" } else { name(kind) };
            row(&format!("{what}, {source}"), &of, thresholds);
            if !in_text && of.len() >= LEAST_OF_SOURCE {
                let percent = |holds: fn(&Sample) -> bool| counted(&of, holds).percent();
                shares.push([is_high_by_rules, is_high, is_any_by_rules, is_any].map(percent));
            }
        }
        let in_text: Vec<&Sample> = of_kind.iter().copied().filter(|sample| sample.is_in_text).collect();
        if by(&in_text, |sample| sample.source.clone()).len() > 1 {
            row(&format!("{}, all sources", name(kind)), &in_text, thresholds);
        }
        if shares.len() > 1 {
            let of = |column: usize| {
                let column: Vec<f64> =
                    shares.iter().filter_map(|shares| shares.get(column).copied()).collect();
                format!("{:.1}", mean(&column))
            };
            let name = format!("{}, mean over sources", name(kind));
            let [first, second, third, fourth] = [0, 1, 2, 3].map(of);
            println!("{name:<34}{:>7}  {first:<22}{second:<22}{third:<22}{fourth:<22}", shares.len());
        }
    }
    if !with_strata {
        return;
    }
    let strata: BTreeSet<(Kind, String, String)> = attacks
        .iter()
        .flat_map(|sample| sample.strata.iter().map(|of| (sample.kind, sample.source.clone(), of.clone())))
        .collect();
    for (kind, source, stratum) in strata {
        let of: Vec<&Sample> = attacks
            .iter()
            .copied()
            .filter(|sample| {
                sample.kind == kind && sample.source == source && sample.strata.contains(&stratum)
            })
            .collect();
        row(&format!("  {source}: {stratum}"), &of, thresholds);
    }
}

fn by<'s, K: Ord>(samples: &[&'s Sample], key: impl Fn(&Sample) -> K) -> BTreeMap<K, Vec<&'s Sample>> {
    let mut groups: BTreeMap<K, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        groups.entry(key(sample)).or_default().push(sample);
    }
    groups
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Definition => "definitions",
        Kind::Result => "results",
        Kind::Text => "texts",
    }
}

fn rate(number: usize, thresholds: [u32; 2]) -> String {
    format!("≥{} ({} %)", thresholds[number], 100.0 * RATES[number])
}

fn counted(samples: &[&Sample], holds: impl Fn(&Sample) -> bool) -> Share {
    Share::count(samples.iter().map(|sample| holds(sample)))
}

/// A share, with its interval.
fn cell(share: Share) -> String {
    let (low, high) = share.interval();
    format!("{:.1} [{low:.1} to {high:.1}]", share.percent())
}

/// A mean of percentages, with its interval.
fn mean_cell(shares: &[f64]) -> String {
    let (low, high) = interval_of_mean(shares);
    format!("{:.2} [{:.2} to {:.2}]", mean(shares), low.max(0.0), high.min(100.0))
}

fn row(name: &str, samples: &[&Sample], thresholds: [u32; 2]) {
    let at = |least: u32| counted(samples, |sample| sample.score() >= least).percent();
    println!(
        "{name:<34}{:>7}  {:<22}{:<22}{:<22}{:<22}{:<12.1}{:<12.1}",
        samples.len(),
        cell(counted(samples, is_high_by_rules)),
        cell(counted(samples, is_high)),
        cell(counted(samples, is_any_by_rules)),
        cell(counted(samples, is_any)),
        at(thresholds[0]),
        at(thresholds[1])
    );
}

/// Prints the rules that report most honest entries, of what may be read: in how many entries and servers, how many of those at high.
pub fn causes(samples: &[Sample]) {
    let mut causes: BTreeMap<(Kind, &str), Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.may_be_read && !sample.is_attack) {
        let patterns: BTreeSet<&str> =
            sample.found.shipped.detections.iter().map(|detection| detection.pattern.as_str()).collect();
        for pattern in patterns {
            causes.entry((sample.kind, pattern)).or_default().push(sample);
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.len()));
    println!("\n{:<44}{:>8}{:>8}{:>8}", "rule that reports honest entries", "entries", "of high", "servers");
    for ((kind, pattern), of) in causes.iter().take(MAX_CAUSES) {
        let servers: BTreeSet<&str> = of.iter().map(|sample| sample.server.as_str()).collect();
        let high = of.iter().filter(|sample| is_high(sample)).count();
        println!("{:<44}{:>8}{high:>8}{:>8}", format!("{}, {pattern}", name(*kind)), of.len(), servers.len());
    }
}

/// Prints what is wrong, of what may be read.
pub fn misses(samples: &[Sample]) {
    let readable = samples.iter().filter(|sample| sample.may_be_read);
    for sample in readable.filter(|sample| is_high(sample) != sample.is_attack) {
        let what = if sample.is_attack { "missed" } else { "false positive" };
        let Sample { id, source, server, part, .. } = sample;
        println!("{what} ({}) {source} {server} {id} {}", part.name(), brief(sample));
    }
}

/// What was found, in some lines.
fn brief(sample: &Sample) -> String {
    let part = |detection: &Detection| {
        let text = detection.matches.first().map_or("", |found| &found.text);
        format!(
            "\n    {} {} {:?} {} {text:?}",
            detection.pattern, detection.score, detection.form, detection.field
        )
    };
    let parts: Vec<String> = sample.found.shipped.detections.iter().map(part).collect();
    if parts.is_empty() { "(nothing found)".to_owned() } else { parts.concat() }
}
