//! Processes: how servers are started and by whom, what they are called, how long they take, how they end.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::client_process;
use mcpwarden_tests::peer::{Driven, Peer, await_exit, echo, initialize, server};
use mcpwarden_tests::places;
use mcpwarden_tests::script::{Report, Step};
use mcpwarden_tests::sender::Sending;
use mcpwarden_tests::transcript::{Dir, compare};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

const WIRINGS: [Wiring; 2] = [Wiring::Pipes, Wiring::Sockets];

/// A server that answers after a minute. It runs beside the other tests: the first starts it, the last looks.
static LATE: LazyLock<Mutex<Option<Result<Late>>>> = LazyLock::new(|| Mutex::new(Some(Late::start())));

const LATE_MS: u64 = 60_000;

struct Late {
    agent: Agent,
    sender: std::process::Child,
    directory: tempfile::TempDir,
}

impl Late {
    fn start() -> Result<Self> {
        let agent = Agent::start(&[])?;
        let mut sending = Sending::new(vec![Step::line(&echo(7, "late").to_string()), Step::AwaitLines(1)]);
        sending.server.extend(["--delay-ms".to_owned(), LATE_MS.to_string()]);
        let directory = tempfile::tempdir()?;
        let mut command = sending.command(directory.path())?;
        // A file: a run of other tests alone leaves it behind.
        let stdout = fs::File::create(directory.path().join("report"))?;
        let sender = command.stdout(stdout).spawn().context("cannot start the sender")?;
        Ok(Self { agent, sender, directory })
    }
}

fn start() -> Result<Agent> {
    LazyLock::force(&LATE);
    Agent::start(&[])
}

fn program(name: &str) -> String {
    places::program(name).display().to_string()
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_default()
}

fn started(agent: &Agent, connection: u64) -> Result<Value> {
    agent.wait_for("the server's start", |event| {
        is(event, "mcp_server_started") && event["connection"] == connection
    })
}

/// How many bytes of answers are said to have gone by unseen, where programs sit at the exit of the kernel's functions: whoever
/// was in one when programs were attached to it or detached from it leaves it past all of them.
fn unseen_with_trampolines(agent: &Agent, connection: u64) -> Result<Option<u64>> {
    if agent.backend() != "trampolines" {
        return Ok(None);
    }
    let is_gap = |event: &&Value| {
        is(event, "mcp_capture_gap") && event["direction"] == "s2c" && event["connection"] == connection
    };
    let gaps: Vec<Value> = agent.events().iter().filter(is_gap).cloned().collect();
    ensure!(gaps.iter().all(|gap| ["unseen", "unread"].contains(&text(gap, "cause"))), "{gaps:?}");
    Ok((!gaps.is_empty()).then(|| gaps.iter().filter_map(|gap| gap["bytes"].as_u64()).sum()))
}

/// Events about servers with this process id, or with it as their client.
fn about(agent: &Agent, pid: u32) -> Vec<Value> {
    let about = |event: &Value| event["pid"] == pid || event["client"]["pid"] == pid;
    agent.events().into_iter().filter(|event| about(event)).collect()
}

/// `posix_spawn` returns to the parent before the kernel says that the child has run its program.
#[test]
fn write_right_after_posix_spawn_is_reported() -> Result<()> {
    const SPAWNS: u64 = 200;
    let agent = start()?;
    let mut pids = Vec::new();
    for number in 0..SPAWNS {
        let wiring = WIRINGS[usize::from(number % 2 == 1)];
        let mut peer = Peer::start(wiring, &mut server("echo-server"))?;
        peer.ask(&initialize(number))?;
        peer.close()?;
        pids.push((peer.pid(), peer.said().to_vec()));
    }
    for (number, (pid, said)) in pids.iter().enumerate() {
        let what = || format!("spawn {number}");
        let connection = agent.connection_of_server(*pid).with_context(what)?;
        await_exit(&agent, connection)?;
        compare(said, &agent.messages(connection)?).with_context(what)?;
        let initialized = agent.events_of(connection).iter().any(|event| is(event, "mcp_server_initialized"));
        ensure!(initialized, "{}: {:?}", what(), agent.events_of(connection));
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn ten_identical_servers_are_kept_apart() -> Result<()> {
    let agent = start()?;
    let mut peers: Vec<Peer> = WIRINGS
        .iter()
        .cycle()
        .take(10)
        .map(|wiring| Peer::start(*wiring, &mut server("benign-server")))
        .collect::<Result<_>>()?;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for message in [initialize(0), list, echo(2, "the same")] {
        // At once: all are asked before any answer is read.
        std::thread::scope(|scope| {
            let asked: Vec<_> = peers.iter_mut().map(|peer| scope.spawn(|| peer.ask(&message))).collect();
            asked.into_iter().try_for_each(|asked| asked.join().map_or(Ok(()), |asked| asked.map(drop)))
        })?;
    }
    for (number, peer) in peers.iter_mut().enumerate() {
        peer.ask(&echo(3, &format!("only {number}")))?;
        peer.close()?;
    }
    let mut connections = HashSet::new();
    let mut sessions = HashSet::new();
    for peer in &peers {
        let connection = agent.connection_of_server(peer.pid())?;
        await_exit(&agent, connection)?;
        compare(peer.said(), &agent.messages(connection)?)?;
        connections.insert(connection);
        for event in agent.events_of(connection) {
            sessions.insert(text(&event, "session_id").to_owned());
            ensure!(event.get("via").is_none(), "no relay is among them: {event}");
        }
    }
    ensure!(connections.len() == peers.len(), "merged: {connections:?}");
    ensure!(sessions.len() == 1, "servers of one client are of one session: {sessions:?}");
    agent.stop()?;
    Ok(())
}

#[test]
fn answer_after_a_minute_is_matched_to_its_request() -> Result<()> {
    LazyLock::force(&LATE);
    let late = LATE.lock().unwrap_or_else(PoisonError::into_inner).take().context("taken before")?;
    let Late { agent, mut sender, directory } = late?;
    sender.wait()?;
    let report = fs::read(directory.path().join("report"))?;
    let report: Report = serde_json::from_slice(&report).context("the sender failed")?;
    let connection = agent.connection_of_client(report.pid)?;
    await_exit(&agent, connection)?;
    let events = agent.events_of(connection);
    // Others have attached and detached their programs while the client waited: all of the one answer is missing, or nothing.
    if let Some(bytes) = unseen_with_trampolines(&agent, connection)? {
        ensure!(bytes == report.received.bytes, "{bytes} of {}: {events:?}", report.received.bytes);
        ensure!(!events.iter().any(|event| is(event, "mcp_tool_result")), "{events:?}");
        return agent.stop().map(drop);
    }
    let result = events.iter().find(|event| is(event, "mcp_tool_result")).context("no result")?;
    ensure!(result["jsonrpc_id"] == 7 && result["tool_name"] == "echo", "{result}");
    let latency = result["latency_ns"].as_u64().unwrap_or(0) / 1_000_000;
    ensure!((LATE_MS..LATE_MS + 2_000).contains(&latency), "{latency} ms");
    agent.stop()?;
    Ok(())
}

/// Name of the program, its options, how it is found, its id.
#[test]
fn servers_are_found_by_name_and_by_behavior() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let agent = start()?;
    let cases: [(&str, &[&str], &str, &str); 5] = [
        ("benign-server", &[], "behaviour", "benign-server"),
        ("nothing-to-see", &[], "behaviour", "nothing-to-see"),
        ("nothing-to-see", &["--rename", "sshd"], "behaviour", "nothing-to-see"),
        ("mcp-server-weather", &[], "name", "mcp-server-weather"),
        ("mcp-server-weather", &["--rename", "kworker/0:1"], "name", "mcp-server-weather"),
    ];
    for (name, options, matched_by, id) in cases {
        let path = directory.path().join(name);
        if !path.exists() {
            symlink(places::program("benign-server"), &path)?;
        }
        for wiring in WIRINGS {
            let mut peer = Peer::start(wiring, Command::new(&path).args(options))?;
            for message in [initialize(0), echo(1, "hallo")] {
                peer.ask(&message)?;
            }
            peer.close()?;
            let what = || format!("{name} {options:?} over {wiring:?}");
            let connection = agent.connection_of_server(peer.pid()).with_context(what)?;
            await_exit(&agent, connection)?;
            compare(peer.said(), &agent.messages(connection)?).with_context(what)?;
            let started = started(&agent, connection)?;
            ensure!(started["matched_by"] == matched_by, "{}: {started}", what());
            ensure!(started["server_id"] == id, "{}: {started}", what());
            ensure!(started["client"]["pid"] == client_process::pid()?, "{}: {started}", what());
        }
    }
    agent.stop()?;
    Ok(())
}

/// A language server's `initialize`: MCP's has a protocol version.
fn language_server() -> Vec<u8> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "processId": 1, "rootUri": "file:///tmp", "capabilities": {"textDocument": {}}
    }})
    .to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Name of the program (all are `cat`), what it is sent.
#[test]
fn non_mcp_traffic_causes_no_event() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let agent = start()?;
    let lines = |line: &str| line.repeat(50).into_bytes();
    let cases = [
        ("mcp-server-text", lines("hello\n")),
        ("mcp-server-json", lines("{\"level\":\"info\"}\n")),
        ("mcp-server-silent", Vec::new()),
        ("language-server", language_server()),
        ("json-lines", lines("{\"level\":\"info\"}\n")),
        ("other-json-rpc", lines("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_blockNumber\"}\n")),
        ("text", lines("hello\n")),
    ];
    let mut pids = Vec::new();
    for (name, input) in cases {
        let path = directory.path().join(name);
        symlink("/bin/cat", &path)?;
        for wiring in WIRINGS {
            let mut peer = Peer::start(wiring, &mut Command::new(&path))?;
            peer.write(&input)?;
            peer.close()?;
            pids.push((name, peer.pid()));
        }
    }
    // When the last is told of, all before it would have been.
    let mut last = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    last.ask(&initialize(0))?;
    last.close()?;
    await_exit(&agent, agent.connection_of_server(last.pid())?)?;
    let known: BTreeSet<u64> = agent
        .events()
        .iter()
        .filter(|event| is(event, "mcp_server_started"))
        .filter_map(|event| event["connection"].as_u64())
        .collect();
    for event in agent.events() {
        let connection = event["connection"].as_u64();
        ensure!(connection.is_none_or(|id| known.contains(&id)), "an event of no server: {event}");
    }
    for (name, pid) in pids {
        let events = about(&agent, pid);
        ensure!(events.is_empty(), "{name} is no server: {events:?}");
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn server_in_a_shell_pipeline_is_found() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let agent = start()?;
    let messages =
        [initialize(0), json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), echo(2, "piped")];
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let said = directory.path().join("said");
    fs::write(&said, &input)?;
    let (said, heard) = (said.display(), directory.path().join("heard"));
    let server = program("benign-server");
    let cases = [
        // What is in a pipe before its reader runs cannot be seen: these wait for it.
        ("cat", format!("{{ sleep 0.2; cat {said}; }} | {server} | cat > {}", heard.display())),
        (
            "a builtin",
            format!("{{ sleep 0.2; echo '{}'; }} | {server} | cat > {}", input.trim(), heard.display()),
        ),
        (
            "a pipeline",
            format!("{{ sleep 0.2; cat {said} | cat; }} | {server} | cat | cat > {}", heard.display()),
        ),
    ];
    for (name, line) in cases {
        let mut shell = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).spawn()?;
        ensure!(shell.wait()?.success(), "{name}: the pipeline failed");
        // The `cat` in front of it is asked the same, and so is a server too.
        let started = agent.wait_for(name, |event| {
            is(event, "mcp_server_started")
                && event["client"]["pid"] == shell.id()
                && event["server_id"] == "benign-server"
        })?;
        let connection = started["connection"].as_u64().context("no connection")?;
        await_exit(&agent, connection)?;
        let mut expected: Vec<_> = messages.iter().map(|message| (Dir::C2s, message.clone())).collect();
        for line in fs::read_to_string(&heard)?.lines() {
            expected.push((Dir::S2c, serde_json::from_str(line)?));
        }
        ensure!(expected.len() == 2 * messages.len(), "{name}: the server answered {expected:?}");
        compare(&expected, &agent.messages(connection)?).context(name)?;
    }
    agent.stop()?;
    Ok(())
}

/// Name, command, the programs of its chain, the server's id.
#[test]
fn exec_chain_is_reported_as_one_server() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let script = |name: &str, body: &str| -> Result<String> {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path.display().to_string())
    };
    let server = program("benign-server");
    let inner = script("inner", &format!("exec {server}"))?;
    // As npx does it: a child for the shell, which runs the program.
    let launcher = script("mcp-server-chain", &format!("sh -c 'exec {inner}'\nexit $?"))?;
    let agent = start()?;
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let cases = [
        ("exec", strings(&["sh", "-c", &format!("exec {server}")]), vec!["sh", &server], "benign-server"),
        ("no exec", strings(&["sh", "-c", &format!("{server}; true")]), vec!["sh", &server], "benign-server"),
        ("env", strings(&["env", "X=1", "sh", "-c", &server]), vec!["env", "sh", &server], "benign-server"),
        ("a launcher", strings(&[&launcher]), vec!["/bin/sh", "sh", "/bin/sh", &server], "mcp-server-chain"),
    ];
    for (name, command, chain, id) in cases {
        for socketpair in [false, true] {
            let options: &[&str] = if socketpair { &["--socketpair"] } else { &[] };
            let options = [options, &["--call", "echo", "{\"text\":\"chained\"}"]].concat();
            let mut driven = Driven::start(&options, &command)?;
            let connection = driven.check(&agent).context(name)?;
            let starts: Vec<Value> = about(&agent, driven.pid())
                .into_iter()
                .filter(|event| is(event, "mcp_server_started"))
                .collect();
            ensure!(starts.len() == 1, "{name}: {starts:?}");
            ensure!(starts[0]["chain"] == json!(chain), "{name}: {chain:?} in {}", starts[0]);
            ensure!(starts[0]["server_id"] == id, "{name}: {}", starts[0]);
            let exits =
                agent.events_of(connection).iter().filter(|event| is(event, "mcp_server_exited")).count();
            ensure!(exits == 1, "{name}: {exits} ends");
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn server_started_before_the_agent_is_adopted() -> Result<()> {
    LazyLock::force(&LATE);
    let directory = tempfile::tempdir()?;
    let mut paused = Vec::new();
    for name in ["nothing-to-see", "mcp-server-early"] {
        for how in [&[][..], &["--socketpair"], &["--double-fork"], &["--double-fork", "--socketpair"]] {
            // A path of its own: nobody is the parent of what was forked twice, so that only this tells which it is.
            let path = directory.path().join(format!("{name}-{}", paused.len()));
            symlink(places::program("benign-server"), &path)?;
            let path = path.display().to_string();
            let go = directory.path().join("go").display().to_string();
            let call = ["--pause-until", &go, "--call", "echo", "{\"text\":\"after\"}"];
            let driven = Driven::start(&[&call, how].concat(), std::slice::from_ref(&path))?;
            // `initialize`, its answer, `initialized`, `tools/list` and its answer.
            driven.await_messages(5)?;
            paused.push((path, how, driven));
        }
    }
    let agent = Agent::start(&[])?;
    fs::write(directory.path().join("go"), "")?;
    for (path, how, driven) in &mut paused {
        let what = || format!("{path} {how:?}");
        let said = driven.finish()?;
        let started = agent.wait_for(&what(), |event| {
            is(event, "mcp_server_started") && event["argv"][0] == path.as_str()
        })?;
        let connection = started["connection"].as_u64().with_context(what)?;
        await_exit(&agent, connection)?;
        let since = said.get(5..).unwrap_or_default();
        match unseen_with_trampolines(&agent, connection)? {
            // The driver waited in a read for this answer when the agent attached its programs.
            Some(bytes) => {
                let (asked, answered): (Vec<_>, Vec<_>) =
                    since.iter().cloned().partition(|(dir, _)| *dir == Dir::C2s);
                compare(&asked, &agent.messages(connection)?).with_context(what)?;
                let said: usize = answered.iter().map(|(_, answer)| answer.to_string().len() + 1).sum();
                ensure!(bytes == said as u64, "{}: {bytes} bytes of {said} are said to be missing", what());
            }
            None => compare(since, &agent.messages(connection)?).with_context(what)?,
        }
        ensure!(started["adopted"] == true, "{}: {started}", what());
        ensure!(!text(&started, "server_id").is_empty(), "{}: {started}", what());
        if !how.contains(&"--double-fork") {
            ensure!(started["client"]["pid"] == driven.pid(), "{}: {started}", what());
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn server_of_double_forking_client_is_found() -> Result<()> {
    let agent = start()?;
    for wiring in [&[][..], &["--socketpair"]] {
        let options = [wiring, &["--double-fork", "--call", "echo", "{\"text\":\"orphan\"}"]].concat();
        for _ in 0..10 {
            let mut driven = Driven::start(&options, &[program("benign-server")])?;
            driven.check(&agent).with_context(|| format!("{wiring:?}"))?;
        }
    }
    agent.stop()?;
    Ok(())
}

/// Name, the server's options, whether it is killed, exit code, signal, requests unanswered.
#[test]
fn server_exit_is_reported_with_its_cause() -> Result<()> {
    let agent = start()?;
    type Case<'a> = (&'a str, &'a [&'a str], bool, Value, Value, u64);
    let cases: [Case<'_>; 4] = [
        ("code 0", &[], false, json!(0), Value::Null, 0),
        ("code 3", &["--exit-code", "3"], false, json!(3), Value::Null, 0),
        ("SIGKILL", &[], true, Value::Null, json!(9), 0),
        ("SIGKILL, unanswered", &["--delay-ms", "60000"], true, Value::Null, json!(9), 3),
    ];
    for (name, options, killed, code, signal, unanswered) in cases {
        for wiring in WIRINGS {
            let mut peer = Peer::start(wiring, server("benign-server").args(options))?;
            if unanswered == 0 {
                peer.ask(&initialize(0))?;
            } else {
                peer.say(&initialize(0))?;
                peer.say(&echo(1, "one"))?;
                peer.say(&echo(2, "two"))?;
            }
            let connection = agent.connection_of_server(peer.pid()).context(name)?;
            if killed {
                peer.kill()?;
            } else {
                peer.close()?;
            }
            let exited = await_exit(&agent, connection)?;
            ensure!(exited["exit_code"] == code && exited["signal"] == signal, "{name}: {exited}");
            ensure!(exited["unanswered"] == unanswered, "{name}: {exited}");
            ensure!(exited["pid"] == peer.pid(), "{name}: {exited}");
        }
    }
    agent.stop()?;
    Ok(())
}

#[test]
fn servers_of_one_client_share_a_session() -> Result<()> {
    let agent = start()?;
    let go = tempfile::tempdir()?;
    let go = go.path().join("go");
    let pause = go.display().to_string();
    // At the same time, so that nothing else tells the sessions apart.
    let mut other = Driven::start(&["--pause-until", &pause], &[program("benign-server")])?;
    let mut peers = [
        Peer::start(Wiring::Pipes, &mut server("benign-server"))?,
        Peer::start(Wiring::Sockets, &mut server("echo-server"))?,
    ];
    let mut sessions = Vec::new();
    for peer in &mut peers {
        peer.ask(&initialize(0))?;
        let connection = agent.connection_of_server(peer.pid())?;
        sessions.push(text(&started(&agent, connection)?, "session_id").to_owned());
    }
    let connection = agent.connection_of_client(other.pid())?;
    let foreign = text(&started(&agent, connection)?, "session_id").to_owned();
    fs::write(&go, "")?;
    other.check(&agent)?;
    ensure!(
        !foreign.is_empty() && sessions[0] == sessions[1] && sessions[0] != foreign,
        "{sessions:?} {foreign}"
    );
    for event in agent.events_of(connection) {
        ensure!(event["session_id"] == foreign, "{event}");
    }
    agent.stop()?;
    Ok(())
}
