//! Any bytes as what the two ends of a connection of HTTP/2 say: read the same wherever they are cut, and nothing comes out
//! that cannot be. The first byte says how they are cut. Then come parts: who speaks (`>` or `<`; `-`: bytes are missing, as
//! in the last part; `=`: the connection ends), the length in two bytes, and the bytes.

use mcpwarden_policy::Direction;

use super::connection::{self, Step};

/// Memory for what is held back, which inputs of a few KiB can reach. Bytes.
const HELD_BYTES: usize = 16 * 1024;

fn steps(mut rest: &[u8], loses: bool) -> impl Iterator<Item = Step<'_>> {
    let mut direction = Direction::ClientToServer;
    std::iter::from_fn(move || {
        let (&[kind, high, low], after) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low])).min(after.len());
        let (bytes, after) = after.split_at(length);
        rest = after;
        Some(match kind {
            b'-' if loses => Step::Gap(direction, length as u64),
            b'=' => Step::End,
            kind => {
                direction = if kind == b'<' { Direction::ServerToClient } else { Direction::ClientToServer };
                Step::Bytes(direction, bytes)
            }
        })
    })
}

/// Runs one input.
pub fn run(input: &[u8]) {
    connection::run(input, HELD_BYTES, steps);
}
