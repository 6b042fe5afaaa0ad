//! What every run of the tests does on other kernels: what this machine's own may not be able to do.

use std::path::Path;
use std::thread;

use anyhow::{Result, anyhow};

use super::guest::{self, Clock, Ending, Guest, Job};
use super::kernel::Kernel;
use super::{LIMIT_SECONDS, NO_PROGRAMS, SERIES, directory, selected};
use crate::build::test_programs;
use crate::harness::Counts;
use crate::packages::Packages;

/// One guest.
struct Round {
    /// What is told of it.
    what: &'static str,
    /// The series that it is booted on.
    series: &'static [&'static str],
    /// Words that are added to the kernel's command line.
    append: &'static str,
    /// The tests: programs, modules of them, or beginnings of names.
    tests: &'static [&'static str],
}

/// Which guests are booted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guests {
    /// Two, for what this machine's own kernel may not be able to do: trampolines, and the gate; and for what the verifier of the
    /// oldest kernel refuses.
    Smoke,
    /// All of them.
    All,
}

/// That trampolines capture and the gate stops calls, as quickly as that can be shown.
const SMOKE: Round = Round {
    what: "smoke test",
    series: &["6.1", "6.12"],
    append: "",
    tests: &["gate::calls::denied_call_is_neutralized_", "gate::explain::denied_call_says_why_"],
};

/// What tells the ways of the gate apart, on each kernel.
const WAYS: &[&str] = &[
    "agent::requirements::doctor_",
    "gate::calls",
    "gate::explain",
    "gate::forms",
    "gate::framing",
    "gate::guards",
    "gate::history",
    "gate::owner",
    "gate::sockets",
    "gate::ways",
];

/// Each kernel has a verifier of its own, and programs that run elsewhere; what is off is said, and why.
const ROUNDS: [Round; 8] = [
    Round { what: "as it comes", series: &["6.1", "6.12"], append: "", tests: WAYS },
    // What the agent does is the same on all kernels: each of these is run on one.
    Round {
        what: "as it comes, once more",
        series: &["6.12"],
        append: "",
        tests: &["gate::block", "gate::fallback", "gate::life", "gate::undecided"],
    },
    // Its pipes have other functions.
    Round {
        what: "as it comes",
        series: &["6.18"],
        append: "",
        tests: &[
            "agent::requirements::doctor_",
            "gate::clients",
            "gate::persist",
            "gate::servers",
            "gate::ways",
        ],
    },
    // It would preempt itself, and be captured with tracepoints: as this machine's own kernel is by the same tests.
    Round {
        what: "which does not preempt itself",
        series: &["6.18"],
        append: "preempt=voluntary",
        tests: &["agent::hostile::what_the_client_got_", "agent::methods"],
    },
    Round {
        what: "which preempts itself",
        series: &["6.12"],
        append: "preempt=full",
        tests: &["agent::requirements::doctor_", "gate::calls", "agent::stress"],
    },
    // As Ubuntu's default is: the gate has another way.
    Round {
        what: "without programs among its security modules",
        series: &["6.1", "6.12"],
        append: NO_PROGRAMS,
        tests: WAYS,
    },
    Round {
        what: "without programs among its security modules, once more",
        series: &["6.12"],
        append: NO_PROGRAMS,
        tests: &[
            "gate::block",
            "gate::clients",
            "gate::life",
            "gate::persist",
            "gate::servers",
            "gate::undecided",
        ],
    },
    Round {
        what: "locked down",
        series: &["6.1"],
        append: "lockdown=integrity",
        tests: &["agent::requirements::doctor_", "gate::fallback"],
    },
];

/// Boots guests, the kernels side by side. What is counted; what is wrong; and the series of which this machine's packages have
/// no kernel.
///
/// # Errors
/// The machine lacks something, or a build failed.
pub fn matrix(guests: Guests) -> Result<(Counts, Option<String>, Vec<&'static str>)> {
    let rounds: &[Round] = if guests == Guests::Smoke { &[SMOKE] } else { &ROUNDS };
    let programs = test_programs()?;
    let packages = Packages::default();
    let busybox = guest::install(&packages, &directory())?;
    let (mut kernels, mut missing) = (Vec::new(), Vec::new());
    for series in SERIES.into_iter().filter(|series| rounds.iter().any(|round| round.series.contains(series)))
    {
        match Kernel::newest(series, &packages, &directory())? {
            Some(kernel) => kernels.push((series, kernel)),
            None => missing.push(series),
        }
    }
    let job = |round: &Round| -> Result<Job> {
        let programs = selected(&programs, round.tests, |_| true)?;
        Ok(Job::Tests { programs, again: Vec::new() })
    };
    let of = |series: &'static str, kernel: &Kernel| -> Result<(Counts, Vec<String>)> {
        let (mut counts, mut problems) = (Counts::default(), Vec::new());
        for round in rounds.iter().filter(|round| round.series.contains(&series)) {
            let name = format!("Linux {series} {}", round.what);
            println!("━━ {name} ({})", kernel.version);
            let guest = Guest::new(kernel, &job(round)?, round.append, &directory(), &busybox, Clock::Host)?;
            let (ending, counted) = guest.run(LIMIT_SECONDS, &format!("{series}: "))?;
            println!("━━ {name}: {counted}");
            if !ending.well() {
                problems.push(format!("{name}: {ending}"));
            } else if counted.passed == 0 {
                problems.push(format!("{name}: no test has passed"));
            }
            counts.add(counted);
        }
        Ok((counts, problems))
    };
    let results: Vec<Result<(Counts, Vec<String>)>> = thread::scope(|scope| {
        let threads: Vec<_> =
            kernels.iter().map(|(series, kernel)| scope.spawn(|| of(series, kernel))).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.unwrap_or_else(|_| Err(anyhow!("a guest's thread panicked")))).collect()
    });
    let (mut counts, mut problems) = match kernels.first() {
        Some((_, kernel)) if guests == Guests::All => end_badly(kernel, &busybox)?,
        _ => (Counts::default(), Vec::new()),
    };
    for result in results {
        let (counted, wrong) = result?;
        counts.add(counted);
        problems.extend(wrong);
    }
    let problem = (!problems.is_empty()).then(|| problems.join("; "));
    Ok((counts, problem, missing))
}

/// Guests that end badly, and have to be told from those that end well. What is counted, and what is wrong.
fn end_badly(kernel: &Kernel, busybox: &Path) -> Result<(Counts, Vec<String>)> {
    /// What is told of it, what it does, after how many seconds it is stopped, and how it ends then.
    type Case = (&'static str, &'static str, u64, fn(&Ending) -> bool);
    let cases: [Case; 3] = [
        ("that panics", "echo c > /proc/sysrq-trigger", LIMIT_SECONDS, |ending| {
            matches!(ending, Ending::Lost)
        }),
        ("that does not end", "sleep 3600", 10, |ending| matches!(ending, Ending::TimedOut(_))),
        ("whose job fails", "exit 3", LIMIT_SECONDS, |ending| matches!(ending, Ending::Exit(3))),
    ];
    let (mut counts, mut problems) = (Counts::default(), Vec::new());
    for (what, command, limit, is_right) in cases {
        println!("━━ a guest {what}, which has to be said");
        let job = Job::Command(["sh", "-c", command].map(str::to_owned).to_vec());
        let guest = Guest::new(kernel, &job, "", &directory(), busybox, Clock::Host)?;
        let (ending, _) = guest.run(limit, "")?;
        println!("━━ a guest {what}: {ending}");
        if is_right(&ending) {
            counts.passed += 1;
        } else {
            counts.failed += 1;
            problems.push(format!("a guest {what}: {ending}"));
        }
    }
    Ok((counts, problems))
}
