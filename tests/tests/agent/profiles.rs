//! Who a client is, and what a server really runs: `sessions:` and `executable` of a configuration, seen by a running
//! agent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::cgroup::Cgroup;
use mcpwarden_tests::peer::{await_exit, wait_until};
use mcpwarden_tests::places;
use serde_json::Value;
use tempfile::TempDir;

/// Nobody, on every distribution.
const NOBODY: u32 = 65_534;

/// Copies of our programs that every user may execute: a checkout may lie in a home.
struct Programs(TempDir);

impl Programs {
    fn new(copies: &[(&str, &str)]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        for (program, copy) in copies {
            fs::copy(places::program(program), directory.path().join(copy))?;
        }
        Ok(Self(directory))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// An agent that goes by this configuration.
    fn agent(&self, config: &str) -> Result<Agent> {
        let path = self.path("config.yaml");
        fs::write(&path, config)?;
        Agent::start(&["--config", &path])
    }
}

/// Runs a client on a server to its end, as a user, and in a cgroup if one is given; its process id.
fn client(user: u32, cgroup: Option<&Cgroup>, program: &str, args: &[&str]) -> Result<u32> {
    let user = user.to_string();
    let procs = cgroup.map(|cgroup| cgroup.path().join("cgroup.procs").display().to_string());
    let mut child: Child = Command::new("sh")
        .args(["-c", "test -z \"$0\" || echo $$ > \"$0\" || exit 1; exec \"$@\"", &procs.unwrap_or_default()])
        .args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", program])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let status = child.wait()?;
    ensure!(status.success(), "the client ended with {status}");
    Ok(child.id())
}

/// What was decided of the calls of a client's one connection: tool and code of the denial, if any.
fn decided(agent: &Agent, client: u32) -> Result<Vec<(String, Option<String>)>> {
    let connection = agent.connection_of_client(client)?;
    await_exit(agent, connection)?;
    let events = agent.events_of(connection);
    let calls = events.iter().filter(|event| is(event, "mcp_tool_called"));
    let text = |event: &Value, name: &str| event[name].as_str().map(str::to_owned);
    calls.map(|event| Ok((text(event, "tool_name").context("no tool")?, text(event, "code")))).collect()
}

/// Client's user, program and whether it is in the test's cgroup; what is decided of a call that writes and one that
/// pays.
#[test]
fn each_client_is_matched_to_its_own_profile() -> Result<()> {
    let cgroup = Cgroup::new()?;
    let programs = Programs::new(&[("client", "one"), ("client", "two"), ("benign-server", "mcp-server-x")])?;
    let agent = programs.agent(&format!(
        "guards: [{{ kind: mode }}, {{ kind: side_effects }}]
sessions:
- {{ match: {{ uid: {NOBODY}, executable: '{}' }}, mode: planning }}
- {{ match: {{ uid: {NOBODY} }}, policy_blacklist: [payments] }}
- {{ match: {{ cgroup: '/mcpwarden-test-*' }}, policy_blacklist: [fs.write] }}
",
        programs.path("one")
    ))?;
    let (planning, denied) = (Some("planning_mode"), Some("side_effect_denied"));
    let cases = [
        ("nobody's first program", NOBODY, "one", false, planning, planning),
        ("the first entry counts", NOBODY, "one", true, planning, planning),
        ("nobody's second program", NOBODY, "two", false, None, denied),
        ("root", 0, "one", false, None, None),
        ("root in the cgroup", 0, "one", true, denied, None),
    ];
    for (name, user, program, inside, write, pay) in cases {
        // A client's program is looked up by its process: it is not known of one that has ended before the agent gets to it.
        let args = ["--hold-ms", "500", "--call", "write_file", "{}", "--call", "send_payment", "{}"];
        let args = [&args[..], &["--call", "echo", "{}", "--"]].concat();
        let server = programs.path("mcp-server-x");
        let args = [&args[..], &[&server]].concat();
        let pid = client(user, inside.then_some(&cgroup), &programs.path(program), &args)?;
        let expected = [("write_file", write), ("send_payment", pay), ("echo", None)]
            .map(|(tool, code)| (tool.to_owned(), code.map(str::to_owned)));
        let said = decided(&agent, pid)?;
        ensure!(said == expected, "{name}: {said:?}");
    }
    agent.stop()?;
    Ok(())
}

/// User, program, whether that is the one that the declaration demands, and how its tool `add` stands to what was pinned: a
/// look-alike has neither the declared identity, nor its rights, nor its pins, though it has its name.
#[test]
fn lookalike_of_declared_server_gets_another_id() -> Result<()> {
    let programs =
        Programs::new(&[("client", "client"), ("benign-server", "ours"), ("poisoned-server", "theirs")])?;
    // Both have the command line of the declared server; only one is its program.
    let (ours, theirs) = (programs.path("ours"), programs.path("theirs"));
    let agent = programs.agent(&format!(
        "servers: [{{ id: calc, command: calc, args: ['--delay-ms', '1'], executable: '{ours}' }}]
policy: {{ server_policy: allowlist, allowed_servers: [calc], version_pinning: {{ on_change: block }} }}
"
    ))?;
    let cases = [
        ("the declared server", 0, &ours, true, "new"),
        ("a look-alike", 0, &theirs, false, "new"),
        ("a look-alike of another user's", NOBODY, &theirs, false, "new"),
        ("the look-alike again", 0, &theirs, false, "unchanged"),
        ("the declared server again", 0, &ours, true, "unchanged"),
    ];
    for (name, user, program, declared, status) in cases {
        // `exec -a` gives it the command line of the declaration.
        let line = format!("exec -a calc '{program}' --delay-ms 1");
        // As with a client's program: a server's is not known of one that has ended before the agent gets to it.
        let args = ["--hold-ms", "500", "--call", "add", r#"{"a":1,"b":2}"#, "--", "bash", "-c", &line];
        let pid = client(user, None, &programs.path("client"), &args)?;
        let connection = agent.connection_of_client(pid)?;
        await_exit(&agent, connection)?;
        let events = agent.events_of(connection);
        let event = |kind: &str| {
            events
                .iter()
                .find(|event| is(event, kind))
                .with_context(|| format!("{name}: no {kind}: {events:#?}"))
        };
        let (started, called) = (event("mcp_server_started")?, event("mcp_tool_called")?);
        let identity = if declared { "declared" } else { "derived" };
        ensure!(started["identity"] == identity, "{name}: {started}");
        // The shell names the program that it runs, whatever that calls itself.
        let id = if declared { "calc" } else { "theirs" };
        ensure!(started["server_id"] == id, "{name}: {started}");
        ensure!((started["mistaken_for"] == "calc") != declared, "{name}: {started}");
        let code = if declared { Value::Null } else { "server_not_allowed".into() };
        ensure!(called["code"] == code, "{name}: {called}");
        let add = events.iter().find(|event| is(event, "mcp_tool_seen") && event["tool_name"] == "add");
        let seen = add.with_context(|| format!("{name}: no add: {events:#?}"))?;
        ensure!(seen["status"] == status, "{name}: {seen}");
        // It offers a tool more; where pins were shared, that would be new and then gone.
        let moved = ["mcp_tool_changed", "mcp_tool_removed"];
        ensure!(!events.iter().any(|event| moved.iter().any(|kind| is(event, kind))), "{name}: {events:#?}");
    }
    agent.stop()?;
    Ok(())
}

/// A server `calc` that runs this command with bash; its connection, and `mcp_server_started`.
fn started(agent: &Agent, programs: &Programs, line: &str) -> Result<(u64, Value)> {
    let args =
        ["--hold-ms", "500", "--no-list", "--call", "add", r#"{"a":1,"b":2}"#, "--", "bash", "-c", line];
    let pid = client(0, None, &programs.path("client"), &args)?;
    let connection = agent.connection_of_client(pid)?;
    await_exit(agent, connection)?;
    let events = agent.events_of(connection);
    let started = events.iter().find(|event| is(event, "mcp_server_started"));
    Ok((connection, started.with_context(|| format!("{line}: not started: {events:#?}"))?.clone()))
}

/// What runs, and whether it is the declared program: the path and the command line are the declared ones each time.
#[test]
fn executable_is_compared_as_a_file() -> Result<()> {
    let programs =
        Programs::new(&[("client", "client"), ("benign-server", "ours"), ("poisoned-server", "theirs")])?;
    let (ours, theirs) = (programs.path("ours"), programs.path("theirs"));
    let agent = programs.agent(&format!(
        "servers: [{{ id: calc, command: calc, args: ['--delay-ms', '1'], executable: '{ours}' }}]\n"
    ))?;
    let run = format!("exec -a calc '{ours}' --delay-ms 1");
    let mounted = format!("mount --bind '{theirs}' '{ours}' && {run}");
    let cases = [
        ("the program", run.clone(), true),
        ("in a mount namespace of its own", format!("exec unshare -m bash -c \"{run}\""), true),
        ("a bind mount over it", format!("exec unshare -m bash -c \"{mounted}\""), false),
        ("a bind mount in a user namespace", format!("exec unshare -Urm bash -c \"{mounted}\""), false),
        ("in a user namespace", format!("exec unshare -Urm bash -c \"{run}\""), true),
        ("another program", format!("exec -a calc '{theirs}' --delay-ms 1"), false),
    ];
    for (name, line, is_declared) in cases {
        let (_, started) = started(&agent, &programs, &line)?;
        let identity = if is_declared { "declared" } else { "derived" };
        ensure!(started["identity"] == identity, "{name}: {started}");
        ensure!((started["mistaken_for"] == "calc") != is_declared, "{name}: {started}");
        ensure!((started["server_id"] == "calc") == is_declared, "{name}: {started}");
    }
    agent.stop()?;
    Ok(())
}

/// A server that answers, and later runs another program in its place.
#[test]
fn later_program_loses_the_declared_identity() -> Result<()> {
    let programs = Programs::new(&[("client", "client"), ("benign-server", "other")])?;
    let bash = fs::canonicalize("/bin/bash")?;
    // It answers the first request, whatever that is, and leaves the rest to another program.
    let script = format!(
        "read -r line; id=$(echo \"$line\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/'); \
         echo '{{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{}},\"serverInfo\":{{\"name\":\"x\",\"version\":\"1\"}}}}}}'; \
         read -r line; sleep 1; exec -a calc {} --delay-ms 1",
        programs.path("other")
    );
    let config = serde_json::json!({
        "servers": [{ "id": "calc", "command": "bash", "args": ["-c", script], "executable": bash }]
    });
    let agent = programs.agent(&config.to_string())?;
    let args =
        ["--hold-ms", "500", "--no-list", "--call", "add", r#"{"a":1,"b":2}"#, "--", "bash", "-c", &script];
    let pid = client(0, None, &programs.path("client"), &args)?;
    let connection = agent.connection_of_client(pid)?;
    await_exit(&agent, connection)?;
    let events = agent.events_of(connection);
    let event = |kind: &str| {
        let found = events.iter().find(|event| is(event, kind));
        found.with_context(|| format!("no {kind}: {events:#?}"))
    };
    ensure!(event("mcp_server_started")?["identity"] == "declared", "{events:#?}");
    let executed = events
        .iter()
        .find(|event| is(event, "mcp_server_executed") && event["serves"] == true)
        .with_context(|| format!("not executed: {events:#?}"))?;
    ensure!(executed["identity"] == "derived" && executed["mistaken_for"] == "calc", "{executed}");
    ensure!(executed["executable"] == programs.path("other"), "{executed}");
    ensure!(event("mcp_tool_called")?["server_id"] == "calc", "{events:#?}");
    agent.stop()?;
    Ok(())
}

/// An agent that starts after an upgrade adopts the server as the declared one.
#[test]
fn upgraded_executable_stays_declared_for_a_later_agent() -> Result<()> {
    for is_removed in [false, true] {
        let programs =
            Programs::new(&[("client", "client"), ("benign-server", "ours"), ("poisoned-server", "new")])?;
        let ours = programs.path("ours");
        let mut server = Command::new(programs.path("client"))
            .args(["--hold-ms", "600000", "--no-list", "--call", "add", r#"{"a":1,"b":2}"#, "--", &ours])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let deleted = || {
            let exe = fs::read_link(format!("/proc/{}/exe", child_of(server.id())?)).ok()?;
            Some(exe.to_string_lossy().into_owned())
        };
        wait_until("the server runs", || deleted().as_deref() == Some(&ours))?;
        fs::remove_file(&ours)?;
        if !is_removed {
            fs::rename(programs.path("new"), &ours)?;
        }
        ensure!(deleted() == Some(format!("{ours} (deleted)")), "{:?}", deleted());
        let agent = programs
            .agent(&format!("servers: [{{ id: calc, command: '{ours}', executable: '{ours}' }}]\n"))?;
        let pid = child_of(server.id());
        let is_ours =
            |event: &Value| is(event, "mcp_server_started") && event["pid"].as_u64() == pid.map(u64::from);
        let started = agent.wait_for("the server", is_ours);
        server.kill()?;
        server.wait()?;
        let started = started?;
        ensure!(started["identity"] == "declared" && started["adopted"] == true, "{is_removed}: {started}");
        agent.stop()?;
    }
    Ok(())
}

/// The only child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
