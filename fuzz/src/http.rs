//! Any bytes as what a client asks and a server answers: read the same wherever they are cut, and nothing comes out that
//! cannot be. The first byte says how they are cut; lines of `>>>`, `<<<`, `---` and `===` in between say who speaks, that
//! bytes are missing, and that the stream ends.

use mcpwarden_policy::Direction;

use super::connection::{self, Step};

/// Memory for what is held back, which inputs of a few KiB can reach. Bytes.
const HELD_BYTES: usize = 2048;

fn steps(input: &[u8], loses: bool) -> impl Iterator<Item = Step<'_>> {
    let mut direction = Direction::ClientToServer;
    input.split_inclusive(|byte| *byte == b'\n').filter_map(move |part| {
        match part {
            b">>>\n" => direction = Direction::ClientToServer,
            b"<<<\n" => direction = Direction::ServerToClient,
            b"---\n" if loses => return Some(Step::Gap(direction, 9)),
            b"===\n" => return Some(Step::End),
            part => return Some(Step::Bytes(direction, part)),
        }
        None
    })
}

/// Runs one input.
pub fn run(input: &[u8]) {
    connection::run(input, HELD_BYTES, steps);
}
