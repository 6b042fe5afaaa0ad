//! A server that is an address: streamable HTTP as the SDK speaks it, and what both HTTP transports share.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Certificate, Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::tap::Tap;
use crate::output::clean;

const EVENTS: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";
/// Redirects that are followed, all within one host.
const MAX_REDIRECTS: usize = 5;
/// Longest file with the value of a header.
const MAX_VALUE_BYTES: u64 = 64 << 10;
/// Longest file with certificates: some four times what systems have.
const MAX_CERTIFICATES_BYTES: u64 = 1 << 20;

type Error = StreamableHttpError<reqwest::Error>;
pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client of one server.
#[derive(Clone)]
pub struct Http {
    client: Client,
    pub(super) tap: Tap,
    refused: Arc<AtomicBool>,
}

impl Http {
    /// A client that sends these headers with every request, to this server alone, and that trusts these authorities
    /// beside the system's.
    ///
    /// # Errors
    /// The certificates of this system cannot be read.
    pub fn new(headers: HeaderMap, authorities: &[Certificate], tap: Tap) -> Result<Self> {
        // Fails where there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let same_place = redirect::Policy::custom(|attempt| {
            let from = attempt.previous().first().map(Url::origin);
            if from == Some(attempt.url().origin()) && attempt.previous().len() <= MAX_REDIRECTS {
                attempt.follow()
            } else {
                attempt.stop()
            }
        });
        let client = Client::builder()
            .default_headers(headers)
            .redirect(same_place)
            .tls_certs_merge(authorities.iter().cloned())
            .user_agent(concat!("mcpwarden/", env!("CARGO_PKG_VERSION")))
            .build()
            .context(
                "cannot set up HTTPS; see that the certificates of this system (ca-certificates) are there, and that \
                 those of --ca-file are whole",
            )?;
        Ok(Self { client, tap, refused: Arc::default() })
    }

    /// Whether the server answered as one does that knows only the transport before this one.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// A request that asks for an answer of this type.
    pub(super) fn request(&self, method: Method, url: &str, accept: &'static str) -> RequestBuilder {
        self.client.request(method, url).header(ACCEPT, accept)
    }

    /// Sends it; what is no success is an error that says why in words for people.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| {
            let why = causes(&error.without_url());
            self.tap.fail(distrust(&why).map_or(why, str::to_owned));
            Error::TransportChannelClosed
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let old = [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
        self.refused.store(old.contains(&status), Ordering::Relaxed);
        let advice = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "; give it what it wants to see with --header".into()
            }
            _ if status.is_redirection() => {
                let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
                format!(
                    " to {}, which is not followed; inspect that address if it is the server's",
                    clean(to)
                )
            }
            _ => String::new(),
        };
        Err(Error::UnexpectedServerResponse(format!("it answers {status}{advice}").into()))
    }

    /// The events of an answer, each passed through the tap, as long as it is not too much.
    pub(super) fn events(&self, response: Response) -> Events {
        let (counter, tap) = (self.tap.clone(), self.tap.clone());
        let bytes = response.bytes_stream().map_err(std::io::Error::other).map(move |piece| match piece {
            Ok(piece) if !counter.count(piece.len()) => Err(std::io::Error::other("too much")),
            other => other,
        });
        SseStream::from_bytes_stream(bytes)
            .map_ok(move |event| Sse { data: event.data.map(|data| tap.pass(data)), ..event })
            .boxed()
    }

    /// The body of an answer, passed through the tap.
    async fn body(&self, response: Response) -> Result<String, Error> {
        let (mut body, mut pieces) = (Vec::new(), response.bytes_stream());
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(Error::Client)?;
            if !self.tap.count(piece.len()) {
                return Err(Error::TransportChannelClosed);
            }
            body.extend_from_slice(&piece);
        }
        Ok(self.tap.pass(String::from_utf8_lossy(&body).into_owned()))
    }
}

/// An error with what is behind it: reqwest says the least in its own words.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// What it means that a certificate is not trusted. `why` has the words of rustls, which has no others for it.
fn distrust(why: &str) -> Option<&'static str> {
    let meanings = [
        (
            "UnknownIssuer",
            "nobody whom this system trusts has signed its certificate; if it is the right one, name the certificate of who \
             has, or itself, with --ca-file",
        ),
        (
            "CaUsedAsEndEntity",
            "its certificate is an authority's (CA:TRUE), for signing others; it needs one of its own",
        ),
    ];
    meanings.iter().find(|(words, _)| why.contains(words)).map(|(_, meaning)| *meaning)
}

fn is(response: &Response, kind: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.starts_with(kind))
}

fn with(
    request: RequestBuilder,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> RequestBuilder {
    let request = request.headers(headers.into_iter().collect());
    match session {
        Some(session) => request.header(SESSION, &*session),
        None => request,
    }
}

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let request = with(self.request(Method::POST, &url, BOTH), session, headers);
        let body = serde_json::to_vec(&message)?;
        let sent = self.send(request.header(CONTENT_TYPE, "application/json").body(body)).await;
        let response = sent.inspect_err(|error| self.tap.fail(error_text(error)))?;
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        let asks = matches!(message, ClientJsonRpcMessage::Request(_));
        if !asks || matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !is(&response, "application/json") {
            self.tap.fail("it answers something else than JSON: no MCP server is at this address".into());
            return Err(Error::UnexpectedContentType(None));
        }
        let message = serde_json::from_str(&self.body(response).await?)?;
        Ok(StreamableHttpPostResponse::Json(message, session))
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        let request = with(self.request(Method::DELETE, &url, BOTH), Some(session), headers);
        self.send(request).await.map(drop)
    }

    async fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        let mut request = with(self.request(Method::GET, &url, EVENTS), session, headers);
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        // A server need not offer this stream; nothing that is listed comes by it.
        let response = self.send(request).await.map_err(|_| Error::ServerDoesNotSupportSse)?;
        Ok(self.events(response))
    }
}

/// What went wrong, for people.
pub(super) fn error_text(error: &Error) -> String {
    match error {
        Error::UnexpectedServerResponse(text) => text.clone().into_owned(),
        other => other.to_string(),
    }
}

/// Reads `NAME:VALUE`, or `NAME:@FILE` for what must not stand in a command line. No error shows the value.
///
/// # Errors
/// It is no header, or the file cannot be read.
pub fn header(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("--header wants NAME:VALUE or NAME:@FILE")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .with_context(|| format!("--header: `{}` is no name of a header", clean(name)))?;
    let value = match value.trim().strip_prefix('@') {
        Some(path) => {
            let text = read(Path::new(path), MAX_VALUE_BYTES);
            text.with_context(|| format!("--header {name}: {}", clean(path)))?.trim().to_owned()
        }
        None => value.trim().to_owned(),
    };
    Ok((name.clone(), secret(&value).with_context(|| format!("--header {name}: its value cannot be sent"))?))
}

/// A value that is shown nowhere.
pub fn secret(value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value).map_err(|_| anyhow::anyhow!("no value of a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads the certificates of authorities (PEM).
///
/// # Errors
/// The file cannot be read, or has none.
pub fn authorities(path: &Path) -> Result<Vec<Certificate>> {
    let place = || format!("--ca-file {}", path.display());
    let text = read(path, MAX_CERTIFICATES_BYTES).with_context(place)?;
    let found = Certificate::from_pem_bundle(text.as_bytes()).with_context(place)?;
    ensure!(!found.is_empty(), "{}: there is no certificate in it (`-----BEGIN CERTIFICATE-----`)", place());
    Ok(found)
}

fn read(path: &Path, max_bytes: u64) -> Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(max_bytes + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= max_bytes, "longer than {max_bytes} bytes");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "Bearer s3cret\n").unwrap();
        let from_file = format!("Authorization:@{}", file.display());
        let cases = [
            ("X-Key: s3cret", Ok(("x-key", "s3cret"))),
            (from_file.as_str(), Ok(("authorization", "Bearer s3cret"))),
            ("s3cret", Err("--header wants NAME:VALUE or NAME:@FILE")),
            ("a b:s3cret", Err("--header: `a b` is no name of a header: invalid HTTP header name")),
            ("a:s3\ncret", Err("--header a: its value cannot be sent: no value of a header")),
            ("a:@/nowhere", Err("--header a: /nowhere: No such file or directory (os error 2)")),
        ];
        for (text, expected) in cases {
            let read = header(text).map_err(|error| format!("{error:#}"));
            assert!(!format!("{read:?}").contains("s3"), "{text}");
            let read = read.as_ref().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
            assert_eq!(read.map_err(String::as_str), expected, "{text}");
        }
    }
}
