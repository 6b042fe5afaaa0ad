//! The other end of the control socket: what commands ask a running agent.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Method, Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;

use super::Refusal;
use crate::output::escaped;

/// How long the agent may take to answer: longer than it takes to give up.
const PATIENCE: Duration = Duration::from_secs(15);

/// What it answers where it does not do what it is asked.
#[derive(Deserialize)]
struct Refused {
    error: Refusal,
}

/// None answers at a socket.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Unreachable {
    /// Why.
    pub kind: io::ErrorKind,
    text: String,
}

/// Asks the agent at a socket.
///
/// # Errors
/// None answers there, or it refuses; says what to do.
pub fn query_agent<T: DeserializeOwned>(
    socket: &Path,
    method: Method,
    path: &str,
    body: &impl Serialize,
) -> Result<T> {
    let body = serde_json::to_vec(body)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(async {
        let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(socket, &error))?;
        tokio::time::timeout(PATIENCE, exchange(stream, method, path, body))
            .await
            .map_err(|_| anyhow!("the agent did not answer within {} s", PATIENCE.as_secs()))?
            .with_context(|| format!("no answer from the agent at {}", socket.display()))
    });
    let answer = answer?;
    if let Ok(Refused { error }) = serde_json::from_slice(&answer) {
        bail!(escaped(&error.message));
    }
    serde_json::from_slice(&answer).with_context(|| {
        format!(
            "the program that answers at {} is not an agent, or an agent of another version",
            socket.display()
        )
    })
}

async fn exchange(stream: UnixStream, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder().method(method).uri(path).header(HOST, "mcpwarden");
    let request = request.body(Full::new(Bytes::from(body)))?;
    let answer = async {
        let response = sender.send_request(request).await?;
        Ok(response.into_body().collect().await?.to_bytes())
    };
    // It ends with the answer.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

/// Why nobody answers, and what to do.
fn unreachable(socket: &Path, error: &io::Error) -> Unreachable {
    let path = socket.display();
    let text = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no agent runs that listens at {path}: start one (`mcpwarden run`), or name the socket of one with --socket"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "you may not use {path}: root may, and members of the group that control.group names (`mcpwarden`, if \
             nothing else is configured)"
        ),
        _ => format!("cannot reach the agent at {path}: {error}"),
    };
    Unreachable { kind: error.kind(), text }
}
