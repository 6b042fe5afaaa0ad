//! A small MCP server over standard input and output, with switches for what real servers do oddly.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::addressed;
use crate::framing::Framing;

/// The revision of the MCP specification that is spoken.
pub const PROTOCOL_VERSION: &str = "2025-06-18";

/// Switches that every server of ours has.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerOptions {
    /// Answer `tools/list` with one tool a page
    #[arg(long)]
    pub paginate: bool,
    /// Print a line of log text to stdout before each message
    #[arg(long)]
    pub log_noise: bool,
    /// Wait before each answer
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub delay_ms: u64,
    /// Print N bytes without a newline in them, and then one, before the answer to the first tool call
    #[arg(long, value_name = "N")]
    pub junk: Option<usize>,
    /// Exit with this code when the input ends
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub exit_code: i32,
    /// Change the name of the process (its `comm`)
    #[arg(long, value_name = "NAME")]
    pub rename: Option<String>,
    /// Frame messages by `Content-Length:` headers in place of lines
    #[arg(long)]
    pub content_length: bool,
    /// Offer a tool `blob` that returns N bytes of text
    #[arg(long, value_name = "N")]
    pub big: Option<usize>,
    /// Write what comes in to FILE, a line for each message
    #[arg(long, value_name = "FILE")]
    pub heard: Option<PathBuf>,
    /// Listen on the socket that standard input is, and serve one connection
    #[arg(long)]
    pub accept: bool,
}

/// One tool: its definition, and what it answers to its arguments (text, or an error text).
pub struct Tool {
    /// The definition as it stands in `tools/list`.
    pub definition: Value,
    /// What a call answers.
    pub call: fn(&Value) -> Result<String, String>,
}

impl Tool {
    fn name(&self) -> &str {
        self.definition["name"].as_str().unwrap_or_default()
    }
}

/// The two tools of the benign server, which the others offer too.
pub fn benign_tools() -> Vec<Tool> {
    vec![
        Tool {
            definition: json!({
                "name": "add",
                "title": "Add",
                "description": "Adds two numbers.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                    "required": ["a", "b"],
                },
                "annotations": {"readOnlyHint": true},
            }),
            call: |arguments| match (arguments["a"].as_f64(), arguments["b"].as_f64()) {
                (Some(a), Some(b)) => Ok(format!("{}", a + b)),
                _ => Err("`a` and `b` must be numbers".to_owned()),
            },
        },
        Tool {
            definition: json!({
                "name": "echo",
                "description": "Returns the text it is given.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                },
            }),
            call: |arguments| {
                arguments["text"]
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| "`text` must be a string".to_owned())
            },
        },
    ]
}

/// A server: what it is called and offers.
pub struct MiniServer {
    name: String,
    options: ServerOptions,
    tools: Vec<Tool>,
    instructions: Option<String>,
}

impl MiniServer {
    /// A server with these tools.
    pub fn new(name: &str, options: ServerOptions, tools: Vec<Tool>) -> Self {
        Self { name: name.to_owned(), options, tools, instructions: None }
    }

    /// The same, with a text for the `instructions` of the answer to `initialize`.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.to_owned());
        self
    }

    /// Answers what comes in on standard input, or over the connection that is accepted there, until it ends.
    ///
    /// # Errors
    /// Standard input or output failed.
    pub fn serve(&self) -> Result<()> {
        if self.options.accept {
            let mut connection = addressed::accept().context("--accept")?;
            let mut input = BufReader::new(connection.try_clone().context("--accept")?);
            return self.answer_all(&mut input, |message| connection.write_all(message));
        }
        self.serve_with(|message| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(message)?;
            stdout.flush()
        })
    }

    /// The same, with `send` for the writing of what goes out; it gets bytes with their framing.
    ///
    /// # Errors
    /// Standard input or `send` failed.
    pub fn serve_with(&self, send: impl FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
        self.answer_all(&mut io::stdin().lock(), send)
    }

    fn answer_all(
        &self,
        input: &mut impl BufRead,
        mut send: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<()> {
        if let Some(name) = &self.options.rename {
            let name = std::ffi::CString::new(name.as_str()).context("--rename: a name without NUL bytes")?;
            nix::sys::prctl::set_name(&name).context("cannot change the name of the process")?;
        }
        let framing = Framing::content_length(self.options.content_length);
        let mut junk = self.options.junk;
        let mut heard = self.options.heard.as_ref().map(File::create).transpose().context("--heard")?;
        while let Some(message) = framing.read(input).context("cannot read standard input")? {
            if let Some(heard) = &mut heard {
                heard.write_all(&[&message[..], b"\n"].concat()).context("--heard")?;
            }
            let Some(answer) = self.answer_bytes(&message) else { continue };
            thread::sleep(Duration::from_millis(self.options.delay_ms));
            if self.options.log_noise {
                let noise = format!("[info] handled a message of {} bytes\n", message.len());
                send(noise.as_bytes()).context("cannot write standard output")?;
            }
            if answer["result"]["content"].is_array()
                && let Some(bytes) = junk.take()
            {
                send(&[&vec![b'x'; bytes], &b"\n"[..]].concat()).context("cannot write standard output")?;
            }
            let bytes = framing.wrap(answer.to_string().as_bytes());
            send(&bytes).context("cannot write standard output")?;
        }
        if self.options.exit_code != 0 {
            std::process::exit(self.options.exit_code);
        }
        Ok(())
    }

    /// The answer to one frame; none to notifications and answers.
    fn answer_bytes(&self, message: &[u8]) -> Option<Value> {
        match serde_json::from_slice(message) {
            Ok(Value::Array(batch)) => {
                let answers: Vec<Value> = batch.iter().filter_map(|message| self.answer(message)).collect();
                (!answers.is_empty()).then_some(Value::Array(answers))
            }
            Ok(message) => self.answer(&message),
            Err(error) => Some(
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": error.to_string()}}),
            ),
        }
    }

    fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let method = message["method"].as_str()?;
        Some(match self.result(method, &message["params"]) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, text)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
            }
        })
    }

    fn result(&self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        match method {
            "initialize" => {
                let mut result = initialize_result(&self.name);
                if let Some(instructions) = &self.instructions {
                    result["instructions"] = json!(instructions);
                }
                Ok(result)
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list(params)),
            "tools/call" => self.call(params),
            _ => Err((-32601, format!("method not found: {method}"))),
        }
    }

    fn definitions(&self) -> Vec<Value> {
        let mut definitions: Vec<Value> = self.tools.iter().map(|tool| tool.definition.clone()).collect();
        if let Some(bytes) = self.options.big {
            definitions.push(json!({
                "name": "blob",
                "description": format!("Returns {bytes} bytes of text."),
                "inputSchema": {"type": "object"},
            }));
        }
        definitions
    }

    fn list(&self, params: &Value) -> Value {
        let definitions = self.definitions();
        if !self.options.paginate {
            return json!({"tools": definitions});
        }
        let page = params["cursor"].as_str().and_then(|cursor| cursor.parse::<usize>().ok()).unwrap_or(0);
        let mut result = json!({"tools": definitions.iter().skip(page).take(1).collect::<Vec<_>>()});
        if page + 1 < definitions.len() {
            result["nextCursor"] = json!((page + 1).to_string());
        }
        result
    }

    fn call(&self, params: &Value) -> Result<Value, (i64, String)> {
        let name = params["name"].as_str().unwrap_or_default();
        let answer = match (self.options.big, self.tools.iter().find(|tool| tool.name() == name)) {
            (Some(bytes), _) if name == "blob" => Ok(blob(bytes)),
            (_, Some(tool)) => (tool.call)(&params["arguments"]),
            _ => return Err((-32602, format!("unknown tool: {name}"))),
        };
        Ok(match answer {
            Ok(text) => json!({"content": [{"type": "text", "text": text}], "isError": false}),
            Err(text) => json!({"content": [{"type": "text", "text": text}], "isError": true}),
        })
    }
}

/// What a server called `name` answers to `initialize`.
pub fn initialize_result(name: &str) -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": name, "version": env!("CARGO_PKG_VERSION")},
    })
}

/// `bytes` bytes of text that repeats nowhere, so that a piece in the wrong place is noticed.
pub fn blob(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut number = 0_u64;
    while text.len() < bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{number:09};");
        number += 1;
    }
    text.truncate(bytes);
    text
}
