use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream as Client;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::peer::Known;
use super::super::{BlockView, Blocks, Listings, Mutes, OldBlock, RequestedListing, Waiting};
use super::*;
use crate::serving::HEAD_BYTES;

/// A socket, and what comes of requests there.
struct Socket {
    _directory: TempDir,
    path: PathBuf,
    service: Service,
}

/// A user who is not root, with these rights.
fn user(rights: Rights) -> (Peer, Groups) {
    let group = |name: &str, gid| Some(Known { name: name.into(), gid });
    let groups = match rights {
        Rights::Change => vec![10, 20],
        Rights::Read => vec![10],
        Rights::None => vec![30],
    };
    (Peer { uid: 4_242, groups }, Groups { read: group("readers", 10), change: group("changers", 20) })
}

/// An agent that answers at once, or (`gone`) is none any more.
fn agent(gone: bool) -> mpsc::Sender<Request> {
    let (sender, mut receiver) = mpsc::channel::<Request>(1);
    if !gone {
        tokio::spawn(async move {
            while let Some(Request { operation, by, answer }) = receiver.recv().await {
                let received = match operation {
                    Operation::Blocks => Ok(Answer::Blocks(Blocks { blocks: Vec::new() })),
                    Operation::Block(new) => Ok(Answer::Block(Box::new(BlockView {
                        target: new.target,
                        server_type: None,
                        since: mcpwarden_policy::Timestamp(0),
                        until: None,
                        reason: new.reason,
                        uid: by.uid,
                        user: None,
                        addresses: Vec::new(),
                        connections: None,
                    }))),
                    Operation::Unblock(OldBlock { target, .. }) => Err(Code::NotFound.because(target)),
                    Operation::Approvals => Ok(Answer::Waiting(Waiting { approvals: Vec::new() })),
                    Operation::Status => Err(Code::Failed.because("how it is")),
                    Operation::Reload => Ok(Answer::Reloaded(Box::default())),
                    Operation::SetSession(new) => {
                        Err(Code::NotFound.because(format!("{} {:?}", new.session, new.set)))
                    }
                    Operation::Mutes => Ok(Answer::Mutes(Mutes { mutes: Vec::new() })),
                    Operation::Mute(new) => {
                        Err(Code::Full.because(format!("{:?} {:?}", new.rule, new.period)))
                    }
                    Operation::Unmute(old) => Err(Code::NotFound.because(old.id)),
                    Operation::Listings => Ok(Answer::Listings(Listings { listings: Vec::new() })),
                    Operation::List(new) => {
                        Ok(Answer::Requested(RequestedListing { server: new.server, request: 7 }))
                    }
                    Operation::Decide(new) => Err(Code::Ambiguous.because(format!("{:?}", new.decision))),
                };
                let _ = answer.send(received);
            }
        });
    }
    sender
}

/// What is behind a socket; see [`agent`].
fn service(gone: bool) -> Service {
    Service { agent: agent(gone), counts: Arc::default(), followers: Followers::new() }
}

/// Serves whoever comes.
fn start() -> Socket {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let service = service(false);
    // The group of whom tests run as, so that they may change things.
    let own = Some(Known { name: "testers".into(), gid: nix::unistd::getgid().as_raw() });
    let groups = Groups { read: own.clone(), change: own };
    tokio::spawn(serve(listener, groups, service.clone()));
    Socket { _directory: directory, path, service }
}

/// Says this at a socket, and gives all that is answered.
async fn send(path: &Path, bytes: Vec<u8>) -> String {
    exchange(Client::connect(path).unwrap(), bytes).await
}

/// Says this to one connection's line, of a user with these rights.
async fn send_as(rights: Rights, gone: bool, bytes: Vec<u8>) -> (String, ControlCounters) {
    let service = service(gone);
    let client = line(rights, &service).await;
    (exchange(client, bytes).await, service.counts.read())
}

/// A connection of a user with these rights.
async fn line(rights: Rights, service: &Service) -> Client {
    let (client, stream) = Client::pair().unwrap();
    stream.set_nonblocking(true).unwrap();
    let (peer, groups) = user(rights);
    let rights = peer.rights(&groups);
    let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
    let place = Mutex::new(ConnectionSlot::Asking { _place: place });
    let line = Line { peer, rights, groups, service: service.clone(), place };
    tokio::spawn(Arc::new(line).converse(UnixStream::from_std(stream).unwrap()));
    client
}

async fn exchange(mut client: Client, bytes: Vec<u8>) -> String {
    let received = tokio::task::spawn_blocking(move || {
        // Whoever is refused early does not take all.
        let _ = client.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    });
    received.await.unwrap()
}

fn request(head: &str, body: &str) -> Vec<u8> {
    format!("{head} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Rights, request, status, part of the answer, and which counter says so.
#[tokio::test]
async fn control_server_answers_by_rights_and_request() {
    const BLOCKS: &str = "/v1/blocks";
    let block = r#"{"target": "192.0.2.1", "for": "10m", "reason": "r"}"#;
    let long = format!(r#"{{"target": "{}"}}"#, "a".repeat(BODY_BYTES));
    let counter = |counters: ControlCounters| [counters.forbidden, counters.unusable, counters.timed_out];
    let cases = [
        (Rights::Change, "GET", BLOCKS, "", 200, r#"{"blocks":[]}"#, [0, 0, 0]),
        (Rights::Change, "POST", BLOCKS, block, 200, r#""reason":"r""#, [0, 0, 0]),
        (Rights::Change, "DELETE", BLOCKS, r#"{"target": "x"}"#, 404, r#""message":"x""#, [0, 0, 0]),
        (Rights::Change, "PUT", BLOCKS, "", 405, "takes GET, POST, DELETE", [0, 1, 0]),
        (Rights::Read, "GET", "/v1/listings", "", 200, r#"{"listings":[]}"#, [0, 0, 0]),
        (Rights::Change, "POST", "/v1/listings", r#"{"server": "a"}"#, 200, r#""request":7"#, [0, 0, 0]),
        (
            Rights::Read,
            "POST",
            "/v1/listings",
            r#"{"server": "a"}"#,
            403,
            "may not change anything",
            [1, 0, 0],
        ),
        (Rights::Change, "POST", "/v1/listings", r#"{"all": true}"#, 400, "unknown field `all`", [0, 1, 0]),
        (Rights::Change, "GET", "/", "", 404, "there are only /v1/blocks, /v1/approvals", [0, 1, 0]),
        (Rights::Change, "POST", "/v1/events", "", 405, "\r\nallow: GET\r\n", [0, 1, 0]),
        (Rights::None, "GET", "/v1/events", "", 403, "user 4242 may not query the agent here", [1, 0, 0]),
        (Rights::Read, "GET", "/v1/events?severity=bad", "", 400, "unknown variant `bad`", [0, 1, 0]),
        (Rights::Read, "GET", "/v1/events?since=1h", "", 400, "`since` cannot be asked for", [0, 1, 0]),
        (Rights::Read, "GET", "/v1/events?type=mcp_x", "", 400, "there is no type", [0, 1, 0]),
        (Rights::Read, "GET", "/v1/approvals", "", 200, r#"{"approvals":[]}"#, [0, 0, 0]),
        (Rights::Read, "GET", "/v1/status", "", 500, "how it is", [0, 0, 0]),
        (Rights::Change, "POST", "/v1/approvals", "", 405, "\r\nallow: GET\r\n", [0, 1, 0]),
        (
            Rights::Change,
            "POST",
            "/v1/pins",
            r#"{"server": "s", "all": true, "decision": "deny"}"#,
            409,
            "Deny",
            [0, 0, 0],
        ),
        (
            Rights::Change,
            "POST",
            "/v1/pins",
            r#"{"server": "s", "decision": "trust"}"#,
            400,
            "`trust`",
            [0, 1, 0],
        ),
        (
            Rights::Read,
            "POST",
            "/v1/pins",
            r#"{"server": "s", "all": true, "decision": "deny"}"#,
            403,
            "only root",
            [1, 0, 0],
        ),
        (
            Rights::Change,
            "POST",
            "/v1/sessions",
            r#"{"session": "s", "set": {"key": "mode", "value": "planning"}}"#,
            404,
            "s Some(Mode(Planning))",
            [0, 0, 0],
        ),
        (
            Rights::Change,
            "POST",
            "/v1/sessions",
            r#"{"session": "s", "set": {"key": "mode", "value": "plan"}}"#,
            400,
            "`plan`",
            [0, 1, 0],
        ),
        (
            Rights::Read,
            "POST",
            "/v1/sessions",
            r#"{"session": "s", "reset": "mode"}"#,
            403,
            "only root",
            [1, 0, 0],
        ),
        (Rights::Read, "GET", "/v1/mutes", "", 200, r#"{"mutes":[]}"#, [0, 0, 0]),
        (
            Rights::Change,
            "POST",
            "/v1/mutes",
            r#"{"rule": "r", "for": "30d", "reason": "w"}"#,
            507,
            "Some(\\\"r\\\") Some(",
            [0, 0, 0],
        ),
        (Rights::Change, "POST", "/v1/mutes", r#"{"rule": "r", "for": "30d"}"#, 400, "`reason`", [0, 1, 0]),
        (Rights::Read, "POST", "/v1/mutes", r#"{"rule": "r", "reason": "w"}"#, 403, "only root", [1, 0, 0]),
        (Rights::Change, "DELETE", "/v1/mutes", r#"{"id": "0123"}"#, 404, "0123", [0, 0, 0]),
        (Rights::Read, "DELETE", "/v1/mutes", r#"{"id": "0123"}"#, 403, "only root", [1, 0, 0]),
        (Rights::Change, "POST", BLOCKS, "", 400, "the body is not as it must be", [0, 1, 0]),
        (Rights::Change, "POST", BLOCKS, "{\"target\": 1}", 400, "expected a string", [0, 1, 0]),
        (Rights::Change, "POST", BLOCKS, r#"{"target": "x", "port": 70000}"#, 400, "70000", [0, 1, 0]),
        (Rights::Change, "POST", BLOCKS, r#"{"target": "x", "for": "10"}"#, 400, "time unit", [0, 1, 0]),
        (Rights::Change, "POST", BLOCKS, r#"{"target": "x", "fro": "1s"}"#, 400, "`fro`", [0, 1, 0]),
        (
            Rights::Change,
            "POST",
            BLOCKS,
            "{\"target\": \"\u{202e}\", \"\u{202e}\": 1}",
            400,
            "202e",
            [0, 1, 0],
        ),
        (Rights::Change, "POST", BLOCKS, &long, 413, "longer than 16384 bytes", [0, 1, 0]),
        (Rights::Read, "GET", BLOCKS, "", 200, r#"{"blocks":[]}"#, [0, 0, 0]),
        (
            Rights::Read,
            "POST",
            BLOCKS,
            block,
            403,
            "only root may and members of the group changers",
            [1, 0, 0],
        ),
        (
            Rights::None,
            "GET",
            BLOCKS,
            "",
            403,
            "user 4242 may not query the agent here: only root may and members of the group readers",
            [1, 0, 0],
        ),
        (Rights::None, "POST", BLOCKS, block, 403, "user 4242 may not change anything here", [1, 0, 0]),
    ];
    for (rights, method, path, body, status, part, counted) in cases {
        let (answer, counters) = send_as(rights, false, request(&format!("{method} {path}"), body)).await;
        let name = format!("{rights:?} {method} {path} {:.40}\n{answer}", body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(part), "{name}");
        assert!(!answer.contains('\u{202e}'), "{name}");
        assert_eq!(counter(counters), counted, "{name}");
        assert_eq!(counters.requests, 1, "{name}");
    }
}

#[tokio::test]
async fn invalid_http_is_counted_as_unusable() {
    let long = format!("GET /v1/blocks HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(HEAD_BYTES));
    for (name, bytes, status) in [
        ("no HTTP", "hello\r\n\r\n".to_owned(), "400"),
        ("a long head", long, "431"),
        ("two lengths", "GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".into(), "400"),
    ] {
        let (answer, counters) = send_as(Rights::Change, false, bytes.into_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
        assert_eq!(counters.unusable, 1, "{name}");
    }
}

#[tokio::test]
async fn ending_agent_answers_unavailable() {
    let (answer, _) = send_as(Rights::Change, true, request("GET /v1/blocks", "")).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("try again"), "{answer}");
}

/// Who says half a request and waits: the clock of this test runs by itself where nothing else does.
#[tokio::test(start_paused = true)]
async fn slow_client_is_disconnected() {
    for (name, half) in [
        ("nothing", ""),
        ("half a head", "GET /v1/blocks HTTP/1.1\r\nhos"),
        ("half a body", "POST /v1/blocks HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"),
    ] {
        let socket = start();
        let stream = UnixStream::connect(&socket.path).await.unwrap();
        stream.try_write(half.as_bytes()).unwrap();
        stream.readable().await.unwrap();
        let rest = stream.try_read(&mut [0; 64]).unwrap();
        assert_eq!((rest, socket.service.counts.read().timed_out), (0, 1), "{name}");
    }
}

/// Those who wait in all places there are, so that one more is told that there is none.
async fn take_all_places(socket: &Socket) -> Vec<UnixStream> {
    let mut waiting = Vec::new();
    for _ in 0..PLACES {
        waiting.push(UnixStream::connect(&socket.path).await.unwrap());
    }
    let answer = send(&socket.path, Vec::new()).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("too many requests at once"), "{answer}");
    assert_eq!(socket.service.counts.read().connections_refused, 1);
    waiting
}

#[tokio::test]
async fn closed_connection_frees_its_slot() {
    let socket = start();
    let mut waiting = take_all_places(&socket).await;
    // One that leaves makes room.
    waiting.pop();
    while socket.service.counts.read().requests == 0 {
        send(&socket.path, request("GET /v1/blocks", "")).await;
    }
}

mod follow;
