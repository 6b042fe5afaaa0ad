//! Drives the reader of HTTP with the two streams of connections, and compares what comes out of them whole and in pieces.

use std::collections::BTreeMap;
use std::time::Duration;

use mcpwarden_policy::http::{Http, HttpLimits, HttpOutput, Peers};
use mcpwarden_policy::{ConnectionId, Direction, GapCause, Timestamp};

/// What happens to a connection.
pub(super) enum Step<'a> {
    /// One side sends bytes.
    Bytes(Direction, &'a [u8]),
    /// So many bytes of one side are missing.
    Gap(Direction, u64),
    /// The connection ends, and another one begins.
    End,
}

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
fn outputs<'a>(
    steps: impl Iterator<Item = Step<'a>>,
    size: usize,
    known: bool,
    held_bytes: usize,
) -> (Vec<String>, bool) {
    let mut outputs = Vec::new();
    // What is no MCP comes in pieces.
    let mut bodies = BTreeMap::<(ConnectionId, u64), Vec<u8>>::new();
    let mut sink = |output: HttpOutput<'_>| match output {
        HttpOutput::OtherAnswer { stream, exchange, bytes, .. } => {
            bodies.entry((stream, exchange)).or_default().extend_from_slice(bytes);
        }
        HttpOutput::OtherEnd { stream, exchange, is_whole, .. } => {
            let body = bodies.remove(&(stream, exchange)).filter(|_| is_whole);
            outputs.push(format!("{output:?} {body:?}"));
        }
        // How much was read of a body that breaks off, and whether anything, depends on the pieces.
        HttpOutput::OtherRequest { bytes, .. }
            if serde_json::from_slice::<serde_json::Value>(bytes).is_err() => {}
        HttpOutput::Frame { bytes, link, .. } => {
            assert!(bytes.len() <= LIMITS.frame_bytes && link.0 >> 63 == 1);
            outputs.push(format!("{output:?}"));
        }
        _ => outputs.push(format!("{output:?}")),
    };
    let mut http = Http::new(HttpLimits { held_bytes, ..LIMITS });
    let peers = Peers {
        client: (1, 1),
        server: mcpwarden_policy::terms::Endpoint::here(([127, 0, 0, 1], 80).into()),
        known,
        others: known,
    };
    let mut stream = ConnectionId(1);
    http.open(stream, peers, Timestamp(0));
    for step in steps {
        match step {
            Step::Bytes(direction, bytes) => bytes
                .chunks(size)
                .for_each(|piece| http.push(stream, direction, piece, Timestamp(0), &mut sink)),
            Step::Gap(direction, bytes) => {
                http.gap(stream, direction, bytes, GapCause::RingFull, Timestamp(0), &mut sink);
            }
            Step::End => {
                http.close(stream, Timestamp(0), &mut sink);
                stream = ConnectionId(stream.0 + 1);
                http.open(stream, peers, Timestamp(0));
            }
        }
    }
    http.close(stream, Timestamp(0), &mut sink);
    http.client_ended(peers.client, Timestamp(0), &mut sink);
    let counters = http.counters();
    (outputs, counters.undecodable + counters.bombs + counters.memory_given_up > 0)
}

/// Runs one input, of which `steps` makes what happens: its first argument is the input behind its first byte, which says
/// how bytes are cut, and its second whether bytes may be missing.
pub(super) fn run<'a, S: Iterator<Item = Step<'a>>>(
    input: &'a [u8],
    held_bytes: usize,
    steps: impl Fn(&'a [u8], bool) -> S,
) {
    let Some((&size, input)) = input.split_first() else { return };
    let size = usize::from(size).max(1);
    let outputs = |size, loses| outputs(steps(input, loses), size, input.len().is_multiple_of(2), held_bytes);
    outputs(size, true);
    let (whole, pieces) = (outputs(usize::MAX, false), outputs(size, false));
    if !whole.1 && !pieces.1 {
        assert_eq!(whole.0, pieces.0);
    }
}
