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

use crate::build::{self, PROGRAMS, TestProgram, test_programs};
use crate::packages::Packages;
use crate::setup::{Needs, setup};
use crate::util::{output_of, target_dir};
use guest::{Clock, Guest, Job, Program};
use kernel::Kernel;
pub use matrix::{Guests, matrix};

/// The series that the tests run on, besides this machine's own kernel.
const SERIES: [&str; 3] = ["6.1", "6.12", "6.18"];

/// What is added to the name of a series for a guest without programs among its security modules, as Ubuntu's default is; and the words for
/// its kernel.
const WITHOUT_PROGRAMS: &str = "-nolsm";
const NO_PROGRAMS: &str = "lsm=lockdown,capability,landlock,yama,apparmor";

/// The end-to-end tests that tell kernels apart, and none of which measures time: a test program, or a module of it, such as
/// `tests/tests/agent/forms.rs`.
const TELLING: [&str; 15] = [
    "agent::forms",
    "agent::hostile",
    "agent::http",
    "agent::life",
    "agent::loss",
    "agent::methods",
    "agent::real_servers",
    "agent::stress",
    "gate",
    "network::connections",
    "network::found",
    "network::life",
    "network::opened",
    "network::persist",
    "network::resume",
];

/// The variables that say what to test in a guest too: which agent, and which backend it captures with.
const AGENT: &str = "MCPWARDEN_BIN";
const BACKEND: &str = "MCPWARDEN_TEST_BACKEND";

/// Of these, those that tell backends apart: they are run once more with the one that is not the best.
const CAPTURING: [&str; 3] = ["agent::forms", "agent::http", "agent::methods"];

/// Where distributions put it.
const SYSTEMD: &str = "/lib/systemd/systemd";

/// How long one guest may take: three share two processors where the tests run all kernels.
const LIMIT_SECONDS: u64 = 30 * 60;

/// Runs the end-to-end tests, or a command, on other kernels in virtual machines (QEMU; no KVM is needed).
#[derive(clap::Args)]
pub struct Args {
    /// Series of the kernel, with `-nolsm` behind it for a guest without `bpf` among its security modules; every known series if
    /// this is not given
    #[arg(long, value_name = "6.1|6.12|6.18|6.12-nolsm")]
    kernel: Option<String>,
    /// Run only the tests whose name (`gate::ways::every_way_to_write`) contains NAME
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
    setup(Needs::Tests)?;
    let job = if args.shell {
        Job::Shell
    } else if let Some(package) = &args.service {
        service(package)?
    } else if args.command.is_empty() {
        let chosen: &[&str] = if args.all { &PROGRAMS } else { &TELLING };
        tests(&test_programs()?, chosen, args.filter.as_deref())?
    } else {
        Job::Command(args.command.clone())
    };
    let series: Vec<&str> = args.kernel.as_deref().map_or(SERIES.to_vec(), |one| vec![one]);
    let busybox = guest::install(&Packages::default(), &directory())?;
    let mut well = true;
    for name in series {
        let (series, words) = of_name(name);
        let kernel = Kernel::newest(series, &Packages::default(), &directory())?;
        let kernel =
            kernel.with_context(|| format!("this machine's packages have no cloud kernel {series}"))?;
        println!("━━ Linux {} {words}", kernel.version);
        let clock = if args.count_instructions { Clock::Instructions } else { Clock::Host };
        let append = format!("{words} {}", args.append);
        let guest = Guest::new(&kernel, &job, &append, &directory(), &busybox, clock)?;
        let ending = guest.run(LIMIT_SECONDS, "")?.0;
        if !ending.well() {
            println!("━━ Linux {name}: {ending}");
            well = false;
        }
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The series of a kernel's name, and the words that its guest is booted with besides.
fn of_name(name: &str) -> (&str, &'static str) {
    name.strip_suffix(WITHOUT_PROGRAMS).map_or((name, ""), |series| (series, NO_PROGRAMS))
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
    build::programs()?;
    Ok(Job::Service { package: package.to_owned(), server: target_dir().join("debug/benign-server") })
}

/// The job of the tests below these names (a test program, a module of one, or the beginning of a test's name) whose own name
/// contains `filter`; those that tell backends apart are run once more with the one that is not the best.
///
/// # Errors
/// There is none: to run no test is no success.
fn tests(programs: &[TestProgram], below: &[&str], filter: Option<&str>) -> Result<Job> {
    let is_chosen = |name: &str| filter.is_none_or(|filter| name.contains(filter));
    let first = selected(programs, below, is_chosen)?;
    ensure!(
        !first.is_empty(),
        "no test has a name with '{}' in it below {}; with --all there are more",
        filter.unwrap_or_default(),
        below.join(", ")
    );
    let again = if std::env::var_os(BACKEND).is_some() { &[][..] } else { &CAPTURING };
    Ok(Job::Tests { programs: first, again: selected(programs, again, is_chosen)? })
}

/// Of each program the tests below these names that are chosen; programs that have none are left out.
///
/// # Errors
/// A program does not list its tests.
fn selected(
    programs: &[TestProgram],
    below: &[&str],
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for TestProgram { name, path } in programs {
        if !below.iter().any(|below| below.split("::").next() == Some(name)) {
            continue;
        }
        let listed = output_of(Command::new(path).args(["--list", "--format=terse"]))
            .with_context(|| format!("{} does not list its tests", path.display()))?;
        let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let is_selected = |test: &&str| {
            let whole = format!("{name}::{test}");
            below.iter().any(|below| is_below(&whole, below)) && is_chosen(&whole)
        };
        let tests: Vec<String> = tests.filter(is_selected).map(str::to_owned).collect();
        if !tests.is_empty() {
            found.push(Program { path: path.clone(), tests });
        }
    }
    Ok(found)
}

/// Whether a test's whole name begins with these words, of which the last may be the beginning of a test's own name.
fn is_below(name: &str, words: &str) -> bool {
    name.strip_prefix(words).is_some_and(|rest| rest.starts_with("::") || words.ends_with('_'))
        || name == words
}

fn directory() -> PathBuf {
    target_dir().join("vm")
}

#[cfg(test)]
mod tests {
    use super::{NO_PROGRAMS, is_below, of_name};

    #[test]
    fn kernel_names_are_a_series_and_what_it_is_booted_with() {
        let cases =
            [("6.12", ("6.12", "")), ("6.12-nolsm", ("6.12", NO_PROGRAMS)), ("6.1-other", ("6.1-other", ""))];
        for (name, expected) in cases {
            assert_eq!(of_name(name), expected, "{name}");
        }
    }

    #[test]
    fn tests_are_selected_by_program_module_and_name() {
        let name = "agent::requirements::doctor_probes_every_hook";
        let cases = [
            ("agent", true),
            ("agent::requirements", true),
            ("agent::requirements::doctor_", true),
            (name, true),
            ("agent::sur", false),
            ("age", false),
            ("gate", false),
        ];
        for (words, expected) in cases {
            assert_eq!(is_below(name, words), expected, "{words}");
        }
    }
}
