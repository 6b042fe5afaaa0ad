//! A conversation in which a server lists all that it offers, over whatever transport, by the official SDK.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

use super::tap::{Failure, Tap};

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

/// What a server lists.
#[derive(Debug, Default)]
pub struct Listed {
    /// All definitions that it sent.
    pub definitions: Vec<Definition>,
    /// Why more of them may be missing: a sentence for each list that did not come to its end.
    pub incomplete: Vec<String>,
}

/// How a conversation is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    lifecycle: ClientLifecycleMode,
    /// How long the server may take to answer.
    patience: Option<Duration>,
    /// Whether no other is to be tried.
    is_decided: Arc<AtomicBool>,
}

impl Opening {
    /// `server/discover`, and on the same connection `initialize` where the server answers that it knows no such thing.
    fn newest(patience: Duration) -> Self {
        let versions = ProtocolVersion::KNOWN_VERSIONS.iter().rev();
        let preferred_versions = versions.filter(|version| !version.has_initialize()).cloned().collect();
        let lifecycle = ClientLifecycleMode::Auto { preferred_versions, legacy_version: None };
        Self { lifecycle, patience: Some(patience), is_decided: Arc::default() }
    }

    /// `initialize` alone.
    fn handshake() -> Self {
        Self { lifecycle: ClientLifecycleMode::Initialize, patience: None, is_decided: Arc::default() }
    }

    /// Whether it is the one of servers of revisions up to 2025-11-25.
    pub(super) fn is_handshake(&self) -> bool {
        self.lifecycle == ClientLifecycleMode::Initialize
    }

    /// Has no other be tried, whatever comes of this one.
    pub fn decide(&self) {
        self.is_decided.store(true, Ordering::Relaxed);
    }
}

/// Talks as servers of the newest revisions want it, and where that comes to nothing, as those before: once more from the start,
/// since such a server may be silent, go away, or answer with any error. It is to answer the first within `patience`.
///
/// # Errors
/// Those of the last attempt; of the first where only a newer server answers so.
pub async fn either_way<T>(patience: Duration, attempt: impl AsyncFn(&Opening) -> Result<T>) -> Result<T> {
    let newest = Opening::newest(patience);
    let first = match attempt(&newest).await {
        Err(error) if !newest.is_decided.load(Ordering::Relaxed) && !is_final(&error) => error,
        outcome => return outcome,
    };
    let second = attempt(&Opening::handshake()).await;
    second.map_err(|error| if is_newer(&first) { first } else { error })
}

/// Whether a server says the same in whichever words it is spoken to: it wants to see credentials, cannot be reached or trusted, or
/// sends too much.
fn is_final(error: &Error) -> bool {
    error.downcast_ref().is_some_and(|failure: &Failure| matches!(failure.status, None | Some(401 | 403)))
}

/// Whether only servers that need no handshake say this.
fn is_newer(error: &Error) -> bool {
    match error.downcast_ref() {
        Some(ClientInitializeError::JsonRpcError(error)) => NEWER.contains(&error.code),
        Some(ClientInitializeError::NoCompatibleProtocolVersion { .. }) => true,
        _ => false,
    }
}

/// Errors of revisions without a handshake (2026-07-28).
pub(super) const NEWER: [ErrorCode; 3] = [
    ErrorCode::HEADER_MISMATCH,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
];

/// Whether a server answered the opening of a conversation with an error.
pub fn is_refusal(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientInitializeError::JsonRpcError(_)))
}

/// A conversation that was opened, by whatever transport.
pub(crate) type Service = RunningService<RoleClient, ClientConfig>;

/// The handshake, and all lists. Where it fails, the tap knows best why.
pub async fn talk<T, E, A>(
    transport: T,
    opening: &Opening,
    tap: &Tap,
    progress: Progress<'_>,
) -> Result<Listed>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let service = greet(transport, opening, tap, progress).await?;
    all_lists(service, tap, progress).await
}

/// All lists of a conversation, and its end.
pub(crate) async fn all_lists(mut service: Service, tap: &Tap, progress: Progress<'_>) -> Result<Listed> {
    let listed = lists(&service, tap, progress).await;
    leave(&mut service).await;
    listed.map_err(|error| tap.failure().map_or(error, Error::from))
}

/// Ends a conversation. Whatever comes of it: a program is ended afterwards, and a session over HTTP runs out.
pub(crate) async fn leave(service: &mut Service) {
    let _ = service.close_with_timeout(FAREWELL).await;
}

/// The handshake. Where it fails, the tap knows best why.
pub(crate) async fn greet<T, E, A>(
    transport: T,
    opening: &Opening,
    tap: &Tap,
    progress: Progress<'_>,
) -> Result<Service>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let outcome = shake_hands(transport, opening, progress).await;
    outcome.map_err(|error| tap.failure().map_or(error, Error::from))
}

async fn shake_hands<T, E, A>(transport: T, opening: &Opening, progress: Progress<'_>) -> Result<Service>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    progress("is being greeted");
    let this = Implementation::new("mcpwarden", env!("CARGO_PKG_VERSION"));
    let client = ClientConfig::new(ClientCapabilities::default(), this);
    let greeting = serve_client_with_lifecycle(client, transport, opening.lifecycle.clone());
    let greeted = match opening.patience {
        Some(patience) => tokio::time::timeout(patience, greeting).await,
        None => Ok(greeting.await),
    };
    let Ok(greeted) = greeted else { bail!("the server did not answer `server/discover`") };
    let service = match greeted {
        Ok(service) => service,
        Err(error @ ClientInitializeError::JsonRpcError(_)) => return Err(error.into()),
        Err(error @ ClientInitializeError::NoCompatibleProtocolVersion { .. }) => return Err(error.into()),
        Err(ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }) => {
            bail!("the server closed the connection before it answered `initialize`")
        }
        Err(error) => return Err(Error::from(error).context("the server does not speak MCP")),
    };
    opening.decide();
    Ok(service)
}

/// All tools that a server lists.
pub(crate) async fn tools(service: &Service, tap: &Tap) -> Result<Listed> {
    let mut listed = Listed::default();
    let outcome = all_pages(service.peer(), &TOOLS, tap, &mut listed).await;
    outcome.map_err(|error| tap.failure().map_or(error, Error::from))?;
    Ok(listed)
}

async fn lists(service: &Service, tap: &Tap, progress: Progress<'_>) -> Result<Listed> {
    let Some(server) = service.peer_info() else { bail!("the server did not list its capabilities") };
    let mut listed = Listed::default();
    if let Some(text) = &server.instructions {
        listed.definitions.push(instructions_of(json!(text).to_string()));
    }
    let offers = &server.capabilities;
    // Tools in any case: some servers offer tools without saying so.
    for (list, offered) in LISTS.iter().zip([true, offers.prompts.is_some(), offers.resources.is_some()]) {
        if offered {
            progress(&format!("is asked for {}", list.method));
            all_pages(service.peer(), list, tap, &mut listed).await?;
        }
    }
    Ok(listed)
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

/// Lists page by page. What was listed is kept where the pages come to no end.
async fn all_pages(peer: &Peer<RoleClient>, list: &List, tap: &Tap, to: &mut Listed) -> Result<()> {
    let List { kind, method, member, name } = *list;
    let mut pages = Pages::default();
    let mut cursor: Option<String> = None;
    loop {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let id = handle.id.to_string();
        match handle.await_response().await {
            Ok(_) => {}
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return Ok(()),
            // Some mean the end by an empty cursor, and refuse it.
            Err(ServiceError::McpError(_)) if cursor.as_deref() == Some("") => return Ok(()),
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
        let parsed: Option<Vec<&RawValue>> =
            entries.and_then(|entries| serde_json::from_str(entries.get()).ok());
        let Some(parsed) = parsed else { bail!("the answer to {method} has no list of {member}") };
        let text = entries.map_or("", RawValue::get);
        for entry in parsed.into_iter().filter(|_| pages.is_new(text)) {
            if to.definitions.len() >= MAX_DEFINITIONS {
                to.incomplete.push(format!("the server offers more than {MAX_DEFINITIONS} definitions"));
                return Ok(());
            }
            let [name] = members(entry.get(), [name]);
            to.definitions.push(Definition {
                kind,
                name: string(name).into_owned(),
                json: entry.get().to_owned(),
            });
        }
        pages.note(text);
        match pages.next(next.and_then(|next| decode_str(next.get())).map(Cow::into_owned)) {
            Next::Page(next) => cursor = Some(next),
            Next::End => return Ok(()),
            Next::Repeated => {
                let why = format!("the pages of its list of {member} come back to one that was asked for");
                to.incomplete.push(why);
                return Ok(());
            }
            Next::TooMany => {
                to.incomplete.push(format!("its list of {member} has more than {MAX_PAGES} pages"));
                return Ok(());
            }
        }
    }
}

/// What follows a page.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The page behind this cursor.
    Page(String),
    End,
    /// A page that was asked for before.
    Repeated,
    TooMany,
}

/// The pages of one list so far.
#[derive(Default)]
struct Pages {
    cursors: HashSet<String>,
    /// Hashes of the entries of each page: a server that goes round sends them again.
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl Pages {
    fn is_new(&self, entries: &str) -> bool {
        !self.seen.contains(&self.hasher.hash_one(entries))
    }

    fn note(&mut self, entries: &str) {
        self.seen.insert(self.hasher.hash_one(entries));
    }

    /// What follows a page with this cursor. An empty one is a cursor too; but many servers mean the end by it, so that
    /// one that comes again is no fault.
    fn next(&mut self, cursor: Option<String>) -> Next {
        let Some(cursor) = cursor else { return Next::End };
        if self.cursors.len() + 1 >= MAX_PAGES {
            return Next::TooMany;
        }
        match (self.cursors.insert(cursor.clone()), cursor.is_empty()) {
            (true, _) => Next::Page(cursor),
            (false, true) => Next::End,
            (false, false) => Next::Repeated,
        }
    }
}

#[cfg(test)]
mod eras;

#[cfg(test)]
mod tests {
    use super::*;

    /// The cursors that a server sends, and what follows the last of them.
    #[test]
    fn pages_end_where_a_cursor_comes_again() {
        let page = |cursor: &str| Next::Page(cursor.to_owned());
        for (cursors, expected) in [
            (&[None][..], Next::End),
            (&[Some("x")], page("x")),
            (&[Some("")], page("")),
            (&[Some(""), None], Next::End),
            (&[Some(""), Some("")], Next::End),
            (&[Some("x"), Some("")], page("")),
            (&[Some(""), Some("x")], page("x")),
            (&[Some(""), Some("x"), Some("")], Next::End),
            (&[Some("x"), Some("x")], Next::Repeated),
            (&[Some("x"), Some("y"), Some("x")], Next::Repeated),
            (&[Some("x"), Some("X")], page("X")),
            (&[Some("x"), Some("y"), None], Next::End),
        ] {
            let mut pages = Pages::default();
            let last = cursors.iter().map(|cursor| pages.next(cursor.map(str::to_owned))).last();
            assert_eq!(last, Some(expected), "{cursors:?}");
        }
        let mut pages = Pages::default();
        let count = (0..).take_while(|number| pages.next(Some(number.to_string())) != Next::TooMany).count();
        assert_eq!(count + 1, MAX_PAGES);
    }

    #[test]
    fn repeated_page_adds_no_definitions() {
        let mut pages = Pages::default();
        assert!(pages.is_new("[1]"));
        pages.note("[1]");
        assert!(!pages.is_new("[1]") && pages.is_new("[2]"));
    }
}
