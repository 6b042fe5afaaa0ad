//! An agent in namespaces of its own: it refuses to start, or reports what it does not reach.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use mcpwarden_tests::agent::Agent;
use mcpwarden_tests::cgroup::{self, Cgroup};
use mcpwarden_tests::command::{configured, directory, ends};
use mcpwarden_tests::places;
use serde_json::Value;

/// The agent with these arguments, behind `unshare` with those.
fn unshared(unshare: &[&str], args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(unshare).arg(places::agent()).args(args).stdin(Stdio::null());
    command
}

/// Name, arguments of `unshare`, configuration, and parts of the error.
#[test]
fn agent_in_a_namespace_of_its_own_is_refused() -> Result<()> {
    let cases: [(&str, &[&str], &str, &[&str]); 8] = [
        ("PID", &["--pid", "--fork", "--mount-proc"], "", &["PID namespace", "hostPID: true", "--pid=host"]),
        ("PID with the host's /proc", &["--pid", "--fork"], "", &["PID namespace", "/proc"]),
        ("PID and all", &["--pid", "--fork", "--mount-proc"], "network: { netns: any }", &["PID namespace"]),
        ("user", &["--user", "--map-root-user"], "", &["user namespace", "hostUsers: true"]),
        ("time", &["--time", "--fork", "--boottime", "1000"], "", &["time namespace"]),
        ("network", &["--net"], "", &["network namespace", "hostNetwork: true", "network.netns"]),
        ("network and IPC", &["--net", "--ipc", "--uts"], "", &["network namespace"]),
        ("mount, network", &["--mount", "--net"], "network: { netns: host }", &["network namespace"]),
    ];
    for (name, unshare, yaml, parts) in cases {
        let directory = directory()?;
        let (_config, config) = configured(yaml)?;
        let at = |name: &str| directory.path().join(name).display().to_string();
        let args = ["run", "--config", &config, "--runtime-dir", &at("run"), "--state-dir", &at("state")];
        let said = ends(&mut unshared(unshare, &args))?;
        ensure!(said.code == Some(1), "{name}: {:?} {}", said.code, said.stderr);
        ensure!(said.stdout.is_empty() && said.stderr.lines().count() == 1, "{name}: {}", said.stderr);
        for part in parts {
            ensure!(said.stderr.contains(part), "{name}: no {part:?} in {}", said.stderr);
        }
        // Nothing was made or attached.
        ensure!(fs::read_dir(directory.path())?.count() == 0, "{name}: it left something");
        let doctor = ends(&mut unshared(unshare, &["doctor", "--json"]))?;
        ensure!(doctor.code == Some(1), "{name}: {:?} {}", doctor.code, doctor.stdout);
        let doctor: Value = serde_json::from_str(&doctor.stdout)?;
        let rows = doctor["rows"].as_array().into_iter().flatten();
        let broken: Vec<_> = rows.filter(|row| row["verdict"] == "broken").map(Value::to_string).collect();
        ensure!(broken.iter().any(|row| row.contains(parts[0])), "{name}: {broken:?}");
    }
    Ok(())
}

/// Namespaces that change nothing for the agent.
#[test]
fn agent_in_harmless_namespaces_finds_the_host() -> Result<()> {
    for unshare in [&["--mount"][..], &["--uts", "--ipc"], &["--cgroup"]] {
        let said = ends(&mut unshared(unshare, &["doctor", "--json"]))?;
        let doctor: Value = serde_json::from_str(&said.stdout)?;
        ensure!(doctor["possible"] == true, "{unshare:?}: {}", said.stdout);
        let found = doctor["rows"].as_array().into_iter().flatten().find(|row| row["name"] == "namespaces");
        ensure!(found.is_some_and(|row| row["verdict"] == "works"), "{unshare:?}: {}", said.stdout);
    }
    Ok(())
}

/// In a cgroup namespace with its own mount, as containers have it.
#[test]
fn cgroups_of_a_container_are_refused_unless_named() -> Result<()> {
    let (root, container) = (cgroup::root()?, Cgroup::new()?);
    let root = root.display();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec unshare --cgroup --mount sh -c \
         'umount -l {root} && mount -t cgroup2 none {root} && exec \"$0\" \"$@\"' \"$0\" \"$@\"",
        container.path().display()
    );
    let directory = directory()?;
    let at = |name: &str| directory.path().join(name).display().to_string();
    let inside = |config: &str| -> Result<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(places::agent());
        command.args(["run", "--config", config, "--runtime-dir", &at("run"), "--state-dir", &at("state")]);
        command.stdin(Stdio::null());
        Ok(command)
    };
    let (_config, config) = configured("")?;
    let said = ends(&mut inside(&config)?)?;
    ensure!(said.code == Some(1) && said.stdout.is_empty(), "{:?} {}", said.code, said.stderr);
    for part in ["cgroup namespace", "--cgroupns=host", "network.cgroup_path"] {
        ensure!(said.stderr.contains(part), "no {part:?} in {}", said.stderr);
    }
    Ok(())
}

/// A network namespace that the configuration accepts: what stays out of reach is reported everywhere.
#[test]
fn accepted_network_namespace_is_a_reported_blind_spot() -> Result<()> {
    let (_directory, config) = configured("network: { netns: any }\n")?;
    let agent = Agent::start_behind(&["unshare", "--net"], &["--config", &config])?;
    let started = agent.wait_for("the start", |event| event["type"] == "agent_started")?;
    ensure!(started["blind_spots"].to_string().contains("network namespace: "), "{started}");
    let status = agent.tell(&["status"])?;
    // Its exit code is of everything: it sees what other tests do.
    ensure!(
        ["unseen", "network namespace: "].iter().all(|word| status.stdout.contains(word)),
        "{}",
        status.stdout
    );
    // A reload that would no longer accept it is refused.
    fs::write(&config, "network: { netns: host }\n")?;
    let said = agent.tell(&["reload"])?;
    ensure!(
        said.code == Some(2) && said.stderr.contains("network namespace"),
        "{:?} {}",
        said.code,
        said.stderr
    );
    agent.stop().map(drop)
}
