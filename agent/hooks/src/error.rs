//! Why a service cannot be set up.

use std::{io, path::PathBuf};

/// Why there is no [`Hook`](crate::Hook). No text contains the URL, which may hold a token, or a secret.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The URL is not one that requests can go to.
    #[error("url: {0}")]
    Url(&'static str),
    /// The requests would cross the network in plain text.
    #[error(
        "url: http:// is allowed to this host alone (localhost, 127.0.0.1, [::1]); use https://, or allow plain text"
    )]
    Plaintext,
    /// A number that makes no sense.
    #[error("{field}: must be {expected}")]
    Range {
        /// Of [`HookConfig`](crate::HookConfig).
        field: &'static str,
        /// What it may be.
        expected: &'static str,
    },
    /// A file that is needed cannot be read, or others can read a private one.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What it holds.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has something else in it than PEM of this kind.
    #[error("{what} {}: {why}", path.display())]
    Pem {
        /// What it should hold.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// TLS cannot be set up.
    #[error("{what}: {source}")]
    Tls {
        /// What was done.
        what: &'static str,
        /// Why it failed.
        source: rustls::Error,
    },
    /// The HTTP client cannot be set up.
    #[error("cannot set up HTTP: {0}")]
    Client(String),
    /// A secret cannot be read.
    #[error("secret: {0}")]
    Secret(String),
}
