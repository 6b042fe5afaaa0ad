//! Whose calls are meant.

use std::fmt;

use super::{ServerId, SessionId};

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

    /// Whether a session's calls to a server are among them.
    pub fn is(&self, server: &ServerId, session: &SessionId) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callee_is_parsed_from_server_or_session() {
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
}
