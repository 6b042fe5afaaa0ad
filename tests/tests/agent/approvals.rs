//! What an operator decides about tools of a running agent: what waits is told, approved, denied, and forgotten.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::ask;
use mcpwarden_tests::peer::{Peer, call, initialize, server};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};
use tempfile::TempDir;

const SERVER: &str = "poisoned-server";

/// A server whose client lists its tools, and calls `weather`: what is decided of that.
fn weather(agent: &Agent) -> Result<Value> {
    weather_in(agent, "Bern")
}

/// The same, of a city.
fn weather_in(agent: &Agent, city: &str) -> Result<Value> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server(SERVER))?;
    peer.ask(&initialize(0))?;
    peer.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
    peer.ask(&call(2, "weather", &json!({"city": city})))?;
    let connection = agent.connection_of_server(peer.pid())?;
    let called = agent
        .wait_for("the call", |event| is(event, "mcp_tool_called") && event["connection"] == connection)?;
    peer.close()?;
    Ok(json!([called["action"], called["code"]]))
}

fn lines(agent: &Agent, args: &[&str]) -> Result<Vec<Value>> {
    let said = agent.tell(&[args, &["--json"]].concat())?;
    said.expect(&args.join(" "), 0, "")?;
    said.stdout.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// A configuration that holds tools with detections, in a directory of its own, and where the store of it is.
fn holding() -> Result<(TempDir, String, PathBuf)> {
    let directory = tempfile::tempdir()?;
    fs::DirBuilder::new().mode(0o750).create(directory.path().join("state"))?;
    let config = directory.path().join("x.yaml").display().to_string();
    let store = directory.path().join("state/mcpwarden.db");
    fs::write(
        &config,
        format!(
            "store: {{ path: {} }}\ninspection: {{ on_detection: {{ action: require_approval }} }}\n",
            store.display()
        ),
    )?;
    Ok((directory, config, store))
}

#[test]
fn held_tool_can_be_approved_denied_and_forgotten() -> Result<()> {
    let (_directory, config, _) = holding()?;
    let mut agent = Agent::start(&["--config", &config])?;
    let held = json!(["block", "approval_required"]);
    let (allowed, denied) = (json!(["allow", null]), json!(["block", "approval_denied"]));
    ensure!(weather(&agent)? == held, "{:?}", agent.events());

    // Other tests' servers may wait beside it: one of this name.
    let waiting = lines(&agent, &["approvals", "list"])?;
    let own =
        waiting.iter().find(|tool| tool["server_id"] == SERVER).with_context(|| format!("{waiting:?}"))?;
    let found = json!([own["tool_name"], own["guard"], own["code"], own["timed_out"], own["max_severity"]]);
    ensure!(found == json!(["weather", "tool_poisoning", "approval_required", false, "critical"]), "{own}");
    agent.tell(&["approvals", "list"])?.expect("a table", 0, "poisoned-server:weather")?;
    let hash = own["tool_hash"].as_str().context("no hash")?;

    let tool = format!("{SERVER}:weather");
    for (args, part) in [
        (&["approve", "weather"][..], "names no server"),
        (&["approve", "nobody:weather"], "nobody never offered weather"),
        (&["approve", &tool, "--hash", "0"], "was never seen with the hash 0"),
        (&["approve", &tool, "--uid", "4242"], "never offered weather"),
        (&["approve", "--all"], "--server"),
        (&["approve"], "required"),
        (&["pins", "reset", "nobody:weather"], "nobody never offered weather"),
    ] {
        let said = agent.tell(args)?;
        ensure!(
            said.code == Some(2) && said.stderr.contains(part),
            "{args:?}: {:?} {}",
            said.code,
            said.stderr
        );
    }
    ensure!(weather(&agent)? == held, "nothing was approved");

    // With the hash of what was looked at, in somebody's name.
    let decided = lines(&agent, &["approve", &tool, "--hash", hash, "--by", "ann"])?;
    ensure!(decided.len() == 1 && decided[0]["by"] == "ann (root)", "{decided:?}");
    ensure!(weather(&agent)? == allowed, "it is approved");
    let said = agent.wait_for("the event", |event| is(event, "mcp_approval_granted"))?;
    ensure!(said["tool_hash"] == hash && said["uid"] == 0 && said["by"] == "ann (root)", "{said}");
    agent.tell(&["approvals", "deny", &tool])?.expect("deny", 0, "denied poisoned-server:weather")?;
    ensure!(weather(&agent)? == denied, "it is denied");
    agent.tell(&["approvals", "grant", "weather", "--server", SERVER])?.expect("grant", 0, "approved")?;

    // What was decided outlives the agent, and no server has to run for another decision.
    agent.kill()?;
    let agent = Agent::start(&["--config", &config])?;
    agent.tell(&["pins", "reset", "--server", SERVER, "--all"])?.expect("reset", 0, "forgot")?;
    ensure!(weather(&agent)? == held, "it is forgotten");
    agent.tell(&["approve", "--server", SERVER, "--all"])?.expect("all", 0, &format!("approved {tool}"))?;
    ensure!(weather(&agent)? == allowed, "all are approved");
    agent.tell(&["pins", "trust", "--server", SERVER, "--all"])?.expect("again", 0, "approved already")?;
    agent.stop()?;
    // Not beside it: a decision is reported of any server that has the name, whoever started it.
    some_calls_can_be_approved()?;
    detections_can_be_muted()
}

/// A mute lets the tool pass at once, also in the next run of the agent; its detections are recorded, and reach no sink of alerts.
fn detections_can_be_muted() -> Result<()> {
    let (directory, config, store) = holding()?;
    let sink = |name: &str| directory.path().join(name).display().to_string();
    let (all, alerts) = (sink("all.jsonl"), sink("alerts.jsonl"));
    let sinks = format!(
        "sinks: [{{ kind: file, path: {all} }}, {{ kind: file, path: {alerts}, filter: {{ types: [mcp_detection] }} }}]\n"
    );
    fs::write(&config, fs::read_to_string(&config)? + &sinks)?;
    let mut agent = Agent::start(&["--config", &config])?;
    let (held, allowed) = (json!(["block", "approval_required"]), json!(["allow", null]));
    ensure!(weather(&agent)? == held, "{:?}", agent.events());
    let mute = ["detections", "mute", "*", "--server", SERVER, "--tool", "weather"];
    for (args, part) in [
        (&["detections", "mute", "*", "--for", "1h", "--reason", "r"][..], "every rule of every server"),
        (
            &["detections", "mute", "x", "--tool", "weather", "--for", "1h", "--reason", "r"],
            "needs its server",
        ),
        (&[&mute[..], &["--for", "0s", "--reason", "r"]].concat(), "over at once"),
        (&[&mute[..], &["--for", "1h", "--reason", ""]].concat(), "the reason has 0 bytes"),
        (&[&mute[..], &["--hash", "0", "--for", "1h", "--reason", "r"]].concat(), "with the hash 0"),
        (&["detections", "unmute", "0"], "there is no mute 0"),
    ] {
        let said = agent.tell(args)?;
        ensure!(
            said.code == Some(2) && said.stderr.contains(part),
            "{args:?}: {} {}",
            said.stdout,
            said.stderr
        );
    }
    ensure!(weather(&agent)? == held, "nothing was muted");

    let muted = lines(&agent, &[&mute[..], &["--for", "1h", "--reason", "ours", "--by", "ann"]].concat())?;
    let id = muted[0]["mute_id"].as_str().context("no id")?.to_owned();
    ensure!(
        json!([muted[0]["type"], muted[0]["by"], muted[0]["server"], muted[0]["tool"], muted[0]["reason"]])
            == json!(["mcp_detection_muted", "ann (root)", SERVER, "weather", "ours"]),
        "{muted:?}"
    );
    ensure!(muted[0]["tool_hash"].is_string() && muted[0]["until"].is_string(), "{muted:?}");
    ensure!(weather(&agent)? == allowed, "it is muted");
    agent.tell(&["detections", "muted"])?.expect("a table", 0, &id)?;
    let status = agent.tell(&["status"])?.stdout;
    ensure!(status.contains("muted     1 mutes"), "{status}");
    agent.kill()?;

    let agent = Agent::start(&["--config", &config])?;
    let listed = lines(&agent, &["detections", "muted"])?;
    ensure!(listed.len() == 1 && listed[0]["mute_id"] == *id, "{listed:?}");
    ensure!(weather(&agent)? == allowed, "it is muted in the next run");
    let found = agent.wait_for("a muted detection", |event| {
        is(event, "mcp_detection") && event["muted"] == true && event["mute"]["mute_id"] == *id
    })?;
    ensure!(
        json!([found["action"], found["mute"]["source"], found["mute"]["reason"]])
            == json!(["allow", "operator", "ours"]),
        "{found}"
    );
    agent.tell(&["detections", "unmute", &id])?.expect(
        "unmute",
        0,
        "unmuted * of poisoned-server:weather",
    )?;
    ensure!(weather(&agent)? == held, "it is held again");
    agent.stop()?;

    let of = |path: &str| -> Result<(usize, usize)> {
        let events = fs::read_to_string(path)?;
        let events = events.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let found = events.iter().filter(|event| is(event, "mcp_detection"));
        let (muted, alerts): (Vec<&Value>, Vec<&Value>) = found.partition(|event| event["muted"] == true);
        Ok((alerts.len(), muted.len()))
    };
    let (every, filtered) = (of(&all)?, of(&alerts)?);
    ensure!(every.0 > 0 && every.1 > 0 && filtered == (every.0, 0), "{every:?} {filtered:?}");
    let path = store.display().to_string();
    let listed = |args: &[&str]| -> Result<usize> {
        let args = [&["detections", "--json", "--server", SERVER, "--path", &path], args].concat();
        Ok(ask(&args)?.stdout.lines().count())
    };
    let (plain, with) = (listed(&[])?, listed(&["--muted"])?);
    ensure!(plain > 0 && with > plain, "{plain} {with}");
    Ok(())
}

fn some_calls_can_be_approved() -> Result<()> {
    let (_directory, config, store) = holding()?;
    let mut agent = Agent::start(&["--config", &config])?;
    let (held, allowed) = (json!(["block", "approval_required"]), json!(["allow", null]));
    ensure!(weather(&agent)? == held, "{:?}", agent.events());
    let tool = format!("{SERVER}:weather");
    for (args, part) in [
        (&["--arguments-match", "city=Bern"][..], "neither POINTER=GLOB"),
        (&["--arguments-match", "{/city: {}}"], "must not be empty"),
        (&["--arguments-match", "{/city: {below: srv}}"], "does not begin with /"),
        (&["--arguments-match", "/city=a", "--arguments-match", "/city=b"], "two tests of /city"),
        (&["--for", "0s"], "longer than 0"),
    ] {
        let said = agent.tell(&[&["approve", &tool], args].concat())?;
        ensure!(
            said.code == Some(2) && said.stderr.contains(part),
            "{args:?}: {} {}",
            said.stdout,
            said.stderr
        );
    }
    ensure!(weather(&agent)? == held, "nothing was approved");

    agent.tell(&["approve", &tool, "--once", "--by", "ann"])?.expect(
        "once",
        0,
        "approved poisoned-server:weather",
    )?;
    ensure!(weather(&agent)? == allowed, "it is approved once");
    let ended = agent.wait_for("the end", |event| is(event, "mcp_approval_ended"))?;
    ensure!(json!([ended["reason"], ended["by"]]) == json!(["used", "ann (root)"]), "{ended}");
    ensure!(weather(&agent)? == held, "it was approved once");

    // By arguments, and what is not used up outlives the agent.
    let decided = lines(&agent, &["approve", &tool, "--arguments-match", "/city=B*", "--for", "1h"])?;
    ensure!(decided[0]["limits"]["arguments"] == json!({"/city": {"glob": "B*"}}), "{decided:?}");
    ensure!(decided[0]["limits"]["until"].is_string(), "{decided:?}");
    agent.kill()?;
    let agent = Agent::start(&["--config", &config])?;
    ensure!(weather_in(&agent, "Basel")? == allowed, "it is approved for that city");
    ensure!(weather_in(&agent, "Chur")? == held, "it is not for this one");
    let pins = store.with_file_name("registry.db").display().to_string();
    ask(&["pins", "list", "--path", &pins])?.expect("pins", 0, "1 limited")?;
    agent.tell(&["approvals", "deny", &tool])?.expect("deny", 0, "denied")?;
    ensure!(weather_in(&agent, "Basel")? == json!(["block", "approval_denied"]), "it is denied");
    agent.stop()?;
    Ok(())
}
