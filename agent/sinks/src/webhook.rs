//! Events that are posted: in batches, signed, and again until somebody takes them.
//!
//! One thread writes what comes to disk ([`Spool`]), another posts what is there. However long nobody takes it, only what
//! waits on disk grows, and that is bounded.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use mcpwarden_policy::{
    config::{self, SecretFile},
    hash::hex,
};
use mcpwarden_system::{instance, secret_file};
use mcpwarden_text::escaped;
use reqwest::{
    Client, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    redirect,
};
use ring::{
    digest::{SHA256, digest},
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use tokio::sync::{Notify, watch};

use super::{
    queue::{Queue, add},
    spool::{BATCH_BYTES, Parcel, Spool},
};

/// Why there is no client.
const NO_HTTPS: &str =
    "cannot set up HTTPS; see that the certificates of this system (ca-certificates) are there";
/// Where the spools are, in the state directory.
const DIRECTORY: &str = "webhooks";
/// How long more events are waited for, to be sent with the first.
const LINGER: Duration = Duration::from_millis(200);
/// How long a connection, and a whole request, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);
/// What of an answer is read, so that the connection can be used again. Bytes.
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// The pause after a first failure, at most; each that follows doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest that `Retry-After` counts.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);
/// Where the disk fails, or another has the spool, it is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_LOCK: Duration = Duration::from_millis(50);
/// How long one that ends goes on to send. The rest is sent after the next start.
const LAST: Duration = Duration::from_millis(250);

/// Somebody who is told of events.
pub struct Webhook {
    /// What it is called where something is said of it: its address may be a secret.
    name: String,
    url: Url,
    secret_file: Option<SecretFile>,
    client: Client,
    directory: PathBuf,
    capacity: u64,
}

/// What came of a request.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// They have it.
    Taken,
    /// They never will.
    Refused(String),
    /// It is to be sent again, not sooner than they say.
    Later { why: String, after: Option<Duration> },
}

impl Webhook {
    /// What waits is kept in `state_dir`, up to so many bytes.
    ///
    /// # Errors
    /// The secret cannot be read, the directory is not safe to use, or there are no certificates of authorities.
    pub fn new(config: &config::Sink, name: &str, state_dir: &Path, capacity: u64) -> Result<Self> {
        let url = config.url.as_ref().context("there is no url")?;
        // What is wrong with it is not said with it.
        let url = Url::parse(url.as_str()).ok().context("invalid url")?;
        let place = digest(&SHA256, url.as_str().as_bytes());
        let place = hex(place.as_ref().get(..8).unwrap_or_default());
        let directory = state_dir.join(DIRECTORY).join(place);
        instance::make(&state_dir.join(DIRECTORY))?;
        instance::make(&directory)?;
        // Fails where there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("mcpwarden/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .context(NO_HTTPS)?;
        let secret_file = config.secret_file.clone();
        let webhook = Self { name: name.to_owned(), url, secret_file, client, directory, capacity };
        webhook.secret()?;
        Ok(webhook)
    }

    /// Keeps and posts what is in the queue until it is closed and empty.
    pub fn run(&self, queue: &Queue) {
        let Some(spool) = self.open(queue) else { return };
        let (spool, more, (closed, of_sender)) = (Mutex::new(spool), Notify::new(), watch::channel(false));
        std::thread::scope(|scope| {
            let send = || self.send_until_closed(queue, &spool, &more, of_sender);
            if let Err(error) = std::thread::Builder::new().name("webhook".into()).spawn_scoped(scope, send) {
                self.fail(queue, &format!("cannot start sending: {error}"));
            }
            queue.drain(BATCH_BYTES as usize, LINGER, RETRY, |lines| {
                let (kept, result) = lock(&spool).append(lines, &queue.counts);
                more.notify_one();
                if let Err(error) = &result {
                    self.log_error(&format!("cannot write the spool: {error}"));
                }
                (kept, result)
            });
            closed.send_replace(true);
            more.notify_one();
        });
    }

    /// Opens what waits; `None` where the queue is closed before it can be.
    fn open(&self, queue: &Queue) -> Option<Spool> {
        loop {
            let pause = match Spool::open(&self.directory, self.capacity, &queue.counts) {
                Ok(Some(spool)) => {
                    queue.counts.refused(None);
                    return Some(spool);
                }
                Ok(None) => RETRY_LOCK,
                Err(error) => {
                    add(&queue.counts.failures, 1);
                    self.fail(queue, &format!("cannot read the spool: {error}"));
                    RETRY
                }
            };
            if queue.rest(pause) {
                while let Some(lines) = queue.take(usize::MAX, Duration::ZERO) {
                    add(&queue.counts.dropped, lines.len());
                }
                return None;
            }
        }
    }

    fn send_until_closed(
        &self,
        queue: &Queue,
        spool: &Mutex<Spool>,
        more: &Notify,
        closed: watch::Receiver<bool>,
    ) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return self.fail(queue, &format!("cannot start sending: {error}")),
        };
        let mut last = closed.clone();
        runtime.block_on(async {
            tokio::select! {
                () = self.send(queue, spool, more, closed) => {}
                () = async { let _ = last.wait_for(|closed| *closed).await; tokio::time::sleep(LAST).await } => {}
            }
        });
        // The name of a host may be looked up still, which cannot be broken off.
        runtime.shutdown_background();
    }

    /// Posts one batch after the other; ends where it is closed, and nothing is left or nobody takes it.
    async fn send(
        &self,
        queue: &Queue,
        spool: &Mutex<Spool>,
        more: &Notify,
        mut closed: watch::Receiver<bool>,
    ) {
        let random = SystemRandom::new();
        let (mut failures, mut reported) = (0, None);
        loop {
            let first = lock(spool).first(&queue.counts);
            let outcome = match first {
                Ok(None) if *closed.borrow() => return,
                Ok(None) => {
                    more.notified().await;
                    continue;
                }
                Ok(Some(parcel)) => {
                    let outcome = self.post(&parcel).await;
                    match &outcome {
                        Outcome::Taken => add(&queue.counts.written, parcel.events),
                        Outcome::Refused(_) => add(&queue.counts.dropped, parcel.events),
                        Outcome::Later { .. } => {}
                    }
                    outcome
                }
                Err(error) => Outcome::Later { why: format!("cannot read the spool: {error}"), after: None },
            };
            let now = match &outcome {
                Outcome::Taken => None,
                Outcome::Refused(why) => Some(format!("{why}: what it is sent is dropped")),
                Outcome::Later { why, .. } => Some(format!("{why}: it is tried again, and events wait")),
            };
            queue.counts.refused(now.as_deref());
            if now != reported {
                match &now {
                    Some(failed) => self.log_error(failed),
                    None => tracing::info!("{}: the receiver accepts events again", self.name),
                }
                reported = now;
            }
            let after = match outcome {
                Outcome::Taken => {
                    failures = 0;
                    lock(spool).done(&queue.counts);
                    continue;
                }
                // What is dropped is an event, which would be refused at once, and so on.
                Outcome::Refused(_) => {
                    lock(spool).done(&queue.counts);
                    None
                }
                Outcome::Later { after, .. } => {
                    add(&queue.counts.failures, 1);
                    after
                }
            };
            let mut bytes = [0; 4];
            // Without a number by chance they all come at once.
            let _ = random.fill(&mut bytes);
            let pause = pause(failures, u32::from_ne_bytes(bytes)).max(after.unwrap_or_default());
            failures = failures.saturating_add(1);
            if tokio::time::timeout(pause, closed.wait_for(|closed| *closed)).await.is_ok() {
                return;
            }
        }
    }

    async fn post(&self, parcel: &Parcel) -> Outcome {
        let later = |why: String| Outcome::Later { why, after: None };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", &parcel.key)
            .header("x-mcpwarden-timestamp", &now);
        match self.secret() {
            Ok(None) => {}
            Ok(Some(secret)) => {
                let signature = signature(secret.as_bytes(), &now, &parcel.body);
                request = request.header("x-mcpwarden-signature", signature);
            }
            Err(error) => return later(format!("{error:#}")),
        }
        let mut response = match request.body(parcel.body.clone()).send().await {
            Ok(response) => response,
            Err(error) => return later(format!("{:#}", anyhow::Error::from(error.without_url()))),
        };
        let outcome = outcome(response.status(), response.headers().get(RETRY_AFTER));
        let mut read = 0;
        while let Ok(Some(piece)) = response.chunk().await {
            read += piece.len();
            if read > MAX_ANSWER_BYTES {
                break;
            }
        }
        outcome
    }

    /// What is posted is signed with; read each time, so that it can be changed. `None` where there is none.
    fn secret(&self) -> Result<Option<String>> {
        let Some(file) = &self.secret_file else { return Ok(None) };
        let text = secret_file::read(file, secret_file::directory().as_deref());
        let text = text.with_context(|| format!("secret_file: {}", file.as_str()))?;
        let secret = text.trim_end_matches(['\r', '\n']);
        anyhow::ensure!(!secret.is_empty(), "secret_file: {}: it is empty", file.as_str());
        Ok(Some(secret.to_owned()))
    }

    /// Reports that nothing is sent.
    fn fail(&self, queue: &Queue, why: &str) {
        queue.counts.refused(Some(why));
        self.log_error(why);
    }

    fn log_error(&self, what: &str) {
        tracing::error!("{}: {}", self.name, escaped(what));
    }
}

fn lock(spool: &Mutex<Spool>) -> MutexGuard<'_, Spool> {
    spool.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `sha256=` and the HMAC-SHA256 (RFC 2104) of timestamp, full stop and body: whoever repeats an old request cannot give
/// it a new time.
fn signature(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut context = hmac::Context::with_key(&key);
    [timestamp.as_bytes(), b".", body].into_iter().for_each(|part| context.update(part));
    format!("sha256={}", hex(context.sign().as_ref()))
}

/// What an answer means.
fn outcome(status: StatusCode, retry_after: Option<&HeaderValue>) -> Outcome {
    let why = format!("it answers {status}");
    match status.as_u16() {
        200..=299 => Outcome::Taken,
        408 | 429 | 500..=599 => {
            let seconds = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let after = seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
            Outcome::Later { why, after }
        }
        400..=499 => Outcome::Refused(why),
        300..=399 => Outcome::Later { why: format!("{why}, which is not followed"), after: None },
        _ => Outcome::Later { why, after: None },
    }
}

/// How long to wait after so many failures before this one: between half of what doubles each time and all of it.
fn pause(failures: u32, random: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
    most / 2 + (most / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 7, whose text has one full stop.
    #[test]
    fn signature_matches_the_rfc_4231_vector() {
        let (before, after) = (
            "This is a test using a larger than block-size key and a larger than block-size data",
            " The key needs to be hashed before being used by the HMAC algorithm.",
        );
        assert_eq!(
            signature(&[0xaa; 131], before, after.as_bytes()),
            "sha256=9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
        );
    }

    #[test]
    fn webhook_status_decides_the_outcome() {
        let later = |seconds: Option<u64>| (1, seconds);
        let (taken, refused) = ((0, None), (2, None));
        for (status, retry_after, expected) in [
            (200, None, taken),
            (204, None, taken),
            (301, Some("5"), later(None)),
            (307, None, later(None)),
            (400, None, refused),
            (401, None, refused),
            (408, None, later(None)),
            (410, Some("5"), refused),
            (429, Some("7"), later(Some(7))),
            (429, Some(" 7 "), later(Some(7))),
            (429, Some("-7"), later(None)),
            (429, Some("Wed, 21 Oct 2015 07:28:00 GMT"), later(None)),
            (503, Some("99999999999999999999"), later(None)),
            (503, Some("999999"), later(Some(300))),
            (503, Some("0"), later(Some(0))),
            (599, None, later(None)),
        ] {
            let value = retry_after.map(|value| HeaderValue::from_str(value).unwrap());
            let found = match outcome(StatusCode::from_u16(status).unwrap(), value.as_ref()) {
                Outcome::Taken => (0, None),
                Outcome::Later { after, .. } => (1, after.map(|after| after.as_secs())),
                Outcome::Refused(_) => (2, None),
            };
            assert_eq!(found, expected, "{status} {retry_after:?}");
        }
    }

    /// Failures before, and the pause in milliseconds: shortest and longest.
    #[test]
    fn retry_pauses_grow_up_to_a_bound() {
        for (failures, shortest, longest) in [
            (0, 500, 1_000),
            (1, 1_000, 2_000),
            (5, 16_000, 32_000),
            (6, 30_000, 60_000),
            (31, 30_000, 60_000),
            (32, 30_000, 60_000),
            (u32::MAX, 30_000, 60_000),
        ] {
            let found = [0, u32::MAX].map(|random| pause(failures, random).as_millis());
            assert_eq!(found, [shortest, longest], "{failures}");
        }
    }
}
