//! What is around the agent: too few rights, a second agent, bad configurations, signals.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{attached, configured, directory, ends, mcpwarden, run};
use mcpwarden_tests::patience::is_emulated;
use mcpwarden_tests::peer::{Peer, echo, initialize, server};
use mcpwarden_tests::places;
use mcpwarden_tests::programs;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Nobody, on every distribution.
const NOBODY: u32 = 65_534;

/// One clear line that holds all of `parts`, and exit code 1.
fn refuses(name: &str, command: &mut Command, parts: &[&str]) -> Result<()> {
    let said = ends(command)?;
    ensure!(said.code == Some(1), "{name}: exit code {:?}: {}", said.code, said.stderr);
    ensure!(said.stdout.is_empty(), "{name} says on stdout: {}", said.stdout);
    ensure!(said.stderr.trim_end().lines().count() == 1, "{name}: not one line: {}", said.stderr);
    ensure!(said.stderr.starts_with("mcpwarden: "), "{name}: {}", said.stderr);
    for part in parts {
        ensure!(said.stderr.contains(part), "{name}: no {part:?} in {}", said.stderr);
    }
    Ok(())
}

/// The program, where nobody may execute it: a checkout may lie in a home.
fn for_nobody(directory: &Path) -> Result<PathBuf> {
    let path = directory.join("mcpwarden");
    fs::copy(places::agent(), &path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn as_nobody(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    command
        .args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"])
        .arg(program)
        .args(args)
        .stdin(Stdio::null());
    command
}

#[test]
fn unmet_requirement_is_reported_in_one_line() -> Result<()> {
    let directory = directory()?;
    let at = |name: &str| directory.path().join(name).display().to_string();
    let files = [
        ("no-yaml", "capture: [\n"),
        ("unknown-key", "capture:\n  rings: 1\n"),
        ("unknown-section", "\nnetworks: {}\n"),
        ("bad-value", "capture:\n  backend: magic\n"),
        ("bad-ring", "capture: { ring_bytes: 5000 }\n"),
        ("bad-glob", "discovery: { custom_servers: [\"a[\"] }\n"),
    ];
    for (name, text) in files {
        fs::write(at(name), text)?;
    }
    let missing = at("missing");
    let cases: [(&str, Vec<&str>, Vec<String>); 10] = [
        ("no YAML", vec!["--config", "no-yaml"], vec![format!("{}:", at("no-yaml"))]),
        (
            "an unknown key",
            vec!["--config", "unknown-key"],
            vec![format!("{}:2:3: ", at("unknown-key")), "rings".into()],
        ),
        (
            "an unknown section",
            vec!["--config", "unknown-section"],
            vec![format!("{}:2:1: ", at("unknown-section")), "networks".into()],
        ),
        (
            "a bad value",
            vec!["--config", "bad-value"],
            vec![format!("{}:2:12: ", at("bad-value")), "magic".into()],
        ),
        ("a bad ring in the file", vec!["--config", "bad-ring"], vec![at("bad-ring"), "power of two".into()]),
        ("a bad glob", vec!["--config", "bad-glob"], vec![at("bad-glob"), "a[".into()]),
        ("no such file", vec!["--config", "missing"], vec![missing.clone(), "No such file".into()]),
        ("a directory", vec!["--config", "."], vec!["Is a directory".into()]),
        ("a bad ring", vec!["--ring-bytes", "5000"], vec!["5000".into(), "power of two".into()]),
        ("a small ring", vec!["--ring-bytes", "2048"], vec!["2048".into(), "4096".into()]),
    ];
    for (name, args, parts) in cases {
        let args: Vec<String> = args
            .iter()
            .enumerate()
            .map(|(index, arg)| if index == 1 && args[0] == "--config" { at(arg) } else { (*arg).to_owned() })
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        refuses(name, &mut run(directory.path(), &args), &parts)?;
    }
    Ok(())
}

#[test]
fn missing_capabilities_are_named_to_non_root() -> Result<()> {
    let directory = directory()?;
    let program = for_nobody(directory.path())?;
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (run, state) = (at("run"), at("state"));
    let args = ["run", "--runtime-dir", &run, "--state-dir", &state];
    let all = ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "root"];
    refuses("nobody", &mut as_nobody(&program, &args), &all)?;
    // Root without one of them.
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"])
        .arg(places::agent())
        .args(args);
    let said = ends(&mut command)?;
    ensure!(said.code == Some(1), "exit code {:?}: {}", said.code, said.stderr);
    ensure!(said.stderr.contains("CAP_SYS_PTRACE") && !said.stderr.contains("CAP_BPF"), "{}", said.stderr);
    // The file is there, and not for him.
    fs::write(at("secret.yaml"), "")?;
    fs::set_permissions(at("secret.yaml"), fs::Permissions::from_mode(0o600))?;
    let secret = at("secret.yaml");
    let args = ["match", "--config", &secret, "--", "x"];
    let said = ends(&mut as_nobody(&program, &args))?;
    ensure!(said.code == Some(2), "an unreadable configuration: exit code {:?}", said.code);
    ensure!(said.stderr.contains(&secret) && said.stderr.contains("Permission denied"), "{}", said.stderr);

    let said = ends(&mut as_nobody(&program, &["doctor"]))?;
    ensure!(said.code == Some(1), "doctor: exit code {:?}", said.code);
    ensure!(said.stdout.contains("BROKEN") && said.stdout.contains("CAP_BPF"), "{}", said.stdout);
    Ok(())
}

/// What was done to the state directory and the key in it, and what is said.
#[test]
fn state_writable_by_others_is_refused() -> Result<()> {
    type Change = fn(&Path, &Path) -> std::io::Result<()>;
    let cases: [(&str, Change, &[&str]); 5] = [
        (
            "a directory of somebody else's",
            |state, _| chown(state, Some(NOBODY), None),
            &["belongs to user 65534"],
        ),
        (
            "a directory that all may write to",
            |state, _| set_mode(state, 0o777),
            &["mode 0777", "chmod go-w"],
        ),
        (
            "a key of somebody else's",
            |_, key| chown(key, Some(NOBODY), None),
            &["redaction.key", "user 65534"],
        ),
        (
            "a key that all may read",
            |_, key| set_mode(key, 0o644),
            &["redaction.key", "mode 0644", "chmod 0600"],
        ),
        ("half a key", |_, key| fs::write(key, [1; 16]), &["redaction.key", "16 bytes", "backup"]),
    ];
    for (name, change, parts) in cases {
        let directory = directory()?;
        let state = directory.path().join("state");
        fs::DirBuilder::new().mode(0o750).create(&state)?;
        let key = state.join("redaction.key");
        fs::write(&key, [7; 32])?;
        set_mode(&key, 0o600)?;
        change(&state, &key)?;
        let before = fs::read(&key)?;
        refuses(name, &mut run(directory.path(), &[]), parts)?;
        ensure!(fs::read(&key)? == before, "{name}: the key was replaced");
    }
    // The lock's directory is held to the same.
    let directory = directory()?;
    fs::create_dir(directory.path().join("run"))?;
    chown(directory.path().join("run"), Some(NOBODY), None)?;
    refuses("a foreign lock", &mut run(directory.path(), &[]), &["run", "belongs to user 65534"])
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[test]
fn second_agent_is_refused_while_one_runs() -> Result<()> {
    let agent = Agent::start(&[])?;
    let pid = format!("pid {}", agent.pid());
    let lock = agent.directory().join("run").display().to_string();
    refuses("a second agent", &mut run(agent.directory(), &[]), &["already runs", &pid, &lock])?;
    agent.stop()?;
    Ok(())
}

#[test]
fn killed_agent_does_not_block_the_next_start() -> Result<()> {
    let directory = directory()?;
    for _ in 0..2 {
        let (mut child, _stdout) = attached(run(directory.path(), &["--output", "json"]))?;
        let held = programs::held_by(child.id());
        ensure!(!held.is_empty(), "it held no programs");
        child.kill()?;
        child.wait()?;
        programs::await_gone(&held)?;
    }
    Ok(())
}

#[test]
fn signals_end_the_agent_cleanly_and_soon() -> Result<()> {
    const SOON: Duration = Duration::from_secs(2);
    let directory = directory()?;
    for (signal, reason, busy) in [(Signal::SIGINT, "SIGINT", true), (Signal::SIGTERM, "SIGTERM", false)] {
        let (mut child, mut stdout) = attached(run(directory.path(), &["--output", "json", "--verbose"]))?;
        let held = programs::held_by(child.id());
        // A server that is at work when the signal comes.
        let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
        if busy {
            peer.ask(&initialize(0))?;
            peer.ask(&echo(1, "busy"))?;
        }
        let start = Instant::now();
        kill(Pid::from_raw(i32::try_from(child.id())?), signal)?;
        let mut rest = String::new();
        stdout.read_to_string(&mut rest)?;
        let status = child.wait()?;
        let what = || format!("{reason}, busy: {busy}");
        ensure!(start.elapsed() < SOON, "{}: it took {:?}", what(), start.elapsed());
        ensure!(status.success(), "{}: {status}", what());
        let last: Value = serde_json::from_str(rest.lines().last().context("nothing was said")?)?;
        ensure!(is(&last, "agent_stopped") && last["reason"] == reason, "{}: {last}", what());
        ensure!(
            last["counters"]["messages"].as_u64() >= Some(if busy { 4 } else { 0 }),
            "{}: {last}",
            what()
        );
        programs::await_gone(&held)?;
        peer.close()?;
    }
    Ok(())
}

/// What the verifier may take for a program: 70 % of the steps at which it gives up.
const MOST_STEPS: u32 = 700_000;

#[test]
fn doctor_probes_every_hook_and_leaves_no_trace() -> Result<()> {
    let mut child = mcpwarden(&["doctor"]).stdout(Stdio::piped()).spawn()?;
    let mut held = Vec::new();
    while child.try_wait()?.is_none() {
        held.extend(programs::held_by(child.id()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut text = String::new();
    child.stdout.take().context("no stdout")?.read_to_string(&mut text)?;
    ensure!(child.wait()?.success(), "{text}");
    ensure!(!held.is_empty(), "it tried no program");
    held.sort_unstable();
    held.dedup();
    programs::await_gone(&held)?;
    ensure!(!text.contains("BROKEN") && text.contains("Capture works"), "{text}");
    for row in [
        "privileges",
        "kernel",
        "BTF",
        "cgroup v2",
        "security modules",
        "lockdown",
        "tp_btf/sched_process_exec",
        "tp_btf/sched_process_fork",
        "tp_btf/sched_process_exit",
        "tp_btf/sys_exit",
        "iter/task_file",
        "tp_btf/io_uring_complete",
        "backend tracepoints",
        "backend trampolines",
        "gate",
        "cgroup/connect4",
        "cgroup/connect6",
        "cgroup/sendmsg4",
        "cgroup/sendmsg6",
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(row));
        let line = line.with_context(|| format!("no row {row}:\n{text}"))?;
        // All that names a hook, on every kernel: one that the verifier refuses is a mistake of ours.
        ensure!(!row.contains('/') || line.contains(" works "), "{text}");
    }
    // In a guest everything must work that can: a kernel for which it is written finds nothing missing.
    if is_emulated() {
        let works = |row: &str| {
            text.lines().any(|line| line.trim_start().starts_with(row) && line.contains(" works "))
        };
        ensure!(works("backend trampolines") && works("gate"), "{text}");
    }
    // Programs that come near it are refused by the next kernel.
    let row = text.lines().find(|line| line.trim_start().starts_with("verifier"));
    let mut numbers = row.context("no row of the verifier")?.split_whitespace().map(str::parse::<u32>);
    let steps = numbers.find_map(Result::ok).context("no steps")?;
    ensure!((1..=MOST_STEPS).contains(&steps), "{steps} steps:\n{text}");
    println!("the verifier took {steps} steps for the largest program");
    ensure!(!text.contains('\u{1b}'), "no colours without a terminal:\n{text}");
    Ok(())
}

/// What doctor says of one thing: whether it works, and the rest.
fn row_of<'a>(said: &'a Value, name: &str) -> Result<(&'a str, &'a str)> {
    let row = said["rows"].as_array().into_iter().flatten().find(|row| row["name"] == name);
    let row = row.with_context(|| format!("no row {name}: {said}"))?;
    Ok((row["verdict"].as_str().context("no verdict")?, row["detail"].as_str().context("no detail")?))
}

/// Whether programs are among this kernel's security modules.
fn has_bpf_lsm() -> bool {
    let list = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    list.trim().split(',').any(|name| name == "bpf")
}

/// What is off on this kernel, what follows from it, and how to turn it on: guests of the tests have different things off.
#[test]
fn doctor_reports_disabled_features_with_remedy() -> Result<()> {
    let said = ends(&mut mcpwarden(&["doctor", "--json"]))?;
    let said: Value = serde_json::from_str(&said.stdout).with_context(|| said.stderr.clone())?;
    ensure!(said["possible"] == true, "{said}");
    let (gate, trampolines) = (row_of(&said, "gate")?, row_of(&said, "backend trampolines")?);
    let (modules, lockdown) = (row_of(&said, "security modules")?, row_of(&said, "lockdown")?);
    let can_stop = gate.0 == "works";
    if trampolines.0 != "works" {
        ensure!(trampolines.1.contains("the backend tracepoints does the same at a higher cost"), "{said}");
    }
    if fs::exists("/sys/kernel/security/lsm")? && !has_bpf_lsm() {
        ensure!(modules.0 == "fact" && modules.1.contains("boot with lsm="), "{said}");
    }
    let (way, other) = if has_bpf_lsm() { ("lsm", "fmod_ret") } else { ("fmod_ret", "lsm") };
    ensure!(can_stop || gate.0 == "off", "{said}");
    let state = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let is_locked = state.contains("[integrity]");
    ensure!(lockdown.1.contains("[integrity]") == is_locked, "{said}");
    ensure!(!can_stop || gate.1.contains("refused, not neutralized") == is_locked, "{said}");
    let deny = if can_stop { way } else { "none" };
    let neutralize = if is_locked { "none" } else { deny };
    ensure!(gate.1.contains(&format!("(neutralize: {neutralize}, deny: {deny})")), "{said}");

    // The agent runs with what is there, and says the same.
    let (_directory, config) =
        configured("enforcement: { stdio: neutralize }\npolicy: { denied_tools: [add] }")?;
    let agent = Agent::start(&["--config", &config])?;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(1))?;
    peer.ask(&echo(2, "x"))?;
    agent.wait_for("the call", |event| is(event, "mcp_tool_called"))?;
    let (stderr, status) = (agent.stderr(), agent.tell(&["status"])?);
    for (part, expected) in
        [("reported and not stopped", !can_stop), ("refused, not neutralized", can_stop && is_locked)]
    {
        ensure!(stderr.contains(part) == expected, "{part}: {stderr}\n{said}");
        ensure!(status.stdout.contains(part) == expected, "{part}: {}", status.stdout);
    }
    let status: Value = serde_json::from_str(&agent.tell(&["status", "--json"])?.stdout)?;
    ensure!(status["gate"] == json!({"neutralize": neutralize, "deny": deny}), "{status}");
    let programs = status["programs"].to_string();
    for (way, expected) in [(way, can_stop), (other, false)] {
        ensure!(programs.contains(&format!("\"gate {way}/")) == expected, "{way}: {programs}");
    }
    peer.close()?;
    agent.stop()?;
    Ok(())
}
