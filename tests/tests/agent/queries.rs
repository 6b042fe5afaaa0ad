//! Commands on what is stored: what they say of one run of the agent.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::client_process;
use mcpwarden_tests::command::{CommandOutput, ask, mcpwarden};
use mcpwarden_tests::http_server::{HttpServer, Style};
use mcpwarden_tests::listener::Listener;
use mcpwarden_tests::peer::{Peer, call, echo, initialize, server, wait_until};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};

/// Every command that reads the database of events, with what it cannot do without.
const COMMANDS: [&[&str]; 10] = [
    &["servers"],
    &["sessions"],
    &["tools"],
    &["registry", "list"],
    &["registry", "show", "a:b"],
    &["calls"],
    &["detections"],
    &["connections"],
    &["report"],
    &["learn"],
];

/// Whether one lists what it finds, in columns or as lines of JSON.
fn is_list(args: &[&str]) -> bool {
    args.len() < 3 && args != ["report"] && args != ["learn"]
}

/// Asks a command of the database at a path.
fn of(path: &Path, args: &[&str]) -> Result<CommandOutput> {
    ask(&[args, &["--path", &path.display().to_string()]].concat())
}

/// A directory with a database in it, and a configuration that says so.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Result<Self> {
        Ok(Self { directory: tempfile::tempdir()? })
    }

    fn database(&self) -> std::path::PathBuf {
        self.directory.path().join("mcpwarden.db")
    }

    fn pins(&self) -> std::path::PathBuf {
        self.directory.path().join("registry.db")
    }

    fn agent(&self, more: &str) -> Result<Agent> {
        let config = self.directory.path().join("x.yaml");
        fs::write(&config, format!("store: {{ path: {} }}\n{more}", self.database().display()))?;
        Agent::start(&["--config", &config.display().to_string()])
    }

    /// Lines of JSON.
    fn lines(&self, args: &[&str]) -> Result<Vec<Value>> {
        let said = of(&self.database(), &[args, &["--json"]].concat())?;
        ensure!(said.code == Some(0), "{args:?}: {:?} {}", said.code, said.stderr);
        said.stdout.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }

    /// Some members of each line.
    fn members(&self, args: &[&str], names: &[&str]) -> Result<Value> {
        let line = |line: &Value| Value::from_iter(names.iter().map(|name| line[*name].clone()));
        Ok(self.lines(args)?.iter().map(line).collect())
    }
}

/// A server, and its tools.
fn listed(name: &str) -> Result<(Peer, Value)> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server(name))?;
    peer.ask(&initialize(0))?;
    let answer = peer.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
    Ok((peer, answer["result"]["tools"].clone()))
}

/// What every command says of what four servers did, while the agent runs and after it.
#[test]
fn every_query_command_reports_four_servers() -> Result<()> {
    let place = Fixture::new()?;
    let remote = HttpServer::start(Style::Json)?;
    let tool = |text: &str| json!({"name": "a", "description": text, "inputSchema": {"type": "object"}});
    remote.offers(tool("Adds two numbers."));
    let agent = place.agent(&format!(
        "discovery: {{ list_every: 1s }}\nservers: [{{ id: remote, type: http, url: \"{}\" }}]\n\
         policy: {{ denied_tools: [{{ tool: add }}] }}\n",
        remote.url()
    ))?;
    agent.wait_for("its tool", |event| is(event, "mcp_tool_seen") && event["server_id"] == "remote")?;
    remote.offers(tool("Adds three numbers."));
    let changed = agent.wait_for("the change", |event| is(event, "mcp_tool_changed"))?;

    let (mut benign, tools) = listed("benign-server")?;
    benign.ask(&echo(2, "x"))?;
    benign.ask(&call(3, "echo", &json!({})))?;
    benign.ask(&call(4, "add", &json!({"a": 1, "b": 2})))?;
    let (mut poisoned, _) = listed("poisoned-server")?;
    let (mut dialing, _) = listed("dialing-server")?;
    let listener = Listener::start()?;
    let address = listener.at(Ipv4Addr::LOCALHOST).to_string();
    dialing.ask(&call(5, "dial", &json!({"way": "Tcp", "address": address, "who": "server"})))?;
    let started = agent
        .wait_for("the server", |event| is(event, "mcp_server_started") && event["pid"] == benign.pid())?;
    agent.wait_for("the connection", |event| {
        is(event, "mcp_server_egress") && event["remote_addr"] == address.as_str()
    })?;
    for peer in [&mut benign, &mut poisoned, &mut dialing] {
        peer.close()?;
    }
    agent.settle();
    let seen =
        agent.wait_for("a tool", |event| is(event, "mcp_tool_seen") && event["tool_name"] == "echo")?;
    let hash = &seen["tool_hash"];
    let session = started["session_id"].as_str().context("a session")?.to_owned();
    let found: Vec<Value> = agent.events().into_iter().filter(|event| is(event, "mcp_detection")).collect();
    wait_until("all of it in the database", || {
        let exits = || place.lines(&["events", "--session", &session, "--type", "mcp_server_exited"]);
        exits().is_ok_and(|exits| exits.len() == 3)
    })?;

    let ask_all = || -> Result<()> {
        let of_session = ["--session", &session];
        let asked = |args: &[&str], names: &[&str]| place.members(args, names);
        let in_session = |args: &[&str], names: &[&str]| asked(&[args, &of_session].concat(), names);
        let call = ["server_id", "tool_name", "jsonrpc_id", "action", "enforced", "guard", "status"];
        let calls = json!([
            ["benign-server", "echo", 2, "allow", false, null, "ok"],
            ["benign-server", "echo", 3, "allow", false, null, "error"],
            ["benign-server", "add", 4, "block", false, "tool_access", "ok"],
            ["dialing-server", "dial", 5, "allow", false, null, "ok"],
        ]);
        let server = ["server_id", "server_type", "sessions", "tools", "calls", "errors", "health"];
        let session_members = ["servers", "calls", "blocked", "detections"];
        let worst = |server: &str| found.iter().filter(|found| found["server_id"] == server).count();
        let poison = worst("poisoned-server");
        ensure!(poison > 0, "nothing was found");
        for (args, found, expected) in [
            ("calls", in_session(&["calls"], &call)?, calls.clone()),
            ("blocked calls", in_session(&["calls", "--action", "block"], &call[2..3])?, json!([[4]])),
            (
                "calls of a tool",
                in_session(&["calls", "--tool", "echo", "--server", "benign-server"], &call[2..3])?,
                json!([[2], [3]]),
            ),
            ("the last call", in_session(&["calls", "--limit", "1"], &call[2..3])?, json!([[5]])),
            (
                "servers",
                in_session(&["servers"], &server)?,
                json!([
                    ["benign-server", "stdio", 1, 2, 3, 1, "healthy"],
                    ["dialing-server", "stdio", 1, 1, 1, 0, "healthy"],
                    ["poisoned-server", "stdio", 1, 3, 0, 0, "healthy"],
                ]),
            ),
            (
                "sessions",
                in_session(&["sessions"], &session_members)?,
                json!([[
                    3,
                    4,
                    1,
                    worst("poisoned-server") + worst("benign-server") + worst("dialing-server")
                ]]),
            ),
            (
                "detections",
                in_session(&["detections", "--server", "poisoned-server"], &["server_id"])?,
                Value::from_iter(vec![json!(["poisoned-server"]); poison]),
            ),
            (
                "connections",
                in_session(&["connections", "--action", "allow"], &["server_id", "remote_addr", "protocol"])?,
                json!([["dialing-server", address, "tcp"]]),
            ),
            (
                "tools",
                asked(&["tools", "--server", "benign-server"], &["tool_name", "state", "uid"])?,
                json!([["add", "pinned", 0], ["echo", "pinned", 0]]),
            ),
            (
                "changed tools",
                asked(&["tools", "--changed"], &["server_id", "tool_name", "tool_hash", "pinned_hash"])?,
                json!([["remote", "a", changed["new_hash"], changed["previous_hash"]]]),
            ),
            (
                "registry show",
                asked(&["registry", "show", "benign-server:echo"], &["kind", "tool_hash", "definition"])?,
                json!([["tool", hash, tools[1]]]),
            ),
        ] {
            ensure!(found == expected, "{args}: {found} and not {expected}");
        }
        let sessions = place.lines(&["sessions", "--session", &session])?;
        ensure!(sessions[0]["client"]["pid"] == client_process::pid()?, "{sessions:?}");
        ensure!(place.lines(&["registry", "list"])? == place.lines(&["tools"])?, "both are the same list");
        reports(&place, &session)?;
        diffs(&place)
    };
    ask_all().context("while the agent runs")?;
    agent.stop()?;
    ask_all().context("after it ended")?;
    for (args, part) in COMMANDS.into_iter().zip([
        "benign-server",
        &*session,
        "benign-server",
        "echo",
        "",
        "echo",
        "poisoned-server",
        &*address,
        "Blocked calls",
        "servers:",
    ]) {
        if args.len() < 3 {
            of(&place.database(), args)?.expect(args[0], 0, part)?;
        }
    }
    output_that_cannot_be_written(&place.database())?;
    fit_a_terminal(&place.database())
}

fn diffs(place: &Fixture) -> Result<()> {
    let diff = of(&place.pins(), &["pins", "diff", "remote:a", "--json"])?;
    let change: Value = serde_json::from_str(&diff.stdout).with_context(|| diff.stderr.clone())?;
    let field =
        json!([{"field": "/description", "previous": "Adds two numbers.", "new": "Adds three numbers."}]);
    ensure!(diff.code == Some(1) && change["changes"] == field, "{:?} {change}", diff.code);
    of(&place.pins(), &["pins", "diff", "remote:a"])?.expect("a diff", 1, "+ Adds three numbers.")?;
    of(&place.pins(), &["pins", "diff", "benign-server:echo"])?.expect("none", 0, "is as it is pinned")?;
    Ok(())
}

fn reports(place: &Fixture, session: &str) -> Result<()> {
    let written = |format: &str| of(&place.database(), &["report", "--session", session, "--format", format]);
    let report: Value = serde_json::from_str(&written("json")?.stdout)?;
    let numbers = ["servers_connected", "tools_seen", "calls", "errors", "calls_blocked", "calls_stopped"];
    let numbers = Value::from_iter(numbers.map(|name| report[name].clone()));
    ensure!(numbers == json!([3, 6, 4, 1, 1, 0]), "{numbers} of {report}");
    for (format, part) in [("text", "Blocked calls"), ("html", "<svg"), ("markdown", "## Servers")] {
        let said = written(format)?;
        said.expect(format, 0, part)?;
        ensure!(said.stdout.replace('\\', "").contains(session), "{format}: {}", said.stdout);
    }
    Ok(())
}

/// A pipe without a reader ends a command as other programs in a pipe; a full disk is said.
fn output_that_cannot_be_written(database: &Path) -> Result<()> {
    let lists = COMMANDS.into_iter().filter(|args| is_list(args));
    for (args, json) in lists.flat_map(|args| [(args, &[][..]), (args, &["--json"])]) {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let full = File::options().write(true).open("/dev/full")?;
        for (stdout, code, part) in
            [(Stdio::from(writer), 141, ""), (Stdio::from(full), 2, "mcpwarden: cannot write: No space left")]
        {
            let output = mcpwarden(args).args(json).arg("--path").arg(database).stdout(stdout).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(code), "{args:?} {json:?}: {:?} {said}", output.status);
            ensure!(said.starts_with(part) && said.lines().count() <= 1, "{args:?} {json:?}: {said}");
        }
    }
    Ok(())
}

/// On a terminal each row is one line of it, and what does not fit is cut off; elsewhere all of it is there.
fn fit_a_terminal(database: &Path) -> Result<()> {
    let lists = COMMANDS.into_iter().filter(|args| is_list(args));
    for (args, columns) in lists.flat_map(|args| [20, 41, 59, 60, 80].map(|columns| (args, columns))) {
        let whole = of(database, args)?.stdout;
        let (mut master, slave) = terminal(columns)?;
        let mut command = mcpwarden(args);
        command.arg("--path").arg(database).stdout(Stdio::from(slave)).env("NO_COLOR", "1");
        let mut child = command.spawn()?;
        drop(command);
        let mut bytes = Vec::new();
        // EIO is how a terminal ends.
        let _ = master.read_to_end(&mut bytes);
        ensure!(child.wait()?.success(), "{args:?} ended badly");
        let text = String::from_utf8(bytes)?;
        ensure!(text.lines().count() == whole.lines().count(), "{args:?}: {text}\n{whole}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        ensure!(widest <= Some(columns.into()), "{args:?}: {widest:?} of {columns} columns: {text}");
        ensure!(!whole.contains('…'), "{args:?}: {whole}");
        let wide = whole.lines().any(|line| line.chars().count() > columns.into());
        ensure!(text.contains('…') == wide, "{args:?}: {text}");
    }
    Ok(())
}

/// A pseudoterminal so wide: our end, and that of a program.
fn terminal(columns: u16) -> Result<(File, OwnedFd)> {
    use std::ptr::{null, null_mut};
    let size = libc::winsize { ws_row: 25, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: both descriptors are written to, the size is read; the name and the settings may be left out.
    let outcome = unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null(), &size) };
    ensure!(outcome == 0, "no pseudoterminal: {}", std::io::Error::last_os_error());
    // SAFETY: both are open, and nobody else has them.
    Ok(unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) })
}
