//! An MCP server over streamable HTTP that answers each request as that asks for, and logs what both sides said.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Answer, Coding, Framing, Head, Rng, Wish, read_body, read_head, write_in_pieces};
use crate::mini_server::initialize_result;
use crate::transcript::Dir;

/// What was said, each with the session that it belongs to.
pub type Exchanged = Vec<(String, Dir, Value)>;

/// A server that runs until the test ends.
pub struct Server {
    address: SocketAddr,
    said: Arc<Mutex<Exchanged>>,
}

impl Server {
    /// Listens. `keep` is what is kept of each message in the log.
    ///
    /// # Errors
    /// The address is not free.
    pub fn start(at: SocketAddr, keep: fn(&Value) -> Value) -> Result<Self> {
        let listener = TcpListener::bind(at).with_context(|| format!("cannot listen on {at}"))?;
        let address = listener.local_addr()?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&said);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let log = Arc::clone(&log);
                // A client that goes away is no error here; what it misses shows in the logs.
                thread::spawn(move || serve(stream, number as u64, &log, keep));
            }
        });
        Ok(Self { address, said })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was said so far.
    pub fn said(&self) -> Exchanged {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(stream: TcpStream, number: u64, log: &Mutex<Exchanged>, keep: fn(&Value) -> Value) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut rng = Rng(number);
    let mut input = BufReader::new(stream.try_clone()?);
    let mut output = stream;
    while let Some(head) = read_head(&mut input)? {
        let body = read_body(&head, &mut input)?;
        let answer = answer(&head, &body, |session, dir, message| {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push((session.to_owned(), dir, keep(message)));
        })?;
        write_in_pieces(&mut output, &answer.0, &mut rng)?;
        if answer.1 {
            break;
        }
    }
    output.flush()?;
    Ok(())
}

/// The answer, and whether the connection ends with it.
fn answer(head: &Head, body: &[u8], mut log: impl FnMut(&str, Dir, &Value)) -> Result<(Vec<u8>, bool)> {
    let method = head.first.split(' ').next().unwrap_or_default();
    let session = head.field("mcp-session-id").unwrap_or_default().to_owned();
    let wish = head.field(Wish::HEADER).and_then(Wish::of);
    let wish = wish.unwrap_or(Wish {
        answer: Answer::Json,
        framing: Framing::Length,
        coding: Coding::Identity,
        bytes: 10,
        notifications: 0,
        seed: 0,
    });
    let mut rng = Rng(wish.seed);
    let note = |number: u64| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": number}});
    let closes = wish.framing == Framing::Close || head.field("connection") == Some("close");
    let mut messages: Vec<Value> = Vec::new();
    let (mut session, mut lines) = (session, String::new());
    match method {
        "POST" => {
            let asked: Value = serde_json::from_slice(body).context("no JSON")?;
            let Some(id) = asked.get("id") else {
                log(&session, Dir::C2s, &asked);
                return Ok((b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec(), closes));
            };
            let result = match asked["method"].as_str() {
                Some("initialize") => {
                    session = format!("session-{id}");
                    lines = format!("Mcp-Session-Id: {session}\r\n");
                    initialize_result("mixed")
                }
                Some("tools/call") => json!({"content": [{"type": "text", "text": rng.text(wish.bytes)}]}),
                _ => json!({}),
            };
            log(&session, Dir::C2s, &asked);
            if wish.answer == Answer::Events {
                messages.extend((0..wish.notifications).map(note));
            }
            messages.push(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        }
        "GET" => messages.extend((0..=wish.notifications).map(note)),
        "DELETE" => return Ok((b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), closes)),
        _ => return Ok((b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_vec(), closes)),
    }
    messages.iter().for_each(|message| log(&session, Dir::S2c, message));
    let wish = if method == "GET" { Wish { answer: Answer::Events, ..wish } } else { wish };
    Ok((wish.wire(&messages, &lines)?, closes))
}
