//! A server that is an address: streamable HTTP as the SDK speaks it, and what both HTTP transports share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use mcpwarden_text::clean;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{
    Certificate, Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url, redirect,
};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::lists::NEWER;
use super::pin::Pin;
use super::tap::{Failure, Tap};

const EVENTS: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";
/// Redirects that are followed, all within one host.
const MAX_REDIRECTS: usize = 5;

/// Why there is no client.
pub const NO_HTTPS: &str =
    "cannot set up HTTPS; see that the certificates of this system (ca-certificates) are there";
/// The same where others than the system's were given.
const NO_HTTPS_WITH: &str = "cannot set up HTTPS; see that the certificates of this system (ca-certificates) are there, \
                             and that those of --ca-file are whole";

type Error = StreamableHttpError<reqwest::Error>;
pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// What goes for all requests to a server.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Sent with every request, to this server alone.
    pub headers: HeaderMap,
    /// Authorities beside the system's that may have signed its certificate.
    pub authorities: Vec<Certificate>,
    /// The certificate that it must show; `authorities` do not count beside one.
    pub pin: Option<Pin>,
    /// What whoever reads an error can do about it.
    pub advice: Advice,
}

/// Ends of sentences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Advice {
    /// Where the server wants credentials.
    pub credentials: &'static str,
    /// Where nobody who is trusted has signed its certificate.
    pub trust: &'static str,
}

/// What every client of this program begins with.
pub fn client_builder() -> ClientBuilder {
    // Fails where there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().user_agent(concat!("mcpwarden/", env!("CARGO_PKG_VERSION")))
}

/// A client of one server.
#[derive(Clone)]
pub struct Http {
    client: Client,
    pub(super) tap: Tap,
    advice: Advice,
    refused: Arc<AtomicBool>,
    peer: Arc<OnceLock<SocketAddr>>,
}

impl Http {
    /// # Errors
    /// The certificates of this system cannot be read.
    pub(super) fn new(settings: &Settings, tap: Tap) -> Result<Self> {
        let same_place = redirect::Policy::custom(|attempt| {
            let from = attempt.previous().first().map(Url::origin);
            if from == Some(attempt.url().origin()) && attempt.previous().len() <= MAX_REDIRECTS {
                attempt.follow()
            } else {
                attempt.stop()
            }
        });
        let builder = client_builder().default_headers(settings.headers.clone()).redirect(same_place);
        let builder = match &settings.pin {
            Some(pin) => builder.tls_backend_preconfigured(pin.tls().context(NO_HTTPS)?),
            None => builder.tls_certs_merge(settings.authorities.iter().cloned()),
        };
        let why = if settings.authorities.is_empty() { NO_HTTPS } else { NO_HTTPS_WITH };
        let client = builder.build().context(why)?;
        let (refused, peer) = (Arc::default(), Arc::default());
        Ok(Self { client, tap, advice: settings.advice, refused, peer })
    }

    /// Whether the server answered as one does that knows only the transport before this one.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// A request that asks for an answer of this type.
    pub(super) fn request(&self, method: Method, url: &str, accept: &'static str) -> RequestBuilder {
        self.client.request(method, url).header(ACCEPT, accept)
    }

    /// The address that answered first.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer.get().copied()
    }

    /// Sends it; what is no success is an error that says why in words for people.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = self.sent(request).await?;
        self.refusal(&response).map_or(Ok(response), Err)
    }

    /// Sends it, whatever the status of the answer.
    async fn sent(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| {
            let why = causes(&error.without_url());
            Failure::from(self.distrust(&why).unwrap_or(why))
        })?;
        if let Some(peer) = response.remote_addr() {
            let _ = self.peer.set(peer);
        }
        Ok(response)
    }

    /// Why an answer is no success.
    fn refusal(&self, response: &Response) -> Option<Failure> {
        let status = response.status();
        if status.is_success() {
            return None;
        }
        let advice = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!("; {}", self.advice.credentials),
            _ if status.is_redirection() => {
                let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
                format!(
                    " to {}, which is not followed; inspect that address if it is the server's",
                    clean(to)
                )
            }
            _ => String::new(),
        };
        Some(Failure { why: format!("it answers {status}{advice}"), status: Some(status.as_u16()) })
    }

    /// What it means that a certificate is not trusted. `why` has the words of rustls, which has no others for it.
    fn distrust(&self, why: &str) -> Option<String> {
        if why.contains("UnknownIssuer") {
            let advice = self.advice.trust;
            Some(format!("nobody whom this system trusts has signed its certificate; {advice}"))
        } else if why.contains("CaUsedAsEndEntity") {
            Some(
                "its certificate is an authority's (CA:TRUE), for signing others; it needs one of its own"
                    .into(),
            )
        } else {
            None
        }
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
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn is(response: &Response, kind: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.starts_with(kind))
}

/// The error in a body that only servers without a handshake answer with, of which the SDK makes something.
fn newer_error(body: &str) -> Option<ServerJsonRpcMessage> {
    let message = serde_json::from_str(body).ok()?;
    match &message {
        ServerJsonRpcMessage::Error(error) if NEWER.contains(&error.error.code) => Some(message),
        _ => None,
    }
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
        let body = serde_json::to_string(&message)?;
        self.tap.sent(&body);
        let sent = self.sent(request.header(CONTENT_TYPE, "application/json").body(body)).await;
        let response = sent.map_err(|failure| {
            self.tap.fail(failure);
            Error::TransportChannelClosed
        })?;
        if let Some(failure) = self.refusal(&response) {
            if response.status() == StatusCode::BAD_REQUEST
                && is(&response, "application/json")
                && let Some(error) = newer_error(&self.body(response).await?)
            {
                return Ok(StreamableHttpPostResponse::Json(error, None));
            }
            let old = [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
            let refused = old.iter().any(|status| failure.status == Some(status.as_u16()));
            self.refused.store(refused, Ordering::Relaxed);
            self.tap.fail(failure);
            return Err(Error::TransportChannelClosed);
        }
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        let asks = matches!(message, ClientJsonRpcMessage::Request(_));
        if !asks || matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !is(&response, "application/json") {
            self.tap.fail("it answers something else than JSON: no MCP server is at this address".to_owned());
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
        // A server need not let go of it at once.
        let _ = self.send(request).await;
        Ok(())
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

/// A value that is shown nowhere.
pub fn secret(value: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value).map_err(|_| anyhow::anyhow!("invalid value of a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of an answer with status 400, and whether it is an error that only a newer server answers with.
    #[test]
    fn errors_of_newer_servers_are_read() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"m"}}"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"m","data":{}}}"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m"}}"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no session"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, false),
            (r#"{"detail":"Bad Request"}"#, false),
            ("<html>", false),
            ("", false),
        ] {
            assert_eq!(newer_error(body).is_some(), expected, "{body}");
        }
    }
}
