//! The eras of MCP: how a client and a server open a conversation, and what may go over it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The era of a conversation. No revision of one era can be spoken as a revision of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Revisions up to 2025-11-25: `initialize` opens the conversation, and both sides send requests.
    Handshake,
    /// Revisions from 2026-07-28 on: each request carries the revision and the client's capabilities in `_meta`, and only
    /// the client sends requests.
    Stateless,
}

/// The first revision of [`Era::Stateless`].
const FIRST_STATELESS: &str = "2026-07-28";

impl Era {
    /// The era of a revision, which is named by its date. `None` where it is no date.
    pub fn of_revision(revision: &str) -> Option<Self> {
        let is_date = revision.len() == FIRST_STATELESS.len()
            && revision
                .bytes()
                .zip(FIRST_STATELESS.bytes())
                .all(|(byte, of_date)| if of_date == b'-' { byte == b'-' } else { byte.is_ascii_digit() });
        let era = if revision < FIRST_STATELESS { Self::Handshake } else { Self::Stateless };
        is_date.then_some(era)
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Handshake => Self::Stateless,
            Self::Stateless => Self::Handshake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_belongs_to_one_era() {
        for (revision, expected) in [
            ("2024-11-05", Some(Era::Handshake)),
            ("2025-03-26", Some(Era::Handshake)),
            ("2025-06-18", Some(Era::Handshake)),
            ("2025-11-25", Some(Era::Handshake)),
            ("2026-07-27", Some(Era::Handshake)),
            ("2026-07-28", Some(Era::Stateless)),
            ("2027-01-01", Some(Era::Stateless)),
            ("DRAFT-2026-v1", None),
            ("2026-07-28 ", None),
            ("2026/07/28", None),
            ("2026-7-28", None),
            ("2.0", None),
            ("", None),
            ("２026-07-28", None),
        ] {
            assert_eq!(Era::of_revision(revision), expected, "{revision}");
        }
        assert_eq!(Era::Handshake.other(), Era::Stateless);
    }
}
