//! The official Rust SDK over standard input and output.
//!
//! usage: mcpwarden-rust-sdk PLAN.json LOG.jsonl: drives one server, as driver.py does; `mode` is required.
//!        mcpwarden-rust-sdk --serve: a server with the tool `add`.

// What is called deprecated here are requests that servers of the older era send.
#![allow(deprecated)]

use std::{
    error::Error,
    fs::File,
    io::Write as _,
    pin::Pin,
    process::Stdio,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use rmcp::{
    ClientHandler, RoleClient, RoleServer, ServerHandler, ServiceExt,
    model::*,
    service::{ClientLifecycleMode, RequestContext, serve_client_with_lifecycle},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    process::Command,
};

type Failed = Box<dyn Error + Send + Sync>;

/// One direction of a connection, of which each line is written to the log as it passes.
struct Logged<T> {
    inner: T,
    direction: &'static str,
    line: Vec<u8>,
    log: Arc<Mutex<File>>,
}

impl<T> Logged<T> {
    fn new(inner: T, direction: &'static str, log: &Arc<Mutex<File>>) -> Self {
        Self { inner, direction, line: Vec::new(), log: Arc::clone(log) }
    }

    fn passed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.line.push(*byte);
            if *byte == b'\n' {
                let text = String::from_utf8_lossy(&self.line).trim().to_owned();
                self.line.clear();
                let mut log = self.log.lock().expect("one thread");
                writeln!(log, "{{\"dir\":\"{}\",\"message\":{text}}}", self.direction).expect("a log");
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Logged<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let bytes = buffer.filled()[before..].to_vec();
        self.passed(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Logged<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.passed(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// A client that answers what servers ask.
struct Answering;

impl ClientHandler for Answering {
    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"})))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("Canada"), "m".to_owned()))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///work").with_name("work")]))
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities =
            ClientCapabilities::builder().enable_elicitation().enable_sampling().enable_roots();
        ClientConfig::new(capabilities.build(), Implementation::new("mcpwarden-test", "1"))
    }
}

/// A server with a tool that adds two numbers.
struct Adding;

impl ServerHandler for Adding {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let number = json!({"type": "number"});
        let schema = json!({"type": "object", "properties": {"a": number, "b": number}});
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("add", "Add two numbers.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let sum: f64 = ["a", "b"].iter().filter_map(|name| arguments.get(*name)?.as_f64()).sum();
        Ok(CallToolResult::success(vec![ContentBlock::text(sum.to_string())]).into())
    }
}

/// How a client settles the era of the protocol.
fn lifecycle(mode: &str) -> Result<ClientLifecycleMode, Failed> {
    let version = |text: &str| serde_json::from_value::<ProtocolVersion>(json!(text));
    Ok(match mode {
        "legacy" => ClientLifecycleMode::Initialize,
        "auto" => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
        other => ClientLifecycleMode::Discover { preferred_versions: vec![version(other)?] },
    })
}

async fn drive(plan: &str, log: &str) -> Result<(), Failed> {
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(plan)?)?;
    let log = Arc::new(Mutex::new(File::create(log)?));
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("no text");
    let arguments = plan["args"].as_array().into_iter().flatten().map(text).collect::<Result<Vec<_>, _>>()?;
    let mut child = Command::new(text(&plan["command"])?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (input, output) = (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
    let transport = (Logged::new(output, "s2c", &log), Logged::new(input, "c2s", &log));
    let mode = lifecycle(&text(&plan["mode"])?)?;
    let client = serve_client_with_lifecycle(Answering, transport, mode).await?;
    client.list_tools(None).await?;
    for call in plan["calls"].as_array().into_iter().flatten() {
        let mut params = CallToolRequestParams::new(text(&call["name"])?);
        params.arguments = call["arguments"].as_object().cloned();
        client.call_tool(params).await?;
    }
    client.cancel().await?;
    child.wait().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--serve"] => {
            let served = Adding.serve((tokio::io::stdin(), tokio::io::stdout())).await?;
            served.waiting().await?;
            Ok(())
        }
        [plan, log] => tokio::time::timeout(Duration::from_secs(60), drive(plan, log)).await?,
        _ => Err("usage: mcpwarden-rust-sdk (PLAN.json LOG.jsonl | --serve)".into()),
    }
}
