//! Transcripts as tables: what goes over which stream, and what comes out.

mod clients;
mod gate;
mod hostile;
mod http2;
mod links;
mod loss;
mod mirrored;
mod others;
mod properties;
mod stopped;
mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use super::*;

pub(super) const LIMITS: HttpLimits = HttpLimits {
    frame_bytes: 4096,
    head_bytes: 2048,
    streams: 64,
    links: 16,
    links_of_client: 16,
    held_bytes: 64 * 1024,
    idle: Duration::from_secs(300),
};

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The client of a stream writes.
    Ask(u64, Vec<u8>),
    /// The client of a stream reads.
    Answer(u64, Vec<u8>),
    /// So many bytes are missing.
    Gap(u64, Direction, u64),
    Close(u64),
    /// A process ends.
    End(u32),
    /// So many seconds pass.
    Wait(u64),
    /// The engine says that a link is no MCP.
    Forget(u64),
    /// The gate has overwritten some of what comes next.
    Neutralized(u64),
    /// The gate has refused a write.
    Refused(u64, Vec<u8>),
}

pub(super) fn ask(stream: u64, text: impl AsRef<[u8]>) -> Step {
    Step::Ask(stream, text.as_ref().to_vec())
}

pub(super) fn answer(stream: u64, text: impl AsRef<[u8]>) -> Step {
    Step::Answer(stream, text.as_ref().to_vec())
}

/// A POST of JSON with these headers, each ended by CRLF.
pub(super) fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A GET of a stream of events.
pub(super) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n{headers}\r\n")
}

/// An answer of JSON.
pub(super) fn json(headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The head of a chunked stream of events.
pub(super) fn events(headers: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}Transfer-Encoding: chunked\r\n\r\n"
    )
}

pub(super) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(super) const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
pub(super) const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
pub(super) const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
pub(super) const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;

/// Streams 1 to 19 are those of process 1, 21 to 39 those of process 2 and so on, the latter half of each to another server;
/// from 1000 on the server is declared.
pub(super) fn peers(stream: u64) -> Peers {
    let client = ((stream % 1000 / 20) as u32 + 1, 7);
    let port = if stream % 20 < 10 { 8000 } else { 8001 };
    Peers {
        client,
        server: Endpoint::here(SocketAddr::from(([127, 0, 0, 1], port))),
        known: stream >= 1000,
        others: false,
    }
}

/// Runs it all, and says in a line each what came out.
pub(super) fn run(limits: HttpLimits, steps: &[Step]) -> (Vec<String>, HttpCounters) {
    let mut http = Http::new(limits);
    let (mut lines, mut open, mut now) = (Vec::new(), std::collections::BTreeSet::new(), Timestamp(1));
    for step in steps {
        now = Timestamp(now.0 + 1);
        let mut sink = |output: HttpOutput<'_>| lines.extend(line(output));
        if let Step::Ask(stream, _) | Step::Answer(stream, _) | Step::Gap(stream, ..) = step
            && open.insert(*stream)
        {
            http.open(ConnectionId(*stream), peers(*stream), now);
        }
        match step {
            Step::Ask(stream, bytes) => {
                http.push(ConnectionId(*stream), Direction::ClientToServer, bytes, now, &mut sink);
            }
            Step::Answer(stream, bytes) => {
                http.push(ConnectionId(*stream), Direction::ServerToClient, bytes, now, &mut sink);
            }
            Step::Gap(stream, direction, bytes) => {
                http.gap(ConnectionId(*stream), *direction, *bytes, GapCause::RingFull, now, &mut sink);
            }
            Step::Close(stream) => {
                open.remove(stream);
                http.close(ConnectionId(*stream), now, &mut sink);
            }
            Step::End(pid) => http.client_ended((*pid, 7), now, &mut sink),
            Step::Wait(seconds) => {
                now = now.after(Duration::from_secs(*seconds));
                http.tick(now, &mut sink);
            }
            Step::Neutralized(stream) => http.neutralized(ConnectionId(*stream)),
            Step::Refused(stream, bytes) => http.refused(ConnectionId(*stream), bytes, now, &mut sink),
            Step::Forget(link) => {
                let streams = http.forget(ConnectionId(1 << 63 | link));
                lines.push(format!("drop {:?}", streams.iter().map(|stream| stream.0).collect::<Vec<_>>()));
            }
        }
        let held: usize = http.streams.values().map(Stream::held).sum();
        assert_eq!(http.held, held, "the account of what is held");
    }
    (lines, http.counters)
}

/// `None` of what is no MCP: see [`others`].
pub(super) fn line(output: HttpOutput<'_>) -> Option<String> {
    let number = |link: ConnectionId| {
        assert_eq!(link.0 >> 63, 1);
        link.0 & !(1 << 63)
    };
    let arrow = |direction| if direction == Direction::ClientToServer { '>' } else { '<' };
    Some(match output {
        HttpOutput::OtherRequest { .. } | HttpOutput::OtherAnswer { .. } | HttpOutput::OtherEnd { .. } => {
            return None;
        }
        HttpOutput::Opened { link, client, host, path, kind, .. } => {
            format!("open {} {kind:?} {} {}{path}", number(link), client.0, host.unwrap_or("-"))
        }
        HttpOutput::Frame { link, direction, bytes, .. } => {
            format!("{} {} {}", number(link), arrow(direction), String::from_utf8_lossy(bytes))
        }
        HttpOutput::Stopped { link, bytes, is_refused, .. } => {
            let how = if is_refused { "refused" } else { "neutralized" };
            format!("{} {how} {}", number(link), String::from_utf8_lossy(bytes))
        }
        HttpOutput::Gap { link, direction, bytes, cause, .. } => {
            format!("gap {} {} {bytes} {cause:?}", number(link), arrow(direction))
        }
        HttpOutput::Refused { link, status, id, .. } => {
            format!("refused {} {status} {}", number(link), id.unwrap_or("-"))
        }
        HttpOutput::Uninspected { stream, link, why } => {
            format!("uninspected {} {:?} {why:?}", stream.0, link.map(number))
        }
        HttpOutput::NotMcp { stream } => format!("not mcp {}", stream.0),
        HttpOutput::Closed { link, .. } => format!("close {}", number(link)),
    })
}

/// Each step as it is, and byte by byte.
pub(super) fn check(name: &str, steps: &[Step], expected: &[String]) {
    assert_eq!(run(LIMITS, steps).0, expected, "{name}");
    let bytewise: Vec<Step> = steps
        .iter()
        .flat_map(|step| match step {
            Step::Ask(stream, bytes) => bytes.iter().map(|byte| ask(*stream, [*byte])).collect(),
            Step::Answer(stream, bytes) => bytes.iter().map(|byte| answer(*stream, [*byte])).collect(),
            other => vec![other.clone()],
        })
        .collect();
    assert_eq!(run(LIMITS, &bytewise).0, expected, "{name}: byte by byte");
}

/// A line of what comes out.
macro_rules! lines {
    ($($format:literal $(, $value:expr)*);* $(;)?) => { vec![$(format!($format $(, $value)*)),*] };
}
pub(super) use lines;

/// One process can be in several network namespaces, one after the other or with a thread in each: what it says in them are
/// conversations with different servers, wherever they are.
#[test]
fn links_differ_by_network_namespace() {
    for (name, address, first, second, links) in [
        ("the host's", "127.0.0.1:80", None, None, 1),
        ("the host's, then another", "127.0.0.1:80", None, Some(7), 2),
        ("another, then the host's", "127.0.0.1:80", Some(7), None, 2),
        ("the same other", "127.0.0.1:80", Some(7), Some(7), 1),
        ("two others", "127.0.0.1:80", Some(7), Some(8), 2),
        ("IPv6", "[::1]:80", None, Some(7), 2),
        ("no loopback", "10.0.0.1:80", None, Some(7), 2),
        ("no loopback, the same", "10.0.0.1:80", Some(7), Some(7), 1),
    ] {
        let mut http = Http::new(LIMITS);
        let mut opened = 0;
        let ends = [(1, first), (2, second)];
        for (stream, netns) in ends {
            let server = Endpoint { address: address.parse().unwrap(), netns };
            http.open(
                ConnectionId(stream),
                Peers { client: (1, 7), server, known: false, others: false },
                Timestamp(1),
            );
            let bytes = post("/mcp", "", PING);
            http.push(
                ConnectionId(stream),
                Direction::ClientToServer,
                bytes.as_bytes(),
                Timestamp(2),
                &mut |out| {
                    opened += usize::from(matches!(out, HttpOutput::Opened { .. }));
                },
            );
        }
        assert_eq!(opened, links, "{name}");
    }
}
