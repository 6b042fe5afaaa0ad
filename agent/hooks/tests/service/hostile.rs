//! Services that waste time or memory, or lead elsewhere.

use std::time::Duration;

use mcpwarden_hooks::{Hook, HookConfig, MAX_ANSWER_BYTES};
use mcpwarden_terms::contract::GuardFailure;
use tokio::net::TcpListener;

use super::server::{ALLOW, Action, Server, ok, response};
use super::{SHORT, SOON, config, hook, request};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// What they do, and the status, if any comes.
#[tokio::test]
async fn timeout_holds_for_all_of_a_request() {
    for (action, status) in [
        (Action::Hang, None),
        (Action::Drip(Vec::new(), b'H'), None),
        (Action::Drip(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), b'a'), None),
        (Action::Drip(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".to_vec(), b' '), Some(200)),
        (Action::Drip(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b' '), Some(200)),
        (Action::Drip([CHUNKED, b"ffff\r\n"].concat(), b' '), Some(200)),
        // Responses before the response.
        (Action::Flood(Vec::new(), b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)), None),
    ] {
        let server = Server::of(action.clone()).await;
        let hook = Hook::new(HookConfig { timeout: SHORT, ..config(&server.url) }).unwrap();
        let (reply, told) = hook.ask(&request(), Some(1_000)).await;
        assert_eq!(reply, Err(GuardFailure::Timeout), "{action:?}");
        assert!(SHORT <= told.elapsed && told.elapsed < SOON, "{:?} {action:?}", told.elapsed);
        assert_eq!(told.status, status, "{action:?}");
        let state = hook.state();
        assert_eq!((state.counters.timed_out, state.in_flight), (1, 0), "{action:?}");
    }
}

/// A connection that nobody accepts.
#[tokio::test]
async fn timeout_holds_for_a_silent_listener() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{}/", listener.local_addr().unwrap());
        let (reply, told) = Hook::new(HookConfig { timeout: SHORT, ..config(&url) })
            .unwrap()
            .ask(&request(), Some(1_000))
            .await;
        assert_eq!(reply, Err(GuardFailure::Timeout), "{scheme}");
        assert!(SHORT <= told.elapsed && told.elapsed < SOON, "{scheme}");
    }
}

/// What they send, and how much of it is read. Without the limit, each would fill the memory until the timeout, after 20 s.
#[tokio::test]
async fn endless_answers_are_cut() {
    let limit = MAX_ANSWER_BYTES as u64;
    let chunk = [b"1000\r\n".to_vec(), vec![b' '; 0x1000], b"\r\n".to_vec()].concat();
    for (action, read_bytes) in [
        (Action::Flood(HEAD.to_vec(), vec![b' '; 0x1000]), 0..=0),
        (Action::Flood(CHUNKED.to_vec(), chunk), limit..=limit + (1 << 20)),
        (Action::Flood(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b' '; 0x1000]), limit..=limit + (1 << 20)),
    ] {
        let server = Server::of(action).await;
        let hook = hook(&server.url);
        let (reply, told) = hook.ask(&request(), Some(1_000)).await;
        let why = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
        assert_eq!(reply, Err(GuardFailure::Limit(why)));
        assert_eq!(told.status, Some(200));
        let counters = hook.state().counters;
        assert_eq!(counters.failed, 1);
        let read = counters.received_bytes;
        assert!(read_bytes.contains(&read), "{read}");
    }
}

/// Bytes of spaces after the answer, and whether it is one.
#[tokio::test]
async fn longest_answer_is_read() {
    for (length, is_read) in [(MAX_ANSWER_BYTES, true), (MAX_ANSWER_BYTES + 1, false)] {
        let server =
            Server::of(Action::Send(ok(&format!("{ALLOW}{}", " ".repeat(length - ALLOW.len()))))).await;
        assert_eq!(hook(&server.url).ask(&request(), Some(1_000)).await.0.is_ok(), is_read, "{length}");
    }
}

/// A redirect would carry arguments of tools, and the secret, to where the operator never sent them.
#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Server::answering(ALLOW).await;
    for (status, name) in [
        (301, "Moved Permanently"),
        (302, "Found"),
        (303, "See Other"),
        (307, "Temporary Redirect"),
        (308, "Permanent Redirect"),
    ] {
        let headers = format!("location: {}\r\n", target.url);
        let server = Server::of(Action::Send(response(&format!("{status} {name}"), &headers, ALLOW))).await;
        let (reply, told) = hook(&server.url).ask(&request(), Some(1_000)).await;
        let why = format!("it answers {status} {name}, a redirect, which is not followed");
        assert_eq!((reply, told.status), (Err(GuardFailure::Error(why)), Some(status)));
    }
    assert_eq!(target.connections(), 0);
}

/// What they send, and the begin of the error.
#[tokio::test]
async fn broken_responses_are_failures() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(10_000));
    for (action, expected) in [
        (Action::Flood(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'a'; 0x1000]), "the connection fails: "),
        (Action::Flood(b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(100)), "the connection fails: "),
        (Action::Close(many.into_bytes()), "the connection fails: "),
        (Action::Close(b"SSH-2.0-OpenSSH_10.0\r\n".to_vec()), "the connection fails: "),
        (Action::Close(Vec::new()), "the connection fails: "),
        (Action::Close(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()), "the connection fails: "),
        (
            Action::Close(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"decision\":\"allow\"}".to_vec()),
            "the connection fails: ",
        ),
        (Action::Close([CHUNKED, b"14\r\n{\"decision\":\"allow\"}\r\n"].concat()), "the connection fails: "),
        (
            Action::Close(
                b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\ncontent-length: 2\r\n\r\n{\"decision\":\"allow\"}"
                    .to_vec(),
            ),
            "the connection fails: ",
        ),
        (
            Action::Close(b"HTTP/2.0 200 OK\r\n\r\n{\"decision\":\"allow\"}".to_vec()),
            "the connection fails: ",
        ),
    ] {
        let server = Server::of(action.clone()).await;
        let (reply, told) = hook(&server.url).ask(&request(), Some(1_000)).await;
        let Err(GuardFailure::Error(why)) = reply else { panic!("{reply:?} {action:.100?}") };
        assert!(why.starts_with(expected) && why.len() > expected.len(), "{why}");
        assert!(!why.contains("127.0.0.1"), "{why}");
        assert!(told.elapsed < Duration::from_secs(15), "{action:?}");
    }
}

#[tokio::test]
async fn refused_connection_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/t0ken", listener.local_addr().unwrap());
    drop(listener);
    let (reply, told) = hook(&url).ask(&request(), Some(1_000)).await;
    let expected = "cannot connect: Connection refused (os error 111)";
    assert_eq!((reply, told.status), (Err(GuardFailure::Error(expected.to_owned())), None));
}
