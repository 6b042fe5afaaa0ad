//! `mcpwarden replay`: recorded frames through the same policy core, events out. See [`mcpwarden_policy::replay`] for
//! what a line is. The same input gives the same bytes: nothing is read but the input and the configuration.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::Output;
use mcpwarden_policy::replay::Replay;

use crate::cli::ReplayOptions;
use crate::config::{self, Config};
use crate::output::Format;

/// Longest line. A frame of 16 MiB can be six times as long when every byte of it is escaped.
const MAX_LINE_BYTES: u64 = 128 << 20;

/// Replays a file, or standard input for `-`.
///
/// # Errors
/// The file cannot be read, or a line of it is no record; what came before was printed.
pub fn run(options: &ReplayOptions) -> Result<()> {
    let config = options.config.as_deref().map_or_else(|| Ok(Config::default()), config::read)?;
    // Hashes are keyed with a secret of the host; here the same input has to give the same bytes on every host.
    let engine = config::engine(&config, [0; 32], options.verbose, options.show_payloads)?;
    let name = options.file.display().to_string();
    let input: Box<dyn Read> = if options.file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(&options.file).with_context(|| format!("cannot open {name}"))?)
    };
    let stdout = std::io::BufWriter::new(std::io::stdout().lock());
    Printer::new(options.output.format(), stdout).run(Replay::new(engine), &name, BufReader::new(input))
}

struct Printer<W> {
    format: Format,
    to: W,
    outputs: Vec<Output>,
    line: Vec<u8>,
}

impl<W: Write> Printer<W> {
    fn new(format: Format, to: W) -> Self {
        Self { format, to, outputs: Vec::new(), line: Vec::new() }
    }

    fn run(mut self, mut replay: Replay, name: &str, mut input: impl BufRead) -> Result<()> {
        let mut text = Vec::new();
        for number in 1_u64.. {
            text.clear();
            let place = || format!("{name}:{number}");
            (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut text).with_context(place)?;
            if text.is_empty() {
                break;
            }
            ensure!(
                text.ends_with(b"\n") || (text.len() as u64) < MAX_LINE_BYTES,
                "{}: longer than {} MiB",
                place(),
                MAX_LINE_BYTES >> 20
            );
            if text.trim_ascii().is_empty() {
                continue;
            }
            let outcome = replay.line(&text, &mut self.outputs);
            // What was said until then stays said.
            self.print()?;
            outcome.with_context(place)?;
        }
        while replay.wait(&mut self.outputs) {
            self.print()?;
        }
        self.to.flush().context("cannot write")
    }

    fn print(&mut self) -> Result<()> {
        for output in self.outputs.drain(..) {
            if let Output::Event(event) = output {
                self.line.clear();
                self.format.write(&event, &mut self.line);
                self.to.write_all(&self.line).context("cannot write")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(text: &str) -> (String, Result<()>) {
        let mut out = Vec::new();
        let engine = config::engine(&Config::default(), [0; 32], false, false).unwrap();
        let outcome = Printer::new(Format::Json, &mut out).run(Replay::new(engine), "x", text.as_bytes());
        (String::from_utf8(out).unwrap(), outcome)
    }

    const LINES: &str = r#"{"t": 1, "session": "s1", "server": "a", "event": "exec", "argv": ["a", "b"]}
{"t": 1.5, "session": "s1", "server": "a", "dir": "c2s", "frame": "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}"}

{"t": 1.25, "session": "s1", "server": "a", "dir": "s2c", "frame": "{\"id\":1,\"result\":{}}"}
{"t": 2, "server": "b", "dir": "c2s", "frame": "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}}"}"#;

    #[test]
    fn the_same_bytes_each_time() {
        let (first, outcome) = replay(LINES);
        outcome.unwrap();
        assert_eq!(first, replay(LINES).0);
        let said: Vec<(String, String, String)> = first
            .lines()
            .map(|line| {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                let text = |name: &str| event[name].as_str().unwrap().to_owned();
                (text("type"), text("session_id"), text("server_id"))
            })
            .collect();
        let expected = [
            ("mcp_server_started", "s1", "a"),
            ("mcp_tool_called", "s1", "a"),
            ("mcp_tool_result", "s1", "a"),
            ("mcp_server_started", "replay", "b"),
            ("mcp_tool_called", "replay", "b"),
        ];
        let expected = expected.map(|(kind, session, server)| (kind.into(), session.into(), server.into()));
        assert_eq!(said, expected);
        assert!(first.contains(r#""argv":["a","b"]"#), "{first}");
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let cases = [
            ("{", "x:1"),
            ("\n{\"t\":1}", "x:2: missing field `server`"),
            (r#"{"t":1,"server":"a"}"#, "either `dir` and `frame`"),
            (r#"{"t":-1,"server":"a","event":"exec"}"#, "not negative"),
            (r#"{"t":1,"server":"a","dir":"up","frame":""}"#, "unknown variant `up`"),
            (r#"{"t":1,"server":"a","what":1}"#, "unknown field `what`"),
        ];
        for (text, expected) in cases {
            let error = format!("{:#}", replay(text).1.unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
