//! A server at an address.

use std::net::SocketAddr;

use anyhow::{Error, Result};
use mcpwarden_policy::event::ServerType;
use reqwest::Url;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::http::{Http, Settings};
use super::lists::{Listed, Opening, Progress, Service, all_lists, greet};
use super::sse::OldHttp;
use super::tap::{Failure, Tap};

/// A conversation that came to its end.
pub struct Spoken {
    /// What the server offers.
    pub listed: Listed,
    /// What was spoken.
    pub kind: ServerType,
    /// The address that answered.
    pub peer: Option<SocketAddr>,
    /// What it was heard by.
    pub tap: Tap,
}

/// A conversation that was opened.
pub(crate) struct Greeted {
    /// The conversation.
    pub service: Service,
    /// What is spoken.
    pub kind: ServerType,
    /// The address that answered.
    pub peer: Option<SocketAddr>,
    /// What it is heard by.
    pub tap: Tap,
}

/// All that a server at an address lists: see `greet_http`.
///
/// # Errors
/// Those of `greet_http`, or it does not list.
pub async fn talk_http(
    url: &Url,
    settings: &Settings,
    tap: impl Fn() -> Tap,
    opening: &Opening,
    progress: Progress<'_>,
) -> Result<Spoken> {
    let Greeted { service, kind, peer, tap } = greet_http(url, settings, tap, opening, progress).await?;
    let listed = all_lists(service, &tap, progress).await?;
    Ok(Spoken { listed, kind, peer, tap })
}

/// Streamable HTTP; where the server answers its first message with an error of the client's, what was before it, as
/// the specification says ("Backwards Compatibility"). Each has a tap of its own.
///
/// # Errors
/// Both fail; a [`Failure`] where the reason is known.
pub(crate) async fn greet_http(
    url: &Url,
    settings: &Settings,
    tap: impl Fn() -> Tap,
    opening: &Opening,
    progress: Progress<'_>,
) -> Result<Greeted> {
    let first = tap();
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.allow_stateless = true;
    config.max_sse_event_size = first.max_bytes();
    let http = Http::new(settings, first.clone())?;
    let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
    let outcome = greet(transport, opening, &first, progress).await;
    match outcome {
        Ok(service) => Ok(Greeted { service, kind: ServerType::Http, peer: http.peer(), tap: first }),
        // What was before it has the handshake.
        Err(error) if !http.is_refused() || !opening.is_handshake() => Err(error),
        Err(error) => {
            let second = tap();
            let http = Http::new(settings, second.clone())?;
            let transport = match OldHttp::connect(http.clone(), url).await {
                Ok(transport) => transport,
                Err(other) => return Err(both(&error, &other)),
            };
            let service = greet(transport, opening, &second, progress).await?;
            Ok(Greeted { service, kind: ServerType::Sse, peer: http.peer(), tap: second })
        }
    }
}

/// Why neither transport was of use. What the older one was answered with counts: the server knew it.
fn both(first: &Error, second: &Error) -> Error {
    let status = |error: &Error| error.downcast_ref().and_then(|failure: &Failure| failure.status);
    let why = format!("{first:#}; by the transport before that: {second:#}");
    Failure { why, status: status(second).or(status(first)) }.into()
}
