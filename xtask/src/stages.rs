//! The stages of a run of tests: each under a heading, and a table at the end that sums them up.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::harness::Counts;

/// What a stage came to.
#[derive(Default)]
pub struct Report {
    /// The tests that ran, if it ran any.
    pub counts: Counts,
    /// Why the stage failed.
    pub problem: Option<String>,
}

/// A stage that has run.
struct Stage {
    name: &'static str,
    report: Report,
    took: Duration,
}

impl Stage {
    /// Runs it under a heading.
    fn run(name: &'static str, work: impl FnOnce() -> Result<Report>) -> Self {
        println!("\n━━ {name}");
        let started = Instant::now();
        let report = work().unwrap_or_else(|error| failed(&error));
        Self { name, report, took: started.elapsed() }.end()
    }

    /// Prints how it went.
    fn end(mut self) -> Self {
        let (name, took) = (self.name, self.took.as_secs_f64());
        match &self.report.problem {
            None => println!("━━ {name}: ok, {took:.1} s"),
            Some(problem) => {
                println!("━━ {name}: FAILED, {took:.1} s: {problem}");
                // A stage that fails without a failed test (a lint, a build) must not leave "0 failed" below.
                self.report.counts.failed = self.report.counts.failed.max(1);
            }
        }
        self
    }

    fn went_well(&self) -> bool {
        self.report.problem.is_none()
    }
}

fn failed(error: &anyhow::Error) -> Report {
    Report { counts: Counts::default(), problem: Some(format!("{error:#}")) }
}

/// The stages that have run.
pub struct Stages {
    /// Whether a test that passed on its second try is a failure.
    is_flaky_wrong: bool,
    started: Instant,
    done: Vec<Stage>,
}

impl Stages {
    /// None yet; the time of the whole run begins.
    pub fn new(is_flaky_wrong: bool) -> Self {
        Self { is_flaky_wrong, started: Instant::now(), done: Vec::new() }
    }

    /// Runs a stage under a heading; says whether it went well.
    pub fn run(&mut self, name: &'static str, work: impl FnOnce() -> Result<Report>) -> bool {
        let stage = Stage::run(name, work);
        let well = stage.went_well();
        self.done.push(stage);
        well
    }

    /// Runs two stages at the same time. Their lines mix, so the second should say in each whose it is.
    pub fn run_both(
        &mut self,
        first: (&'static str, impl FnOnce() -> Result<Report>),
        second: (&'static str, impl FnOnce() -> Result<Report> + Send),
    ) {
        let both = thread::scope(|scope| {
            let beside = scope.spawn(|| Stage::run(second.0, second.1));
            let stage = Stage::run(first.0, first.1);
            let beside = beside.join().unwrap_or_else(|_| {
                let report = failed(&anyhow!("its thread panicked"));
                Stage { name: second.0, report, took: Duration::ZERO }.end()
            });
            [stage, beside]
        });
        self.done.extend(both);
    }

    /// Prints the table and, as the last line, the sum.
    pub fn summary(&self) -> ExitCode {
        println!("\n━━ summary");
        let mut total = Counts::default();
        for Stage { name, report, took } in &self.done {
            let outcome = if report.problem.is_none() { "ok" } else { "FAILED" };
            let flaky = match report.counts.flaky {
                0 => String::new(),
                flaky => format!(", {flaky} FLAKY"),
            };
            println!("{name:<20} {outcome:<7} {:>7.1} s  {}{flaky}", took.as_secs_f64(), report.counts);
            total.add(report.counts);
        }
        println!("{:<20} {:<7} {:>7.1} s", "all", "", self.started.elapsed().as_secs_f64());
        if total.flaky > 0 {
            println!("FLAKY: {} passed on the second try only; find out why", total.flaky);
            if self.is_flaky_wrong {
                total.failed += total.flaky;
                total.passed = total.passed.saturating_sub(total.flaky);
            }
        }
        println!("{total}");
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
