//! `mcpwarden call`: calls that an operator makes.

mod addresses;
mod guards;

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{CommandOutput, configured, directory, ends, mcpwarden};
use mcpwarden_tests::http_server::{HttpServer, Style};
use mcpwarden_tests::places;
use mcpwarden_tests::remote::Remote;
use serde_json::{Value, json};

/// A configuration, and a place without an agent and its database.
struct Bench {
    directory: tempfile::TempDir,
    config: String,
}

impl Bench {
    fn new(yaml: &str) -> Result<Self> {
        let (directory, config) = configured(yaml)?;
        Ok(Self { directory, config })
    }

    fn at(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The command for a tool, where nobody but the configuration says anything.
    fn command(&self, tool: &str, args: &[&str]) -> Command {
        let (database, socket) = (self.at("mcpwarden.db"), self.at("control.sock"));
        let fixed =
            ["call", tool, "--config", &self.config, "--quiet", "--path", &database, "--socket", &socket];
        own(&[&fixed, args].concat())
    }

    fn call(&self, tool: &str, args: &[&str]) -> Result<CommandOutput> {
        ends(&mut self.command(tool, &[&["--as-root"], args].concat()))
    }
}

fn own(args: &[&str]) -> Command {
    let mut command = mcpwarden(args);
    let proxies = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    for name in ["SUDO_UID", "SUDO_GID"].iter().chain(&proxies) {
        command.env_remove(name);
    }
    command
}

/// A declared server of `servers/calling.py`, which answers in this way.
fn calling(variant: &str) -> String {
    calling_as(variant, variant, "")
}

fn calling_as(id: &str, variant: &str, more: &str) -> String {
    let script = places::sources().join("servers/calling.py");
    format!("{{ id: {id}, command: python3, args: [\"{}\", {variant}]{more} }}", script.display())
}

fn python(script: &str) -> String {
    let (program, script) =
        (places::real_servers().join("venv/bin/python"), places::sources().join("servers").join(script));
    format!("{{ id: py, command: \"{}\", args: [\"{}\"] }}", program.display(), script.display())
}

fn servers(entries: &[String]) -> String {
    format!("servers: [{}]\n", entries.join(", "))
}

fn parsed(said: &CommandOutput) -> Result<Value> {
    serde_json::from_str(&said.stdout).with_context(|| format!("no JSON: {}{}", said.stdout, said.stderr))
}

/// Servers over each transport, of revisions with a handshake and without one.
#[test]
fn tool_of_each_transport_and_era_is_called() -> Result<()> {
    let (http, sse) = (Remote::Python.start()?, Remote::PythonSse.start()?);
    let entries = [
        python("server.py"),
        format!("{{ id: http, type: http, url: \"{}\" }}", http.url()),
        format!("{{ id: sse, type: sse, url: \"{}\" }}", sse.url()),
        format!("{{ id: benign, command: \"{}\" }}", places::program("benign-server").display()),
    ];
    let bench = Bench::new(&servers(&entries))?;
    for (server, tool, arguments, expected) in [
        ("py", "add", r#"{"a":1,"b":2}"#, "3\n"),
        ("http", "add", r#"{"a":1,"b":2}"#, "3\n"),
        ("sse", "add", r#"{"a":1,"b":2}"#, "3\n"),
        ("benign", "add", r#"{"a":1,"b":2}"#, "3\n"),
        ("benign", "echo", r#"{"text":"one\ntwo"}"#, "one\ntwo\n"),
    ] {
        let said = bench.call(&format!("mcp:{server}:{tool}"), &["--arguments", arguments])?;
        let found = (said.code, said.stdout.as_str(), said.stderr.as_str());
        ensure!(found == (Some(0), expected, ""), "{server}: {said:?}");
    }
    // By a file; and all of it for programs.
    let file = bench.at("arguments.json");
    fs::write(&file, r#"{"a": 20, "b": 22}"#)?;
    let said = bench.call("mcp:http:add", &["--arguments", &format!("@{file}"), "--json"])?;
    said.expect("json", 0, "")?;
    let report = parsed(&said)?;
    let found =
        json!([report["outcome"], report["tool_id"], report["tool"]["pin"], report["decision"]["action"]]);
    ensure!(found == json!(["result", "mcp:http:add", "new", "allow"]), "{report}");
    ensure!(report["result"]["structuredContent"] == json!({ "result": 42 }), "{report}");
    ensure!(report["trace_id"].as_str().is_some_and(|id| id.len() == 32), "{report}");
    Ok(())
}

/// What a call is answered with, the exit status, and what is printed.
#[test]
fn every_answer_has_its_exit_status_and_words() -> Result<()> {
    let cases: [(&str, i32, &str, &str); 11] = [
        ("works", 0, "done\n", ""),
        ("tasks", 0, "done\n", ""),
        ("fails", 1, "no such customer\n", "mcp:fails:t reports an error"),
        ("refuses", 1, "", "with the error -32602: no \\u{1b}[31mway; data: {\"why\":1}"),
        (
            "asks",
            1,
            "",
            "requires input before it answers, which mcpwarden cannot give: elicitation/create \"Who?\"",
        ),
        ("escapes", 0, "\\u{1b}[2J\\u{1b}]0;owned\\u{7}gone\\u{202e}\n", ""),
        ("injects", 0, "<IMPORTANT>", "warning: found in the result: high"),
        ("silent", 4, "", "did not answer the call within 3s"),
        ("works-forever", 4, "", "did not answer the call within 3s"),
        ("dies", 2, "", "closed the connection before it answered; it ended with status 3"),
        ("floods", 2, "", "it sent more than 32 MiB"),
    ];
    let entries: Vec<String> = cases.iter().map(|(variant, ..)| calling(variant)).collect();
    let bench = Bench::new(&servers(&entries))?;
    for (variant, code, stdout, stderr) in cases {
        // A slow host gets what it needs, where not the time is the point.
        let timeout = if code == 4 { "3s" } else { "60s" };
        let said = bench.call(&format!("mcp:{variant}:t"), &["--timeout", timeout])?;
        said.expect(variant, code, stdout)?;
        ensure!(stdout.is_empty() == said.stdout.is_empty(), "{variant}: {said:?}");
        ensure!(
            said.stderr.contains(stderr) && stderr.is_empty() == said.stderr.is_empty(),
            "{variant}: {said:?}"
        );
        ensure!(!format!("{}{}", said.stdout, said.stderr).contains('\u{1b}'), "{variant}: {said:?}");
    }
    let late = parsed(&bench.call("mcp:silent:t", &["--timeout", "3s", "--json"])?)?;
    ensure!(late["outcome"] == "timed_out" && late.get("result").is_none(), "{late}");
    Ok(())
}

#[test]
fn call_that_cannot_be_made_is_refused_with_a_hint() -> Result<()> {
    let entries = [
        calling("works"),
        "{ id: gone, command: /nowhere/x }".to_owned(),
        "{ id: mute, command: sleep, args: ['1000'] }".to_owned(),
    ];
    let bench = Bench::new(&servers(&entries))?;
    for (tool, args, code, part) in [
        ("mcp:work:t", &[][..], 2, "declares no server `work`; did you mean `works`?"),
        ("mcp:works:tt", &[], 2, "there is no tool `tt`"),
        ("works", &[], 2, "expected mcp:SERVER:TOOL"),
        ("mcp:works:t", &["--arguments", "[1]"], 2, "is not a JSON object"),
        ("mcp:works:t", &["--arguments", "@/nowhere"], 2, "cannot open /nowhere"),
        ("mcp:works:t", &["--profile", "x"], 2, "no profile \"x\""),
        ("mcp:gone:t", &[], 2, "cannot start `/nowhere/x`"),
        ("mcp:mute:t", &["--timeout", "2s"], 4, "did not answer within 2s"),
    ] {
        let said = bench.call(tool, args)?;
        said.expect(tool, code, "")?;
        let lines = said.stderr.lines().count();
        ensure!(
            said.stdout.is_empty() && lines == 1 && said.stderr.contains(part),
            "{tool} {args:?}: {said:?}"
        );
    }
    let as_root = ends(&mut bench.command("mcp:works:t", &[]))?;
    ensure!(as_root.code == Some(2) && as_root.stderr.contains("or pass --as-root"), "{as_root:?}");
    Ok(())
}

/// What the policy denies is not sent, and a server that may not be used is not even started.
#[test]
fn denied_call_is_not_sent() -> Result<()> {
    let heard = tempfile::tempdir()?;
    let heard = heard.path().join("heard");
    let env = format!(", env: {{ HEARD: \"{}\" }}", heard.display());
    let entries = [
        calling_as("works", "works", &env),
        calling_as("off", "works", &format!("{env}, enabled: false")),
        calling_as("bad", "works", &env),
        calling_as("narrow", "works", &format!("{env}, allow_tools: [other]")),
        calling_as("impostor", "works", &format!("{env}, executable: /usr/bin/true")),
    ];
    let policy = "policy: { denied_servers: [bad], denied_tools: ['works:t'] }\n";
    let bench = Bench::new(&(servers(&entries) + policy))?;
    for (server, starts, part) in [
        ("works", true, "(tool_denied)"),
        ("off", false, "(server_disabled): server 'off' is declared with enabled: false"),
        ("bad", false, "(server_denied)"),
        ("narrow", true, "tool_access"),
        ("impostor", true, "is not the `executable` of its declaration"),
    ] {
        let _ = fs::remove_file(&heard);
        let said = bench.call(&format!("mcp:{server}:t"), &[])?;
        said.expect(server, 3, "")?;
        ensure!(said.stdout.is_empty() && said.stderr.contains(part), "{server}: {said:?}");
        ensure!(heard.exists() == starts, "{server}: {said:?}");
        let heard = fs::read_to_string(&heard).unwrap_or_default();
        ensure!(!heard.contains("tools/call"), "{server}: {heard}");
        let report = parsed(&bench.call(&format!("mcp:{server}:t"), &["--json"])?)?;
        ensure!(report["outcome"] == "denied" && report["decision"]["action"] == "block", "{report}");
    }
    Ok(())
}

#[test]
fn dry_run_describes_the_tool_and_calls_nothing() -> Result<()> {
    let heard = tempfile::tempdir()?;
    let heard = heard.path().join("heard");
    let entries = [calling_as("works", "works", &format!(", env: {{ HEARD: \"{}\" }}", heard.display()))];
    let sessions = "sessions: [{ name: plan, match: { uid: 4242 }, denied_tools: ['works:t'] }]\n";
    let bench = Bench::new(&(servers(&entries) + sessions))?;
    let allowed = bench.call("mcp:works:t", &["--dry-run"])?;
    allowed.expect("dry run", 0, "decision     allowed")?;
    for part in ["tool         mcp:works:t", "description  Adds two numbers.", " new\n", "category     "] {
        ensure!(allowed.stdout.contains(part), "{allowed:?}");
    }
    let denied = bench.call("mcp:works:t", &["--dry-run", "--profile", "plan"])?;
    denied.expect("dry run of a profile", 3, "decision     denied by ")?;
    let report = parsed(&bench.call("mcp:works:t", &["--dry-run", "--json"])?)?;
    ensure!(report["outcome"] == "allowed" && report.get("result").is_none(), "{report}");
    ensure!(!fs::read_to_string(&heard)?.contains("tools/call"), "it was called");
    Ok(())
}

/// The agent sees the call as any client's, with the id that is printed; and what its operators decided holds for the next.
#[test]
fn agent_reports_the_call_and_its_decisions_hold() -> Result<()> {
    let place = directory()?;
    let program = place.path().join("adding-server");
    fs::copy(places::program("benign-server"), &program)?;
    let entry = format!("{{ id: adding, command: \"{}\" }}", program.display());
    let (_directory, config) = configured(&servers(&[entry]))?;
    let agent = Agent::start(&["--config", &config])?;
    let at = |path: &str| agent.directory().join(path).display().to_string();
    let (database, socket) = (at("state/mcpwarden.db"), at("run/control.sock"));
    let fixed = ["call", "mcp:adding:add", "--arguments", r#"{"a":1,"b":2}"#, "--config", &config];
    let all = [&fixed[..], &["--quiet", "--json", "--path", &database, "--socket", &socket]].concat();
    // As the user who called sudo, so that the server does not run as root.
    let call = || ends(own(&all).env("SUDO_UID", "65534").env("SUDO_GID", "65534"));

    let first = call()?;
    first.expect("the first call", 0, "")?;
    let report = parsed(&first)?;
    ensure!(report["result"]["content"][0]["text"] == "3", "{report}");
    let trace = report["trace_id"].as_str().context("no trace")?;
    let of_call = |kind: &'static str| {
        move |event: &Value| {
            is(event, kind) && event["traceparent"].as_str().is_some_and(|text| text.contains(trace))
        }
    };
    let called = agent.wait_for("the call", of_call("mcp_tool_called"))?;
    ensure!(called["tool_id"] == "mcp:adding:add" && called["server_id"] == "adding", "{called}");
    agent.wait_for("its result", of_call("mcp_tool_result"))?;
    let started = agent
        .wait_for("the server", |event| is(event, "mcp_server_started") && event["server_id"] == "adding")?;
    ensure!(started["uid"] == 65_534, "{started}");

    let second = parsed(&call()?)?;
    ensure!(second["tool"]["pin"] == "unchanged", "{second}");
    agent.tell(&["approvals", "deny", "adding:add", "--by", "ann"])?.expect(
        "deny",
        0,
        "denied adding:add",
    )?;
    let denied = call()?;
    denied.expect("a denied tool", 3, "approval_denied")?;
    agent.tell(&["approve", "adding:add"])?.expect("approve", 0, "approved adding:add")?;
    call()?.expect("an approved tool", 0, "")?;
    agent.stop()?;
    Ok(())
}

/// A block of a running agent holds here, too.
#[test]
fn blocked_server_is_not_called() -> Result<()> {
    let server = HttpServer::start(Style::Json)?;
    let entry = format!("{{ id: remote, type: http, url: \"{}\" }}", server.url());
    let (_directory, config) = configured(&(servers(&[entry]) + "discovery: { list_declared: false }\n"))?;
    let agent = Agent::start(&["--config", &config])?;
    agent.tell(&["block", "remote", "--reason", "ticket 7"])?.expect("block", 0, "blocked remote")?;
    let socket = agent.directory().join("run/control.sock").display().to_string();
    let database = agent.directory().join("state/mcpwarden.db").display().to_string();
    let args = ["call", "mcp:remote:a", "--config", &config, "--socket", &socket, "--path", &database];
    let said = ends(&mut own(&args))?;
    said.expect("a blocked server", 3, "")?;
    ensure!(
        said.stderr.contains("(server_blocked): server 'remote' is blocked by hand: ticket 7"),
        "{said:?}"
    );
    ensure!(server.requests() == 0, "it was reached");
    agent.stop()?;
    Ok(())
}
