//! Times of YARA rules: compiling them, and a scan of texts of several lengths, with and without a match. Prints one line each.

#![allow(clippy::unwrap_used, reason = "what fails here is a failed measurement")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use mcpwarden_detect::Scanner as _;
use mcpwarden_yara::compile;

/// Rules as published sets have them: a few words, a regular expression, a condition over both.
fn rules(count: usize) -> String {
    let rule = |number: usize| {
        format!(
            "rule r{number} {{ meta: severity = \"high\" category = \"tool_poisoning\"\n strings: $a = \"marker{number} word\" nocase \
             $b = \"other{number}\" fullword $c = /begin{number}[a-z ]{{1,40}}end/\n condition: $a and ($b or $c) }}\n"
        )
    };
    (0..count).map(rule).collect()
}

fn main() {
    const PROSE: &str =
        "Reads the file at a path below the project's directory, and returns its text with line numbers. ";
    for count in [10, 100] {
        let text = rules(count);
        let files = || [("bench.yar", text.as_str())];
        print(&format!("{count} rules: compile"), &mut repeat(20, || drop(black_box(compile(files())))));
        let (yara, _) = compile(files()).unwrap();
        for bytes in [200, 4 << 10, 64 << 10, 1 << 20] {
            let clean: String = PROSE.chars().cycle().take(bytes).collect();
            let mut hit = clean.clone();
            hit.push_str("marker7 word begin7 of the end");
            for (what, document, expected) in [("no match", &clean, 0), ("a match", &hit, 1)] {
                let calls = if bytes > 100_000 { 50 } else { 1_000 };
                let mut times = repeat(calls, || {
                    let scanned = yara.scan(black_box(document));
                    assert!(scanned.complete && scanned.matches.len() == expected);
                });
                print(&format!("{count} rules: scan of {bytes} bytes, {what}"), &mut times);
            }
        }
    }
}

/// Measures something so often, after a tenth as many times of the same.
fn repeat(times: usize, mut what: impl FnMut()) -> Vec<Duration> {
    (0..times / 10).for_each(|_| what());
    let timed = |_| {
        let start = Instant::now();
        what();
        start.elapsed()
    };
    (0..times).map(timed).collect()
}

fn print(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |percent: usize| {
        times.get((times.len() * percent / 100).min(times.len() - 1)).copied().unwrap_or_default()
    };
    let (half, most, worst) = (at(50), at(99), at(100));
    println!("{name}: p50 {half:?}, p99 {most:?}, max {worst:?} ({} times)", times.len());
}
