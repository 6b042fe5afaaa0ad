//! Requests: read within bounds, handed on, answered.
//!
//! One request a connection. How many there are at once, how long each may take and how much it may say is bounded; those
//! who may change things have places of their own, so that nobody else can keep them away. Who follows events has another
//! place than who asks, and stays.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::{
    Method, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
};
use nix::unistd::{Uid, User};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};

use super::{
    APPROVALS, Answer, BLOCKS, Code, ControlCounters, EVENTS, Followers, LISTINGS, MUTES, Operation, PINS,
    RELOAD, Refusal, Request, SESSIONS, STATUS,
    followers::{self, Following, Seat},
    peer::{Groups, Peer, Rights},
};
use crate::{
    network::Who,
    output::{escaped, write_json},
    serving::{self, End, REST},
};

/// Connections at once of those who may change things, and as many of others.
const PLACES: usize = 32;
/// Longest body. Bytes.
const BODY_BYTES: usize = 16 << 10;
/// What there is, and the methods that it takes.
const PATHS: [(&str, &str); 9] = [
    (BLOCKS, "GET, POST, DELETE"),
    (APPROVALS, "GET"),
    (PINS, "POST"),
    (MUTES, "GET, POST, DELETE"),
    (SESSIONS, "POST"),
    (LISTINGS, "GET, POST"),
    (RELOAD, "POST"),
    (STATUS, "GET"),
    (EVENTS, "GET"),
];
/// For whom there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"too many requests at once: try again\"}}\n";

/// What comes of requests.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    connections_refused: AtomicU64,
    forbidden: AtomicU64,
    unusable: AtomicU64,
    timed_out: AtomicU64,
}

impl Counts {
    /// As of now.
    pub fn read(&self) -> ControlCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ControlCounters {
            requests: read(&self.requests),
            connections_refused: read(&self.connections_refused),
            forbidden: read(&self.forbidden),
            unusable: read(&self.unusable),
            timed_out: read(&self.timed_out),
        }
    }
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Who is asked.
#[derive(Clone)]
pub struct Service {
    /// The agent's task.
    pub agent: mpsc::Sender<Request>,
    /// What comes of requests.
    pub counts: Arc<Counts>,
    /// Who follows events.
    pub followers: Followers,
}

/// Who asks on a connection, and whom they ask.
struct Line {
    peer: Peer,
    rights: Rights,
    groups: Groups,
    service: Service,
    place: Mutex<ConnectionSlot>,
}

/// What a connection has until it ends.
enum ConnectionSlot {
    /// Of those who ask.
    Asking { _place: OwnedSemaphorePermit },
    /// Of those who follow.
    Following { _seat: Seat },
}

/// An answer, or one that goes on.
type Reply = Either<Full<Bytes>, Following>;

/// Takes connections, for ever.
pub async fn serve(listener: UnixListener, groups: Groups, service: Service) {
    let counts = Arc::clone(&service.counts);
    let [changers, others] = [(); 2].map(|()| Arc::new(Semaphore::new(PLACES)));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            count(&counts.connections_refused);
            tokio::time::sleep(REST).await;
            continue;
        };
        let Ok(peer) = Peer::of(&stream) else {
            count(&counts.connections_refused);
            continue;
        };
        let rights = peer.rights(&groups);
        let places = if rights == Rights::Change { &changers } else { &others };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            count(&counts.connections_refused);
            let _ = stream.try_write(NO_PLACE);
            continue;
        };
        let (groups, service) = (groups.clone(), service.clone());
        let place = Mutex::new(ConnectionSlot::Asking { _place: place });
        tokio::spawn(Arc::new(Line { peer, rights, groups, service, place }).converse(stream));
    }
}

impl Line {
    async fn converse(self: Arc<Self>, stream: UnixStream) {
        let ended = serving::converse(stream, |request| {
            let line = Arc::clone(&self);
            async move { line.respond(request).await }
        });
        match ended.await {
            End::Answered => {}
            End::Unusable => count(&self.service.counts.unusable),
            End::TimedOut => count(&self.service.counts.timed_out),
        }
    }

    async fn respond(&self, request: hyper::Request<Incoming>) -> Response<Reply> {
        count(&self.service.counts.requests);
        let takes = PATHS.iter().find(|(path, _)| *path == request.uri().path()).map(|(_, takes)| *takes);
        let answer = if (request.uri().path(), request.method()) == (EVENTS, &Method::GET) {
            match self.follow(request.uri().query()).await {
                Ok(following) => return goes_on(following),
                Err(refusal) => Err(refusal),
            }
        } else {
            self.answer(request, takes).await
        };
        let (status, body) = match &answer {
            Ok(answer) => (200, json!(answer)),
            Err(refusal) => (refusal.code.status(), json!({ "error": refusal })),
        };
        let mut text = Vec::new();
        write_json(&body, &mut text);
        text.push(b'\n');
        let mut response = Response::new(Either::Left(Full::new(Bytes::from(text))));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(takes) = takes.filter(|_| status == Code::Method.status()) {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(takes));
        }
        response
    }

    /// Begins to follow the events that a query asks for.
    async fn follow(&self, query: Option<&str>) -> Result<Following, Refusal> {
        self.permit(Rights::Read).await?;
        let query = followers::query(query).inspect_err(|_| count(&self.service.counts.unusable))?;
        let (following, seat) = self.service.followers.follow(query, self.rights)?;
        // Where it was makes room for another who asks.
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) =
            ConnectionSlot::Following { _seat: seat };
        Ok(following)
    }

    /// `takes`: the methods of its path.
    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        takes: Option<&str>,
    ) -> Result<Answer, Refusal> {
        let method = request.method().clone();
        self.permit(if method == Method::GET { Rights::Read } else { Rights::Change }).await?;
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let Some(takes) = takes else {
            count(&self.service.counts.unusable);
            let known: Vec<&str> = PATHS.iter().map(|(path, _)| *path).collect();
            return Err(Code::NotFound.because(format!("there are only {} here", known.join(", "))));
        };
        let operation = match (path, &method) {
            (BLOCKS, &Method::GET) => Operation::Blocks,
            (BLOCKS, &Method::POST) => Operation::Block(self.body(body).await?),
            (BLOCKS, &Method::DELETE) => Operation::Unblock(self.body(body).await?),
            (APPROVALS, &Method::GET) => Operation::Approvals,
            (PINS, &Method::POST) => Operation::Decide(self.body(body).await?),
            (MUTES, &Method::GET) => Operation::Mutes,
            (MUTES, &Method::POST) => Operation::Mute(self.body(body).await?),
            (MUTES, &Method::DELETE) => Operation::Unmute(self.body(body).await?),
            (SESSIONS, &Method::POST) => Operation::SetSession(self.body(body).await?),
            (LISTINGS, &Method::GET) => Operation::Listings,
            (LISTINGS, &Method::POST) => Operation::List(self.body(body).await?),
            (RELOAD, &Method::POST) => Operation::Reload,
            (STATUS, &Method::GET) => Operation::Status,
            _ => {
                count(&self.service.counts.unusable);
                return Err(Code::Method.because(format!("{path} takes {takes}")));
            }
        };
        let (sender, receiver) = oneshot::channel();
        let request = Request { operation, by: self.who().await, answer: sender };
        let busy = || Code::Busy.because("the agent has too much to do, or ends: try again");
        self.service.agent.send(request).await.map_err(|_| busy())?;
        receiver.await.map_err(|_| busy())?
    }

    /// Whether they may do that.
    async fn permit(&self, needed: Rights) -> Result<(), Refusal> {
        if self.rights >= needed {
            return Ok(());
        }
        count(&self.service.counts.forbidden);
        let Who { uid, user } = self.who().await;
        let who = user.map_or_else(|| format!("user {uid}"), |user| format!("{user} (user {uid})"));
        let (verb, group, key) = match needed {
            Rights::Change => ("change anything", &self.groups.change, "control.admin_group"),
            _ => ("query the agent", &self.groups.read, "control.group"),
        };
        let others = match group {
            Some(group) => format!(" and members of the group {} ({key})", group.name),
            None => format!("; {key} can name a group that may, too"),
        };
        Err(Code::Forbidden.because(format!("{who} may not {verb} here: only root may{others}")))
    }

    /// Who asks, by name. Asking for names may take long (LDAP), and must not hold up the agent.
    async fn who(&self) -> Who {
        let uid = self.peer.uid;
        let name = move || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
        Who { uid, user: tokio::task::spawn_blocking(name).await.ok().flatten() }
    }

    async fn body<T: DeserializeOwned>(&self, body: Incoming) -> Result<T, Refusal> {
        let unusable = |code: Code, message: String| {
            count(&self.service.counts.unusable);
            Err(code.because(message))
        };
        let bytes = match Limited::new(body, BODY_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return unusable(Code::TooLong, format!("the body is longer than {BODY_BYTES} bytes"));
            }
            Err(error) => {
                return unusable(Code::Unusable, format!("the body cannot be read: {error}"));
            }
        };
        serde_json::from_slice(&bytes).or_else(|error| {
            unusable(
                Code::Unusable,
                format!("the body is not as it must be: {}", escaped(&error.to_string())),
            )
        })
    }
}

/// The answer that is a follower's.
fn goes_on(following: Following) -> Response<Reply> {
    let mut response = Response::new(Either::Right(following));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}

#[cfg(test)]
mod tests;
