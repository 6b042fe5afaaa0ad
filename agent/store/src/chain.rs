//! The chain: every event carries the hash of the one before it.
//!
//! What is hashed is the event's line of JSON as it is stored and printed, its own place in the chain included, without
//! the line feed. So the hash of one event stands for all text before it.

use std::ops::Range;

use mcpwarden_policy::{Event, event::Link, hash::hex};
use ring::digest::{SHA256, digest};

use mcpwarden_text::write_json;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Before the first event.
    pub const NONE: Self = Self([0; 32]);

    /// Of an event's line, without its line feed.
    pub fn of(line: &[u8]) -> Self {
        let mut hash = Self::NONE;
        hash.0.copy_from_slice(digest(&SHA256, line).as_ref());
        hash
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "sha256:{}", hex(&self.0))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self}")
    }
}

/// The end of the chain: its last event's number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// 0 where there is no event yet.
    pub seq: u64,
    /// [`Hash::NONE`] where there is no event yet.
    pub hash: Hash,
}

impl Head {
    /// Before the first event.
    pub const START: Self = Self { seq: 0, hash: Hash::NONE };

    /// Gives an event the next place, appends its line and a line feed to `lines`, and says where it stands in it, without
    /// the line feed.
    pub fn append(&mut self, event: &mut Event, lines: &mut Vec<u8>) -> Range<usize> {
        self.seq += 1;
        event.link = Some(Link { seq: self.seq, previous: self.hash.to_string() });
        let start = lines.len();
        write_json(event, lines);
        let line = start..lines.len();
        self.hash = Hash::of(lines.get(line.clone()).unwrap_or_default());
        lines.push(b'\n');
        line
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::START
    }
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::{Timestamp, event::AgentLoss};

    use super::*;

    #[test]
    fn each_line_has_the_hash_of_its_predecessor() {
        let (mut head, mut lines) = (Head::START, Vec::new());
        for time in [1, 2, 2] {
            let mut event = Event::agent(Timestamp(time), AgentLoss::default().into());
            let line = head.append(&mut event, &mut lines);
            assert_eq!(Hash::of(&lines[line.clone()]), head.hash);
            assert_eq!(lines.len(), line.end + 1);
            assert_eq!(serde_json::from_slice::<Event>(&lines[line]).unwrap(), event);
        }
        let links: Vec<Link> = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let hashes: Vec<String> =
            lines.split(|byte| *byte == b'\n').map(|line| Hash::of(line).to_string()).collect();
        assert_eq!(links[0], Link { seq: 1, previous: format!("sha256:{}", "0".repeat(64)) });
        assert_eq!(links[1], Link { seq: 2, previous: hashes[0].clone() });
        assert_eq!(links[2], Link { seq: 3, previous: hashes[1].clone() });
        assert_eq!(
            head,
            Head { seq: 3, hash: Hash::of(lines[..lines.len() - 1].rsplit(|b| *b == b'\n').next().unwrap()) }
        );
    }

    /// SHA-256 of nothing and of "abc" (FIPS 180-4, appendix of examples).
    #[test]
    fn hash_matches_fips_180_4_examples() {
        for (text, hash) in [
            ("", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            assert_eq!(Hash::of(text.as_bytes()).to_string(), hash);
        }
    }
}
