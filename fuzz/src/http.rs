//! Any bytes as what a client asks and a server answers: read the same wherever they are cut, and nothing comes out that
//! cannot be. The first byte says how they are cut; lines of `>>>`, `<<<`, `---` and `===` in between say who speaks, that
//! bytes are missing, and that the stream ends.

use std::time::Duration;

use mcpwarden_policy::http::{Http, HttpLimits, HttpOutput, Peers};
use mcpwarden_policy::{ConnectionId, Direction, GapCause, Timestamp};

/// Small ones, which inputs of a few KiB can reach.
const LIMITS: HttpLimits = HttpLimits {
    frame_bytes: 512,
    head_bytes: 512,
    streams: 2,
    links: 4,
    links_of_client: 3,
    held_bytes: 2048,
    idle: Duration::from_secs(1),
};

/// What comes out, and whether it may depend on the pieces: how much a decoder says before it fails does, and what is
/// given up for want of memory.
fn outputs(input: &[u8], size: usize, loses: bool) -> (Vec<String>, bool) {
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
    for part in input.split_inclusive(|byte| *byte == b'\n') {
        match part {
            b">>>\n" => direction = Direction::ClientToServer,
            b"<<<\n" => direction = Direction::ServerToClient,
            b"---\n" if loses => http.gap(stream, direction, 9, GapCause::RingFull, Timestamp(0), &mut sink),
            b"===\n" => {
                http.close(stream, Timestamp(0), &mut sink);
                stream = ConnectionId(stream.0 + 1);
                http.open(stream, peers, Timestamp(0));
            }
            part => part
                .chunks(size)
                .for_each(|piece| http.push(stream, direction, piece, Timestamp(0), &mut sink)),
        }
    }
    http.close(stream, Timestamp(0), &mut sink);
    http.client_ended(peers.client, Timestamp(0), &mut sink);
    let counters = http.counters();
    (outputs, counters.undecodable + counters.bombs + counters.memory_given_up > 0)
}

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((&size, input)) = input.split_first() else { return };
    let size = usize::from(size).max(1);
    outputs(input, size, true);
    let (whole, pieces) = (outputs(input, usize::MAX, false), outputs(input, size, false));
    if !whole.1 && !pieces.1 {
        assert_eq!(whole.0, pieces.0);
    }
}
