//! An MCP server that connects to where it is told to: by itself, through a child, or through one that nobody's child is.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpwarden_tests::dial::Way;
use mcpwarden_tests::dns;
use mcpwarden_tests::hold;
use mcpwarden_tests::mini_server::{MiniServer, PROTOCOL_VERSION, ServerOptions, Tool};
use serde_json::{Value, json};

/// An MCP server with a tool `dial` that reaches an address.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: ServerOptions,
    /// Be no server: reach this address so (WAY ADDRESS), and print what came of it
    #[arg(long, num_args = 2, value_names = ["WAY", "ADDRESS"])]
    once: Option<Vec<String>>,
    /// Be no server: have sockets of every kind open to a port of this host, print it, and then, for each line of input,
    /// which of them are alive
    #[arg(long)]
    hold: bool,
    /// Be no server: as this user, have so many TCP connections open to this address until the input ends, and print how many
    /// there are
    #[arg(long, num_args = 3, value_names = ["UID", "COUNT", "ADDRESS"])]
    crowd: Option<Vec<String>>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    if let Some([way, address]) = cli.once.as_deref() {
        let outcome = way.parse::<Way>()?.dial(address.parse().context("no address")?);
        return writeln!(std::io::stdout(), "{outcome:?}").context("cannot print");
    }
    if cli.hold {
        return hold::serve();
    }
    if let Some([uid, count, address]) = cli.crowd.as_deref() {
        return hold::crowd(uid.parse()?, count.parse()?, address.parse()?);
    }
    let dial = Tool {
        definition: json!({
            "name": "dial",
            "description": "Reaches an address.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "way": {"type": "string"},
                    "address": {"type": "string"},
                    "who": {"enum": ["server", "child", "orphan", "heir", "nested", "holder"]},
                    "depth": {"type": "integer"},
                    "name": {"type": "string"},
                    "name_server": {"type": "string"},
                },
                "required": ["way", "address", "who"],
            },
        }),
        call,
    };
    MiniServer::new("dialing-server", cli.options, vec![dial]).serve()
}

fn call(arguments: &Value) -> Result<String, String> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let dial = || -> Result<String> {
        let (way, mut address) = (text("way"), text("address"));
        if arguments["name"].is_string() {
            // Whatever address that has now, and this one's port.
            let port = address.parse::<SocketAddr>()?.port();
            address = format!("{}:{port}", dns::ask(text("name_server").parse()?, &text("name"))?);
        }
        match text("who").as_str() {
            "server" => Ok(format!("{:?}", way.parse::<Way>()?.dial(address.parse()?))),
            "child" => {
                let output =
                    Command::new(std::env::current_exe()?).args(["--once", &way, &address]).output()?;
                Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            }
            "nested" => nested(arguments),
            "holder" => {
                // As long as the server runs.
                std::mem::forget(TcpStream::connect(address)?);
                Ok("Through".to_owned())
            }
            "heir" => {
                let directory = tempfile::tempdir()?.keep();
                leave(&way, &address, HEIR_SECONDS, &directory.join("report"))?;
                Ok(directory.display().to_string())
            }
            _ => orphan(&way, &address),
        }
    };
    dial().map_err(|error| format!("{error:#}"))
}

/// Starts a server, as a client does, and has that one do it, or start the next.
fn nested(arguments: &Value) -> Result<String> {
    // Another command line than that of the first, which may be declared.
    let mut server = Command::new(std::env::current_exe()?)
        .args(["--delay-ms", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to_server = server.stdin.take().context("no pipe")?;
    let mut from_server = BufReader::new(server.stdout.take().context("no pipe")?);
    let mut ask = |request: Value| -> Result<Value> {
        writeln!(to_server, "{request}")?;
        let mut line = String::new();
        from_server.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    let params = json!({"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    ask(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))?;
    let mut arguments = arguments.clone();
    match arguments["depth"].as_u64().unwrap_or(0) {
        0 | 1 => arguments["who"] = json!("server"),
        depth => arguments["depth"] = json!(depth - 1),
    }
    // So long the kernel half may need to hear that it is a server.
    std::thread::sleep(Duration::from_millis(200));
    let params = json!({"name": "dial", "arguments": arguments});
    let answer = ask(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))?;
    drop(to_server);
    server.wait()?;
    Ok(answer["result"]["content"][0]["text"].as_str().context("no text")?.to_owned())
}

/// How long a process that is to outlive the server waits.
const HEIR_SECONDS: &str = "2";

/// A grandchild in a session of its own, whose parent ends before it connects.
fn orphan(way: &str, address: &str) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let report = directory.path().join("report");
    leave(way, address, "0.2", &report)?;
    for _ in 0..1_000 {
        if let Ok(text) = std::fs::read_to_string(&report) {
            return Ok(text.trim().to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("the grandchild said nothing")
}

/// Starts one that connects after some seconds and writes what came of it to `report`.
fn leave(way: &str, address: &str, seconds: &str, report: &Path) -> Result<()> {
    let script = r#"(setsid sh -c 'sleep "$4"; "$0" --once "$1" "$2" > "$3.part"; mv "$3.part" "$3"' "$0" "$1" "$2" "$3" "$4" &)"#;
    let status = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe()?)
        .args([way, address])
        .arg(report)
        .arg(seconds)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    anyhow::ensure!(status.success(), "the shell ended with {status}");
    Ok(())
}
