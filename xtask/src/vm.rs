//! `cargo xtask vm`: the end-to-end tests on other kernels, in virtual machines.
//!
//! A guest sees this machine's files read-only (virtiofs, with a layer of its own above that lasts as long as it runs),
//! so that it has every program and every test without an image being built. It has no network but its own loopback.

mod guest;
mod initramfs;
mod kernel;
mod matrix;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};

use crate::packages::Packages;
use crate::setup::setup;
use crate::util::{cargo, command_line, output_of, run, target_dir};
use guest::{Clock, Guest, Job, Program};
use kernel::Kernel;
pub use matrix::matrix;

/// The series that the tests run on, besides this machine's own kernel.
const SERIES: [&str; 3] = ["6.1", "6.12", "6.18"];

/// The end-to-end tests (`tests/tests/*.rs`) that tell kernels apart, and none of which measures time.
const TELLING: [&str; 26] = [
    "forms",
    "gate",
    "gate_block",
    "gate_clients",
    "gate_forms",
    "gate_framing",
    "gate_history",
    "gate_life",
    "gate_owner",
    "gate_persist",
    "gate_servers",
    "gate_undecided",
    "gate_ways",
    "hostile",
    "http",
    "life",
    "loss",
    "methods",
    "network",
    "network_found",
    "network_life",
    "network_opened",
    "persist",
    "real_servers",
    "resume",
    "stress",
];

/// The variables that say what to test in a guest too: which agent, and which backend it captures with.
const AGENT: &str = "MCPWARDEN_BIN";
const BACKEND: &str = "MCPWARDEN_TEST_BACKEND";

/// Of these, those that tell backends apart: they are run once more with the one that is not the best.
const CAPTURING: [&str; 3] = ["forms", "http", "methods"];

/// Where distributions put it.
const SYSTEMD: &str = "/lib/systemd/systemd";

/// How long one guest may take: three share two processors where the tests run all kernels.
const LIMIT_SECONDS: u64 = 30 * 60;

/// Runs the end-to-end tests, or a command, on other kernels in virtual machines (QEMU; no KVM is needed).
#[derive(clap::Args)]
pub struct Args {
    /// Series of the kernel; every known one if this is not given
    #[arg(long, value_name = "6.1|6.12|6.18")]
    kernel: Option<String>,
    /// Run only the test programs, or else the tests, whose name contains NAME
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Run all end-to-end tests, not only those that tell kernels apart
    #[arg(long)]
    all: bool,
    /// Open a shell in the guest; `exit` ends it
    #[arg(long, conflicts_with_all = ["filter", "command"])]
    shell: bool,
    /// Install this package (a .deb) in a guest that systemd runs in, and see that the service lives as it should
    #[arg(long, value_name = "PACKAGE", conflicts_with_all = ["filter", "command", "shell", "all"])]
    service: Option<PathBuf>,
    /// Words to add to the kernel's command line, such as preempt=full
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Have one processor, whose clock goes on by a nanosecond with each instruction: what takes time in the guest is a count
    #[arg(long)]
    count_instructions: bool,
    /// A command to run in the guest in place of the tests
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// # Errors
/// The machine lacks something, or a build failed; that a test failed is in the exit code.
pub fn vm(args: &Args) -> Result<ExitCode> {
    setup(true)?;
    let job = if args.shell {
        Job::Shell
    } else if let Some(package) = &args.service {
        service(package)?
    } else if args.command.is_empty() {
        let programs = build()?.into_iter().filter(|program| args.all || is_telling(program)).collect();
        tests(programs, args.filter.as_deref())?
    } else {
        Job::Command(args.command.clone())
    };
    let series: Vec<&str> = args.kernel.as_deref().map_or(SERIES.to_vec(), |one| vec![one]);
    let busybox = guest::install(&Packages::default(), &directory())?;
    let mut well = true;
    for series in series {
        let kernel = Kernel::newest(series, &Packages::default(), &directory())?;
        let kernel =
            kernel.with_context(|| format!("this machine's packages have no cloud kernel {series}"))?;
        println!("━━ Linux {}", kernel.version);
        let clock = if args.count_instructions { Clock::Instructions } else { Clock::Host };
        let guest = Guest::new(&kernel, &job, &args.append, &directory(), &busybox, clock)?;
        let ending = guest.run(LIMIT_SECONDS, "")?.0;
        if !ending.well() {
            println!("━━ Linux {series}: {ending}");
            well = false;
        }
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The job to see that the service of a package lives as it should.
///
/// # Errors
/// There is no such package, no systemd, or a build failed.
fn service(package: &Path) -> Result<Job> {
    ensure!(
        Path::new(SYSTEMD).exists(),
        "there is no {SYSTEMD} on this machine, of which a guest has its files; on Debian: apt install systemd"
    );
    run(cargo().args(["build", "-p", "mcpwarden-tests", "--bins"]), "mend what the compiler says above")?;
    Ok(Job::Service { package: package.to_owned(), server: target_dir().join("debug/benign-server") })
}

/// Whether a test program is one of [`TELLING`].
fn is_telling(program: &Path) -> bool {
    TELLING.contains(&name_of(program))
}

/// The name of a test program, `NAME-HASH`.
fn name_of(program: &Path) -> &str {
    let name = program.file_name().and_then(|name| name.to_str()).and_then(|name| name.rsplit_once('-'));
    name.map_or("", |(name, _)| name)
}

/// The test programs whose name contains `filter`, or where none does, those that have such a test.
///
/// # Errors
/// Nothing has: to run no test is no success.
fn tests(mut programs: Vec<PathBuf>, filter: Option<&str>) -> Result<Job> {
    let Some(filter) = filter else { return Ok(job(programs, None)) };
    if programs.iter().any(|program| name_of(program).contains(filter)) {
        programs.retain(|program| name_of(program).contains(filter));
        return Ok(job(programs, None));
    }
    programs.retain(|program| {
        let listed = output_of(Command::new(program).args(["--list", "--format=terse"]));
        listed.is_some_and(|listed| listed.lines().any(|line| line.contains(filter)))
    });
    let known = TELLING.join(", ");
    ensure!(
        !programs.is_empty(),
        "no test program and no test has a name with '{filter}' in it; programs: {known}; with --all there are more"
    );
    Ok(job(programs, Some(filter.to_owned())))
}

/// The job of these programs, some of them twice.
fn job(programs: Vec<PathBuf>, filter: Option<String>) -> Job {
    let is_chosen = std::env::var_os(BACKEND).is_some();
    let tells = |path: &&PathBuf| !is_chosen && CAPTURING.contains(&name_of(path));
    let program = |path: &PathBuf| Program { path: path.clone(), filter: filter.clone() };
    let again = programs.iter().filter(tells).map(program).collect();
    Job::Tests { programs: programs.iter().map(program).collect(), again }
}

/// Builds what the guests run, and gives the programs of the end-to-end tests.
///
/// # Errors
/// A build failed.
fn build() -> Result<Vec<PathBuf>> {
    if std::env::var_os(AGENT).is_none() {
        run(cargo().args(["build", "--release", "-p", "mcpwarden"]), "mend what the compiler says above")?;
    }
    let mut command = cargo();
    command.args(["test", "-p", "mcpwarden-tests", "--no-run", "--message-format=json"]);
    let line = command_line(&command);
    let messages = output_of(&mut command).with_context(|| format!("`{line}` failed; run it by hand"))?;
    let programs = test_programs(&messages);
    ensure!(!programs.is_empty(), "`{line}` names no test programs");
    Ok(programs)
}

/// The executables of `tests/tests/*.rs` among cargo's messages.
fn test_programs(messages: &str) -> Vec<PathBuf> {
    let mut programs: Vec<PathBuf> = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["kind"][0] == "test")
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect();
    programs.sort();
    programs
}

fn directory() -> PathBuf {
    target_dir().join("vm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_test_programs() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"a"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"life"},"executable":"/t/life-1"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\n",
        );
        let programs = test_programs(messages);
        assert_eq!(programs, [Path::new("/t/life-1")]);
        assert!(is_telling(&programs[0]) && !is_telling(Path::new("/t/schema-1")));
    }
}
