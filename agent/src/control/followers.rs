//! Who follows events at the control socket: each with a queue of its own, and with a word of what found no room there.
//!
//! An event costs one look where nobody follows. Who reads too slowly loses events and holds nobody up; what is lost is
//! counted, and said in the stream at the place where it is missing.

use std::{
    cell::OnceCell,
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use hyper::body::{Body, Bytes, Frame};
use mcpwarden_policy::{
    Event,
    event::{AgentLoss, Severity},
};
use mcpwarden_store::reader::Query;
use serde::{
    Deserialize as _,
    de::{IntoDeserializer as _, value::Error},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{Code, Refusal, peer::Rights};
use crate::host::clock::Clock;
use crate::output::{escaped, write_json};

/// Followers at once of those who may change things, and as many of others.
const PLACES: usize = 8;
/// What may wait for one. An event that waits alone may be longer. Bytes.
const QUEUE_BYTES: usize = 1 << 20;
/// What a waiting event takes beside its bytes, about.
const OVERHEAD_BYTES: usize = 64;
/// Handed on at once, about. Bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// The counter that a follower is told of.
const LOST: &str = "control_events_lost";

/// What came of events for followers, in numbers. All but the first only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowerCounters {
    /// Who follows.
    pub now: u64,
    /// Those for whom there was no place.
    pub refused: u64,
    /// Events handed on, once for each follower.
    pub sent: u64,
    /// Events for which a follower had no room, likewise.
    pub lost: u64,
}

/// All of them, for whoever says events and for whoever lets them in.
#[derive(Clone, Debug)]
pub struct Followers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: Mutex<All>,
    /// How many there are, to be asked with each event.
    count: AtomicUsize,
    /// One is gone.
    gone: Notify,
    changers: Arc<Semaphore>,
    others: Arc<Semaphore>,
    refused: AtomicU64,
    sent: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct All {
    followers: Vec<Arc<Follower>>,
    /// Nothing more will be said.
    ended: bool,
}

/// One of them.
#[derive(Debug)]
struct Follower {
    query: Query,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Events that found no room and are to be said to be missing, behind those that wait.
    lost: u64,
    ended: bool,
    waker: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(count: &AtomicU64, by: u64) -> u64 {
    count.fetch_add(by, Ordering::Relaxed) + by
}

fn cost(line: &[u8]) -> usize {
    line.len() + OVERHEAD_BYTES
}

/// What the text behind the `?` of a path asks for, in the words of `mcpwarden events`.
///
/// # Errors
/// Something in it is not known; says what is.
pub fn query(text: Option<&str>) -> Result<Query, Refusal> {
    let mut query = Query::default();
    for (key, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
        match &*key {
            "type" => query.types.push(value.into_owned()),
            "session" => query.sessions.push(value.into_owned()),
            "server" => query.servers.push(value.into_owned()),
            "severity" => {
                let severity = Severity::deserialize((*value).into_deserializer());
                let severity = severity.map_err(|error: Error| unusable(&format!("severity: {error}")))?;
                if query.severity.replace(severity).is_some() {
                    return Err(unusable("severity: it stands there twice"));
                }
            }
            other => {
                let known = "there are type, session, server and severity";
                return Err(unusable(&format!("`{other}` cannot be asked for: {known}")));
            }
        }
    }
    query.check_types().map_err(|error| unusable(&error.to_string()))?;
    Ok(query)
}

fn unusable(message: &str) -> Refusal {
    Code::Unusable.because(escaped(message))
}

impl Followers {
    /// Nobody follows yet.
    pub fn new() -> Self {
        let places = || Arc::new(Semaphore::new(PLACES));
        Self(Arc::new(Shared {
            all: Mutex::default(),
            count: AtomicUsize::new(0),
            gone: Notify::new(),
            changers: places(),
            others: places(),
            refused: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }))
    }

    /// One more, who gets what is said from now on for as long as they have the seat.
    ///
    /// # Errors
    /// There is no place, or the agent ends.
    pub fn follow(&self, query: Query, rights: Rights) -> Result<(Following, Seat), Refusal> {
        let places = if rights == Rights::Change { &self.0.changers } else { &self.0.others };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            add(&self.0.refused, 1);
            return Err(Code::Busy.because(format!("{PLACES} follow already, and no more may: try again")));
        };
        let mut all = lock(&self.0.all);
        if all.ended {
            add(&self.0.refused, 1);
            return Err(Code::Busy.because("the agent ends: try again"));
        }
        let follower = Arc::new(Follower { query, state: Mutex::default() });
        all.followers.push(Arc::clone(&follower));
        self.0.count.store(all.followers.len(), Ordering::Relaxed);
        drop(all);
        let seat = Seat { follower: Arc::clone(&follower), followers: self.clone(), _place: place };
        Ok((Following { follower, followers: self.clone() }, seat))
    }

    /// Hands an event, whose line of JSON is `text`, to those who want it. Never waits.
    pub fn offer(&self, event: &Event, text: &[u8]) {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Made once, and only where somebody wants it.
        let line: OnceCell<Arc<[u8]>> = OnceCell::new();
        for follower in lock(&self.0.all).followers.iter().filter(|follower| follower.query.wants(event)) {
            if !follower.push(line.get_or_init(|| text.into())) {
                add(&self.0.lost, 1);
            }
        }
    }

    /// Nothing more will be said: each gets what waits for it, and its end.
    pub fn end(&self) {
        let mut all = lock(&self.0.all);
        all.ended = true;
        for follower in &all.followers {
            let mut state = lock(&follower.state);
            state.ended = true;
            state.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Waits until nobody follows any more.
    pub async fn gone(&self) {
        while self.0.count.load(Ordering::Relaxed) > 0 {
            self.0.gone.notified().await;
        }
    }

    /// What came of events so far.
    pub fn counters(&self) -> FollowerCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FollowerCounters {
            now: self.0.count.load(Ordering::Relaxed) as u64,
            refused: read(&self.0.refused),
            sent: read(&self.0.sent),
            lost: read(&self.0.lost),
        }
    }

    /// What a follower is told where so many events are missing. It is no event of the chain, and has no place there.
    fn loss(&self, count: u64) -> Vec<u8> {
        let loss = AgentLoss {
            counter: LOST.to_owned(),
            count,
            total: self.counters().lost,
            meaning: "whoever reads this is too slow: events are missing here (they are stored all the same)"
                .to_owned(),
            uid: None,
        };
        let mut line = Vec::new();
        write_json(&Event::agent(Clock::new().now(), loss.into()), &mut line);
        line
    }
}

impl Follower {
    /// Whether there is room for this.
    fn push(&self, line: &Arc<[u8]>) -> bool {
        let mut state = lock(&self.state);
        // After the first that is lost all are, until what waits is read: one piece is missing, and not every other event.
        if state.lost > 0 || (state.bytes + cost(line) > QUEUE_BYTES && !state.lines.is_empty()) {
            state.lost += 1;
            return false;
        }
        state.bytes += cost(line);
        state.lines.push_back(Arc::clone(line));
        state.waker.take().into_iter().for_each(Waker::wake);
        true
    }
}

/// The body of an answer that goes on: a line for each event.
#[derive(Debug)]
pub struct Following {
    follower: Arc<Follower>,
    followers: Followers,
}

/// What a follower has until their connection ends, which is after the end of the body: that is still to be written.
#[derive(Debug)]
pub struct Seat {
    follower: Arc<Follower>,
    followers: Followers,
    _place: OwnedSemaphorePermit,
}

impl Body for Following {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut state = lock(&self.follower.state);
        if state.lines.is_empty() {
            if state.ended {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (mut chunk, mut sent) = (Vec::new(), 0);
        while let Some(line) = state.lines.pop_front() {
            state.bytes -= cost(&line);
            chunk.extend_from_slice(&line);
            chunk.push(b'\n');
            sent += 1;
            if chunk.len() >= CHUNK_BYTES {
                break;
            }
        }
        if state.lines.is_empty() && state.lost > 0 {
            chunk.extend(self.followers.loss(std::mem::take(&mut state.lost)));
            chunk.push(b'\n');
        }
        add(&self.followers.0.sent, sent);
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let shared = &self.followers.0;
        let mut all = lock(&shared.all);
        all.followers.retain(|follower| !Arc::ptr_eq(follower, &self.follower));
        shared.count.store(all.followers.len(), Ordering::Relaxed);
        drop(all);
        shared.gone.notify_one();
    }
}

#[cfg(test)]
mod tests;
