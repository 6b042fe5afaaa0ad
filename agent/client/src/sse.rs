//! The HTTP transport before streamable HTTP (specification 2024-11-05, "HTTP with SSE"), which the SDK no longer has:
//! one stream of events from the server, the first of which names the address that messages are sent to.

use std::io;

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use super::http::{Events, Http};

/// A connection.
pub(super) struct OldHttp {
    http: Http,
    events: Events,
    to: Url,
}

impl OldHttp {
    /// Opens the stream and waits for its first event.
    ///
    /// # Errors
    /// There is none, or it names an address on another host.
    pub(super) async fn connect(http: Http, url: &Url) -> Result<Self> {
        let request = http.request(Method::GET, url.as_str(), "text/event-stream");
        let response = http.send(request).await?;
        let mut events = http.events(response);
        let first = events.next().await.context("the stream of events is empty")??;
        ensure!(first.event.as_deref() == Some("endpoint"), "the stream of events begins with no `endpoint`");
        let to = url.join(first.data.unwrap_or_default().trim()).context("`endpoint` is no address")?;
        ensure!(to.origin() == url.origin(), "`endpoint` is on another host; nothing is sent there");
        Ok(Self { http, events, to })
    }
}

impl Transport<RoleClient> for OldHttp {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (http, to) = (self.http.clone(), self.to.clone());
        async move {
            let request = http.request(Method::POST, to.as_str(), "*/*");
            let body = serde_json::to_string(&item)?;
            http.tap.sent(&body);
            let request = request.header(CONTENT_TYPE, "application/json").body(body);
            http.send(request).await.map(drop).map_err(|failure| {
                http.tap.fail(failure.clone());
                io::Error::other(failure)
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = self.events.next().await?.ok()?;
            if let Ok(message) = serde_json::from_str(&event.data.unwrap_or_default()) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}
