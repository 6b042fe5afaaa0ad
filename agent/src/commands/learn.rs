//! `mcpwarden learn`: of events that are stored or recorded, where servers connected to, as the `egress` that would have let
//! them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::Timestamp;
use mcpwarden_policy::config::{Address, Host};
use mcpwarden_policy::event::{Action, ServerType};
use mcpwarden_policy::network::Prefix;
use mcpwarden_store::reader::{Query, Reader};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::LearnOptions;
use crate::cli::When;
use crate::commands::lines;
use crate::output::{print_json_line, print_line, write_json};

/// Most servers, and most destinations of all: a configuration and the kernel half's table have room for no more.
const SERVERS: usize = 10_000;
const DESTINATIONS: usize = 16_384;
/// The types of events that count.
const STARTED: &str = "mcp_server_started";
const EGRESS: &str = "mcp_server_egress";
/// What stands in place of a secret in a command line.
const HIDDEN: &str = "***";

/// Prints the proposal.
///
/// # Errors
/// The recording or the database cannot be read, a line of it is no event, or there is too much in it.
pub fn run(options: &LearnOptions) -> Result<()> {
    let learnt = match &options.file {
        Some(file) => recorded(file, options)?,
        None => {
            let path = &options.database.path;
            stored(&Reader::open(path)?, options)
                .with_context(|| format!("cannot read {}", path.display()))?
        }
    };
    if options.json {
        learnt.lines().iter().for_each(print_json_line);
    } else {
        print_line(learnt.proposal().trim_end());
    }
    Ok(())
}

/// What a recording has.
fn recorded(file: &Path, options: &LearnOptions) -> Result<Learnt> {
    let (name, input) = lines::open(file)?;
    let mut learnt = Learnt::default();
    lines::each(&name, input, |line| {
        let event: Line = serde_json::from_slice(line).context("it is not an event")?;
        let requested = |id: &String| options.server.is_empty() || options.server.contains(id);
        if event.server_id.as_ref().is_some_and(requested)
            && options.since.is_none_or(|When(since)| event.timestamp >= since)
            && options.until.is_none_or(|When(until)| event.timestamp < until)
        {
            learnt.take(event)?;
        }
        Ok(())
    })?;
    Ok(learnt)
}

/// What is stored of the servers that anything was said of in that time. They may have been started before it.
fn stored(reader: &Reader, options: &LearnOptions) -> Result<Learnt> {
    let (since, until) = (options.since.map(|when| when.0), options.until.map(|when| when.0));
    let of_servers = Query { servers: options.server.clone(), since, until, ..Query::default() };
    let there = reader.servers(&of_servers)?;
    let started = Query { types: vec![STARTED.into()], since: None, ..of_servers.clone() };
    let egress = Query { types: vec![EGRESS.into()], ..of_servers };
    let mut learnt = Learnt::default();
    for query in [started, egress] {
        reader.find(&query, |_, line| {
            let event: Line = serde_json::from_slice(line).context("cannot parse an event")?;
            let is_there = event.server_id.as_ref().is_some_and(|id| there.contains(id));
            if is_there { learnt.take(event) } else { Ok(()) }
        })?;
    }
    Ok(learnt)
}

/// What of an event counts here. Those of later versions are read, too.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    timestamp: Timestamp,
    #[serde(default)]
    server_id: Option<String>,
    #[serde(default)]
    server_type: ServerType,
    #[serde(default)]
    argv: Vec<String>,
    #[serde(default)]
    argv_truncated: bool,
    #[serde(default)]
    action: Option<Value>,
    #[serde(default)]
    remote_addr: Option<String>,
    #[serde(default)]
    remote_name: Option<String>,
}

/// How often something was seen, and when.
#[derive(Debug)]
struct Seen {
    times: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Seen {
    /// Of a recording lines may be out of order.
    fn again(&mut self, time: Timestamp) {
        self.times += 1;
        (self.first, self.last) = (self.first.min(time), self.last.max(time));
    }
}

/// What is known of one server.
#[derive(Debug, Default)]
struct Server {
    /// Its last command line; `None` where it was not seen, or not all of it.
    argv: Option<Vec<String>>,
    egress: BTreeMap<Address, Seen>,
    /// Connections that were denied.
    denied: u64,
    /// Connections without a port, by which programs only ask for a route.
    portless: u64,
}

/// What is known of all.
#[derive(Debug, Default)]
struct Learnt {
    servers: BTreeMap<String, Server>,
    destinations: usize,
}

impl Learnt {
    /// Takes an event in.
    ///
    /// # Errors
    /// There is no room, or it is not as events are.
    fn take(&mut self, event: Line) -> Result<()> {
        let Some(id) = event.server_id else { return Ok(()) };
        // Where a server on the network connects to is not known.
        if event.server_type != ServerType::Stdio {
            return Ok(());
        }
        let room = self.servers.len() < SERVERS || self.servers.contains_key(&id);
        match event.r#type.as_str() {
            STARTED => {
                ensure!(room, "there are more than {SERVERS} servers; name some with --server");
                let whole = !event.argv_truncated && !event.argv.iter().any(|word| word.contains(HIDDEN));
                self.servers.entry(id).or_default().argv = Some(event.argv).filter(|_| whole);
            }
            EGRESS => {
                ensure!(room, "there are more than {SERVERS} servers; name some with --server");
                let server = self.servers.entry(id).or_default();
                if event.action == serde_json::to_value(Action::Block).ok() {
                    server.denied += 1;
                    return Ok(());
                }
                let text = event.remote_addr.context("the event has no `remote_addr`")?;
                let remote: SocketAddr = text.parse().context("its `remote_addr` is no address and port")?;
                if remote.port() == 0 {
                    server.portless += 1;
                    return Ok(());
                }
                let name = event.remote_name.and_then(|name| name.parse().ok());
                let host = match name {
                    Some(Host::Name(name)) => Host::Name(name),
                    _ => Host::Block(Prefix::host(remote.ip())),
                };
                let address = Address { host, port: Some(remote.port()) };
                let time = event.timestamp;
                self.destinations += usize::from(!server.egress.contains_key(&address));
                ensure!(
                    self.destinations <= DESTINATIONS,
                    "there are more than {DESTINATIONS} destinations; see to one server (--server), or a shorter time (--since)"
                );
                let seen = server.egress.entry(address);
                seen.or_insert(Seen { times: 0, first: time, last: time }).again(time);
            }
            _ => {}
        }
        Ok(())
    }

    /// An object for each server: what the proposal has, and what was left out of it.
    fn lines(&self) -> Vec<Value> {
        self.servers.iter().map(|(id, server)| server.line(id)).collect()
    }

    /// The proposal, as YAML.
    fn proposal(&self) -> String {
        let mut text = String::from(
            "# Proposed by `mcpwarden learn`: where servers connected to. What a server did is not what it should do, so\n\
             # look through it; then put each `egress` to the server's declaration in the configuration.\n",
        );
        if self.servers.is_empty() {
            return text + "# No server was seen.\nservers: []\n";
        }
        text += "servers:\n";
        for (id, server) in &self.servers {
            server.write(id, &mut text);
        }
        text
    }
}

impl Server {
    fn line(&self, id: &str) -> Value {
        let egress: Vec<Value> = self
            .egress
            .iter()
            .map(|(address, Seen { times, first, last })| {
                json!({"address": address.to_string(), "times": times, "first": first, "last": last})
            })
            .collect();
        let (command, args) = self.argv.as_deref().and_then(<[String]>::split_first).unzip();
        json!({"server_id": id, "command": command, "args": args, "egress": egress, "denied": self.denied,
            "portless": self.portless})
    }

    fn write(&self, id: &str, text: &mut String) {
        let _ = writeln!(text, "  - id: {}", quoted(id));
        match self.argv.as_deref().and_then(<[String]>::split_first) {
            Some((command, args)) => {
                let args: Vec<String> = args.iter().map(|word| quoted(word)).collect();
                let _ = writeln!(text, "    command: {}", quoted(command));
                let _ = writeln!(text, "    args: [{}]", args.join(", "));
            }
            None => *text += "    # command and args: no whole command line of it was seen; fill them in\n",
        }
        for (count, what) in [
            (self.denied, "that were denied"),
            (self.portless, "without a port, by which programs ask for a route,"),
        ] {
            if count > 0 {
                let _ = writeln!(text, "    # connections {what} are left out: {count}");
            }
        }
        if self.egress.is_empty() {
            *text += "    egress: none   # no connection was seen\n";
            return;
        }
        *text += "    egress:\n";
        for (address, seen) in &self.egress {
            let (first, last) = (seconds(seen.first), seconds(seen.last));
            let times = if seen.times == 1 { "once".to_owned() } else { format!("{} times", seen.times) };
            let when = if first == last { first } else { format!("{first} to {last}") };
            let _ = writeln!(text, "      - {}   # {times}, {when}", quoted(&address.to_string()));
        }
    }
}

/// A word in double quotes: what JSON says is YAML, too.
fn quoted(word: &str) -> String {
    let mut text = Vec::new();
    write_json(&word, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn seconds(time: Timestamp) -> String {
    let text = time.to_string();
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::config::{self, Config};
    use serde_json::json;

    use super::*;

    fn learnt(events: &[Value]) -> Result<Learnt> {
        let mut learnt = Learnt::default();
        for event in events {
            learnt.take(serde_json::from_value(event.clone())?)?;
        }
        Ok(learnt)
    }

    fn learn(events: &[Value]) -> Result<String> {
        learnt(events).map(|learnt| learnt.proposal())
    }

    fn started(id: &str, argv: &[&str]) -> Value {
        json!({"type": "mcp_server_started", "timestamp": "2026-01-06T10:00:00.000000000Z", "server_id": id,
            "server_type": "stdio", "argv": argv, "matched_by": "name", "identity": "derived", "adopted": false})
    }

    fn egress(id: &str, minute: u8, to: &str, name: Option<&str>, action: &str) -> Value {
        let mut event = json!({"type": "mcp_server_egress", "timestamp": format!("2026-01-06T10:{minute:02}:00.5Z"),
            "server_id": id, "server_type": "stdio", "remote_addr": to, "protocol": "tcp", "family": "ipv4", "pid": 1,
            "action": action, "enforced": false, "first_seen": true, "severity": "low"});
        if let Some(name) = name {
            event["remote_name"] = json!(name);
        }
        event
    }

    fn read(yaml: &str) -> Config {
        config::parse(yaml.as_bytes()).map_err(|problems| format!("{problems:?}\n{yaml}")).unwrap().0
    }

    #[test]
    fn observed_events_become_a_configuration() {
        let events = [
            started("weather", &["npx", "-y", "weather \"x\" #1", "\u{202e}"]),
            egress("weather", 5, "192.0.2.1:443", Some("API.example.com."), "allow"),
            egress("weather", 3, "192.0.2.2:443", Some("api.example.com"), "allow"),
            egress("weather", 4, "127.0.0.53:53", None, "allow"),
            egress("weather", 4, "[2001:db8::1]:8443", Some("no name\n- x"), "allow"),
            egress("weather", 4, "[::ffff:192.0.2.9]:80", None, "allow"),
            egress("weather", 6, "203.0.113.1:22", None, "block"),
            egress("weather", 6, "192.0.2.1:0", None, "allow"),
            started("files", &["files"]),
            json!({"type": "mcp_network_connection", "timestamp": "2026-01-06T10:00:00Z", "server_id": "crm",
                "server_type": "http", "remote_addr": "192.0.2.1:443"}),
            json!({"type": "agent_started", "timestamp": "2026-01-06T10:00:00Z"}),
        ];
        let text = learn(&events).unwrap();
        let config = read(&text);
        let servers: Vec<Value> = config.servers.iter().map(|server| json!(server)).collect();
        assert_eq!(servers.len(), 2, "{text}");
        assert_eq!(json!([servers[0]["id"], servers[0]["egress"]]), json!(["files", "none"]));
        assert_eq!(
            servers[1]["egress"],
            json!(["api.example.com:443", "127.0.0.53:53", "192.0.2.9:80", "[2001:db8::1]:8443"]),
            "{text}"
        );
        assert_eq!(config.servers[1].command.as_deref(), Some("npx"));
        assert_eq!(config.servers[1].args, ["-y", "weather \"x\" #1", "\u{202e}"]);
        let line = &learnt(&events).unwrap().lines()[1];
        assert_eq!(
            json!([line["command"], line["args"][1], line["denied"], line["portless"]]),
            json!(["npx", "weather \"x\" #1", 1, 1])
        );
        let first = json!({"address": "api.example.com:443", "times": 2, "first": "2026-01-06T10:03:00.500000000Z",
            "last": "2026-01-06T10:05:00.500000000Z"});
        assert_eq!(line["egress"][0], first, "{line}");
        for line in [
            "      - \"api.example.com:443\"   # 2 times, 2026-01-06T10:03:00Z to 2026-01-06T10:05:00Z",
            "      - \"127.0.0.53:53\"   # once, 2026-01-06T10:04:00Z",
            "    # connections that were denied are left out: 1",
            "    # connections without a port, by which programs ask for a route, are left out: 1",
            "    egress: none   # no connection was seen",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains('\u{202e}'), "{text}");
    }

    /// What the recording has, and what is said of it.
    #[test]
    fn learned_configuration_marks_missing_parts() {
        let cut = {
            let mut cut = started("a", &["x"]);
            cut["argv_truncated"] = json!(true);
            cut
        };
        let unknown = "    # command and args: no whole command line of it was seen; fill them in";
        for (name, events, expected) in [
            ("nothing", vec![], "# No server was seen."),
            ("a secret", vec![started("a", &["x", "--token=***"])], unknown),
            ("a cut command line", vec![cut], unknown),
            ("a server that ran before", vec![egress("a", 1, "192.0.2.1:1", None, "allow")], unknown),
        ] {
            let text = learn(&events).unwrap();
            assert!(text.lines().any(|line| line == expected), "{name}: {text}");
        }
        assert_eq!(read(&learn(&[]).unwrap()), Config::default());
    }

    #[test]
    fn learned_servers_and_destinations_are_bounded() {
        let all = (0..=DESTINATIONS).map(|n| {
            let to = format!("10.{}.{}.{}:1", n >> 16, n >> 8 & 255, n & 255);
            egress("a", 0, &to, None, "allow")
        });
        let events: Vec<Value> = all.collect();
        assert!(learn(&events[1..]).is_ok());
        assert!(learn(&events).unwrap_err().to_string().contains("more than 16384 destinations"));
        let events: Vec<Value> = (0..=SERVERS).map(|n| started(&n.to_string(), &["x"])).collect();
        assert!(learn(&events[1..]).is_ok());
        assert!(learn(&events).unwrap_err().to_string().contains("more than 10000 servers"));
        for bad in [json!({"remote_addr": "x"}), json!({"remote_addr": null})] {
            let mut event = egress("a", 0, "192.0.2.1:1", None, "allow");
            event["remote_addr"] = bad["remote_addr"].clone();
            assert!(learn(&[event]).is_err(), "{bad}");
        }
    }
}
