//! Links: which request and which event belongs to which session of which client.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use mcpwarden_terms::{ConnectionId, Endpoint, ServerType, Timestamp};
use sha2::{Digest, Sha256};

use super::{Context, HttpLimits, HttpOutput};

/// A process: its id, and when it started.
pub(super) type Client = (u32, u64);
/// SHA-256 of something.
pub(super) type Hash = [u8; 32];

/// Set in the number of every link, so that none is a connection's of the kernel half.
pub const LINK: u64 = 1 << 63;
/// By how many names one link can be known: each redirect and each new session id makes one.
const MAX_NAMES: usize = 8;
/// How many events are remembered of a link, to know them when they are sent again.
const MAX_EVENTS: usize = 256;
/// How many redirects are remembered.
const MAX_REDIRECTS: usize = 64;
/// For how long a redirect is remembered: clients follow at once, and may send the same again much later.
const REDIRECT_TIME: Duration = Duration::from_secs(10);
/// Longest path and host that are handed on, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 2 * 1024;

/// Whose session a message may belong to. Digests only: session ids and endpoints are secrets, and of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(Hash);

/// What of a request names its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// Of the session in its header.
    pub(super) session: Option<Name>,
    /// Of the endpoint that a server named, of the older transport.
    pub(super) endpoint: Name,
    /// Of all without a session.
    pub(super) anonymous: Name,
    /// Of all that are stateless.
    pub(super) stateless: Name,
}

impl Names {
    /// Those of a request that is sent to `target` at a place, and names a session or none.
    pub(super) fn of(place: &RequestTarget, session: Option<&[u8]>, target: &str) -> Self {
        Self {
            session: session.map(|id| place.session(id)),
            endpoint: place.endpoint(target),
            anonymous: place.anonymous(),
            stateless: place.stateless(),
        }
    }
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub(super) struct RequestTarget {
    pub(super) client: Client,
    pub(super) server: Endpoint,
    pub(super) host: Option<Box<str>>,
    /// Without the query.
    pub(super) path: Box<str>,
}

impl RequestTarget {
    /// A place; texts that are too long are cut.
    pub(super) fn new(client: Client, server: Endpoint, host: Option<&str>, path: &str) -> Self {
        let cut =
            |text: &str| text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default().into();
        Self { client, server, host: host.map(cut), path: cut(path) }
    }

    /// Whether both are one client's, and at one server.
    fn is_beside(&self, other: &Self) -> bool {
        let host = |place: &Self| place.host.as_deref().unwrap_or_default().to_ascii_lowercase();
        (self.client, self.server) == (other.client, other.server) && host(self) == host(other)
    }

    /// The name of the link of everything that is sent here without a session.
    pub(super) fn anonymous(&self) -> Name {
        self.name(b"path", self.bare_path().as_bytes())
    }

    /// The name of the link of everything stateless that is sent here: a client may speak both eras at one address.
    pub(super) fn stateless(&self) -> Name {
        self.name(b"stateless", self.bare_path().as_bytes())
    }

    /// The name of the link of a session.
    pub(super) fn session(&self, id: &[u8]) -> Name {
        // Two servers at one address may use the same id.
        let mut hash = Sha256::new();
        hash.update(self.bare_path());
        hash.update([0]);
        hash.update(id);
        self.name(b"session", &hash.finalize())
    }

    /// The name of the link whose server wants its requests at this path and query.
    pub(super) fn endpoint(&self, target: &str) -> Name {
        self.name(b"endpoint", target.as_bytes())
    }

    /// Servers redirect from a path to the same with a slash, and clients then use the one or the other.
    fn bare_path(&self) -> &str {
        self.path.trim_end_matches('/')
    }

    fn name(&self, kind: &[u8], text: &[u8]) -> Name {
        let mut hash = Sha256::new();
        hash.update(self.client.0.to_le_bytes());
        hash.update(self.client.1.to_le_bytes());
        for part in [
            kind,
            self.server.to_string().as_bytes(),
            self.host.as_deref().unwrap_or_default().to_ascii_lowercase().as_bytes(),
            text,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Name(hash.finalize().into())
    }
}

/// A request that was sent elsewhere: its client sends it again.
#[derive(Debug)]
struct Redirect {
    body: Hash,
    link: ConnectionId,
    from: RequestTarget,
    until: Timestamp,
}

/// A GET that fetches the answer to a request: a client that is sent elsewhere with 301, 302 or 303 asks there without a body.
#[derive(Debug)]
struct Fetch {
    client: Client,
    /// Of path and query.
    target: Hash,
    link: ConnectionId,
    id: Option<Box<str>>,
    until: Timestamp,
}

#[derive(Debug)]
struct Link {
    client: Client,
    server: Endpoint,
    names: VecDeque<Name>,
    /// The open streams that carried something of it.
    streams: BTreeSet<ConnectionId>,
    last: Timestamp,
    /// It is no MCP; kept so that it is not opened again and again.
    forgotten: bool,
    events: VecDeque<Hash>,
}

/// All links.
#[derive(Debug, Default)]
pub(super) struct Links {
    opened: u64,
    links: BTreeMap<ConnectionId, Link>,
    by_name: HashMap<Name, ConnectionId>,
    by_client: HashMap<Client, BTreeSet<ConnectionId>>,
    redirects: VecDeque<Redirect>,
    fetches: VecDeque<Fetch>,
    /// No link is to be closed before.
    deadline: Option<Timestamp>,
}

impl Links {
    /// The link that is known by a name.
    pub(super) fn find(&self, name: Name) -> Option<ConnectionId> {
        self.by_name.get(&name).copied()
    }

    /// The link of a client with a server, where it has just one.
    pub(super) fn only(&self, client: Client, server: Endpoint) -> Option<ConnectionId> {
        let links = self.by_client.get(&client).into_iter().flatten();
        let mut links = links.filter(|id| self.links.get(id).is_some_and(|link| link.server == server));
        links.next().filter(|_| links.next().is_none()).copied()
    }

    /// Whether a client has links.
    pub(super) fn has(&self, client: Client) -> bool {
        self.by_client.get(&client).is_some_and(|links| !links.is_empty())
    }

    /// The open streams that carried something of a link.
    pub(super) fn streams(&self, link: ConnectionId) -> impl Iterator<Item = ConnectionId> {
        self.links.get(&link).into_iter().flat_map(|link| link.streams.iter().copied())
    }

    /// Whether messages of a link are wanted: it is open, and not known to be no MCP.
    pub(super) fn is_wanted(&self, link: ConnectionId) -> bool {
        self.links.get(&link).is_some_and(|link| !link.forgotten)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// A link is known by this name from now on, and no other is.
    pub(super) fn bind(&mut self, link: ConnectionId, name: Name) {
        if !self.links.contains_key(&link) {
            return;
        }
        match self.by_name.insert(name, link) {
            Some(before) if before == link => return,
            Some(before) => {
                if let Some(before) = self.links.get_mut(&before) {
                    before.names.retain(|other| *other != name);
                }
            }
            None => {}
        }
        let Some(entry) = self.links.get_mut(&link) else { return };
        entry.names.push_back(name);
        if entry.names.len() > MAX_NAMES
            && let Some(oldest) = entry.names.pop_front()
        {
            self.by_name.remove(&oldest);
        }
    }

    /// Something of a link went over a stream, which serves these links.
    pub(super) fn touch(
        &mut self,
        link: ConnectionId,
        stream: ConnectionId,
        time: Timestamp,
        serves: &mut VecDeque<ConnectionId>,
        idle: Duration,
    ) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        entry.last = entry.last.max(time);
        entry.streams.insert(stream);
        if serves.back() == Some(&link) {
            return;
        }
        serves.retain(|other| *other != link);
        serves.push_back(link);
        // A pool serves one session after the other: only the last few keep each other open.
        if serves.len() > MAX_NAMES
            && let Some(oldest) = serves.pop_front()
        {
            self.leave(oldest, stream, time, idle);
        }
    }

    /// A stream serves a link no more.
    pub(super) fn leave(
        &mut self,
        link: ConnectionId,
        stream: ConnectionId,
        time: Timestamp,
        idle: Duration,
    ) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        entry.streams.remove(&stream);
        entry.last = entry.last.max(time);
        if entry.streams.is_empty() {
            let deadline = entry.last.after(idle);
            self.deadline = Some(self.deadline.map_or(deadline, |before| before.min(deadline)));
        }
    }

    /// Whether an event of a link was sent before: the same id and the same data. Remembers it.
    pub(super) fn is_resent(&mut self, link: ConnectionId, id: &[u8], data: &[u8], resumed: bool) -> bool {
        let Some(entry) = self.links.get_mut(&link) else { return false };
        let mut hash = Sha256::new();
        hash.update((id.len() as u64).to_le_bytes());
        hash.update(id);
        hash.update(data);
        let event = hash.finalize().into();
        // Only on a stream that asks for what it missed: elsewhere the client gets, and takes, what is sent.
        if resumed && entry.events.contains(&event) {
            return true;
        }
        entry.events.push_back(event);
        if entry.events.len() > MAX_EVENTS {
            entry.events.pop_front();
        }
        false
    }

    /// A request was sent elsewhere.
    pub(super) fn redirect(&mut self, link: ConnectionId, body: Hash, from: RequestTarget, time: Timestamp) {
        let until = time.after(REDIRECT_TIME);
        self.redirects.push_back(Redirect { body, link, from, until });
        if self.redirects.len() > MAX_REDIRECTS {
            self.redirects.pop_front();
        }
    }

    /// The link of a request that was sent elsewhere, to here, and where from. Only within one server: what a client begins
    /// with says the same to all of them, and none is to have another's session by sending it away.
    pub(super) fn redirected(
        &mut self,
        to: &RequestTarget,
        body: &Hash,
        now: Timestamp,
    ) -> Option<(ConnectionId, RequestTarget)> {
        self.redirects.retain(|entry| entry.until >= now);
        let is = |entry: &Redirect| entry.body == *body && entry.from.is_beside(to);
        let at = self.redirects.iter().position(is)?;
        self.redirects.remove(at).map(|entry| (entry.link, entry.from))
    }

    /// Whether a client was sent elsewhere with this, to whatever address.
    pub(super) fn is_redirected(&self, client: Client, body: &Hash, now: Timestamp) -> bool {
        let is = |entry: &Redirect| entry.body == *body && entry.from.client == client && entry.until >= now;
        self.redirects.iter().any(is)
    }

    /// A client was sent to this path and query, of whatever address, for the answer to a request of this id.
    pub(super) fn send_for(
        &mut self,
        link: ConnectionId,
        client: Client,
        target: &str,
        id: Option<&str>,
        time: Timestamp,
    ) {
        let (target, until) = (Sha256::digest(target).into(), time.after(REDIRECT_TIME));
        self.fetches.retain(|entry| entry.until >= time);
        self.fetches.push_back(Fetch { client, target, link, id: id.map(Box::from), until });
        if self.fetches.len() > MAX_REDIRECTS {
            self.fetches.pop_front();
        }
    }

    /// The link, and the id of the request, that the answer to a GET belongs to, where a client was sent for it.
    pub(super) fn sent_for(
        &mut self,
        client: Client,
        target: &str,
    ) -> Option<(ConnectionId, Option<Box<str>>)> {
        if self.fetches.is_empty() {
            return None;
        }
        let target: Hash = Sha256::digest(target).into();
        let at = self.fetches.iter().position(|entry| (entry.client, entry.target) == (client, target))?;
        self.fetches.remove(at).map(|entry| (entry.link, entry.id))
    }

    /// The engine says that this is no MCP. Its streams.
    pub(super) fn forget(&mut self, link: ConnectionId) -> Vec<ConnectionId> {
        let Some(entry) = self.links.get_mut(&link) else { return Vec::new() };
        entry.forgotten = true;
        entry.streams.iter().copied().collect()
    }

    /// The links of a client.
    pub(super) fn of_client(&self, client: Client) -> Vec<ConnectionId> {
        self.by_client.get(&client).into_iter().flatten().copied().collect()
    }

    /// The links that nothing went over for so long, and that have no open stream.
    pub(super) fn idle(&mut self, now: Timestamp, idle: Duration) -> Vec<ConnectionId> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        let ends = |link: &Link| link.last.after(idle);
        let waiting = || self.links.iter().filter(|(_, link)| link.streams.is_empty());
        self.deadline = waiting().map(|(_, link)| ends(link)).filter(|end| *end > now).min();
        waiting().filter(|(_, link)| ends(link) <= now).map(|(id, _)| *id).collect()
    }
}

impl Context<'_> {
    /// Opens a link. `None`: there are too many.
    pub(super) fn open(
        &mut self,
        place: &RequestTarget,
        name: Option<Name>,
        kind: ServerType,
        stream: ConnectionId,
        time: Timestamp,
    ) -> Option<ConnectionId> {
        let HttpLimits { links: most, links_of_client: most_of_client, .. } = *self.limits;
        let links = &mut *self.links;
        // Nobody takes the room of all.
        let of_client = links.by_client.get(&place.client).map_or(0, BTreeSet::len);
        if links.links.len() >= most || of_client >= most_of_client {
            self.counters.links_refused += 1;
            return None;
        }
        let link = ConnectionId(LINK | links.opened);
        links.opened += 1;
        let entry = Link {
            client: place.client,
            server: place.server,
            names: VecDeque::new(),
            streams: BTreeSet::new(),
            last: time,
            forgotten: false,
            events: VecDeque::new(),
        };
        links.links.insert(link, entry);
        links.by_client.entry(place.client).or_default().insert(link);
        if let Some(name) = name {
            links.bind(link, name);
        }
        (self.sink)(HttpOutput::Opened {
            link,
            time,
            stream,
            client: place.client,
            server: place.server,
            host: place.host.as_deref(),
            path: &place.path,
            kind,
        });
        Some(link)
    }

    /// Closes a link, if it is open.
    pub(super) fn close(&mut self, link: ConnectionId, time: Timestamp) {
        let links = &mut *self.links;
        let Some(entry) = links.links.remove(&link) else { return };
        for name in entry.names {
            links.by_name.remove(&name);
        }
        if let Some(others) = links.by_client.get_mut(&entry.client) {
            others.remove(&link);
            if others.is_empty() {
                links.by_client.remove(&entry.client);
            }
        }
        links.redirects.retain(|redirect| redirect.link != link);
        links.fetches.retain(|fetch| fetch.link != link);
        if !entry.forgotten {
            (self.sink)(HttpOutput::Closed { link, time });
        }
    }
}
