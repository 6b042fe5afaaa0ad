//! A raw server: answers each line with the line itself, whatever bytes are in it, or with the bytes it is told.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use mcpwarden_tests::io_methods::{ReadMethod, WriteMethod, hex_digest};
use mcpwarden_tests::mini_server::{benign_tools, initialize_result};
use serde_json::{Value, json};

/// Answers each line with a JSON-RPC result that holds the line, byte for byte.
#[derive(Parser)]
struct Cli {
    /// How to read standard input
    #[arg(long, value_enum, default_value_t)]
    read: ReadMethod,
    /// How to write standard output
    #[arg(long, value_enum, default_value_t)]
    write: WriteMethod,
    /// How many bytes a write takes; 0: all there are
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    chunk: usize,
    /// Answer with the length and the SHA-256 of the line in place of the line
    #[arg(long)]
    short: bool,
    /// Wait before each answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay_ms: u64,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let mut input = BufReader::new(cli.read.reader(stdin.as_fd()));
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("cannot read standard input")? == 0 {
            return Ok(());
        }
        if let Some(answer) = answer(line.trim_ascii(), cli.short) {
            thread::sleep(Duration::from_millis(cli.delay_ms));
            send(&cli, stdout.as_fd(), &answer)?;
        }
    }
}

fn send(cli: &Cli, stdout: BorrowedFd<'_>, answer: &[u8]) -> Result<()> {
    let pieces = answer.chunks(if cli.chunk == 0 { answer.len() } else { cli.chunk });
    for piece in pieces {
        cli.write.write(stdout, piece).context("cannot write standard output")?;
    }
    Ok(())
}

/// None for what has no id: notifications, answers, and what is no JSON at all.
fn answer(line: &[u8], short: bool) -> Option<Vec<u8>> {
    // A request may hold any bytes in its strings; its id and method are told nonetheless.
    let text: String = String::from_utf8_lossy(line).chars().filter(|c| *c != '\0').collect();
    let request: Value = serde_json::from_str(&text).ok()?;
    let request = match &request {
        Value::Array(batch) => batch.first()?,
        other => other,
    };
    let id = request.get("id")?;
    let answer = |result: &[u8]| {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        [head.as_bytes(), result, b"}\n"].concat()
    };
    Some(match request["method"].as_str()? {
        "initialize" => answer(initialize_result("echo-server").to_string().as_bytes()),
        "tools/list" => {
            let definitions: Vec<Value> = benign_tools().into_iter().map(|tool| tool.definition).collect();
            answer(json!({"tools": definitions}).to_string().as_bytes())
        }
        // The bytes in place of an answer.
        "test/say" => bytes_of(request["params"]["hex"].as_str()?)?,
        _ if short => {
            let result = json!({"bytes": line.len(), "sha256": hex_digest(line)});
            answer(result.to_string().as_bytes())
        }
        _ => answer(&[br#"{"echo":"#, line, b"}"].concat()),
    })
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
