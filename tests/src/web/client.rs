//! An MCP client over streamable HTTP that does at random all that clients may, and logs what both sides said.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{
    Coding, Exchanged, Framing, Rng, Sips, Wish, messages, read_body, read_head, wire, write_in_pieces,
};
use crate::peer::initialize;
use crate::transcript::Dir;

/// In the head of each request, and in no event.
pub const SECRET: &str = "4nd-n0b0dy-e15e";
/// How many requests of a session follow each other at most.
const SESSION_REQUESTS: u64 = 40;
/// How many requests are sent before the first is answered, at most.
const PIPELINED: u64 = 4;
/// How long their texts are at most: all must have room in the sockets while neither side reads.
const PIPELINED_BYTES: usize = 64 << 10;

/// One that has one connection at a time for its requests, and two sessions.
pub struct Client {
    to: SocketAddr,
    rng: Rng,
    keep: fn(&Value) -> Value,
    connection: Option<Connection>,
    sessions: Vec<String>,
    id: u64,
    said: Exchanged,
    requests: usize,
}

struct Connection {
    output: TcpStream,
    input: BufReader<Sips<TcpStream>>,
}

/// What is sent: the session, the method, and the message.
struct Request {
    session: Option<String>,
    method: &'static str,
    message: Option<Value>,
    wish: Wish,
}

impl Client {
    /// One that starts with this JSON-RPC id. `keep` is what is kept of each message in the log.
    pub fn new(to: SocketAddr, first_id: u64, keep: fn(&Value) -> Value) -> Self {
        let rng = Rng(first_id);
        let (sessions, said) = (Vec::new(), Vec::new());
        Self { to, rng, keep, connection: None, sessions, id: first_id, said, requests: 0 }
    }

    /// Sends that many requests or a few more, ends its sessions, and gives what was said. `bytes`: how long a text may be.
    ///
    /// # Errors
    /// The server does not answer as it must.
    pub fn run(mut self, requests: usize, bytes: fn(&mut Rng) -> usize) -> Result<Exchanged> {
        while self.requests < requests {
            while self.sessions.len() < 2 {
                let id = self.next_id();
                let opened = self.request(None, "POST", Some(initialize(id)), 10);
                self.exchange(vec![opened])?;
                self.sessions.push(format!("session-{id}"));
            }
            let at = self.rng.below(2) as usize;
            let session = self.sessions[at].clone();
            match self.rng.below(20) {
                0 if self.rng.below(SESSION_REQUESTS / 20) == 0 => {
                    self.sessions.remove(at);
                    let end = self.request(Some(session), "DELETE", None, 10);
                    self.exchange(vec![end])?;
                }
                0 => self.connection = None,
                1 => {
                    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                    let note = self.request(Some(session), "POST", Some(note), 10);
                    self.exchange(vec![note])?;
                }
                2 => self.listen(session)?,
                3..6 => {
                    let count = 2 + self.rng.below(PIPELINED - 1);
                    let calls = (0..count).map(|_| self.call(&session, bytes, PIPELINED_BYTES)).collect();
                    self.exchange(calls)?;
                }
                _ => {
                    let call = self.call(&session, bytes, usize::MAX);
                    self.exchange(vec![call])?;
                }
            }
        }
        for session in std::mem::take(&mut self.sessions) {
            let end = self.request(Some(session), "DELETE", None, 10);
            self.exchange(vec![end])?;
        }
        Ok(self.said)
    }

    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    fn request(
        &mut self,
        session: Option<String>,
        method: &'static str,
        message: Option<Value>,
        bytes: usize,
    ) -> Request {
        Request { session, method, message, wish: Wish::any(bytes, &mut self.rng) }
    }

    /// A call with texts of at most so many bytes.
    fn call(&mut self, session: &str, bytes: fn(&mut Rng) -> usize, most: usize) -> Request {
        let (asked, answered) = (bytes(&mut self.rng).min(most), bytes(&mut self.rng).min(most));
        let arguments = json!({"text": self.rng.text(asked)});
        let call = json!({"jsonrpc": "2.0", "id": self.next_id(), "method": "tools/call", "params": {
            "name": "echo", "arguments": arguments
        }});
        let mut request = self.request(Some(session.to_owned()), "POST", Some(call), answered);
        // Who sends the next before this is answered does not let it end the connection.
        if request.wish.framing == Framing::Close {
            request.wish.framing = Framing::Chunked;
        }
        request
    }

    /// Opens a stream of events, sends a request elsewhere while it is open, and reads it.
    fn listen(&mut self, session: String) -> Result<()> {
        let mut get = self.request(Some(session.clone()), "GET", None, 10);
        get.wish.framing = Framing::Close;
        let mut elsewhere = self.connect()?;
        self.send(&mut elsewhere, &get)?;
        let call = self.call(&session, |rng| 10 + rng.below(100) as usize, usize::MAX);
        self.exchange(vec![call])?;
        self.receive(&mut elsewhere, &get)
    }

    /// Sends requests, one behind the other, and reads their answers.
    fn exchange(&mut self, requests: Vec<Request>) -> Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        for request in &requests {
            self.send(&mut connection, request)?;
        }
        for request in &requests {
            self.receive(&mut connection, request)?;
        }
        let closes = requests.iter().any(|request| request.wish.framing == Framing::Close);
        self.connection = (!closes).then_some(connection);
        Ok(())
    }

    fn connect(&mut self) -> Result<Connection> {
        let output = TcpStream::connect(self.to).context("cannot connect")?;
        output.set_nodelay(true)?;
        let input =
            BufReader::with_capacity(64 << 10, Sips(output.try_clone()?, Rng(self.rng.below(u64::MAX))));
        Ok(Connection { output, input })
    }

    fn send(&mut self, connection: &mut Connection, request: &Request) -> Result<()> {
        self.requests += 1;
        let session = request.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n"));
        let accept = if request.method == "GET" { "" } else { "application/json, " };
        let lines = format!(
            "{} /mcp?key={SECRET} HTTP/1.1\r\nHost: {}\r\nAccept: {accept}text/event-stream\r\n\
             Authorization: Bearer {SECRET}\r\nCookie: id={SECRET}\r\n{}: {}\r\n{}",
            request.method,
            self.to,
            Wish::HEADER,
            request.wish.value(),
            session.unwrap_or_default()
        );
        let wire = match &request.message {
            Some(message) => {
                if let Some(session) = self.log_of(request) {
                    self.said.push((session, Dir::C2s, (self.keep)(message)));
                }
                let lines = format!("{lines}Content-Type: application/json\r\n");
                let framing = self.rng.one_of(&[Framing::Length, Framing::Length, Framing::Chunked]);
                let coding = if self.rng.below(8) == 0 { Coding::Gzip } else { Coding::Identity };
                wire(&lines, message.to_string().as_bytes(), framing, coding, &mut self.rng)?
            }
            None => format!("{lines}\r\n").into_bytes(),
        };
        // Most write a message at once.
        match self.rng.below(3) {
            0 => write_in_pieces(&mut connection.output, &wire, &mut self.rng)?,
            _ => std::io::Write::write_all(&mut connection.output, &wire)?,
        }
        Ok(())
    }

    fn receive(&mut self, connection: &mut Connection, request: &Request) -> Result<()> {
        let head = read_head(&mut connection.input)?.context("no answer")?;
        ensure!(head.status().is_some_and(|status| status < 300), "{}", head.first);
        let body = read_body(&head, &mut connection.input)?;
        for message in messages(&head, &body)? {
            if let Some(session) = self.log_of(request) {
                self.said.push((session, Dir::S2c, (self.keep)(&message)));
            }
        }
        Ok(())
    }

    /// The session that a request belongs to: the one that it begins, too.
    fn log_of(&self, request: &Request) -> Option<String> {
        let begun = || request.message.as_ref().map(|message| format!("session-{}", message["id"]));
        request.session.clone().or_else(begun)
    }
}
