//! The configuration of a running agent, read again: because the file changed, a signal or an operator says so, and with errors.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::replace;
use mcpwarden_tests::dial::{Outcome, Way};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::peer::{Peer, echo, initialize, server};
use mcpwarden_tests::scrape::Scrape;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// An agent with a configuration that changes.
struct Fixture {
    directory: tempfile::TempDir,
    agent: Agent,
}

impl Fixture {
    fn new(yaml: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("x.yaml");
        fs::write(&path, yaml)?;
        let agent = Agent::start(&["--config", &path.display().to_string()])?;
        Ok(Self { directory, agent })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, yaml: &str) -> Result<()> {
        replace(self.directory.path(), "x.yaml", yaml)
    }

    /// The number of the last event so far.
    fn last(&self) -> u64 {
        self.agent.events().iter().filter_map(|event| event["seq"].as_u64()).max().unwrap_or_default()
    }

    /// Writes it, and waits until the agent says this.
    fn change(&self, yaml: &str, kind: &str) -> Result<Value> {
        let before = self.last();
        self.write(yaml)?;
        self.next(kind, before)
    }

    /// The next event of this kind after one.
    fn next(&self, kind: &str, after: u64) -> Result<Value> {
        self.agent.wait_for(kind, |event| is(event, kind) && event["seq"].as_u64() > Some(after))
    }
}

/// What is decided of a call of `echo`.
fn decision(agent: &Agent, peer: &mut Peer, id: u64) -> Result<Value> {
    peer.ask(&echo(id, "x"))?;
    let connection = agent.connection_of_server(peer.pid())?;
    let called = agent.wait_for("the call", |event| {
        is(event, "mcp_tool_called") && event["connection"] == connection && event["jsonrpc_id"] == id
    })?;
    Ok(called["code"].clone())
}

#[test]
fn reloaded_rules_apply_to_running_servers() -> Result<()> {
    let place = Fixture::new("policy: { denied_tools: [other] }\n")?;
    let agent = &place.agent;
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(0))?;
    ensure!(decision(agent, &mut peer, 1)?.is_null(), "nothing denies it yet");

    let said = place.change("policy: { denied_tools: [echo] }\n", "agent_config_reloaded")?;
    ensure!(said["reason"] == "changed" && said["needs_restart"].is_null(), "{said}");
    ensure!(decision(agent, &mut peer, 2)? == "tool_denied", "the new rule");

    // With errors nothing changes, and everybody is told: where they asked, in an event, in the metrics.
    let said = place.change("policy: { denied_tolls: [] }\n", "agent_config_refused")?;
    ensure!(said["error"].as_str().is_some_and(|error| error.contains("x.yaml:1:11: ")), "{said}");
    ensure!(decision(agent, &mut peer, 3)? == "tool_denied", "the rule of before");
    let status = agent.tell(&["status"])?;
    ensure!(
        status.code == Some(1) && status.stdout.contains("the configuration file is invalid"),
        "{}",
        status.stdout
    );
    let refused = agent.tell(&["reload"])?;
    let part = "the previous configuration stays in force";
    ensure!(refused.code == Some(2) && refused.stderr.contains(part), "{}", refused.stderr);

    // A signal has it read, too; and a file that is as it was.
    place.change("policy: { denied_tools: [other] }\n", "agent_config_reloaded")?;
    let before = place.last();
    agent.signal(Signal::SIGHUP)?;
    let said = place.next("agent_config_reloaded", before)?;
    ensure!(said["reason"] == "SIGHUP", "{said}");
    ensure!(decision(agent, &mut peer, 4)?.is_null(), "nothing denies it any more");
    agent.tell(&["reload"])?.expect("reload", 0, "x.yaml is in force now")?;
    // Who asks while it is being read has it read again.
    for _ in 0..5 {
        let both = std::thread::scope(|scope| {
            let ask = || scope.spawn(|| agent.tell(&["reload"]));
            [ask(), ask()].map(|asked| asked.join().map_err(|_| anyhow!("panicked")))
        });
        for said in both {
            said??.expect("reload", 0, "x.yaml is in force now")?;
        }
    }
    agent.tell(&["status"])?.expect("status", 0, "policy.denied_tools: it is reported and not enforced")?;
    let status: Value = serde_json::from_str(&agent.tell(&["status", "--json"])?.stdout)?;
    ensure!(
        status["config"]["usable"] == true && status["counters"]["calls"].as_u64() >= Some(4),
        "{status}"
    );
    ensure!(status["pid"] == agent.pid() && status["servers"].as_u64() >= Some(1), "{status}");
    peer.close()?;
    place.agent.stop()?;
    Ok(())
}

/// Which events, and how.
#[test]
fn reload_changes_the_printed_output() -> Result<()> {
    let place = Fixture::new("")?;
    let agent = &place.agent;
    for (format, at) in [("native", ""), ("ocsf", "/unmapped/mcpwarden")] {
        let of =
            |event: &Value, name: &str| event.pointer(&format!("{at}/{name}")).cloned().unwrap_or_default();
        let reloaded = |event: &Value, reason: &str| {
            of(event, "type") == "agent_config_reloaded" && of(event, "reason") == reason
        };
        place.write(&format!(
            "sinks: [{{ kind: stdout, format: {format}, filter: {{ types: [\"agent_*\"] }} }}]\n"
        ))?;
        agent.wait_for("that it counts", |event| reloaded(event, "changed"))?;
        let before = agent.events().len();
        let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
        peer.ask(&initialize(0))?;
        peer.ask(&echo(1, "x"))?;
        peer.close()?;
        agent.tell(&["reload"])?.expect("reload", 0, "is in force now")?;
        agent.wait_for("that it counts again", |event| reloaded(event, "root"))?;
        let kinds: Vec<Value> = agent.events().iter().skip(before).map(|event| of(event, "type")).collect();
        let all = kinds.iter().all(|kind| kind.as_str().is_some_and(|kind| kind.starts_with("agent_")));
        ensure!(all, "{format}: {kinds:?}");
    }
    place.change("", "agent_config_reloaded")?;
    place.agent.stop()?;
    Ok(())
}

#[test]
fn settings_that_need_a_restart_are_reported() -> Result<()> {
    let place = Fixture::new("")?;
    place.change("capture: { ring_bytes: 8MiB }\nmetrics: { listen: null }\n", "agent_config_reloaded")?;
    let said = place.agent.tell(&["reload", "--json"])?;
    said.expect("reload", 0, "")?;
    let reloaded: Value = serde_json::from_str(&said.stdout)?;
    ensure!(reloaded["needs_restart"] == json!(["capture.ring_bytes", "metrics.listen"]), "{reloaded}");
    ensure!(reloaded["reason"] == "root", "{reloaded}");
    place.agent.stop()?;

    let agent = Agent::start(&[])?;
    let said = agent.tell(&["reload"])?;
    ensure!(said.code == Some(2) && said.stderr.contains("without a configuration file"), "{}", said.stderr);
    agent.signal(Signal::SIGHUP)?;
    agent.tell(&["blocks"])?.expect("it goes on", 0, "nothing is blocked")?;
    agent.stop()?;
    Ok(())
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Rules on addresses, blocks by hand beside them, sinks.
#[test]
fn reload_changes_rules_and_sinks_but_keeps_blocks() -> Result<()> {
    let (first, second) = (Listener::start()?, Listener::start()?);
    let rules = |denied: &[&Listener], more: &str| {
        let rules: Vec<String> = denied.iter().map(|one| format!("'127.0.0.1:{}'", one.port())).collect();
        format!("enforcement: {{ network: deny }}\nnetwork: {{ deny: [{}] }}\n{more}", rules.join(", "))
    };
    let place = Fixture::new(&rules(&[&first], ""))?;
    let dial = |to: &Listener| Way::Tcp.dial(to.at(Ipv4Addr::LOCALHOST));
    ensure!(dial(&first) == Outcome::Denied && dial(&second) == Outcome::Through, "as configured");
    let sink = place.path("events.jsonl");
    let file = format!("sinks: [{{ kind: file, path: {} }}]\n", sink.display());
    place.change(&rules(&[&second], &file), "agent_config_reloaded")?;
    ensure!(dial(&first) == Outcome::Through && dial(&second) == Outcome::Denied, "the other rule");
    let target = format!("127.0.0.1:{}", first.port());
    place.agent.tell(&["block", &target])?.expect("block", 0, "blocked")?;
    place.change(&rules(&[], &file), "agent_config_reloaded")?;
    ensure!(dial(&first) == Outcome::Denied && dial(&second) == Outcome::Through, "the block alone");

    // A sink that cannot be opened: nothing of the file counts, and what was sent to goes on.
    let bad = "sinks: [{ kind: file, path: /nowhere/x.jsonl }]\n";
    let said = place.change(&rules(&[&second], bad), "agent_config_refused")?;
    ensure!(said["error"].as_str().is_some_and(|error| error.contains("sinks[0]")), "{said}");
    ensure!(dial(&second) == Outcome::Through, "no rule of a file that is refused");
    let seq = said["seq"].clone();
    let (agent, path) = (place.agent, sink);
    let found = || lines(&path).iter().any(|event| event["seq"] == seq);
    mcpwarden_tests::peer::wait_until("the sink goes on", found)?;
    agent.stop()?;
    Ok(())
}

/// What is scraped says whether the last file was usable.
#[test]
fn metrics_report_whether_last_reload_succeeded() -> Result<()> {
    let scrape = Scrape::free()?;
    let place = Fixture::new(&scrape.config())?;
    let name = "mcpwarden_config_last_reload_success";
    scrape.await_answer("/metrics", 200, &format!("\n{name} 1\n"))?;
    place.change("a: 1\n", "agent_config_refused")?;
    scrape.await_answer("/metrics", 200, &format!("\n{name} 0\n"))?;
    place
        .change(&format!("{}policy: {{ denied_tools: [x] }}\n", scrape.config()), "agent_config_reloaded")?;
    scrape.await_answer("/metrics", 200, &format!("\n{name} 1\n"))?;
    place.agent.stop()?;
    Ok(())
}
