//! What sinks get: what is printed, what their filters say, and nothing twice, whatever becomes of the disk meanwhile.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::agent::{Agent, is};
use mcpwarden_tests::command::configured;
use mcpwarden_tests::http_server::CERTIFICATE;
use mcpwarden_tests::peer::{Peer, await_exit, echo, initialize, server, wait_until};
use mcpwarden_tests::scrape::Scrape;
use mcpwarden_tests::webhook::{Post, Receiver};
use mcpwarden_tests::wiring::Wiring;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// So many calls, each with a text of so many bytes.
fn session(agent: &Agent, calls: u64, bytes: usize) -> Result<()> {
    let mut peer = Peer::start(Wiring::Pipes, &mut server("echo-server"))?;
    peer.ask(&initialize(1))?;
    let connection = agent.connection_of_server(peer.pid())?;
    for id in 0..calls {
        peer.ask(&echo(id + 2, &"x".repeat(bytes)))?;
    }
    peer.close()?;
    await_exit(agent, connection).map(drop)
}

/// Ends the agent, and gives all that it has printed.
fn end(mut agent: Agent) -> Result<Vec<Value>> {
    agent.signal(Signal::SIGTERM)?;
    agent.wait_for_end()?;
    agent.wait_for("the last event", |event| is(event, "agent_stopped"))?;
    Ok(agent.all_events())
}

fn lines(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    ensure!(text.is_empty() || text.ends_with('\n'), "{} ends within a line", path.display());
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn same(name: &str, found: &[Value], expected: &[Value]) -> Result<()> {
    let differs = found.iter().zip(expected).position(|(one, other)| one != other);
    ensure!(
        found.len() == expected.len() && differs.is_none(),
        "{name}: {} of {}, the first other one is {differs:?}",
        found.len(),
        expected.len()
    );
    Ok(())
}

#[test]
fn file_sinks_match_the_printed_events() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let (_config, config) = configured(&format!(
        "sinks:\n\
         - {{ kind: file, path: {} }}\n\
         - {{ kind: file, path: {}, filter: {{ types: [\"mcp_tool_*\"] }} }}\n\
         - {{ kind: file, path: {}, rotate_bytes: 64KiB, rotate_keep: 100 }}\n",
        path("all").display(),
        path("calls").display(),
        path("parts").display(),
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    session(&agent, 100, 2_000)?;
    let printed = end(agent)?;
    same("all", &lines(&path("all"))?, &printed)?;
    let calls: Vec<Value> = printed
        .iter()
        .filter(|event| is(event, "mcp_tool_called") || is(event, "mcp_tool_result"))
        .cloned()
        .collect();
    ensure!(calls.len() >= 200, "{}", calls.len());
    let found = lines(&path("calls"))?;
    same(
        "calls",
        &found.into_iter().filter(|event| !is(event, "mcp_tool_seen")).collect::<Vec<_>>(),
        &calls,
    )?;
    let mut parts: Vec<PathBuf> =
        (1..100).rev().map(|number| path(&format!("parts.{number}"))).filter(|part| part.exists()).collect();
    ensure!(parts.len() > 3, "{parts:?}");
    parts.push(path("parts"));
    let mut together = Vec::new();
    for part in &parts {
        ensure!(fs::metadata(part)?.len() <= 64 << 10, "{} is too long", part.display());
        together.extend(lines(part)?);
    }
    same("parts", &together, &printed)
}

/// As OCSF: in a file and from a webhook, with the event as it is stored in each.
#[test]
fn ocsf_output_embeds_the_stored_event() -> Result<()> {
    #[derive(Deserialize)]
    struct Line<'a> {
        class_uid: u64,
        #[serde(borrow)]
        unmapped: Unmapped<'a>,
    }
    #[derive(Deserialize)]
    struct Unmapped<'a> {
        #[serde(borrow)]
        mcpwarden: &'a RawValue,
    }
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let receiver = Receiver::dead()?;
    receiver.live()?;
    let (_config, config) = configured(&format!(
        "sinks:\n\
         - {{ kind: file, path: {} }}\n\
         - {{ kind: file, path: {}, format: ocsf }}\n\
         - {{ kind: webhook, url: \"{}\", format: ocsf }}\n",
        path("native").display(),
        path("ocsf").display(),
        receiver.url(TOKEN),
    ))?;
    let agent = Agent::start(&["--config", &config])?;
    session(&agent, 20, 100)?;
    end(agent)?;
    let native = fs::read_to_string(path("native"))?;
    let ocsf = fs::read_to_string(path("ocsf"))?;
    let mut classes = BTreeSet::new();
    for (native, ocsf) in native.lines().zip(ocsf.lines()) {
        let line: Line<'_> = serde_json::from_str(ocsf)?;
        ensure!(line.unmapped.mcpwarden.get() == native, "{native} is not in {ocsf}");
        classes.insert(line.class_uid);
    }
    ensure!(native.lines().count() == ocsf.lines().count(), "not all");
    ensure!(classes.is_superset(&[0, 6003].into()), "{classes:?}");
    let lines = lines(&path("ocsf"))?;
    let posts = receiver.posts();
    let found = taken(&posts);
    same("posted", &found, lines.get(..found.len()).unwrap_or_default())?;
    ensure!(!posts.is_empty(), "nothing was posted");
    for post in &posts {
        let places: Vec<_> = [post.events.first(), post.events.last()]
            .iter()
            .map(|event| event.map_or(0, |event| event["metadata"]["sequence"].as_u64().unwrap_or_default()))
            .collect();
        let key = places.iter().map(|place| format!("{place}-")).collect::<String>();
        ensure!(post.key.starts_with(&key), "{} and not {key}", post.key);
    }
    Ok(())
}

#[test]
fn output_filter_selects_printed_events() -> Result<()> {
    let (_directory, config) = configured(
        "sinks: [{ kind: stdout, filter: { types: [\"agent_*\", mcp_server_started, mcp_server_exited] } }]\n",
    )?;
    let agent = Agent::start(&["--config", &config])?;
    session(&agent, 3, 10)?;
    let printed = end(agent)?;
    let calls = printed.iter().filter(|event| is(event, "mcp_tool_called")).count();
    ensure!(calls == 0 && printed.iter().any(|event| is(event, "mcp_server_exited")), "{calls} calls");
    Ok(())
}

/// A small file system of the test's own.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, bytes: usize) -> Result<Self> {
        let options = format!("size={bytes}");
        mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
            .context("cannot mount")?;
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn full_disk_delays_file_sink_without_loss() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let disk = Disk::mount(directory.path(), 4 << 20)?;
    let scrape = Scrape::free()?;
    let path = directory.path().join("events");
    let (_config, config) =
        configured(&format!("sinks: [{{ kind: file, path: {} }}]\n{}", path.display(), scrape.config()))?;
    let agent = Agent::start(&["--config", &config])?;
    session(&agent, 10, 1_000)?;
    // All that is left, but for a part of what comes next.
    let filler = directory.path().join("filler");
    let _ = fs::write(&filler, vec![0; 4 << 20]);
    session(&agent, 100, 2_000)?;
    let number =
        |name: &str| scrape.numbers().ok().and_then(|numbers| numbers.get(name).copied()).unwrap_or(0.0);
    wait_until("that writing fails", || number("mcpwarden_sink_failures_total{sink=\"0:file\"}") > 0.0)?;
    agent.wait_for("that it is said", |event| {
        is(event, "agent_loss") && event["counter"] == "sinks_failures"
    })?;
    fs::remove_file(&filler)?;
    wait_until("that all is written", || {
        lines(&path).is_ok_and(|lines| lines.len() >= agent.all_events().len())
    })?;
    let printed = end(agent)?;
    same("events", &lines(&path)?, &printed)?;
    drop(disk);
    Ok(())
}

const SECRET: &str = "s3cret of the webhook";
const TOKEN: &str = "t0ken-in-the-path";

/// A configuration with one webhook, whose secret is in the same directory.
fn webhook(receiver: &Receiver, more: &str) -> Result<(tempfile::TempDir, String)> {
    let (directory, config) = configured("")?;
    let secret = directory.path().join("secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    fs::set_permissions(&secret, Permissions::from_mode(0o600))?;
    let url = receiver.url(TOKEN);
    let sink = format!("{{ kind: webhook, url: \"{url}\", secret_file: {} }}", secret.display());
    fs::write(&config, format!("sinks: [{sink}]\n{more}"))?;
    Ok((directory, config))
}

/// The events that were taken; what has a key that was there before is the same once more.
fn taken(posts: &[Post]) -> Vec<Value> {
    let mut keys = BTreeSet::new();
    let first = posts.iter().filter(|post| post.status == 200 && keys.insert(&post.key));
    first.flat_map(|post| post.events.clone()).collect()
}

fn without_secrets(agent: &Agent) -> Result<()> {
    let said = agent.stderr();
    ensure!(!said.contains(SECRET) && !said.contains(TOKEN), "{said}");
    let events = serde_json::to_string(&agent.all_events())?;
    ensure!(!events.contains(SECRET) && !events.contains(TOKEN), "an event has a secret");
    Ok(())
}

#[test]
fn webhook_gets_queued_events_once_reachable() -> Result<()> {
    let state = tempfile::tempdir()?;
    let receiver = Receiver::dead()?;
    let (scrape, failed) = (Scrape::free()?, "mcpwarden_sink_failures_total{sink=\"0:webhook\"}");
    let (_directory, config) = webhook(&receiver, &scrape.config())?;
    let number =
        |name: &str| scrape.numbers().ok().and_then(|numbers| numbers.get(name).copied()).unwrap_or(0.0);

    let agent = Agent::start_with_state(state.path(), &["--config", &config])?;
    session(&agent, 50, 2_000)?;
    wait_until("that nobody is there", || number(failed) > 0.0)?;
    without_secrets(&agent)?;
    let mut printed = end(agent)?;

    receiver.answer(503);
    receiver.live()?;
    let agent = Agent::start_with_state(state.path(), &["--config", &config])?;
    session(&agent, 50, 2_000)?;
    wait_until("that a batch is sent again", || receiver.posts().len() >= 2)?;
    ensure!(receiver.posts().iter().all(|post| post.status == 503), "nobody took anything");
    let keys: BTreeSet<_> = receiver.posts().iter().map(|post| post.key.clone()).collect();
    ensure!(keys.len() == 1, "the first batch is sent until somebody takes it: {keys:?}");
    receiver.answer(200);
    wait_until("that it is taken", || taken(&receiver.posts()).len() >= printed.len() + 100)?;
    without_secrets(&agent)?;
    printed.extend(end(agent)?);

    let agent = Agent::start_with_state(state.path(), &["--config", &config])?;
    wait_until("that all is taken", || taken(&receiver.posts()).len() > printed.len())?;
    printed.extend(end(agent)?);
    let posts = receiver.posts();
    let found = taken(&posts);
    same("taken", &found, printed.get(..found.len()).unwrap_or_default())?;
    let wrong = posts.iter().find(|post| !post.is_signed_with(SECRET));
    ensure!(wrong.is_none(), "its signature is wrong: {wrong:?}");
    Ok(())
}

/// A secret that systemd hands to the service.
#[test]
fn webhook_is_signed_with_systemd_credential() -> Result<()> {
    let receiver = Receiver::dead()?;
    receiver.live()?;
    let (directory, config) = configured("")?;
    let secret = directory.path().join("webhook");
    fs::write(&secret, format!("{SECRET}\n"))?;
    fs::set_permissions(&secret, Permissions::from_mode(0o400))?;
    let url = receiver.url(TOKEN);
    let sink = format!("{{ kind: webhook, url: \"{url}\", secret_file: credential:webhook }}");
    fs::write(&config, format!("sinks: [{sink}]\n"))?;
    let credentials = directory.path().display().to_string();
    let agent = Agent::start_in(&[("CREDENTIALS_DIRECTORY", &credentials)], &["--config", &config])?;
    session(&agent, 3, 10)?;
    wait_until("that some are taken", || !taken(&receiver.posts()).is_empty())?;
    let wrong = receiver.posts().into_iter().find(|post| !post.is_signed_with(SECRET));
    ensure!(wrong.is_none(), "its signature is wrong: {wrong:?}");
    without_secrets(&agent)?;
    end(agent).map(drop)
}

#[test]
fn refused_webhook_events_are_dropped_and_logged_once() -> Result<()> {
    let receiver = Receiver::dead()?;
    receiver.answer(403);
    receiver.live()?;
    let (_directory, config) = webhook(&receiver, "")?;
    let agent = Agent::start(&["--config", &config])?;
    session(&agent, 3, 10)?;
    agent.wait_for("that it is said", |event| {
        is(event, "agent_loss") && event["counter"] == "sinks_dropped"
    })?;
    session(&agent, 3, 10)?;
    wait_until("some posts", || receiver.posts().len() >= 2)?;
    receiver.answer(200);
    session(&agent, 3, 10)?;
    wait_until("that some are taken", || !taken(&receiver.posts()).is_empty())?;
    wait_until("that it is said", || {
        agent.stderr().contains("0:webhook: the receiver accepts events again")
    })?;
    let said = agent.stderr();
    ensure!(said.matches("it answers 403 Forbidden: what it is sent is dropped").count() == 1, "{said}");
    without_secrets(&agent)?;
    let keys: Vec<_> = receiver.posts().into_iter().map(|post| post.key).collect();
    ensure!(keys.iter().collect::<BTreeSet<_>>().len() == keys.len(), "nothing is sent twice: {keys:?}");
    end(agent).map(drop)
}

/// A certificate that this system does not trust gets nothing; one that it trusts does, when it said that it would.
#[test]
fn untrusted_tls_webhook_gets_no_events() -> Result<()> {
    const LATER: u32 = 3;
    let receiver = Receiver::dead_over_tls()?;
    receiver.answer_later(429, LATER);
    receiver.live()?;
    let scrape = Scrape::free()?;
    let (directory, config) = webhook(&receiver, &scrape.config())?;
    let failures = || {
        let numbers = scrape.numbers().unwrap_or_default();
        numbers.get("mcpwarden_sink_failures_total{sink=\"0:webhook\"}").copied().unwrap_or(0.0)
    };
    let agent = Agent::start(&["--config", &config])?;
    session(&agent, 3, 10)?;
    wait_until("that it is not trusted", || failures() >= 2.0)?;
    ensure!(receiver.posts().is_empty(), "it was given something");
    without_secrets(&agent)?;
    end(agent)?;

    let trusted = directory.path().join("authorities.pem").display().to_string();
    fs::write(&trusted, CERTIFICATE)?;
    let agent = Agent::start_in(&[("SSL_CERT_FILE", &trusted)], &["--config", &config])?;
    session(&agent, 3, 10)?;
    wait_until("that it is tried twice", || receiver.posts().len() >= 2)?;
    let posts = receiver.posts();
    let [first, second, ..] = &posts[..] else { anyhow::bail!("{posts:?}") };
    let pause = second.at - first.at;
    ensure!(
        first.key == second.key && pause >= Duration::from_secs(LATER.into()),
        "sent again after {pause:?}"
    );
    receiver.answer(200);
    wait_until("that it is taken", || !taken(&receiver.posts()).is_empty())?;
    ensure!(receiver.posts().iter().all(|post| post.is_signed_with(SECRET)), "its signature is wrong");
    without_secrets(&agent)?;
    end(agent).map(drop)
}

#[test]
fn unopenable_sink_is_refused_at_startup() -> Result<()> {
    for (sink, part) in [
        ("{ kind: file, path: /nowhere/x }", "sinks[0]: cannot write to /nowhere/x"),
        ("{ kind: file, path: /tmp }", "sinks[0]"),
        (
            "{ kind: webhook, url: 'http://127.0.0.1:1/', secret_file: /nowhere/x }",
            "sinks[0]: secret_file: /nowhere/x",
        ),
    ] {
        let (directory, config) = configured(&format!("sinks: [{sink}]\n"))?;
        let said = mcpwarden_tests::command::ends(&mut mcpwarden_tests::command::run(
            directory.path(),
            &["--config", &config],
        ))?;
        ensure!(said.code == Some(1) && said.stderr.contains(part), "{sink}: {said:?}");
    }
    Ok(())
}
