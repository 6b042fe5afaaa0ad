//! Whom a webhook posts to.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use sha2::Sha256;

use crate::http_server::{self, CERTIFICATE};

/// A request, and how it was answered.
#[derive(Clone, Debug)]
pub struct Post {
    /// When it was there.
    pub at: Instant,
    /// Its answer.
    pub status: u16,
    /// `Idempotency-Key`.
    pub key: String,
    /// `X-Mcpwarden-Timestamp`.
    pub timestamp: String,
    /// `X-Mcpwarden-Signature`.
    pub signature: String,
    /// What was posted.
    pub body: Vec<u8>,
    /// The same, read.
    pub events: Vec<Value>,
}

impl Post {
    /// Whether it is signed as docs/guide/siem.md says.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
        mac.update(self.timestamp.as_bytes());
        mac.update(b".");
        mac.update(&self.body);
        let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        self.signature == format!("sha256={digits}") && self.timestamp.parse::<u64>().is_ok()
    }
}

/// One that listens on a port of loopback, once it lives, and answers what it is told to.
pub struct Receiver {
    port: u16,
    tls: Option<Arc<ServerConfig>>,
    state: Arc<Mutex<State>>,
}

struct State {
    status: u16,
    /// `Retry-After` of what is answered, seconds.
    retry_after: Option<u32>,
    posts: Vec<Post>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// One that does not listen yet.
    ///
    /// # Errors
    /// No port is left.
    pub fn dead() -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let state = State { status: 200, retry_after: None, posts: Vec::new() };
        Ok(Self { port, tls: None, state: Arc::new(Mutex::new(state)) })
    }

    /// The same over TLS, with [`CERTIFICATE`].
    ///
    /// # Errors
    /// As [`Receiver::dead`].
    pub fn dead_over_tls() -> Result<Self> {
        Ok(Self { tls: Some(http_server::tls(CERTIFICATE)?), ..Self::dead()? })
    }

    /// Where it listens.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{path}", self.port)
    }

    /// Begins to listen, until the test ends.
    ///
    /// # Errors
    /// Somebody else has its port.
    pub fn live(&self) -> Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).context("its port is taken")?;
        let (state, tls) = (Arc::clone(&self.state), self.tls.clone());
        thread::spawn(move || {
            // One after the other, so that their order is that in which they were sent.
            for stream in listener.incoming().flatten() {
                let _ = match &tls {
                    None => take(stream, &state),
                    Some(tls) => ServerConnection::new(Arc::clone(tls))
                        .map_err(Into::into)
                        .and_then(|connection| take(StreamOwned::new(connection, stream), &state)),
                };
            }
        });
        Ok(())
    }

    /// The status of what it answers from now on.
    pub fn answer(&self, status: u16) {
        let mut state = lock(&self.state);
        (state.status, state.retry_after) = (status, None);
    }

    /// As [`Receiver::answer`], and not to be asked again for so many seconds.
    pub fn answer_later(&self, status: u16, seconds: u32) {
        let mut state = lock(&self.state);
        (state.status, state.retry_after) = (status, Some(seconds));
    }

    /// What was posted so far.
    pub fn posts(&self) -> Vec<Post> {
        lock(&self.state).posts.clone()
    }
}

fn take(stream: impl Read + Write, state: &Mutex<State>) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut post) = (
        0,
        Post {
            at: Instant::now(),
            status: 0,
            key: String::new(),
            timestamp: String::new(),
            signature: String::new(),
            body: Vec::new(),
            events: Vec::new(),
        },
    );
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "the head has no end");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                break;
            }
            ensure!(line.starts_with("POST "), "{line}");
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse()?,
            "idempotency-key" => post.key = value.to_owned(),
            "x-mcpwarden-timestamp" => post.timestamp = value.to_owned(),
            "x-mcpwarden-signature" => post.signature = value.to_owned(),
            _ => {}
        }
    }
    post.body = vec![0; length];
    reader.read_exact(&mut post.body)?;
    post.events = serde_json::from_slice(&post.body)?;
    let mut state = lock(state);
    post.status = state.status;
    state.posts.push(post.clone());
    let pause = state.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    drop(state);
    let answer =
        format!("HTTP/1.1 {} x\r\n{pause}content-length: 0\r\nconnection: close\r\n\r\n", post.status);
    Ok(reader.get_mut().write_all(answer.as_bytes())?)
}
