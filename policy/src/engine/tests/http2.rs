//! From the bytes of a connection that speaks HTTP/2 to what is reported.

use std::net::SocketAddr;

use super::*;
use crate::engine::{Reached, ServerAddress};
use crate::http::{Http, HttpLimits, HttpOutput, Peers};
use crate::terms::Endpoint;

/// What Node 20 wrote as client and as server: a session is opened, tools are listed, one is called and answers with an
/// event.
const RECORDING: &[u8] = include_bytes!("../../../../fuzz/seeds/http2/node");

#[test]
fn http2_from_its_first_byte_is_reported_as_calls() {
    let address: SocketAddr = "127.0.0.1:7802".parse().unwrap();
    let (mut bench, mut http, stream) = (Bench::new(), Http::new(HttpLimits::default()), ConnectionId(1));
    http.open(
        stream,
        Peers { client: (5, 5), server: Endpoint::here(address), known: false, others: false },
        Timestamp(1),
    );
    let mut rest = &RECORDING[1..];
    while let Some((&[who, high, low], after)) = rest.split_first_chunk() {
        let (bytes, after) = after.split_at(usize::from(u16::from_be_bytes([high, low])));
        let direction = if who == b'>' { Direction::ClientToServer } else { Direction::ServerToClient };
        http.push(stream, direction, bytes, Timestamp(bench.now), &mut |output| match output {
            HttpOutput::Opened { link, time, host, path, kind, .. } => bench.input(Input::Reached(Reached {
                connection: link,
                time,
                client: Process { pid: 5, start_ns: 5, ..Process::default() },
                address: ServerAddress::Internet(address),
                server: None,
                netns: None,
                host: host.map(str::to_owned),
                path: path.to_owned(),
                kind,
                declared: Vec::new(),
                adopted: false,
                read_in_client: false,
            })),
            HttpOutput::Frame { link, direction, time, bytes, meta, .. } => bench.input(Input::Frame {
                connection: link,
                direction,
                time,
                bytes,
                http: Some(meta),
                turn: None,
            }),
            other => panic!("{other:?}"),
        });
        rest = after;
    }
    let said: Vec<String> = bench
        .events()
        .iter()
        .filter(|event| {
            ["mcp_tool_seen", "mcp_tool_called", "mcp_tool_result"].contains(&event["type"].as_str().unwrap())
        })
        .map(|event| {
            format!("{} {} {}", event["type"], event["server_id"], event["tool_name"]).replace('"', "")
        })
        .collect();
    let server = "127.0.0.1:7802/mcp echo";
    let [seen, called, result] =
        ["mcp_tool_seen", "mcp_tool_called", "mcp_tool_result"].map(|kind| format!("{kind} {server}"));
    // The list and the call are asked for at once.
    assert_eq!(said, [called, seen, result]);
}
