//! Events that are followed: over connections.

use std::io::{BufRead as _, BufReader, Lines};
use std::time::Duration;

use mcpwarden_policy::{Event, Timestamp, event::StoreFailing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::serving::PATIENCE;

/// What a request is answered, as far as its head, and the lines of the body behind it.
async fn follow(client: Client) -> (String, Lines<BufReader<Client>>) {
    let read = tokio::task::spawn_blocking(move || {
        std::io::Write::write_all(&mut &client, &request("GET /v1/events?type=mcp_store_failing", ""))
            .unwrap();
        let mut lines = BufReader::new(client).lines();
        let head: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        (head.join("\n"), lines)
    });
    read.await.unwrap()
}

/// The lines of JSON of the rest of a body, and whether it had an end.
async fn rest(lines: Lines<BufReader<Client>>) -> (Vec<String>, bool) {
    let read = tokio::task::spawn_blocking(move || {
        let lines: Vec<String> = lines.map_while(Result::ok).collect();
        let ended = lines.ends_with(&["0".to_owned(), String::new()]);
        (lines.into_iter().filter(|line| line.starts_with('{')).collect(), ended)
    });
    read.await.unwrap()
}

fn offer(service: &Service, line: &str) {
    let event = Event::agent(Timestamp(1), StoreFailing::default().into());
    service.followers.offer(&event, line.as_bytes());
}

/// Until nobody follows; the time of a test is not that of its peers.
async fn left(service: &Service, now: u64) {
    for _ in 0..1_000 {
        if service.followers.counters().now == now {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}, not {now}", service.followers.counters());
}

#[tokio::test]
async fn reader_may_follow_until_the_agent_ends() {
    for rights in [Rights::Read, Rights::Change] {
        let service = service(false);
        offer(&service, "{\"before\":0}");
        let (head, lines) = follow(line(rights, &service).await).await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/x-ndjson"), "{head}");
        offer(&service, "{\"a\":1}");
        offer(&service, "{\"b\":2}");
        service.followers.end();
        let (received, ended) = rest(lines).await;
        assert_eq!(
            (received, ended),
            (vec!["{\"a\":1}".to_owned(), "{\"b\":2}".to_owned()], true),
            "{rights:?}"
        );
        left(&service, 0).await;
        service.followers.gone().await;
        let (head, _) = follow(line(rights, &service).await).await;
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        let counters = service.counts.read();
        assert_eq!((counters.requests, counters.unusable, counters.timed_out), (2, 0, 0), "{rights:?}");
    }
}

/// It goes on for longer than a request may take. The clock of this test runs by itself.
#[tokio::test(start_paused = true)]
async fn follower_outlives_the_request_timeout() {
    let service = service(false);
    let client = line(Rights::Read, &service).await;
    client.set_nonblocking(true).unwrap();
    let mut client = UnixStream::from_std(client).unwrap();
    client.write_all(&request("GET /v1/events", "")).await.unwrap();
    let mut answer = [0; 4_096];
    let count = client.read(&mut answer).await.unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 200 "));
    tokio::time::sleep(PATIENCE * 10).await;
    offer(&service, "{\"a\":1}");
    let count = client.read(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer[..count]), "8\r\n{\"a\":1}\n\r\n");
    assert_eq!(service.counts.read().timed_out, 0);
}

/// Who leaves is not missed, even where nothing is said.
#[tokio::test]
async fn leaving_follower_frees_its_seat() {
    let service = service(false);
    let mut following = Vec::new();
    for rights in [Rights::Read, Rights::Change] {
        for place in 0.. {
            let (head, lines) = follow(line(rights, &service).await).await;
            if head.starts_with("HTTP/1.1 503 ") {
                let (received, _) = rest(lines).await;
                assert_eq!(place, 8, "{rights:?}");
                assert!(received[0].contains("8 follow already"), "{received:?}");
                break;
            }
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            following.push(lines);
        }
    }
    let counters = service.followers.counters();
    assert_eq!((following.len(), counters.now, counters.refused), (16, 16, 2));
    following.truncate(7);
    left(&service, 7).await;
    let (head, _lines) = follow(line(Rights::Read, &service).await).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(service.counts.read().unusable, 0);
}

/// Who follows takes the place of nobody who asks.
#[tokio::test]
async fn follower_takes_no_request_slot() {
    let socket = start();
    let (_, _following) = follow(Client::connect(&socket.path).unwrap()).await;
    take_all_places(&socket).await;
}

/// The sockets of both ends are full, too, before events find no room.
#[tokio::test]
async fn late_reader_receives_the_loss_count() {
    let service = service(false);
    let (_, lines) = follow(line(Rights::Read, &service).await).await;
    let text = format!("{{\"x\":\"{}\"}}", "x".repeat(1_000));
    for _ in 0..10_000 {
        offer(&service, &text);
        tokio::task::yield_now().await;
    }
    let reading = tokio::spawn(rest(lines));
    while service.followers.counters().sent + service.followers.counters().lost < 10_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    service.followers.end();
    let (mut received, ended) = reading.await.unwrap();
    let counters = service.followers.counters();
    assert!(ended && counters.lost > 1_000, "{ended} {counters:?}");
    let last: serde_json::Value = serde_json::from_str(&received.pop().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["count"]), (&"agent_loss".into(), &counters.lost.into()));
    assert_eq!((received.len() as u64, received.iter().all(|line| *line == text)), (counters.sent, true));
}
