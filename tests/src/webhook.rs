//! Whom a webhook posts to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

/// A request, and how it was answered.
#[derive(Clone, Debug)]
pub struct Post {
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
    /// Whether it is signed as docs/sinks.md says.
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
    state: Arc<Mutex<State>>,
}

struct State {
    status: u16,
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
        Ok(Self { port, state: Arc::new(Mutex::new(State { status: 200, posts: Vec::new() })) })
    }

    /// Where it listens.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Begins to listen, until the test ends.
    ///
    /// # Errors
    /// Somebody else has its port.
    pub fn live(&self) -> Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).context("its port is taken")?;
        let state = Arc::clone(&self.state);
        thread::spawn(move || {
            // One after the other, so that their order is that in which they were sent.
            for stream in listener.incoming().flatten() {
                let _ = take(stream, &state);
            }
        });
        Ok(())
    }

    /// The status of what it answers from now on.
    pub fn answer(&self, status: u16) {
        lock(&self.state).status = status;
    }

    /// What was posted so far.
    pub fn posts(&self) -> Vec<Post> {
        lock(&self.state).posts.clone()
    }
}

fn take(stream: TcpStream, state: &Mutex<State>) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut post) = (
        0,
        Post {
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
    drop(state);
    let answer = format!("HTTP/1.1 {} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", post.status);
    Ok(reader.get_mut().write_all(answer.as_bytes())?)
}
