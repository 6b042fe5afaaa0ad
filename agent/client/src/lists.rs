//! A conversation in which a server lists all that it offers, over whatever transport, by the official SDK.

use std::time::Duration;

use anyhow::{Error, Result, bail};
use mcpwarden_policy::protocol::{decode_str, members, string};
use mcpwarden_policy::registry::ItemKind;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, ErrorCode, Implementation,
    ProtocolVersion,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RoleClient, RunningService,
    ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::IntoTransport;
use serde_json::json;
use serde_json::value::RawValue;

use super::tap::Tap;

/// Most definitions of one server.
const MAX_DEFINITIONS: usize = 10_000;
/// Most pages of one list.
const MAX_PAGES: usize = 1_000;
/// How long a server has to let go of its session.
const FAREWELL: Duration = Duration::from_millis(500);

/// Told what is under way.
pub type Progress<'a> = &'a dyn Fn(&str);

/// Something that reaches a model.
#[derive(Debug)]
pub struct Definition {
    /// What it is.
    pub kind: ItemKind,
    /// Its name; empty for instructions.
    pub name: String,
    /// As it was sent.
    pub json: String,
}

/// Talks as servers of most revisions want it, and, where the server refuses that, as those without a handshake do.
///
/// # Errors
/// Those of the first attempt.
pub async fn either_way<T>(attempt: impl AsyncFn(ClientLifecycleMode) -> Result<T>) -> Result<T> {
    match attempt(ClientLifecycleMode::Initialize).await {
        Err(error) if is_refusal(&error) => {
            let preferred_versions = ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect();
            let second = attempt(ClientLifecycleMode::Discover { preferred_versions }).await;
            second.map_err(|_| error)
        }
        outcome => outcome,
    }
}

/// Whether a server does not know `initialize`.
pub fn is_refusal(error: &Error) -> bool {
    let codes = [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION];
    matches!(error.downcast_ref(), Some(ClientInitializeError::JsonRpcError(error)) if codes.contains(&error.code))
}

/// The handshake, and all lists. Where it fails, the tap knows best why.
pub async fn talk<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    tap: &Tap,
    progress: Progress<'_>,
) -> Result<Vec<Definition>>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let outcome = converse(transport, lifecycle, tap, progress).await;
    outcome.map_err(|error| tap.failure().map_or(error, Error::from))
}

async fn converse<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    tap: &Tap,
    progress: Progress<'_>,
) -> Result<Vec<Definition>>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    progress("is being greeted");
    let this = Implementation::new("mcpwarden", env!("CARGO_PKG_VERSION"));
    let client = ClientConfig::new(ClientCapabilities::default(), this);
    let mut service = match serve_client_with_lifecycle(client, transport, lifecycle).await {
        Ok(service) => service,
        Err(error @ ClientInitializeError::JsonRpcError(_)) => return Err(error.into()),
        Err(ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }) => {
            bail!("the server closed the connection before it answered `initialize`")
        }
        Err(error) => return Err(Error::from(error).context("the server does not speak MCP")),
    };
    let listed = lists(&service, tap, progress).await;
    // Whatever comes of it: a program is ended afterwards, and a session over HTTP runs out.
    let _ = service.close_with_timeout(FAREWELL).await;
    listed
}

async fn lists<S: rmcp::Service<RoleClient>>(
    service: &RunningService<RoleClient, S>,
    tap: &Tap,
    progress: Progress<'_>,
) -> Result<Vec<Definition>> {
    let Some(server) = service.peer_info() else { bail!("the server did not list its capabilities") };
    let mut definitions = Vec::new();
    if let Some(text) = &server.instructions {
        definitions.push(instructions_of(json!(text).to_string()));
    }
    let offers = &server.capabilities;
    // Tools in any case: some servers offer tools without saying so.
    for (list, offered) in LISTS.iter().zip([true, offers.prompts.is_some(), offers.resources.is_some()]) {
        if offered {
            progress(&format!("is asked for {}", list.method));
            all_pages(service.peer(), list, tap, &mut definitions).await?;
        }
    }
    Ok(definitions)
}

/// The instructions that a server gives, a JSON text.
pub fn instructions_of(json: String) -> Definition {
    Definition { kind: ItemKind::Instructions, name: String::new(), json }
}

/// A list that a server gives, page by page.
pub struct List {
    /// What is in it.
    pub kind: ItemKind,
    method: &'static str,
    /// Of its answer: the entries.
    pub member: &'static str,
    /// Of an entry: what it is called.
    pub name: &'static str,
}

/// The list of tools.
pub const TOOLS: List = List { kind: ItemKind::Tool, method: "tools/list", member: "tools", name: "name" };

/// Tools, prompts and resource templates.
pub const LISTS: [List; 3] = [
    TOOLS,
    List { kind: ItemKind::Prompt, method: "prompts/list", member: "prompts", name: "name" },
    List {
        kind: ItemKind::ResourceTemplate,
        method: "resources/templates/list",
        member: "resourceTemplates",
        name: "uriTemplate",
    },
];

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
                bail!("the server answers {method} with an error: {}", error.message)
            }
            Err(ServiceError::TransportClosed) => {
                bail!("the server closed the connection when {member} were requested")
            }
            Err(error) => return Err(error.into()),
        }
        let result = tap.result(&id).unwrap_or_default();
        let [entries, next] = members(&result, [member, "nextCursor"]);
        let entries: Option<Vec<&RawValue>> =
            entries.and_then(|entries| serde_json::from_str(entries.get()).ok());
        let Some(entries) = entries else { bail!("the answer to {method} has no list of {member}") };
        for entry in entries {
            if to.len() >= MAX_DEFINITIONS {
                bail!("the server offers more than {MAX_DEFINITIONS} definitions");
            }
            let [name] = members(entry.get(), [name]);
            to.push(Definition { kind, name: string(name).into_owned(), json: entry.get().to_owned() });
        }
        match next.and_then(|next| decode_str(next.get())).filter(|next| !next.is_empty()) {
            Some(next) => cursor = Some(next.into_owned()),
            None => return Ok(()),
        }
    }
    bail!("its list of {member} has more than {MAX_PAGES} pages");
}
