//! The era in which a conversation is held, and what in it belongs to the other one, or contradicts what was said before.
//!
//! | | the era is |
//! |---|---|
//! | an answer to `initialize` | handshake |
//! | an answer to `server/discover` with `supportedVersions` | stateless |
//! | an answer with `resultType` to a request that names a stateless revision | stateless, if none was known |
//!
//! A client that probes with one of them and is refused goes on with the other: a refusal changes nothing. Until there is an
//! answer, what the client last tried counts for what its server sends.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;

use super::asked::{Asked, Client};
use super::recorder::{self, MAX_NAME_BYTES, clip};
use crate::definition::json_hash;
use crate::event::{Era, Violation};
use crate::protocol::meta::{self, RequestMeta};
use crate::protocol::{Kind, Message, Method, may_have, members, string};
use crate::terms::Direction;

/// Longest description of who speaks that is kept, in bytes.
const MAX_INFO_BYTES: usize = 1_024;

/// Members of params that only a stateless request has, and of its result.
const STATELESS_PARAMS: [&str; 2] = ["inputResponses", "requestState"];
const STATELESS_RESULT: [&str; 2] = ["inputRequests", "requestState"];
/// Members of a result by which its era is told.
const TELLING: [&str; 3] = ["resultType", "supportedVersions", "protocolVersion"];

/// What does not belong into a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Breach {
    pub(super) era: Era,
    pub(super) violation: Violation,
    pub(super) expected: Option<String>,
    pub(super) found: Option<String>,
}

impl Breach {
    fn of(era: Era, violation: Violation) -> Self {
        Self { era, violation, expected: None, found: None }
    }

    fn found(era: Era, violation: Violation, found: &str) -> Self {
        Self { found: Some(clip(found, MAX_NAME_BYTES)), ..Self::of(era, violation) }
    }
}

/// Who speaks, as it says itself.
#[derive(Clone, Debug)]
struct Speaker {
    /// Of the canonical form: the order of members and the spelling of texts say nothing.
    digest: u64,
    /// As it was sent, bounded.
    text: Box<str>,
}

impl Speaker {
    fn of(info: &RawValue) -> Self {
        let mut digest = DefaultHasher::new();
        json_hash(info.get()).hash(&mut digest);
        Self { digest: digest.finish(), text: clip(info.get(), MAX_INFO_BYTES).into() }
    }
}

/// What a request says of its conversation, by which its answer is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Spoken {
    /// The stateless revision that it is in.
    revision: Option<Box<str>>,
    /// Who asks, where the conversation was not reported by then.
    client: Option<Box<Client>>,
}

impl Spoken {
    /// Memory that it takes beside itself, about.
    pub(super) fn heap_bytes(&self) -> usize {
        self.revision.as_ref().map_or(0, |text| text.len())
            + self.client.as_ref().map_or(0, |client| client.bytes())
    }
}

/// What an answer changes.
#[derive(Debug, Default)]
pub(super) struct Change<'a> {
    pub(super) breaches: Vec<Breach>,
    /// The conversation is to be reported, with this client.
    pub(super) opened: Option<(Era, Box<Client>)>,
    /// Who serves, where that is news and no answer to an opening.
    pub(super) server: Option<&'a RawValue>,
}

/// What is known of a conversation.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    era: Option<Era>,
    /// The era of the client's last opening, or of its last request with a revision.
    tried: Option<Era>,
    /// The revision that a handshake agreed on, or of the last stateless request that was answered.
    revision: Option<Box<str>>,
    client: Option<Speaker>,
    server: Option<Speaker>,
    /// Whether it was reported.
    is_reported: bool,
    /// Whether the next opening begins it anew, whatever its era.
    may_reopen: bool,
}

impl Conversation {
    /// Memory that it takes beside itself, about.
    pub(super) fn bytes(&self) -> usize {
        let speaker = |speaker: &Option<Speaker>| speaker.as_ref().map_or(0, |speaker| speaker.text.len());
        speaker(&self.client) + speaker(&self.server) + self.revision.as_ref().map_or(0, |text| text.len())
    }

    /// Its client connects again: what it opens then is another conversation.
    pub(super) fn reopen(&mut self) {
        self.may_reopen = true;
    }

    /// A frame has several messages.
    pub(super) fn batch(&self, direction: Direction) -> Option<Breach> {
        self.judging(direction)
            .filter(|era| *era == Era::Stateless)
            .map(|era| Breach::of(era, Violation::Batch))
    }

    /// The head of a request or of its answer has a session.
    pub(super) fn session(&self) -> Option<Breach> {
        self.era.filter(|era| *era == Era::Stateless).map(|era| Breach::of(era, Violation::SessionId))
    }

    /// The era, as far as anything tells it, and the revision.
    pub(super) fn held_in(&self) -> (Era, Option<&str>) {
        (self.era.or(self.tried).unwrap_or(Era::Handshake), self.revision.as_deref())
    }

    /// The era by which a message is judged that goes this way.
    fn judging(&self, direction: Direction) -> Option<Era> {
        match direction {
            Direction::ClientToServer => self.era,
            Direction::ServerToClient => self.era.or(self.tried),
        }
    }

    /// Takes a message that goes this way, before it is evaluated. What in it does not belong there.
    pub(super) fn sent(&mut self, direction: Direction, message: &Message<'_>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        if let (Kind::Request { method, .. }, Direction::ClientToServer) = (&message.kind, direction)
            && std::mem::take(&mut self.may_reopen)
            && opening(method).is_some_and(|era| self.era.is_some_and(|known| known != era))
        {
            *self = Self::default();
        }
        let era = self.judging(direction);
        match (&message.kind, direction) {
            (Kind::Request { method, params, .. }, Direction::ClientToServer) => {
                self.asked(era, method, *params, &mut breaches);
            }
            (Kind::Request { .. }, Direction::ServerToClient) if era == Some(Era::Stateless) => {
                breaches.push(Breach::of(Era::Stateless, Violation::ServerRequest));
            }
            (Kind::Notification { method, .. }, _) => breaches.extend(foreign_method(era, method)),
            (Kind::Response { .. } | Kind::Error { .. }, Direction::ClientToServer)
                if era == Some(Era::Stateless) =>
            {
                breaches.push(Breach::of(Era::Stateless, Violation::ClientResponse));
            }
            _ => {}
        }
        breaches
    }

    /// A request of the client.
    fn asked(
        &mut self,
        era: Option<Era>,
        method: &Method<'_>,
        params: Option<&RawValue>,
        breaches: &mut Vec<Breach>,
    ) {
        let meta = RequestMeta::of(params);
        let revision = meta.protocol_version.as_deref();
        let of_revision = revision.and_then(Era::of_revision);
        let opens = opening(method);
        breaches.extend(foreign_method(era, method));
        self.tried = opens.or(of_revision).or(self.tried);
        let info = match method {
            Method::Initialize => members(params.map_or("", RawValue::get), ["clientInfo"])[0],
            _ => meta.client_info,
        };
        if let Some(info) = info {
            breaches.extend(era.or(self.tried).and_then(|era| {
                changed(&mut self.client, info).map(|(expected, found)| Breach {
                    expected: Some(expected),
                    found: Some(found),
                    ..Breach::of(era, Violation::ClientChanged)
                })
            }));
        }
        match era {
            // What does not belong to an opening of the other era is that it opens.
            Some(era) if opens.is_some_and(|opened| opened != era) => {}
            Some(Era::Handshake) => {
                if let Some(revision) = revision.filter(|_| of_revision == Some(Era::Stateless)) {
                    breaches.push(Breach::found(Era::Handshake, Violation::RequestMeta, revision));
                }
                breaches.extend(first_of(STATELESS_PARAMS, params));
            }
            Some(Era::Stateless) => {
                let missing = match (revision, meta.client_capabilities) {
                    (None, _) => Some(Breach::of(Era::Stateless, Violation::RequestMeta)),
                    (Some(revision), _) if of_revision == Some(Era::Handshake) => {
                        Some(Breach::found(Era::Stateless, Violation::RequestMeta, revision))
                    }
                    (Some(revision), None) => {
                        Some(Breach::found(Era::Stateless, Violation::RequestMeta, revision))
                    }
                    _ => None,
                };
                breaches.extend(missing);
                if let (Some(before), Some(revision)) = (&self.revision, revision)
                    && **before != *clip(revision, MAX_NAME_BYTES)
                    && *method != Method::ServerDiscover
                {
                    breaches.push(Breach {
                        expected: Some(before.to_string()),
                        ..Breach::found(Era::Stateless, Violation::RevisionChanged, revision)
                    });
                }
            }
            None => {}
        }
    }

    /// What a request of the client says by which its answer is read.
    pub(super) fn spoken(&self, method: &Method<'_>, params: Option<&RawValue>) -> Spoken {
        if opening(method).is_some() {
            return Spoken::default();
        }
        let meta = RequestMeta::of(params);
        let stateless = |revision: &&str| {
            self.era != Some(Era::Handshake) && Era::of_revision(revision) == Some(Era::Stateless)
        };
        let revision =
            meta.protocol_version.as_deref().filter(stateless).map(|text| clip(text, MAX_NAME_BYTES));
        let is_news = revision.is_some() && !self.is_reported;
        let client = is_news.then(|| Box::new(recorder::client_of(&meta)));
        Spoken { revision: revision.map(Into::into), client }
    }

    /// Takes the result of a request of the client.
    pub(super) fn answered<'a>(
        &mut self,
        asked: &Asked,
        spoken: &Spoken,
        result: &'a RawValue,
    ) -> Change<'a> {
        let mut change = Change::default();
        let json = result.get();
        let [result_type, supported, version] =
            if may_have(json, &TELLING) { members(json, TELLING) } else { [None; 3] };
        let before = self.era;
        match asked {
            Asked::Initialize(_) => {
                self.era = Some(Era::Handshake);
                let version = string(version);
                self.revision = Some(clip(&version, MAX_NAME_BYTES).into());
                self.is_reported = true;
                if Era::of_revision(&version) == Some(Era::Stateless) {
                    change.breaches.push(Breach::found(Era::Handshake, Violation::Revision, &version));
                }
            }
            Asked::Discover(client) if supported.is_some() => {
                self.era = Some(Era::Stateless);
                if before == Some(Era::Handshake) {
                    self.revision = None;
                }
                let known = recorder::supported_versions(result);
                if !known.is_empty() && known.iter().all(|one| Era::of_revision(one) == Some(Era::Handshake))
                {
                    let versions = known.join(" ");
                    change.breaches.push(Breach::found(Era::Stateless, Violation::Revision, &versions));
                }
                if client.protocol_version.as_ref().is_some_and(|version| known.contains(version)) {
                    self.is_reported = true;
                }
                change.opened = Some((Era::Stateless, client.clone()));
            }
            _ => {
                if spoken.revision.is_some() && self.era.is_none() && result_type.is_some() {
                    self.era = Some(Era::Stateless);
                }
                if let (Some(revision), Some(Era::Stateless)) = (&spoken.revision, self.era) {
                    self.revision = Some(revision.clone());
                    if let Some(client) = spoken.client.as_ref().filter(|_| !self.is_reported) {
                        change.opened = Some((Era::Stateless, client.clone()));
                    }
                    self.is_reported = true;
                }
                if before == Some(Era::Handshake) {
                    let asks = result_type.filter(|kind| string(Some(kind)) == "input_required");
                    let typed = asks.map(|_| Breach::found(Era::Handshake, Violation::Member, "resultType"));
                    change.breaches.extend(typed.or_else(|| first_of(STATELESS_RESULT, Some(result))));
                }
            }
        }
        self.served(asked, result, &mut change);
        change
    }

    /// Who serves.
    fn served<'a>(&mut self, asked: &Asked, result: &'a RawValue, change: &mut Change<'a>) {
        let is_opening = matches!(asked, Asked::Initialize(_) | Asked::Discover(_));
        let info = if is_opening { meta::server_info(result) } else { meta::server_info_of_meta(result) };
        let Some(info) = info else { return };
        let is_first = self.server.is_none();
        let changed = changed(&mut self.server, info);
        if !is_opening && (is_first || changed.is_some()) {
            change.server = Some(info);
        }
        if let (Some((expected, found)), Some(era)) = (changed, self.era.or(self.tried)) {
            change.breaches.push(Breach {
                expected: Some(expected),
                found: Some(found),
                ..Breach::of(era, Violation::ServerChanged)
            });
        }
    }
}

/// The era of the conversation that this request opens.
fn opening(method: &Method<'_>) -> Option<Era> {
    match method {
        Method::Initialize => Some(Era::Handshake),
        Method::ServerDiscover => Some(Era::Stateless),
        _ => None,
    }
}

/// That a method is one of the other era.
fn foreign_method(era: Option<Era>, method: &Method<'_>) -> Option<Breach> {
    let era = era.filter(|era| method.era() == Some(era.other()))?;
    let violation = if opening(method).is_some() { Violation::Opening } else { Violation::Method };
    Some(Breach::of(era, violation))
}

/// That a message of a conversation with a handshake has one of these members.
fn first_of<const N: usize>(names: [&str; N], part: Option<&RawValue>) -> Option<Breach> {
    let json = part.map(RawValue::get).filter(|json| may_have(json, &names))?;
    let present = members(json, names);
    let found = names.iter().zip(present).find(|(_, member)| member.is_some())?;
    Some(Breach::found(Era::Handshake, Violation::Member, found.0))
}

/// Notes who speaks. Who it was, and who it is, where that is somebody else.
fn changed(known: &mut Option<Speaker>, info: &RawValue) -> Option<(String, String)> {
    let now = Speaker::of(info);
    let before = known.replace(now.clone())?;
    (before.digest != now.digest).then(|| (before.text.into(), now.text.into()))
}
