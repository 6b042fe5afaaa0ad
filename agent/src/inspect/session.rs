//! One server's definitions, listed by the official SDK.

use std::io;
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use mcpwarden_policy::protocol::{decode_str, members, string};
use mcpwarden_policy::registry::ItemKind;
use reqwest::header::HeaderMap;
use reqwest::{Certificate, Url};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, ErrorCode, Implementation,
    ProtocolVersion,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RoleClient, RunningService,
    ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::http::Http;
use super::program::{Launch, Program};
use super::report::Definition;
use super::sse::OldHttp;
use super::tap::Tap;
use super::user::Environment;

/// Most definitions of one server.
const MAX_DEFINITIONS: usize = 10_000;
/// Most pages of one list.
const MAX_PAGES: usize = 1_000;
/// How long a server has to let go of its session.
const FAREWELL: Duration = Duration::from_millis(500);

/// A signal came that asks for the end. Holds the exit status for it: 128 and its number, as shells have it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted(pub u8);

/// Tells whether one came, also while nobody looked.
pub type Interruption = watch::Receiver<Option<Interrupted>>;

/// Takes signals from here on.
///
/// # Errors
/// They cannot be taken.
pub fn interruption() -> io::Result<Interruption> {
    let (tell, told) = watch::channel(None);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (tell, mut signals) = (tell.clone(), signal(kind)?);
        tokio::spawn(async move {
            signals.recv().await;
            let status = u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX);
            tell.send_replace(Some(Interrupted(status)));
        });
    }
    Ok(told)
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// By starting it.
    Program(Launch),
    /// Over HTTP.
    Address {
        /// Where.
        url: Url,
        /// What is sent with each request.
        headers: HeaderMap,
    },
}

/// What goes for all servers.
pub struct Terms<'a> {
    /// Variables that programs inherit.
    pub environment: &'a Environment,
    /// For a whole server, from its start to its last list.
    pub timeout: Duration,
    /// Whether what servers say on standard error is kept from ours.
    pub quiet: bool,
    /// Authorities beside the system's that may have signed a server's certificate.
    pub authorities: &'a [Certificate],
    /// Ends it.
    pub interruption: &'a Interruption,
    /// What is under way, for whoever waits.
    pub progress: &'a dyn Fn(&str),
}

/// Connects to a server, lists everything that it offers, and leaves it. One that was started is ended.
///
/// # Errors
/// It cannot be reached, is no MCP server, took too long, sent too much, or this was interrupted.
pub async fn list(name: &str, reach: &Reach, terms: &Terms<'_>) -> Result<Vec<Definition>> {
    let first = attempt(name, reach, terms, ClientLifecycleMode::Initialize).await;
    match first {
        // A server of the revisions without a handshake refuses it.
        Err(error) if is_refusal(&error) => {
            let preferred_versions = ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect();
            let second =
                attempt(name, reach, terms, ClientLifecycleMode::Discover { preferred_versions }).await;
            second.map_err(|_| error)
        }
        outcome => outcome,
    }
}

/// Whether a server does not know `initialize`.
fn is_refusal(error: &Error) -> bool {
    let codes = [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION];
    matches!(error.downcast_ref(), Some(ClientInitializeError::JsonRpcError(error)) if codes.contains(&error.code))
}

async fn attempt(
    name: &str,
    reach: &Reach,
    terms: &Terms<'_>,
    lifecycle: ClientLifecycleMode,
) -> Result<Vec<Definition>> {
    let tap = Tap::default();
    match reach {
        Reach::Program(launch) => {
            (terms.progress)("is being started");
            let prefix = (!terms.quiet).then(|| format!("{}: ", crate::output::clean(name)));
            let (program, pipes) = Program::start(launch, terms.environment, prefix, tap.clone())?;
            let outcome = within(terms, talk(pipes, lifecycle, terms, &tap)).await;
            (terms.progress)("is being ended");
            let fate = program.end().await;
            // These two are acted upon.
            let acted_upon = |error: &Error| error.is::<Interrupted>() || is_refusal(error);
            outcome.map_err(|error| match acted_upon(&error) || fate.is_empty() {
                true => error,
                false => anyhow!("{error:#}; {fate}"),
            })
        }
        Reach::Address { url, headers } => {
            (terms.progress)("is being reached");
            within(terms, talk_http(url, headers, lifecycle, terms, &tap)).await
        }
    }
}

/// Streamable HTTP; where the server answers its first message with an error of the client's, what was before it, as
/// the specification says ("Backwards Compatibility").
async fn talk_http(
    url: &Url,
    headers: &HeaderMap,
    lifecycle: ClientLifecycleMode,
    terms: &Terms<'_>,
    tap: &Tap,
) -> Result<Vec<Definition>> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.allow_stateless = true;
    config.max_sse_event_size = super::tap::MAX_BYTES;
    let http = Http::new(headers.clone(), terms.authorities, tap.clone())?;
    let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
    let outcome = talk(transport, lifecycle.clone(), terms, tap).await;
    if outcome.is_ok() || !http.is_refused() {
        return outcome;
    }
    let old = Tap::default();
    let transport = match OldHttp::connect(Http::new(headers.clone(), terms.authorities, old.clone())?, url)
        .await
    {
        Ok(transport) => transport,
        Err(error) => {
            return outcome.map_err(|first| anyhow!("{first:#}; by the transport before that: {error:#}"));
        }
    };
    talk(transport, lifecycle, terms, &old).await
}

/// Bounds a conversation in time.
async fn within(
    terms: &Terms<'_>,
    conversation: impl Future<Output = Result<Vec<Definition>>>,
) -> Result<Vec<Definition>> {
    let mut interruption = terms.interruption.clone();
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(terms.timeout, conversation) => outcome,
        Ok(interrupted) = interruption.wait_for(Option::is_some) => {
            return Err((*interrupted).map_or_else(|| anyhow!("interrupted"), Error::from));
        }
    };
    match outcome {
        Ok(outcome) => outcome,
        Err(_) => bail!(
            "it did not answer within {}; see that it is an MCP server, or give it longer with --timeout",
            mcpwarden_policy::config::Period(terms.timeout)
        ),
    }
}

/// The handshake, and all lists. Where it fails, the tap knows best why.
async fn talk<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    terms: &Terms<'_>,
    tap: &Tap,
) -> Result<Vec<Definition>>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    converse(transport, lifecycle, terms, tap).await.map_err(|error| match tap.failure() {
        Some(why) => anyhow!(why),
        None => error,
    })
}

async fn converse<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    terms: &Terms<'_>,
    tap: &Tap,
) -> Result<Vec<Definition>>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    (terms.progress)("is being greeted");
    let this = Implementation::new("mcpwarden", env!("CARGO_PKG_VERSION"));
    let client = ClientConfig::new(ClientCapabilities::default(), this);
    let mut service = match serve_client_with_lifecycle(client, transport, lifecycle).await {
        Ok(service) => service,
        Err(error @ ClientInitializeError::JsonRpcError(_)) => return Err(error.into()),
        Err(ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }) => {
            bail!("it closed the connection before it said who it is")
        }
        Err(error) => return Err(Error::from(error).context("it does not speak MCP")),
    };
    let listed = lists(&service, terms, tap).await;
    // Whatever comes of it: a program is ended afterwards, and a session over HTTP runs out.
    let _ = service.close_with_timeout(FAREWELL).await;
    listed
}

async fn lists<S: rmcp::Service<RoleClient>>(
    service: &RunningService<RoleClient, S>,
    terms: &Terms<'_>,
    tap: &Tap,
) -> Result<Vec<Definition>> {
    let Some(server) = service.peer_info() else { bail!("it did not say what it offers") };
    let mut definitions = Vec::new();
    if let Some(text) = &server.instructions {
        definitions.push(Definition {
            kind: ItemKind::Instructions,
            name: String::new(),
            json: json!(text).to_string(),
        });
    }
    let offers = &server.capabilities;
    for (list, offered) in [
        // In any case: some servers offer tools without saying so.
        (TOOLS, true),
        (PROMPTS, offers.prompts.is_some()),
        (RESOURCE_TEMPLATES, offers.resources.is_some()),
    ] {
        if offered {
            (terms.progress)(&format!("is asked for {}", list.method));
            all_pages(service.peer(), &list, tap, &mut definitions).await?;
        }
    }
    Ok(definitions)
}

/// A list that a server gives, page by page.
struct List {
    kind: ItemKind,
    method: &'static str,
    /// Of its answer: the entries.
    member: &'static str,
    /// Of an entry: what it is called.
    name: &'static str,
}

const TOOLS: List = List { kind: ItemKind::Tool, method: "tools/list", member: "tools", name: "name" };
const PROMPTS: List =
    List { kind: ItemKind::Prompt, method: "prompts/list", member: "prompts", name: "name" };
const RESOURCE_TEMPLATES: List = List {
    kind: ItemKind::ResourceTemplate,
    method: "resources/templates/list",
    member: "resourceTemplates",
    name: "uriTemplate",
};

async fn all_pages(peer: &Peer<RoleClient>, list: &List, tap: &Tap, to: &mut Vec<Definition>) -> Result<()> {
    let List { kind, method, member, name } = *list;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let id = handle.id.to_string();
        match handle.await_response().await {
            Ok(_) => {}
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return Ok(()),
            Err(ServiceError::McpError(error)) => {
                bail!("it answers {method} with an error: {}", error.message)
            }
            Err(ServiceError::TransportClosed) => {
                bail!("it closed the connection when it was asked for {member}")
            }
            Err(error) => return Err(error.into()),
        }
        let result = tap.result(&id).unwrap_or_default();
        let [entries, next] = members(&result, [member, "nextCursor"]);
        let entries: Option<Vec<&RawValue>> =
            entries.and_then(|entries| serde_json::from_str(entries.get()).ok());
        let Some(entries) = entries else { bail!("its answer to {method} has no list of {member}") };
        for entry in entries {
            if to.len() >= MAX_DEFINITIONS {
                bail!("it offers more than {MAX_DEFINITIONS} definitions");
            }
            let [name] = members(entry.get(), [name]);
            to.push(Definition { kind, name: string(name).into_owned(), json: entry.get().to_owned() });
        }
        match next.and_then(|next| decode_str(next.get())) {
            Some(next) => cursor = Some(next.into_owned()),
            None => return Ok(()),
        }
    }
    bail!("its list of {member} has more than {MAX_PAGES} pages");
}
