//! The store of a running agent: its chain, its pins, and what becomes of both where the disk, the power or somebody fails.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::{CommandOutput, ask, mcpwarden};
use mcpwarden_tests::peer::{Peer, echo, initialize, server};
use mcpwarden_tests::places::{self, two_groups};
use mcpwarden_tests::wiring::Wiring;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Asks a command of the database in a directory.
fn of(database: &Path, args: &[&str]) -> Result<CommandOutput> {
    ask(&[args, &["--path", &database.display().to_string()]].concat())
}

/// Asks for JSON lines.
fn lines(database: &Path, args: &[&str]) -> Result<Vec<Value>> {
    let said = of(database, args)?;
    ensure!(said.code == Some(0), "{args:?}: {:?} {}", said.code, said.stderr);
    said.stdout.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// A directory that outlives its agent, and what an agent is told of it.
struct Fixture {
    directory: tempfile::TempDir,
    config: String,
}

impl Fixture {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::DirBuilder::new().mode(0o750).create(directory.path().join("state"))?;
        let place = Self { config: directory.path().join("x.yaml").display().to_string(), directory };
        place.configure("")?;
        Ok(place)
    }

    fn configure(&self, more: &str) -> Result<()> {
        let yaml = format!("store: {{ path: {}{more} }}\n", self.database().display());
        Ok(fs::write(&self.config, yaml)?)
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn database(&self) -> PathBuf {
        self.state().join("mcpwarden.db")
    }

    fn agent(&self) -> Result<Agent> {
        Agent::start(&["--config", &self.config])
    }
}

/// Has a server list its tools and answer some calls.
fn talk(agent: &Agent, calls: u64) -> Result<()> {
    talk_of(agent, calls, "x")
}

/// The same, about a text.
fn talk_of(agent: &Agent, calls: u64, text: &str) -> Result<()> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server("benign-server"))?;
    peer.ask(&initialize(0))?;
    peer.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
    for call in 0..calls {
        peer.ask(&echo(2 + call, text))?;
    }
    peer.close()?;
    agent.connection_of_server(peer.pid()).map(drop)
}

fn seq(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap_or_default()
}

/// What `audit verify` says, and its exit status.
fn verify(database: &Path) -> Result<(Option<i32>, Value)> {
    let said = of(database, &["audit", "verify", "--json"])?;
    Ok((said.code, serde_json::from_str(&said.stdout).with_context(|| said.stderr.clone())?))
}

fn is_intact(database: &Path) -> Result<Value> {
    let (code, verdict) = verify(database)?;
    ensure!(code == Some(0) && verdict["intact"] == true, "{code:?} {verdict}");
    Ok(verdict)
}

/// What is printed is what is stored, and each run goes on where the one before ended.
#[test]
fn hash_chain_continues_over_two_runs() -> Result<()> {
    let place = Fixture::new()?;
    let mut printed = Vec::new();
    for _ in 0..2 {
        let agent = place.agent()?;
        talk(&agent, 3)?;
        // Also while it runs.
        let before = printed.last().map_or(0, seq);
        while is_intact(&place.database())?["last"].as_u64() <= Some(before) {}
        agent.settle();
        let before = agent.all_events();
        let last = agent.stop()?;
        printed.extend(before.into_iter().filter(|event| seq(event) < seq(&last)));
        printed.push(last);
    }
    let exported = of(&place.database(), &["audit", "export"])?.stdout;
    let (mut previous, mut number) = (format!("sha256:{}", "0".repeat(64)), 0);
    for line in exported.lines() {
        let event: Value = serde_json::from_str(line)?;
        number += 1;
        ensure!(event["seq"] == number && event["previous"] == previous.as_str(), "{previous} {line}");
        let hash: String = Sha256::digest(line.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        previous = format!("sha256:{hash}");
    }
    let stored: Vec<Value> = exported.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for event in &printed {
        let at = usize::try_from(seq(event))?;
        ensure!(at > 0 && stored.get(at - 1) == Some(event), "{event} is stored as {:?}", stored.get(at - 1));
    }
    ensure!(stored.iter().filter(|event| is(event, "agent_started")).count() == 2, "{exported}");
    let verdict = is_intact(&place.database())?;
    ensure!(verdict["last"] == number && verdict["head"] == previous.as_str(), "{verdict}");
    Ok(())
}

/// Who follows gets what was there and what comes, each once and in order.
#[test]
fn followed_events_arrive_once_and_in_order() -> Result<()> {
    let place = Fixture::new()?;
    let agent = place.agent()?;
    talk(&agent, 2)?;
    agent.settle();
    let database = place.database().display().to_string();
    let args =
        ["events", "--follow", "--json", "--type", "mcp_tool_called", "--server", "benign-server", "--path"];
    let mut child = mcpwarden(&args).arg(&database).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    talk(&agent, 3)?;
    agent.settle();
    let wanted = |event: &&Value| is(event, "mcp_tool_called") && event["server_id"] == "benign-server";
    let mut expected: Vec<Value> = agent.all_events().iter().filter(wanted).cloned().collect();
    expected.sort_by_key(seq);
    // Other tests' servers of this name may be among them, and come later.
    let mut followed = Vec::new();
    for line in lines.take(expected.len()) {
        followed.push(serde_json::from_str::<Value>(&line?)?);
    }
    child.kill()?;
    child.wait()?;
    ensure!(followed == expected && expected.len() >= 5, "{followed:?} {expected:?}");
    agent.stop()?;
    Ok(())
}

/// What is asked of the database finds what a look at all events finds. Other tests' servers are among them.
#[test]
fn event_queries_match_a_full_scan() -> Result<()> {
    let place = Fixture::new()?;
    let agent = place.agent()?;
    talk(&agent, 2)?;
    agent.stop()?;
    let database = place.database();
    let all = lines(&database, &["events", "--json", "--limit", "0"])?;
    let called: Vec<_> = all.iter().filter(|event| is(event, "mcp_tool_called")).collect();
    ensure!(called.len() >= 2, "{all:?}");
    let text = |name: &str| called[0][name].as_str().with_context(|| format!("{name} of {}", called[0]));
    let (session, server) = (text("session_id")?, text("server_id")?);
    let of_both = |event: &&Value| event["session_id"] == session && event["server_id"] == server;
    let cases: [(&[&str], usize); 8] = [
        (&["--type", "mcp_tool_called"], called.len()),
        (&["--type", "mcp_tool_called", "--type", "agent_started"], called.len() + 1),
        (&["--session", session, "--server", server], all.iter().filter(of_both).count()),
        (&["--server", "nobody"], 0),
        (&["--since", "1h"], all.len()),
        (&["--until", "1h"], 0),
        (&["--limit", "1"], 1),
        (&["--severity", "critical", "--type", "agent_started"], 0),
    ];
    for (asked, expected) in cases {
        let found = lines(&database, &[&["events", "--json"], asked].concat())?;
        ensure!(found.len() == expected, "{asked:?}: {} of {expected}", found.len());
    }
    let last = lines(&database, &["events", "--json", "--limit", "1"])?;
    ensure!(is(&last[0], "agent_stopped"), "{last:?}");
    let text = of(&database, &["events", "--type", "mcp_tool_called"])?.stdout;
    ensure!(
        text.lines().count() == called.len() && text.lines().all(|line| line.contains("call ")),
        "{text}"
    );
    Ok(())
}

/// What is changed in the database, and that it is found.
#[test]
fn tampering_with_the_database_is_detected() -> Result<()> {
    let place = Fixture::new()?;
    let agent = place.agent()?;
    talk(&agent, 1)?;
    agent.stop()?;
    let change =
        "UPDATE events SET body = CAST(replace(body, 'echo', 'ohce') AS BLOB) WHERE type = 'mcp_tool_called'";
    let done = Command::new("sqlite3").arg(place.database()).arg(change).status();
    ensure!(done.context("sqlite3 is needed (apt install sqlite3)")?.success(), "sqlite3 failed");
    let called = lines(&place.database(), &["events", "--json", "--type", "mcp_tool_called"])?;
    let said = of(&place.database(), &["audit", "verify"])?;
    let expected = format!("broken at event {}: its text is not what was hashed", seq(&called[0]));
    ensure!(said.code == Some(1) && said.stdout.starts_with(&expected), "{:?} {}", said.code, said.stdout);
    Ok(())
}

/// Members of the group read what they may not write, whether the agent runs or not.
#[test]
fn group_members_can_read_but_not_write() -> Result<()> {
    let [(name, group), _] = two_groups()?;
    let group: u32 = group.parse()?;
    let place = Fixture::new()?;
    fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755))?;
    let yaml = fs::read_to_string(&place.config)?;
    fs::write(&place.config, format!("{yaml}control: {{ group: {name} }}\n"))?;
    // As systemd makes it.
    std::os::unix::fs::chown(place.state(), None, Some(group))?;
    let agent = place.agent()?;
    talk(&agent, 1)?;
    agent.settle();
    let files: Vec<PathBuf> =
        fs::read_dir(place.state())?.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?;
    for file in &files {
        let of = fs::metadata(file)?;
        let mode = of.mode() & 0o777;
        let is_database = ["mcpwarden.db", "registry.db"].iter().any(|name| file.ends_with(name));
        ensure!(!is_database || (mode, of.gid()) == (0o640, group), "{}: {mode:o}", file.display());
        ensure!(mode & !(if of.is_dir() { 0o750 } else { 0o640 }) == 0, "{}: {mode:o}", file.display());
    }
    let command = Path::new("/tmp").join(format!("mcpwarden-of-the-group-{}", std::process::id()));
    fs::copy(places::agent(), &command)?;
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755))?;
    let asked = |what: &[&str]| {
        Command::new(&command).args(what).arg("--path").arg(place.database()).uid(65_534).gid(group).output()
    };
    let ask_all = || -> Result<()> {
        for what in [&["events", "--type", "mcp_tool_called"][..], &["audit", "verify"]] {
            let said = asked(what)?;
            let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
            ensure!(said.status.success() && !said.stdout.is_empty(), "{what:?}: {stderr}");
        }
        Ok(())
    };
    let while_it_runs = ask_all().context("while the agent runs");
    agent.stop()?;
    let after = ask_all().context("after it ended");
    fs::remove_file(&command)?;
    while_it_runs?;
    after
}

/// Ended in the middle of its writing again and again: the database opens, the chain holds, and no pin is lost.
#[test]
fn repeated_kills_lose_neither_chain_nor_pins() -> Result<()> {
    const KILLS: u64 = 10;
    let place = Fixture::new()?;
    let mut last = 0;
    for kill in 0..KILLS {
        let mut agent = place.agent()?;
        talk(&agent, 20)?;
        if kill == 0 {
            agent
                .wait_for("a pinned tool", |event| is(event, "mcp_tool_seen") && event["status"] == "new")?;
        }
        // At another place in the store's rhythm each time.
        std::thread::sleep(std::time::Duration::from_millis(kill * 17 % 100));
        agent.kill()?;
        let seen = agent.events();
        let again = seen.iter().filter(|event| is(event, "mcp_tool_seen") && event["status"] == "new");
        ensure!(kill == 0 || again.count() == 0, "kill {kill}: a pin was lost");
        let verdict = is_intact(&place.database()).with_context(|| format!("kill {kill}"))?;
        // Of the first run nothing may have been written yet.
        let end = verdict["last"].as_u64().unwrap_or_default();
        ensure!(end >= last, "kill {kill}: what was stored is gone: {last}, {end}");
        last = end;
    }
    ensure!(last > 0, "nothing was stored");
    Ok(())
}

/// A file system that is full: events are printed, it is said once that they are not stored, and once there is room, how
/// many are missing.
#[test]
fn full_disk_loses_stored_events_with_a_count() -> Result<()> {
    let place = Fixture::new()?;
    let state = place.state();
    let mounted = Mounted::tmpfs(&state, "4m")?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o750))?;
    let agent = place.agent()?;
    talk(&agent, 1)?;
    let filling = state.join("filling");
    // As much as there is.
    let mut zeros = fs::File::open("/dev/zero")?;
    let full = std::io::copy(&mut zeros, &mut fs::File::create(&filling)?);
    ensure!(full.is_err(), "the file system takes everything");
    let mut calls = 0;
    let failing =
        |agent: &Agent| agent.events().iter().filter(|event| is(event, "mcp_store_failing")).count();
    while failing(&agent) == 0 {
        ensure!(calls < 200_000, "it was never full");
        talk(&agent, 500)?;
        calls += 500;
    }
    talk(&agent, 10)?;
    fs::remove_file(&filling)?;
    let recovered =
        agent.wait_for("that events are stored again", |event| is(event, "mcp_store_recovered"))?;
    talk(&agent, 5)?;
    ensure!(failing(&agent) == 1, "it is said {} times that the store fails", failing(&agent));
    let stopped = agent.stop()?;
    let verdict = is_intact(&place.database())?;
    let lost = recovered["events_lost"].as_u64().context("a number")?;
    ensure!(lost > 0 && verdict["not_stored"] == lost, "{recovered} {verdict}");
    ensure!(recovered["first_missing"].as_u64() == Some(seq(&recovered) - lost), "{recovered}");
    ensure!(stopped["counters"]["store_events_lost"] == lost, "{stopped}");
    drop(mounted);
    Ok(())
}

/// A database that is damaged while no agent runs: it is kept, another is begun, and pins are as they were.
#[test]
fn damaged_database_is_set_aside_and_pins_survive() -> Result<()> {
    let place = Fixture::new()?;
    let agent = place.agent()?;
    talk(&agent, 1)?;
    agent.stop()?;
    let pins = place.state().join("registry.db");
    for database in [place.database(), pins] {
        fs::write(&database, "this was a database ".repeat(1_000))?;
    }
    let agent = place.agent()?;
    talk(&agent, 1)?;
    agent.settle();
    let events = agent.events();
    let replaced: Vec<_> = events.iter().filter(|event| is(event, "mcp_store_replaced")).collect();
    ensure!(replaced.len() == 2, "{replaced:?}");
    for event in replaced {
        let aside = event["set_aside"].as_str().unwrap_or_default();
        ensure!(fs::read(aside)?.starts_with(b"this was a database"), "{event}");
    }
    ensure!(agent.stderr().contains("another is begun"), "{}", agent.stderr());
    let seen: Vec<_> = events.iter().filter(|event| is(event, "mcp_tool_seen")).collect();
    ensure!(!seen.is_empty() && seen.iter().all(|tool| tool["status"] == "unchanged"), "{seen:?}");
    agent.stop()?;
    is_intact(&place.database())?;
    Ok(())
}

/// What a server offers is pinned, and listed while the agent runs and after it.
#[test]
fn pins_are_listed_during_and_after_a_run() -> Result<()> {
    let place = Fixture::new()?;
    let agent = place.agent()?;
    talk(&agent, 0)?;
    agent.wait_for("a tool", |event| is(event, "mcp_tool_seen") && event["tool_name"] == "echo")?;
    let pins = place.state().join("registry.db");
    let listed = || lines(&pins, &["pins", "list", "--json", "--server", "benign-server"]);
    let running = listed()?;
    agent.stop()?;
    for listed in [running, listed()?] {
        let echo = listed.iter().find(|pin| pin["name"] == "echo" && pin["kind"] == "tool");
        let echo = echo.with_context(|| format!("{listed:?}"))?;
        ensure!(
            echo["pinned"] == true && echo["hash"] == echo["current"] && echo["listed"] == true,
            "{echo}"
        );
    }
    ensure!(lines(&pins, &["pins", "list", "--json", "--changed"])?.is_empty());
    of(&pins, &["pins", "list", "--server", "benign-server"])?.expect("a table", 0, "pinned")?;
    of(&pins, &["pins", "list", "--server", "nobody"])?.expect("nothing", 0, "nothing is pinned")?;
    Ok(())
}

/// A database of a later version is refused in one line, and left alone.
#[test]
fn database_of_later_version_is_refused_unchanged() -> Result<()> {
    let place = Fixture::new()?;
    place.agent()?.stop()?;
    let done = Command::new("sqlite3").arg(place.database()).arg("PRAGMA user_version = 99").status();
    ensure!(done.context("sqlite3 is needed (apt install sqlite3)")?.success(), "sqlite3 failed");
    let runtime = place.directory.path().join("run").display().to_string();
    let state = place.state().display().to_string();
    let said = ask(&["run", "--config", &place.config, "--state-dir", &state, "--runtime-dir", &runtime])?;
    ensure!(
        said.code == Some(1) && said.stderr.contains("by a later version of mcpwarden"),
        "{}",
        said.stderr
    );
    let said = of(&place.database(), &["events"])?;
    ensure!(
        said.code == Some(2) && said.stderr.contains("by a later version of mcpwarden"),
        "{}",
        said.stderr
    );
    Ok(())
}

/// Events go once the database is larger than it may be, and a checkpoint vouches for them.
#[test]
fn oldest_events_are_pruned_behind_a_checkpoint() -> Result<()> {
    let place = Fixture::new()?;
    place.configure(", retention: { bytes: 1MiB }")?;
    let agent = place.agent()?;
    let mut rounds = 0;
    // Of short calls alone so many would come that most of them become repeats.
    let text = "x".repeat(4_000);
    // What the agent itself reports is not the loudest user's, and stays: the first event of all is such a one.
    let is_removed = |verdict: &Value| {
        ["removed_until", "removed_between"].iter().any(|key| verdict[*key].as_u64() > Some(0))
    };
    while !is_removed(&verify(&place.database())?.1) {
        ensure!(rounds < 40, "nothing was removed");
        talk_of(&agent, 50, &text)?;
        rounds += 1;
    }
    agent.stop()?;
    let verdict = is_intact(&place.database())?;
    let until = verdict["removed_until"].as_u64().unwrap_or_default();
    ensure!(is_removed(&verdict) && verdict["first"] == until + 1, "{verdict}");
    // Without the records of their removal nothing vouches for them.
    let forget = "DELETE FROM checkpoint; DELETE FROM removals";
    let done = Command::new("sqlite3").arg(place.database()).arg(forget).status();
    ensure!(done.context("sqlite3 is needed (apt install sqlite3)")?.success(), "sqlite3 failed");
    let (code, verdict) = verify(&place.database())?;
    ensure!(code == Some(1) && verdict["broken"]["seq"].is_u64(), "{verdict}");
    Ok(())
}

/// A file system that is mounted as long as it lives.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(on: &Path, size: &str) -> Result<Self> {
        use nix::mount::{MsFlags, mount};
        let size = format!("size={size}");
        mount(Some("tmpfs"), on, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).context("mount")?;
        Ok(Self(on.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}
