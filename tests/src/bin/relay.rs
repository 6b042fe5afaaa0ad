//! A wrapper that copies: a server to the one side, a client to the other.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::IntoRawFd;
use std::process::{Command, ExitCode, exit};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpwarden_tests::framing::Framing;
use mcpwarden_tests::wiring::Wiring;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use serde_json::{Value, json};

/// Copies standard input to a child and the child's output to standard output.
#[derive(Parser)]
struct Cli {
    /// Parse the messages and give requests ids of our own, as gateways do; answers get the old ones back
    #[arg(long)]
    reassign_ids: bool,
    /// Answer calls of this tool itself, in place of passing them on; implies --reassign-ids
    #[arg(long, value_name = "TOOL")]
    answer_locally: Option<String>,
    /// What the child's standard input and output are made of
    #[arg(long, value_enum, default_value_t)]
    wiring: Wiring,
    /// Have all of this done by a helper that was forked twice and has no parent left, as Podman does
    #[arg(long)]
    helper: bool,
    /// The server behind
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The ids that requests came with, by the ids they were given.
type Ids = Arc<Mutex<HashMap<u64, Value>>>;

/// Ids given here begin where nobody else's do.
const FIRST_ID: u64 = 1_000_000;

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let (program, arguments) = cli.command.split_first().context("a command is needed")?;
    if cli.helper {
        become_helper()?;
    }
    let wired = wire(cli.wiring, program, arguments)?;
    let (mut child, to_child, from_child) = (wired.child, wired.to_child, wired.from_child);
    let ids = Ids::default();
    let parses = cli.reassign_ids || cli.answer_locally.is_some();
    let reassign = parses.then(|| (Arc::clone(&ids), cli.answer_locally));
    // Not joined: it ends with the process, and until then may wait for input that never comes.
    thread::spawn(move || {
        let outcome = match reassign {
            Some((ids, own_tool)) => requests(to_child, &ids, own_tool.as_deref()),
            None => copy(io::stdin().lock(), to_child).map_err(Into::into),
        };
        // The child's input is closed by now. A child that went away first is no news: its output ends too.
        drop(outcome);
    });
    if parses {
        answers(from_child, &ids).context("cannot pass on an answer")?;
    } else {
        copy(from_child, io::stdout()).context("cannot copy the child's output")?;
    }
    let status = child.wait().context("cannot wait for the child")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Goes on in a process whose parent ends at once; this one waits until that one is done.
fn become_helper() -> Result<()> {
    let (done, working) = io::pipe().context("no pipe")?;
    // SAFETY: there is one thread, so nothing that a child may not touch is held.
    match unsafe { fork() }.context("cannot fork")? {
        ForkResult::Parent { child } => {
            drop(working);
            waitpid(child, None)?;
            io::copy(&mut { done }, &mut io::sink())?;
            exit(0);
        }
        // SAFETY: as above.
        ForkResult::Child => match unsafe { fork() }.context("cannot fork")? {
            ForkResult::Parent { .. } => exit(0),
            ForkResult::Child => {
                // Open until this process ends.
                let _ = working.into_raw_fd();
                Ok(())
            }
        },
    }
}

fn wire(wiring: Wiring, program: &str, arguments: &[String]) -> Result<mcpwarden_tests::wiring::Wired> {
    wiring
        .channels()
        .and_then(|channels| channels.spawn(Command::new(program).args(arguments)))
        .with_context(|| format!("cannot start {program}"))
}

/// Byte by byte, through a buffer of ours: [`io::copy`] would splice, which a real wrapper rarely does.
fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(buffer.get(..length).unwrap_or_default())?;
        to.flush()?;
    }
}

fn requests(mut to: impl Write, ids: &Ids, own_tool: Option<&str>) -> Result<()> {
    let mut stdin = io::stdin().lock();
    let mut next = FIRST_ID;
    while let Some(message) = Framing::Lines.read(&mut stdin)? {
        let mut message: Value = serde_json::from_slice(&message)?;
        if message["method"] == "tools/call"
            && message["params"]["name"].as_str() == own_tool
            && own_tool.is_some()
        {
            let result = json!({"content": [{"type": "text", "text": "from the relay"}], "isError": false});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            Framing::Lines.write(&mut io::stdout(), answer.to_string().as_bytes())?;
            continue;
        }
        if message.get("method").is_some()
            && let Some(id) = message.get_mut("id")
        {
            ids.lock().unwrap_or_else(PoisonError::into_inner).insert(next, id.clone());
            *id = json!(next);
            next += 1;
        }
        Framing::Lines.write(&mut to, message.to_string().as_bytes())?;
    }
    Ok(())
}

fn answers(from: impl Read, ids: &Ids) -> Result<()> {
    let mut from = BufReader::new(from);
    let mut stdout = io::stdout();
    while let Some(message) = Framing::Lines.read(&mut from)? {
        let mut message: Value = serde_json::from_slice(&message)?;
        if message.get("method").is_none()
            && let Some(id) = message.get_mut("id")
            && let Some(given) = id.as_u64()
            && let Some(old) = ids.lock().unwrap_or_else(PoisonError::into_inner).remove(&given)
        {
            *id = old;
        }
        Framing::Lines.write(&mut stdout, message.to_string().as_bytes())?;
    }
    Ok(())
}
