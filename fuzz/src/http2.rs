//! Any bytes as what the two ends of a connection of HTTP/2 say: read the same wherever they are cut, and nothing comes out
//! that cannot be. The first byte says how they are cut. Then come parts: who speaks (`>` or `<`; `-`: bytes are missing, as
//! in the last part; `=`: the connection ends), the length in two bytes, and the bytes.

use std::time::Duration;

use mcpwarden_policy::http::{Http, HttpCounters, HttpLimits, HttpOutput, Peers};
use mcpwarden_policy::{ConnectionId, Direction, GapCause, Timestamp};

/// Small ones, which inputs of a few KiB can reach.
const LIMITS: HttpLimits = HttpLimits {
    frame_bytes: 512,
    head_bytes: 512,
    streams: 2,
    links: 4,
    links_of_client: 3,
    held_bytes: 16 * 1024,
    idle: Duration::from_secs(1),
};

fn outputs(input: &[u8], size: usize, loses: bool) -> (Vec<String>, HttpCounters) {
    let mut outputs = Vec::new();
    let mut sink = |output: HttpOutput<'_>| {
        if let HttpOutput::Frame { bytes, link, .. } = output {
            assert!(bytes.len() <= LIMITS.frame_bytes && link.0 >> 63 == 1);
        }
        outputs.push(format!("{output:?}"));
    };
    let mut http = Http::new(LIMITS);
    let peers = Peers {
        client: (1, 1),
        server: mcpwarden_policy::terms::Endpoint::here(([127, 0, 0, 1], 80).into()),
        known: input.len().is_multiple_of(2),
    };
    let (mut stream, mut direction) = (ConnectionId(1), Direction::ClientToServer);
    http.open(stream, peers, Timestamp(0));
    let mut rest = input;
    while let Some((&[kind, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(after.len());
        let (bytes, after) = after.split_at(length);
        rest = after;
        match kind {
            b'-' if loses => {
                http.gap(stream, direction, length as u64, GapCause::RingFull, Timestamp(0), &mut sink);
            }
            b'=' => {
                http.close(stream, Timestamp(0), &mut sink);
                stream = ConnectionId(stream.0 + 1);
                http.open(stream, peers, Timestamp(0));
            }
            kind => {
                direction = if kind == b'<' { Direction::ServerToClient } else { Direction::ClientToServer };
                for piece in bytes.chunks(size) {
                    http.push(stream, direction, piece, Timestamp(0), &mut sink);
                }
            }
        }
    }
    http.close(stream, Timestamp(0), &mut sink);
    http.client_ended(peers.client, Timestamp(0), &mut sink);
    (outputs, http.counters())
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((&size, input)) = input.split_first() else { return };
    let size = usize::from(size).max(1);
    outputs(input, size, true);
    let (whole, pieces) = (outputs(input, usize::MAX, false), outputs(input, size, false));
    // How much a decoder says before it fails depends on the pieces, and what is given up for want of memory.
    let varies =
        |counters: HttpCounters| counters.undecodable + counters.bombs + counters.memory_given_up > 0;
    if !varies(whole.1) && !varies(pieces.1) {
        assert_eq!(whole.0, pieces.0);
    }
}
