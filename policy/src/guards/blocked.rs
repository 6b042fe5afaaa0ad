//! Calls that an operator blocks by hand: denied before any guard is asked, whatever the configuration says of these.

use std::fmt;

use super::executor::Question;
use super::short;
use crate::guard::{Denial, Phase};
use crate::ids::{ServerId, SessionId, Timestamp};

/// Whose calls are blocked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Callee {
    /// Everybody's, to a server that is spoken to over stdio.
    Server(ServerId),
    /// A session's, to any server.
    Session(SessionId),
}

impl Callee {
    /// What comes before the id of a server, and of a session, where they are written.
    const WORDS: [&str; 2] = ["server=", "session="];

    /// What was written so, if it is one. (No address has an `=`.)
    pub fn parse(text: &str) -> Option<Self> {
        let [server, session] = Self::WORDS.map(|word| text.strip_prefix(word).filter(|id| !id.is_empty()));
        let server = server.map(|id| Self::Server(ServerId(id.into())));
        server.or_else(|| session.map(|id| Self::Session(SessionId(id.into()))))
    }

    pub(crate) fn is(&self, server: &ServerId, session: &SessionId) -> bool {
        match self {
            Self::Server(id) => id == server,
            Self::Session(id) => id == session,
        }
    }
}

impl fmt::Display for Callee {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [server, session] = Self::WORDS;
        match self {
            Self::Server(id) => write!(formatter, "{server}{}", id.0),
            Self::Session(id) => write!(formatter, "{session}{}", id.0),
        }
    }
}

/// A block of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBlock {
    /// Whose.
    pub callee: Callee,
    /// Until when; `None`: until it is lifted.
    pub until: Option<Timestamp>,
    /// Why, in words.
    pub reason: Option<String>,
}

impl CallBlock {
    /// Why nothing is asked, if it is asked now. Answers are none of what is blocked.
    pub(super) fn denial(&self, question: &Question<'_>) -> Option<Denial> {
        let counts = self.until.is_none_or(|until| question.now < until);
        let is_asked = question.operations.iter().any(|operation| operation.phase() == Phase::Request);
        (counts && is_asked).then(|| {
            let (code, what) = match &self.callee {
                Callee::Server(id) => ("server_blocked", format!("server '{}'", short(&id.0))),
                Callee::Session(id) => ("session_blocked", format!("session '{}'", short(&id.0))),
            };
            let reason = self.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
            Denial {
                code: code.to_owned(),
                message: format!("{what} is blocked by hand{reason}"),
                details: None,
            }
        })
    }
}

/// All blocks of calls.
#[derive(Clone, Debug, Default)]
pub struct CallBlocks(Vec<CallBlock>);

impl From<Vec<CallBlock>> for CallBlocks {
    fn from(blocks: Vec<CallBlock>) -> Self {
        Self(blocks)
    }
}

impl CallBlocks {
    /// The block of a session's calls to a server that ends last.
    pub fn of(&self, server: &ServerId, session: &SessionId) -> Option<&CallBlock> {
        let blocks = self.0.iter().filter(|block| block.callee.is(server, session));
        blocks.max_by_key(|block| block.until.unwrap_or(Timestamp(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_calls_are_meant() {
        for (text, is_one) in [
            ("server=files", true),
            ("session=s-1", true),
            ("server=a=b", true),
            ("server=", false),
            ("session=", false),
            ("server", false),
            ("server:443", false),
            ("192.0.2.1", false),
            ("SERVER=files", false),
        ] {
            let callee = Callee::parse(text);
            assert_eq!(callee.is_some(), is_one, "{text}");
            assert!(callee.is_none_or(|callee| callee.to_string() == text), "{text}");
        }
    }

    #[test]
    fn the_block_that_ends_last_counts() {
        let block = |callee: &str, until: Option<u64>| CallBlock {
            callee: Callee::parse(callee).unwrap(),
            until: until.map(Timestamp),
            reason: None,
        };
        let [files, other, one] = ["files", "other", "one"];
        for (blocks, expected) in [
            (vec![], None),
            (vec![block("server=other", None)], None),
            (vec![block("session=files", None)], None),
            (vec![block("server=files", Some(5)), block("session=one", Some(7))], Some(Some(7))),
            (vec![block("server=files", None), block("session=one", Some(7))], Some(None)),
            (vec![block("session=one", Some(7)), block("session=two", Some(9))], Some(Some(7))),
        ] {
            let blocks = CallBlocks::from(blocks);
            let found = blocks.of(&ServerId(files.into()), &SessionId(one.into()));
            assert_eq!(found.map(|block| block.until.map(|until| until.0)), expected, "{blocks:?}");
            assert!(CallBlocks::default().of(&ServerId(other.into()), &SessionId(one.into())).is_none());
        }
    }
}
