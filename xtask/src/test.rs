//! `cargo xtask test`: the checks of every commit, or with `--full` every check there is; in stages, with a table at the end that
//! sums them up.

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, anyhow};

use crate::bench::SHORT_SOAK;
use crate::build::{self, PROGRAMS, WORKSPACE, linted};
use crate::fuzz;
use crate::harness::{Counts, SKIPPED, run_tests};
use crate::package;
use crate::selection;
use crate::setup::{Needs, setup};
use crate::stages::{Report, Stages};
use crate::util::{as_root, cargo, command_line, exists, is_root, target_dir};
use crate::vm::{self, Guests};

/// The package of the end-to-end tests.
const END_TO_END: &str = "mcpwarden-tests";

/// The programs in `policy/tests`.
const POLICY_TESTS: [&str; 8] =
    ["docs", "guards_cost", "hostile", "layers", "properties", "readings", "requirements", "seeds"];

/// The program of those that start no agent, and need not run in order.
const SIDE_BY_SIDE: &str = "offline";

/// The variable that has tests of generated input run all their cases.
const ALL_CASES: &str = "MCPWARDEN_TEST_FULL";

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
    let mut stages = Stages::new(full);
    let needs = if full { Needs::AllTests } else { Needs::Tests };
    if !stages.run("set-up", || setup(needs).map(|_| Report::default())) {
        return Ok(stages.summary());
    }
    if filter.is_none() {
        stages.run("format", || checked(cargo().args(["fmt", "--all", "--check"])));
    }
    let built = stages.run("lints and build", || build::programs().map(|()| Report::default()));
    if built {
        let units = ("unit tests", || unit_tests(filter, full));
        if filter.is_none() && !full {
            // Programs of tests whose last test is a long one leave a processor idle, and an emulated machine needs one.
            stages.run_both(units, ("guest", || guests(Guests::Smoke)));
        } else {
            stages.run(units.0, units.1);
        }
        if has_nextest() {
            stages.run("tests side by side", || end_to_end_tests(Order::SideBySide, filter, full));
            stages.run("tests that run alone", || end_to_end_tests(Order::Alone, filter, full));
        } else {
            stages.run("end-to-end tests", || end_to_end_tests(Order::All, filter, full));
        }
        if full {
            stages.run("dependencies", dependencies);
            stages.run("documentation", || {
                checked(cargo().env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--no-deps"]).args(WORKSPACE))
            });
            stages.run("ocsf", || tests(cargo().args(["test", "--package", "mcpwarden-ocsf"])));
            stages.run("fuzzing", || fuzz::brief().map(|()| Report::default()));
            stages.run("learned scorer", || {
                checked(Command::new(target_dir().join("debug/train")).arg("--check"))
            });
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

/// Tests of single packages, which start no agent. Each program is one process: what takes long to make, such as the compiled
/// rules, is made once for all its tests.
fn unit_tests(filter: Option<&str>, full: bool) -> Result<Report> {
    let mut command = linted(&["test", "--no-fail-fast", "--lib", "--bins"]);
    for program in POLICY_TESTS {
        command.args(["--test", program]);
    }
    command.arg("--").args(filter).envs(full.then_some((ALL_CASES, "1")));
    tests(&mut command)
}

/// Which end-to-end tests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Those that may run beside each other.
    SideBySide,
    /// Those that count what the whole host does, or how long it takes.
    Alone,
    /// All, in order.
    All,
}

/// Tests that start the program.
fn end_to_end_tests(order: Order, filter: Option<&str>, full: bool) -> Result<Report> {
    let is_selected = !full && filter.is_none();
    match order {
        Order::All => end_to_end_in_order(filter, is_selected),
        Order::SideBySide | Order::Alone => {
            let mut command = linted(&["nextest", "run"]);
            as_root_only_the_tests(&mut command)?;
            let not = if order == Order::Alone { "" } else { "not " };
            let mut chosen = format!("package({END_TO_END}) and {not}({})", selection::alone()?);
            if is_selected {
                chosen = format!("{chosen} and ({})", selection::filter());
            }
            command.args(["-E", &chosen]).args(tries(full));
            command.args(["--no-tests", if filter.is_some() { "pass" } else { "fail" }]).args(filter);
            tests(&mut command)
        }
    }
}

/// All that start an agent share this host, and libtest knows of no groups.
fn end_to_end_in_order(filter: Option<&str>, is_selected: bool) -> Result<Report> {
    let mut report = Report::default();
    for program in PROGRAMS {
        // The same selection of packages, so that nothing is built anew: the others' tests are none of these.
        let mut command = linted(&["test"]);
        as_root_only_the_tests(&mut command)?;
        command.args(["--no-fail-fast", "--test", program, "--"]);
        command.args((program != SIDE_BY_SIDE).then_some("--test-threads=1"));
        command.args(if is_selected { selection::of(program) } else { &[] }).args(filter);
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
