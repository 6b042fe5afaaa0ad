//! `cargo xtask test`: the checks of every commit, or with `--full` every check there is; in stages, with a table at the end that
//! sums them up.

use std::env;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use crate::bench::SHORT_SOAK;
use crate::build::{self, PROGRAMS, WORKSPACE, linted};
use crate::fuzz;
use crate::harness::{Counts, SKIPPED, run_tests};
use crate::package;
use crate::setup::{Needs, setup};
use crate::util::{as_root, cargo, command_line, exists, is_root, target_dir};
use crate::vm::{self, Guests};

/// The package of the end-to-end tests.
const END_TO_END: &str = "mcpwarden-tests";

/// The programs in `policy/tests`.
const POLICY_TESTS: [&str; 8] =
    ["docs", "guards_cost", "hostile", "layers", "properties", "readings", "requirements", "seeds"];

/// The program of those that start no agent, and need not run in order.
const SIDE_BY_SIDE: &str = "offline";

/// End-to-end tests that wait for `--full`, since they take long and others show most of what they do: programs, and modules or
/// tests of them.
const FULL_ONLY: &[(&str, &str)] = &[
    ("agent", "answers::unread_answers_are_not_reported_as_gap"),
    ("agent", "flood"),
    ("agent", "hostile::short_pipelines_do_not_grow_agent_memory"),
    ("agent", "http_mixed"),
    ("agent", "life::answer_after_a_minute_is_matched_to_its_request"),
    ("agent", "listing::unchanged_returning_server_is_reported_reachable"),
    ("agent", "loss::overfull_ring_loss_is_reported_as_gaps"),
    ("agent", "methods::answers_read_unobserved_are_reported_as_gaps"),
    ("agent", "metrics::counters_increase_with_each_scenario"),
    ("agent", "relay::container_server_behind_a_daemon_is_found"),
    ("agent", "shares"),
    ("agent", "stress"),
    ("network", "load"),
    ("offline", "inspect::client_configs::unusable_entries_are_skipped_and_reported"),
];

/// What is tested.
#[derive(clap::Args)]
pub struct Args {
    /// Run only the tests whose name contains NAME, without a look at the format
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Run everything there is: all kernels, soak, fuzzing, packages, documentation; a test that passes on its second try fails
    #[arg(long, conflicts_with = "filter")]
    full: bool,
}

/// Runs all stages, or, with a filter, those that run tests.
///
/// # Errors
/// A stage could not be started at all; that one failed is in the exit code.
pub fn test(args: &Args) -> Result<ExitCode> {
    let (filter, full) = (args.filter.as_deref(), args.full);
    let mut stages = Stages { is_flaky_wrong: full, ..Stages::default() };
    let needs = if full { Needs::AllTests } else { Needs::Tests };
    if !stages.run("set-up", || setup(needs).map(|_| Report::default())) {
        return Ok(stages.summary());
    }
    if filter.is_none() {
        stages.run("format", || checked(cargo().args(["fmt", "--all", "--check"])));
    }
    let built = stages.run("lints and build", || {
        build::programs()?;
        checked(&mut linted(&["test", "--no-run", "--all-targets"]))
    });
    if built {
        stages.run("unit tests", || unit_tests(filter));
        stages.run("end-to-end tests", || end_to_end_tests(filter, full));
        if filter.is_none() && !full {
            stages.run("guest", || guests(Guests::Smoke));
        }
        if full {
            stages.run("dependencies", dependencies);
            stages.run("documentation", || {
                checked(cargo().env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--no-deps"]).args(WORKSPACE))
            });
            stages.run("ocsf", || tests(cargo().args(["test", "--package", "mcpwarden-ocsf"])));
            stages.run("fuzzing", || fuzz::brief().map(|()| Report::default()));
            stages.run("soak", soak);
            stages.run("packages", packages);
            stages.run("other kernels", || guests(Guests::All));
        }
    }
    Ok(stages.summary())
}

/// Whether cargo-nextest is there, which runs tests side by side, each in a process of its own.
fn has_nextest() -> bool {
    exists("cargo-nextest")
}

/// What runs end-to-end tests here.
fn runner() -> Command {
    linted(if has_nextest() { &["nextest", "run"] } else { &["test"] })
}

/// Tests of single packages, which start no agent. Each program is one process: what takes long to make, such as the compiled
/// rules, is made once for all its tests.
fn unit_tests(filter: Option<&str>) -> Result<Report> {
    let mut command = linted(&["test", "--no-fail-fast", "--lib", "--bins"]);
    for program in POLICY_TESTS {
        command.args(["--test", program]);
    }
    command.arg("--").args(filter);
    tests(&mut command)
}

/// Tests that start the program. All that start an agent share this host, and run in order.
fn end_to_end_tests(filter: Option<&str>, full: bool) -> Result<Report> {
    let left_out = if full || filter.is_some() { &[][..] } else { FULL_ONLY };
    let mut command = runner();
    as_root_only_the_tests(&mut command)?;
    if has_nextest() {
        let mut chosen = format!("package({END_TO_END})");
        for (program, name) in left_out {
            chosen += &format!(" and not (binary(={program}) and test(/^{name}(::|$)/))");
        }
        command.args(["-E", &chosen]).args(tries(full));
        command.args(["--no-tests", if filter.is_some() { "pass" } else { "fail" }]).args(filter);
        return tests(&mut command);
    }
    // The same selection of packages, so that nothing is built anew: the others' tests are none of these.
    let mut report = Report::default();
    for program in PROGRAMS {
        let mut command = runner();
        as_root_only_the_tests(&mut command)?;
        command.args(["--no-fail-fast", "--test", program, "--"]);
        command.args((program != SIDE_BY_SIDE).then_some("--test-threads=1"));
        let skipped = left_out.iter().filter(|(known, _)| *known == program);
        command.args(skipped.flat_map(|(_, name)| ["--skip", name])).args(filter);
        let more = tests(&mut command)?;
        report.counts.add(more.counts);
        report.problem = report.problem.or(more.problem);
    }
    Ok(report)
}

/// How often a test is tried. What passes on its second try is printed as flaky, and is a failure with `--full`.
fn tries(full: bool) -> [&'static str; 4] {
    ["--retries", "1", "--flaky-result", if full { "fail" } else { "pass" }]
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

/// That the agent reports everything once and takes no more memory under load, for five minutes.
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

/// That every hook loads and fires on the other kernels, that the gate stops calls there, and that what is off there is reported.
fn guests(guests: Guests) -> Result<Report> {
    let (counts, problem, missing) = vm::matrix(guests)?;
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
    /// Whether a test that passed on its second try is a failure.
    is_flaky_wrong: bool,
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
        let mut all = Duration::ZERO;
        for (name, report, took) in &self.rows {
            let outcome = if report.problem.is_none() { "ok" } else { "FAILED" };
            let flaky = match report.counts.flaky {
                0 => String::new(),
                flaky => format!(", {flaky} FLAKY"),
            };
            println!("{name:<18} {outcome:<7} {:>7.1} s  {}{flaky}", took.as_secs_f64(), report.counts);
            total.add(report.counts);
            all += *took;
        }
        println!("{:<18} {:<7} {:>7.1} s", "all", "", all.as_secs_f64());
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

/// A stage that is one command without tests in it.
fn checked(command: &mut Command) -> Result<Report> {
    let line = command_line(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    let problem = (!status.success()).then(|| format!("`{line}` ({status})"));
    Ok(Report { counts: Counts::default(), problem })
}

/// A stage that is one run of tests.
fn tests(command: &mut Command) -> Result<Report> {
    let (counts, problem) = run_tests(command)?;
    Ok(Report { counts, problem })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::util::root;

    /// A test that is renamed would else run at a wrong time, and nobody would notice.
    #[test]
    fn named_end_to_end_tests_exist() -> Result<()> {
        let tests = root().join("tests/tests");
        let settings = fs::read_to_string(root().join(".config/nextest.toml"))?;
        let alone: Vec<&str> =
            settings.split("test(=").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(!alone.is_empty(), "no test runs alone: {settings}");
        let exists = |program: &str, name: &str| {
            let (module, function) = name.rsplit_once("::").unwrap_or((name, ""));
            let file = format!("{}.rs", module.replace("::", "/"));
            let text = fs::read_to_string(tests.join(program).join(file));
            text.is_ok_and(|text| function.is_empty() || text.contains(&format!("fn {function}(")))
        };
        for name in alone {
            assert!(PROGRAMS.iter().any(|program| exists(program, name)), "{name} is no test");
        }
        for (program, name) in FULL_ONLY {
            assert!(exists(program, name), "{program} has no {name}");
        }
        Ok(())
    }
}
