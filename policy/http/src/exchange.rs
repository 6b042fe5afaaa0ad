//! A request and its answer.

use mcpwarden_protocol::message::meta::RequestMeta;
use mcpwarden_protocol::message::{self as protocol, Kind, MAX_ID_BYTES};
use mcpwarden_terms::{ConnectionId, Era};

use super::head::{Method, Request};
use super::link::{Hash, Names, RequestTarget};
use super::{HttpMeta, Peers};

/// A request, and what is known of its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) method: Method,
    pub(super) place: RequestTarget,
    pub(super) names: Names,
    pub(super) meta: HttpMeta,
    /// Whether its head shows that it is MCP.
    pub(super) shows_mcp: bool,
    pub(super) accepts_events: bool,
    /// Whether it asks for the events behind one that it has seen.
    pub(super) resumes: bool,
    /// Whether it is known what it is: its answer can be read.
    pub(super) decided: bool,
    /// Whether its request was captured.
    pub(super) paired: bool,
    /// Whether something of its head is not known: perhaps where it was sent, or its session.
    pub(super) is_partial: bool,
    pub(super) link: Option<ConnectionId>,
    /// Whether the link began with it.
    pub(super) began: bool,
    /// Id of the request, where it is one.
    pub(super) id: Option<Box<str>>,
    /// Hash of the message that it is.
    pub(super) body: Option<Hash>,
    /// Where it was sent at first, of one that was redirected.
    pub(super) origin: Option<RequestTarget>,
    pub(super) status: u16,
    /// Whether its answer is the stream of events of the older transport.
    pub(super) is_sse: bool,
    /// Whether a JSON-RPC answer came with the status.
    pub(super) answered: bool,
    /// Whether it was said that its answer can be read in more than one way.
    pub(super) is_told: bool,
    /// Of one that is no MCP. (Apart: most are.)
    pub(super) other: Option<Box<Other>>,
}

/// What is known of an exchange that is no MCP.
#[derive(Debug, Default)]
pub(super) struct Other {
    /// Its number on its connection.
    pub(super) number: u64,
    /// What the server calls it.
    pub(super) request_id: Option<Box<str>>,
    /// Whether all of its answer came.
    pub(super) is_whole: bool,
}

impl Exchange {
    /// Of a request whose body is to come, if it is a POST.
    pub(super) fn new(request: Request<'_>, peers: &Peers) -> Self {
        let place = RequestTarget::new(peers.client, peers.server, request.host, request.path);
        Self {
            names: Names::of(&place, request.session, request.target),
            shows_mcp: request.session.is_some() || request.meta.protocol_version.is_some(),
            accepts_events: request.method == Method::Get && request.accepts_events,
            resumes: request.resumes,
            is_partial: request.is_partial,
            decided: request.method != Method::Post,
            method: request.method,
            meta: request.meta,
            ..Self::unpaired(place)
        }
    }

    /// Of an answer whose request was not captured.
    pub(super) fn unpaired(place: RequestTarget) -> Self {
        Self {
            method: Method::Other,
            names: Names::of(&place, None, ""),
            place,
            meta: HttpMeta::default(),
            shows_mcp: false,
            accepts_events: true,
            resumes: false,
            decided: true,
            paired: true,
            is_partial: false,
            link: None,
            began: false,
            id: None,
            body: None,
            origin: None,
            status: 0,
            is_sse: false,
            answered: false,
            is_told: false,
            other: None,
        }
    }

    /// Whether its head names a stateless revision.
    pub(super) fn says_stateless(&self) -> bool {
        let revision = self.meta.protocol_version.as_deref();
        revision.and_then(Era::of_revision) == Some(Era::Stateless)
    }

    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        let place = |place: &RequestTarget| text(&place.host) + place.path.len();
        size_of::<Self>()
            + self.meta.bytes()
            + text(&self.id)
            + self.other.as_ref().map_or(0, |other| size_of::<Other>() + text(&other.request_id))
            + place(&self.place)
            + self.origin.as_ref().map_or(0, place)
    }

    /// Whether the status says that all is well.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// What a body says of itself.
#[derive(Debug, Default)]
pub(super) struct Gist {
    /// Whether it holds a message that calls itself JSON-RPC 2.0.
    pub(super) is_versioned: bool,
    /// Whether it holds a message.
    pub(super) is_message: bool,
    /// Whether it asks for a session.
    pub(super) is_initialize: bool,
    /// Whether it names a stateless revision, or asks for one.
    pub(super) is_stateless: bool,
    /// Whether it answers a request.
    pub(super) is_answer: bool,
    /// The id, where it is one request.
    pub(super) id: Option<Box<str>>,
}

impl Gist {
    /// Reads it as the engine will.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut scratch = String::new();
        let Ok(parsed) = protocol::parse(bytes, &mut scratch) else { return Self::default() };
        let mut gist = Self::default();
        for message in &parsed.messages {
            gist.is_versioned |= message.versioned;
            gist.is_message |= !matches!(message.kind, Kind::Invalid);
            match &message.kind {
                Kind::Request { id, method, params } => {
                    gist.is_initialize |= *method == protocol::Method::Initialize;
                    let revision = RequestMeta::of(*params).protocol_version;
                    let era = revision.and_then(|revision| Era::of_revision(&revision));
                    gist.is_stateless |= era.or(method.era()) == Some(Era::Stateless);
                    let id = Some(id.0).filter(|id| !parsed.batch && id.len() <= MAX_ID_BYTES);
                    gist.id = id.map(Box::from);
                }
                Kind::Response { id, .. } | Kind::Error { id, .. } => gist.is_answer |= id.0 != "null",
                Kind::Notification { .. } | Kind::Invalid => {}
            }
        }
        gist
    }
}
