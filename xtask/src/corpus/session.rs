//! One session with a server over stdio, with a limit on everything that the server sends and on the time it takes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};

/// Newest first.
const REVISIONS: [&str; 2] = ["2025-06-18", "2024-11-05"];
const STARTUP: Duration = Duration::from_secs(20);
const REQUEST: Duration = Duration::from_secs(5);
const MAX_LINE: u64 = 16 << 20;
const MAX_LINES: usize = 100_000;
const MAX_PAGES: usize = 50;
/// Lines that wait to be read; beyond them the server waits.
const WAITING: usize = 16;

/// A running server.
pub struct Session {
    server: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    requests: u64,
}

impl Session {
    /// Starts the server.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().context("cannot start the sandbox")?;
        let input = server.stdin.take().context("a pipe was requested")?;
        let output = server.stdout.take().context("a pipe was requested")?;
        let (sender, lines) = sync_channel(WAITING);
        thread::spawn(move || read(output, &sender));
        Ok(Self { server, input, lines, requests: 0 })
    }

    /// Opens the session, in an older revision where the server refuses the newer, and returns the instructions.
    ///
    /// # Errors
    /// The server has ended, or answers no revision in time.
    pub fn initialize(&mut self) -> Result<Value> {
        let mut refused = anyhow!("no revision");
        for revision in REVISIONS {
            let client = json!({"name": "corpus", "version": "1"});
            let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
            match self.request_within("initialize", &params, STARTUP) {
                Ok(mut result) => {
                    self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
                    return Ok(result["instructions"].take());
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// All pages of `KIND/list`.
    ///
    /// # Errors
    /// The server refuses, or has ended.
    pub fn list(&mut self, kind: &str, key: &str) -> Result<Vec<Value>> {
        let (mut entries, mut params) = (Vec::new(), json!({}));
        for _ in 0..MAX_PAGES {
            let mut page = self.request_within(&format!("{kind}/list"), &params, STARTUP)?;
            if let Value::Array(more) = page[key].take() {
                entries.extend(more);
            }
            if !page["nextCursor"].is_string() {
                break;
            }
            params = json!({"cursor": page["nextCursor"]});
        }
        Ok(entries)
    }

    /// The text of the answer to a call; `None` where the answer is an error, or has no text.
    ///
    /// # Errors
    /// No answer in time.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Option<String>> {
        let result =
            self.request_within("tools/call", &json!({"name": tool, "arguments": arguments}), REQUEST);
        let result = match result {
            Err(error) if error.is::<Refused>() => return Ok(None),
            result => result?,
        };
        let blocks = result["content"].as_array().into_iter().flatten();
        let text: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
        let is_answer = result["isError"] != true && !text.is_empty();
        Ok(is_answer.then(|| text.join("\n")))
    }

    fn request_within(&mut self, method: &str, params: &Value, limit: Duration) -> Result<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).with_context(|| format!("no answer to {method}"))?;
            let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
            if message.get("method").is_some() {
                self.reply(&message)?;
            } else if message["id"] == id {
                return match message.get_mut("result") {
                    Some(result) => Ok(result.take()),
                    None => bail!(Refused(method.to_owned())),
                };
            }
        }
    }

    /// Answers a request of the server: only pings are served.
    fn reply(&mut self, message: &Value) -> Result<()> {
        let Some(id) = message.get("id") else { return Ok(()) };
        if message["method"] == "ping" {
            return self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        }
        let error = json!({"code": -32601, "message": "not supported"});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes()).context("the server has ended")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The sandbox ends all that it holds. That it has ended by itself is no error.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The server answers a request with an error.
#[derive(Debug)]
struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the server refuses {}", self.0)
    }
}

impl std::error::Error for Refused {}

/// Passes on the lines of a server, up to the first that is too long.
fn read(output: ChildStdout, lines: &SyncSender<String>) {
    let mut output = BufReader::new(output);
    for _ in 0..MAX_LINES {
        let mut line = Vec::new();
        match output.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {}
            _ => return,
        }
        if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers what `script` prints.
    fn server(script: &str) -> Session {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Session::start(command).unwrap()
    }

    const OPEN: &str =
        r#"read l; echo '{"jsonrpc":"2.0","id":1,"result":{"instructions":"Read me."}}'; read l;"#;

    #[test]
    fn pages_of_a_list_are_joined() {
        let mut session = server(&format!(
            r#"{OPEN} read l; echo 'a log line'; echo '{{"jsonrpc":"2.0","method":"notifications/message"}}'
            echo '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"a"}}],"nextCursor":"2"}}}}'
            read l; echo "$l" | grep -q '"cursor":"2"' && echo '{{"jsonrpc":"2.0","id":3,"result":{{"tools":[{{"name":"b"}}]}}}}'"#
        ));
        assert_eq!(session.initialize().unwrap(), "Read me.");
        assert_eq!(session.list("tools", "tools").unwrap(), [json!({"name": "a"}), json!({"name": "b"})]);
    }

    #[test]
    fn older_revision_follows_a_refusal() {
        let mut session = server(
            r#"read l; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}'
            read l; echo "$l" | grep -q 2024-11-05 && echo '{"jsonrpc":"2.0","id":2,"result":{}}'; read l"#,
        );
        assert_eq!(session.initialize().unwrap(), Value::Null);
    }

    #[test]
    fn requests_of_the_server_are_answered() {
        let mut session = server(
            r#"read l; echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'
            read l; echo "$l" | grep -q '"result":{}' || exit; echo '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'
            read l; echo "$l" | grep -q 32601 && echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read l"#,
        );
        assert_eq!(session.initialize().unwrap(), Value::Null);
    }

    #[test]
    fn only_texts_that_are_no_errors_are_answers() {
        for (answer, expected) in [
            (
                r#""result":{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}"#,
                Some("a\nb"),
            ),
            (r#""result":{"content":[],"structuredContent":{}}"#, None),
            (r#""result":{"isError":true,"content":[{"type":"text","text":"a"}]}"#, None),
            (r#""result":{}"#, None),
            (r#""error":{"code":1,"message":"a"}"#, None),
        ] {
            let mut session = server(&format!(r#"read l; echo '{{"jsonrpc":"2.0","id":1,{answer}}}'"#));
            assert_eq!(session.call("t", &json!({})).unwrap().as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn server_that_ends_or_floods_is_an_error() {
        for script in
            ["exit 1", "read l; exit", "yes noise", "head -c 20000000 /dev/zero; read l; read l", "echo '{'"]
        {
            let mut command = Command::new("timeout");
            command.args(["2", "sh", "-c", script]);
            let mut session = Session::start(command).unwrap();
            assert!(
                session.request_within("tools/list", &json!({}), Duration::from_secs(3)).is_err(),
                "{script}"
            );
        }
    }
}
