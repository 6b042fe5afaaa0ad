//! Servers, listed again and again.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use futures_util::future::join_all;
use mcpwarden_policy::{
    ConnectionId, ServerId,
    config::{self, Fingerprint, Period, SecretFile},
    event::ServerType,
    protocol::members,
};
use reqwest::Url;
use tokio::sync::{Notify, Semaphore, mpsc};

use mcpwarden_system::secret_file;

use super::{Report, credentials};
use crate::{Advice, Failure, Frame, Mismatch, Pin, Settings, Spoken, Tap};

/// How long one may take, from the first connection to the last list.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long one may take to answer `server/discover`.
const PATIENCE: Duration = Duration::from_secs(4);
/// What one may send. Bytes.
const MAX_BYTES: usize = 16 << 20;
/// How many are listed at once.
const AT_ONCE: usize = 4;

/// Has a server be listed before its time.
#[derive(Debug, Default)]
pub struct Wake {
    requests: AtomicU64,
    notify: Notify,
}

impl Wake {
    /// Requests a listing, by a number that is greater than those before. A listing that begins from now on has seen it.
    pub fn request(&self, number: u64) {
        self.requests.store(number, Ordering::Release);
        self.notify.notify_one();
    }

    /// The same of requests that the first listing answers.
    pub fn answers(&self, number: u64) {
        self.requests.store(number, Ordering::Release);
    }

    /// The number of the last request so far.
    fn seen(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }
}

/// A declared server.
pub struct Declared {
    id: ServerId,
    kind: ServerType,
    url: Url,
    connection: ConnectionId,
    headers_from: Option<SecretFile>,
    fingerprint: Option<Fingerprint>,
    wake: Arc<Wake>,
}

/// What a server said.
pub struct Listed {
    /// The address that answered.
    pub address: SocketAddr,
    /// Path of the URL.
    pub path: String,
    /// What was spoken.
    pub kind: ServerType,
    /// The conversation, without a handshake that was as the one before.
    pub frames: Vec<Frame>,
}

/// Why one was not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be.
    Unreachable(Failure),
    /// It must not be.
    Mismatch(Mismatch),
}

impl Declared {
    /// `None` of one that has no address.
    pub fn new(server: &config::Server, connection: ConnectionId) -> Option<Self> {
        Some(Self {
            id: ServerId(server.id.as_str().into()),
            kind: server.kind,
            url: Url::parse(server.url.as_ref()?.as_str()).ok()?,
            connection,
            headers_from: server.headers_from.clone(),
            fingerprint: server.tls_fingerprint.clone(),
            wake: Arc::default(),
        })
    }

    /// What has it be listed before its time.
    pub fn wake(&self) -> Arc<Wake> {
        Arc::clone(&self.wake)
    }

    /// Its id.
    pub fn id(&self) -> &ServerId {
        &self.id
    }

    /// Lists it, and says what came of that, until nobody listens any more.
    async fn watch(&self, every: Duration, permits: &Semaphore, reports: &mpsc::Sender<Report>) {
        let mut greeted = Vec::new();
        loop {
            let (request, outcome) = {
                let Ok(_permit) = permits.acquire().await else { return };
                (self.wake.seen(), self.list(&mut greeted).await)
            };
            let mut url = self.url.clone();
            url.set_query(None);
            let (server, url) = (self.id.clone(), url.to_string());
            let (kind, connection) = (self.kind, self.connection);
            let report = Report { server, kind, url, connection, request, outcome };
            if reports.send(report).await.is_err() {
                return;
            }
            let pause = spread(every, RandomState::new().hash_one(()));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wake.notify.notified() => {}
            }
        }
    }

    /// Lists it once. `greeted`: the handshake of the time before.
    async fn list(&self, greeted: &mut Vec<Frame>) -> Result<Listed, Trouble> {
        let mut settings = Settings { pin: self.fingerprint.clone().map(Pin::new), ..Settings::default() };
        let outcome = match self.authorize(&mut settings) {
            Ok(()) => self.speak(&settings).await,
            Err(error) => Err(error),
        };
        if let Some(mismatch) = settings.pin.as_ref().and_then(Pin::mismatch) {
            return Err(Trouble::Mismatch(mismatch));
        }
        let trouble = |error: Error| {
            let status = error.downcast_ref().and_then(|failure: &Failure| failure.status);
            let why = credentials::conceal(format!("{error:#}"), &settings.headers);
            Trouble::Unreachable(Failure { why, status })
        };
        let spoken = outcome.map_err(trouble)?;
        let address = spoken.peer.context("its address is not known").map_err(trouble)?;
        let frames = spoken
            .tap
            .conversation()
            .into_iter()
            .map(|frame| Frame { json: credentials::conceal(frame.json, &settings.headers), ..frame });
        let frames = without_known(frames.collect(), greeted);
        Ok(Listed { address, path: self.url.path().to_owned(), kind: spoken.kind, frames })
    }

    /// Adds what it wants to see.
    fn authorize(&self, settings: &mut Settings) -> Result<()> {
        settings.advice = advice(self.headers_from.is_some());
        if let Some(from) = &self.headers_from {
            settings.headers = credentials::read(from, secret_file::directory().as_deref())?;
        }
        Ok(())
    }

    async fn speak(&self, settings: &Settings) -> Result<Spoken> {
        let tap = || Tap::recording(MAX_BYTES);
        let conversation = crate::either_way(PATIENCE, async |opening| {
            crate::talk_http(&self.url, settings, tap, opening, &|_| {}).await
        });
        let outcome = tokio::time::timeout(TIMEOUT, conversation).await;
        outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("it did not answer within {}", Period(TIMEOUT))))
    }
}

/// What an operator can do.
pub(crate) fn advice(credentials: bool) -> Advice {
    Advice {
        credentials: if credentials {
            "the credentials of its headers_from are not enough"
        } else {
            "it wants credentials: name a file with them in its headers_from"
        },
        trust: "if it is the right one, say so with its tls_fingerprint",
    }
}

/// Lists all, each at its own time, until nobody listens any more.
pub async fn list_all(servers: Vec<Declared>, every: Duration, reports: mpsc::Sender<Report>) {
    let permits = Semaphore::new(AT_ONCE);
    tokio::select! {
        () = reports.closed() => {}
        _ = join_all(servers.iter().map(|server| server.watch(every, &permits, &reports))) => {}
    }
}

/// A time up to a tenth longer or shorter, by a random number, so that servers are not all asked at one moment.
fn spread(every: Duration, random: u64) -> Duration {
    every.mul_f64(0.9 + 0.2 * (random as f64 / u64::MAX as f64))
}

/// A conversation without its handshake, where that is the one of the time before: nothing new is in it, and a server
/// that is asked again has not started again.
fn without_known(frames: Vec<Frame>, greeted: &mut Vec<Frame>) -> Vec<Frame> {
    let lists = frames.iter().position(|frame| is_list(&frame.json)).unwrap_or(frames.len());
    let (greeting, rest) = frames.split_at(lists);
    if greeting == greeted.as_slice() {
        return rest.to_vec();
    }
    *greeted = greeting.to_vec();
    frames
}

/// Whether a frame asks for a list.
fn is_list(frame: &str) -> bool {
    let [method] = members(frame, ["method"]);
    method.is_some_and(|method| method.get().ends_with("/list\""))
}

#[cfg(test)]
mod tests {
    use mcpwarden_policy::Direction::{self, ClientToServer as Asks, ServerToClient as Answers};

    use super::*;

    #[test]
    fn repeated_handshake_is_reported_once() {
        let frames = |texts: &[(Direction, &str)]| -> Vec<Frame> {
            texts
                .iter()
                .map(|(direction, json)| Frame { direction: *direction, json: (*json).into() })
                .collect()
        };
        let hello = [
            (Asks, r#"{"id":0,"method":"initialize"}"#),
            (Answers, r#"{"id":0,"result":{"protocolVersion":"x"}}"#),
            (Asks, r#"{"method":"notifications/initialized"}"#),
        ];
        let other = [(Asks, r#"{"id":0,"method":"initialize"}"#), (Answers, r#"{"id":0,"result":{}}"#)];
        let list = [(Asks, r#"{"id":1,"method":"tools/list"}"#), (Answers, r#"{"id":1,"result":{}}"#)];
        let mut greeted = Vec::new();
        for (name, greeting, reported) in [
            ("the first time", &hello[..], true),
            ("the same again", &hello, false),
            ("another", &other, true),
            ("the first once more", &hello, true),
        ] {
            let all = frames(&[greeting, &list].concat());
            let expected = if reported { all.clone() } else { frames(&list) };
            assert_eq!(without_known(all, &mut greeted), expected, "{name}");
        }
        assert_eq!(without_known(frames(&hello), &mut greeted), [], "no list at all");
    }

    /// Only what begins after a request answers it.
    #[test]
    fn listing_knows_the_requests_before_it() {
        let wake = Wake::default();
        let mut seen = vec![wake.seen()];
        for number in [3, 4] {
            wake.request(number);
            seen.push(wake.seen());
        }
        assert_eq!(seen, [0, 3, 4]);
    }

    #[test]
    fn listing_intervals_are_spread() {
        for (random, expected) in [(0, 270), (u64::MAX / 2, 300), (u64::MAX, 330)] {
            assert_eq!(spread(Duration::from_secs(300), random).as_secs_f64().round() as u64, expected);
        }
    }
}
