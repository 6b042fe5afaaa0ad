//! `cargo xtask test`: every check there is, in stages, with one line at the end that sums them up.

use std::env;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use crate::bench::SHORT_SOAK;
use crate::fuzz;
use crate::harness::{Counts, SKIPPED, cargo_test};
use crate::package;
use crate::setup::setup;
use crate::util::{as_root, cargo, command_line, exists, is_root, target_dir};
use crate::vm;

/// Of the agent they use the release build, which alone is fast enough for what they ask of it; they themselves need not
/// be.
const END_TO_END: [&str; 3] = ["test", "-p", "mcpwarden-tests"];

/// Runs all stages, or, with a filter, those that run tests.
///
/// # Errors
/// A stage could not be started at all; that one failed is in the exit code.
pub fn test(filter: Option<&str>) -> Result<ExitCode> {
    let mut stages = Stages::default();
    if !stages.run("set-up", || setup(true).map(|_| Report::default())) {
        return Ok(stages.summary());
    }
    if filter.is_none() {
        stages.run("format", || checked(cargo().args(["fmt", "--all", "--check"])));
        stages.run("lints", || {
            checked(
                cargo()
                    .args(["clippy", "--workspace", "--exclude", "mcpwarden-ebpf", "--all-targets"])
                    .args(["--", "-D", "warnings"]),
            )
        });
        stages.run("dependencies", dependencies);
        stages.run("fuzzing", || fuzz::brief().map(|()| Report::default()));
    }
    stages.run("unit tests", || {
        let mut command = cargo();
        command
            .args(["test", "--workspace", "--exclude", "mcpwarden-ebpf", "--exclude", "mcpwarden-tests"])
            .arg("--no-fail-fast");
        tests(&mut command, &[], filter)
    });
    let built = stages.run("release build", || {
        let agent = checked(cargo().args(["build", "--release", "-p", "mcpwarden"]))?;
        if agent.problem.is_some() {
            return Ok(agent);
        }
        // The same selection of packages as below: cargo builds dependencies anew for another one.
        checked(cargo().args(END_TO_END).arg("--no-run"))
    });
    if built {
        stages.run("end-to-end tests", || {
            let mut command = cargo();
            command.args(END_TO_END).arg("--no-fail-fast");
            as_root_only_the_tests(&mut command)?;
            // Each of them starts an agent that watches the whole host: one at a time.
            tests(&mut command, &["--test-threads=1"], filter)
        });
        if filter.is_none() {
            stages.run("soak", soak);
            stages.run("packages", packages);
            stages.run("other kernels", other_kernels);
        }
    }
    Ok(stages.summary())
}

/// Licences, sources and doubles of dependencies, by `deny.toml`. Not the advisories: their database is fetched, and
/// what it says of tomorrow must not fail a change of today.
fn dependencies() -> Result<Report> {
    if exists("cargo-deny") {
        return checked(cargo().args(["deny", "--locked", "check", "bans", "licenses", "sources"]));
    }
    println!(
        "{SKIPPED}dependencies: there is no cargo-deny; `cargo install cargo-deny --locked` builds it (minutes)"
    );
    Ok(Report { counts: Counts { skipped: 1, ..Counts::default() }, problem: None })
}

/// That the agent says everything once and takes no more memory under load, for five minutes. The load is the debug build's, which
/// the end-to-end tests have built.
fn soak() -> Result<Report> {
    checked(as_root(target_dir().join("debug/bench"))?.args(SHORT_SOAK))
}

/// That what is built can be packed, installed and removed, and is as Debian's policy wants it.
fn packages() -> Result<Report> {
    let missing = package::check_built()?;
    missing.iter().for_each(|why| println!("{SKIPPED}packages: {why}"));
    let counts = Counts { skipped: missing.len() as u64, ..Counts::default() };
    Ok(Report { counts, problem: None })
}

/// That every hook loads and fires on the other kernels, that the gate stops calls there, and that what is off there is said; all
/// their tests are `cargo xtask vm`.
fn other_kernels() -> Result<Report> {
    let (counts, problem, missing) = vm::matrix()?;
    for series in &missing {
        println!("{SKIPPED}other kernels: this machine's packages have no cloud kernel {series}");
    }
    let skipped = counts.skipped + missing.len() as u64;
    Ok(Report { counts: Counts { skipped, ..counts }, problem })
}

/// Lets cargo itself run as the user, whose files it writes, and only what it starts as root.
fn as_root_only_the_tests(command: &mut Command) -> Result<()> {
    if is_root() {
        return Ok(());
    }
    if !exists("sudo") {
        return Err(anyhow!(
            "the end-to-end tests load BPF programs, and there is no sudo; run this as root"
        ));
    }
    // sudo puts its own path in place of the user's, in which node may be elsewhere.
    let path = env::var("PATH").context("PATH is not set or not UTF-8")?;
    command.args(["--config", &format!(r#"target."cfg(all())".runner=["sudo","-E","env",'PATH={path}']"#)]);
    Ok(())
}

/// What a stage came to.
#[derive(Default)]
struct Report {
    counts: Counts,
    /// Why the stage failed.
    problem: Option<String>,
}

/// The stages that have run.
#[derive(Default)]
struct Stages {
    rows: Vec<(&'static str, Report, Duration)>,
}

impl Stages {
    /// Runs a stage under a heading; says whether it went well.
    fn run(&mut self, name: &'static str, stage: impl FnOnce() -> Result<Report>) -> bool {
        println!("\n━━ {name}");
        let started = Instant::now();
        let mut report = stage().unwrap_or_else(|error| Report {
            problem: Some(format!("{error:#}")),
            counts: Counts::default(),
        });
        let took = started.elapsed();
        let well = report.problem.is_none();
        match &report.problem {
            None => println!("━━ {name}: ok, {:.1} s", took.as_secs_f64()),
            Some(problem) => {
                println!("━━ {name}: FAILED, {:.1} s: {problem}", took.as_secs_f64());
                // A stage that fails without a failed test (a lint, a build) must not leave "0 failed" below.
                report.counts.failed = report.counts.failed.max(1);
            }
        }
        self.rows.push((name, report, took));
        well
    }

    /// Prints the table and, as the last line, the sum.
    fn summary(&self) -> ExitCode {
        println!("\n━━ summary");
        let mut total = Counts::default();
        for (name, report, took) in &self.rows {
            let outcome = if report.problem.is_none() { "ok" } else { "FAILED" };
            println!("{name:<18} {outcome:<7} {:>7.1} s  {}", took.as_secs_f64(), report.counts);
            total.add(report.counts);
        }
        println!("{total}");
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// A stage that is one command without tests in it.
fn checked(command: &mut Command) -> Result<Report> {
    let line = command_line(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    let problem = (!status.success()).then(|| format!("`{line}` ({status})"));
    Ok(Report { counts: Counts::default(), problem })
}

/// A stage that is one `cargo test`.
fn tests(command: &mut Command, libtest: &[&str], filter: Option<&str>) -> Result<Report> {
    command.arg("--").args(libtest).args(filter);
    let (counts, problem) = cargo_test(command)?;
    Ok(Report { counts, problem })
}
