//! One service: requests to it, with all their bounds.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mcpwarden_terms::{
    contract::{CONTRACT_VERSION, GuardFailure, GuardReply, GuardRequest},
    counters,
};
use reqwest::{
    Client, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Authentication, BreakerChange, BreakerState, HookConfig, HookError, Secret, answer,
    breaker::{Breaker, Outcome, Refusal, Ticket},
    bucket::{Over, RateLimit},
    sign::{SIGNATURE_HEADER, TIMESTAMP_HEADER, signature},
    tls,
    transport::{describe, failure, refusal},
    wire::{self, EncodeError},
};

/// Longest body of an answer. Bytes.
pub const MAX_ANSWER_BYTES: usize = 256 << 10;
/// How long an unused connection is kept. Shorter than common servers keep theirs (uvicorn and Node.js: 5 s), so that no
/// request is written to a connection that the service is closing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// The version of the contract that the body follows.
const CONTRACT_HEADER: HeaderName = HeaderName::from_static("x-mcpwarden-contract");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

counters!(Counters {
    /// Calls of [`Hook::ask`]: all that follow, and those under way.
    asked,
    /// Answers: the sum of the next three.
    answered,
    /// Answers that allow.
    allowed,
    /// Answers that deny.
    denied,
    /// Answers that modify.
    modified,
    /// Requests without an answer: no connection, another status, a body that is no answer or too long.
    failed,
    /// Requests without an answer in time.
    timed_out,
    /// Requests that were given up by the caller.
    cancelled,
    /// Refused: the breaker is open.
    refused_by_breaker,
    /// Refused: too many per second.
    refused_by_rate,
    /// Refused: too many under way.
    refused_by_concurrency,
    /// Refused: the body is too long.
    refused_by_size,
    /// Refused: a text of the request is not JSON.
    refused_by_content,
    /// Refused: the secret cannot be read, or not in time.
    refused_by_secret,
    /// How often the breaker opened, failed trials included.
    opened,
    /// Bytes of the bodies of requests that were begun.
    sent_bytes,
    /// Bytes of the bodies of answers that were read.
    received_bytes,
});

/// What is known of a request besides its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// From the call to its end.
    pub elapsed: Duration,
    /// The HTTP status, if the service sent one.
    pub status: Option<u16>,
    /// The change of the breaker that this request caused.
    pub breaker: Option<BreakerChange>,
}

/// The state of a service, for metrics and `doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookState {
    /// Whether requests pass.
    pub breaker: BreakerState,
    /// What happened since it was set up.
    pub counters: Counters,
    /// Requests under way.
    pub in_flight: usize,
}

/// A service that judges operations. Requests may run in parallel; dropping the future of one gives it up.
pub struct Hook {
    config: HookConfig,
    url: Url,
    client: Client,
    permits: Arc<Semaphore>,
    shared: Mutex<Shared>,
}

struct Shared {
    breaker: Breaker,
    rate: RateLimit,
    counters: Counters,
}

/// How far a request came.
#[derive(Default)]
struct Progress {
    is_sent: bool,
    status: Option<u16>,
}

impl Hook {
    /// Sets up a service; nothing is sent. Reads the files of the configuration, which blocks. Certificates are read here
    /// alone, secrets for each request.
    ///
    /// # Errors
    /// The configuration is invalid, or a file, certificate or secret cannot be read.
    pub fn new(config: HookConfig) -> Result<Self, HookError> {
        let url = config.check()?;
        let https = url.scheme() == "https";
        let tls = tls::client_config(&config, https)?;
        if let Some(authentication) = &config.authentication {
            authentication.source().read().map_err(HookError::Secret)?;
        }
        let client = Client::builder()
            .user_agent(concat!("mcpwarden/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls)
            .https_only(https)
            .redirect(redirect::Policy::none())
            .referer(false)
            // A variable in the environment must not decide where arguments of tools go.
            .no_proxy()
            // The timeout of a request ends the waiting, but not a connection that another request could use.
            .connect_timeout(config.timeout)
            .pool_max_idle_per_host(config.max_concurrent)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
            .map_err(|error| HookError::Client(describe(&error)))?;
        let shared = Shared {
            breaker: Breaker::new(config.breaker),
            rate: RateLimit::new(config.rate, config.burst, Instant::now()),
            counters: Counters::default(),
        };
        let permits = Arc::new(Semaphore::new(config.max_concurrent));
        Ok(Self { config, url, client, permits, shared: Mutex::new(shared) })
    }

    /// What the configuration calls it.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The breaker, the counters, and the requests under way.
    pub fn state(&self) -> HookState {
        let in_flight = self.config.max_concurrent.saturating_sub(self.permits.available_permits());
        let shared = self.lock();
        HookState { breaker: shared.breaker.state(), counters: shared.counters, in_flight }
    }

    /// Requests a judgement, for a user: whose server it is about. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`GuardFailure::Refused`] if nothing was sent: the breaker is open, too many requests are under way or came in this
    /// second, the secret cannot be read, or a text of the request is not JSON. [`GuardFailure::Limit`] if the request (not
    /// sent) or the answer is too long. [`GuardFailure::Timeout`] and [`GuardFailure::Error`] otherwise.
    pub async fn ask(
        &self,
        request: &GuardRequest,
        user: Option<u32>,
    ) -> (Result<GuardReply, GuardFailure>, Told) {
        let started = Instant::now();
        let mut told = Told::default();
        let result = match self.admit(user, started) {
            Ok((attempt, permit)) => self.attempt(request, attempt, permit, &mut told).await,
            Err(failure) => Err(failure),
        };
        told.elapsed = started.elapsed();
        (result, told)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a request needs: the breaker's ticket, one of the requests under way, a token.
    fn admit(
        &self,
        user: Option<u32>,
        now: Instant,
    ) -> Result<(Attempt<'_>, OwnedSemaphorePermit), GuardFailure> {
        let mut shared = self.lock();
        let Shared { breaker, rate, counters } = &mut *shared;
        counters.asked += 1;
        let ticket = breaker.admit(now).map_err(|refusal| {
            counters.refused_by_breaker += 1;
            GuardFailure::Refused(match refusal {
                Refusal::Paused { .. } => "its service fails, and requests to it are paused".to_owned(),
                Refusal::Trial => "its service fails, and a trial is under way".to_owned(),
            })
        })?;
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        // The token last: a request that is refused otherwise takes none.
        let why = match permit {
            Ok(permit) => match rate.take(user, now) {
                Ok(()) => return Ok((Attempt { hook: self, ticket: Some(ticket) }, permit)),
                Err(over) => {
                    counters.refused_by_rate += 1;
                    let share = if over == Over::Share { "one user's share of " } else { "" };
                    format!("over {share}the rate of {} requests per second", self.config.rate)
                }
            },
            Err(_) => {
                counters.refused_by_concurrency += 1;
                format!("{} requests are under way", self.config.max_concurrent)
            }
        };
        let _ = breaker.record(ticket, Outcome::Abandoned, now);
        Err(GuardFailure::Refused(why))
    }

    async fn attempt(
        &self,
        request: &GuardRequest,
        attempt: Attempt<'_>,
        permit: OwnedSemaphorePermit,
        told: &mut Told,
    ) -> Result<GuardReply, GuardFailure> {
        let body = match wire::encode(request, self.config.request_bytes) {
            Ok(body) => body,
            Err(error) => {
                let why = error.to_string();
                let is_too_long = matches!(error, EncodeError::TooLong(_));
                attempt.end(Outcome::Abandoned, |counters| match is_too_long {
                    true => counters.refused_by_size += 1,
                    false => counters.refused_by_content += 1,
                });
                return Err(if is_too_long { GuardFailure::Limit(why) } else { GuardFailure::Refused(why) });
            }
        };
        let mut progress = Progress::default();
        let exchange = self.exchange(body, Arc::new(permit), &mut progress);
        let result = match tokio::time::timeout(self.config.timeout, exchange).await {
            Ok(result) => result,
            Err(_) if progress.is_sent => Err(GuardFailure::Timeout),
            Err(_) => Err(GuardFailure::Refused("its secret cannot be read in time".to_owned())),
        };
        told.status = progress.status;
        let outcome = match &result {
            Ok(_) => Outcome::Success,
            Err(GuardFailure::Refused(_)) => Outcome::Abandoned,
            Err(_) => Outcome::Failure,
        };
        told.breaker = attempt.end(outcome, |counters| match &result {
            Ok(reply) => {
                counters.answered += 1;
                match reply {
                    GuardReply::Allow => counters.allowed += 1,
                    GuardReply::Deny { .. } => counters.denied += 1,
                    GuardReply::Modify { .. } => counters.modified += 1,
                }
            }
            Err(GuardFailure::Timeout) => counters.timed_out += 1,
            Err(GuardFailure::Refused(_)) => counters.refused_by_secret += 1,
            Err(GuardFailure::Limit(_) | GuardFailure::Error(_)) => counters.failed += 1,
        });
        result
    }

    /// Posts a body and reads the answer. [`GuardFailure::Refused`] if the secret cannot be read.
    async fn exchange(
        &self,
        body: Vec<u8>,
        permit: Arc<OwnedSemaphorePermit>,
        progress: &mut Progress,
    ) -> Result<GuardReply, GuardFailure> {
        let headers = self.authenticate(&body, permit.clone()).await.map_err(GuardFailure::Refused)?;
        progress.is_sent = true;
        self.lock().counters.sent_bytes += body.len() as u64;
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, JSON)
            .header(CONTRACT_HEADER, CONTRACT_VERSION)
            .headers(headers)
            .body(body);
        let mut response = request.send().await.map_err(|error| failure(&error))?;
        let status = response.status();
        progress.status = Some(status.as_u16());
        match status {
            StatusCode::OK => {}
            StatusCode::NO_CONTENT => return Ok(GuardReply::Allow),
            _ => return Err(GuardFailure::Error(refusal(status))),
        }
        let too_long = || GuardFailure::Limit(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes"));
        if response.content_length().is_some_and(|length| length > MAX_ANSWER_BYTES as u64) {
            return Err(too_long());
        }
        let mut answer = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| failure(&error))? {
            self.lock().counters.received_bytes += piece.len() as u64;
            if answer.len().saturating_add(piece.len()) > MAX_ANSWER_BYTES {
                return Err(too_long());
            }
            answer.extend_from_slice(&piece);
        }
        answer::decode(&answer).map_err(|error| GuardFailure::Error(error.to_string()))
    }

    /// The headers that show the service who sends this body.
    async fn authenticate(
        &self,
        body: &[u8],
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let Some(authentication) = &self.config.authentication else { return Ok(headers) };
        let source = authentication.source().clone();
        // A reader that hangs keeps its permit: else each request would leave one more thread behind.
        let read = tokio::task::spawn_blocking(move || {
            let secret = source.read();
            drop(permit);
            secret
        });
        let failed = |why: String| format!("its secret cannot be read: {why}");
        let secret: Secret =
            read.await.map_err(|_| failed("the reader failed".to_owned()))?.map_err(failed)?;
        match authentication {
            Authentication::Bearer(_) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", secret.expose()))
                    .map_err(|_| "its secret has characters that no header may have".to_owned())?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            Authentication::Hmac(_) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let signature = signature(secret.expose().as_bytes(), &now.to_string(), body);
                let signature =
                    HeaderValue::from_str(&signature).map_err(|_| "cannot sign the request".to_owned())?;
                headers.insert(TIMESTAMP_HEADER, HeaderValue::from(now));
                headers.insert(SIGNATURE_HEADER, signature);
            }
        }
        Ok(headers)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hook").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A request that was admitted. Its ticket goes back in any case, also if the future is dropped.
struct Attempt<'a> {
    hook: &'a Hook,
    ticket: Option<Ticket>,
}

impl Attempt<'_> {
    /// Counts how it ended, and tells the breaker.
    fn end(mut self, outcome: Outcome, count: impl FnOnce(&mut Counters)) -> Option<BreakerChange> {
        let ticket = self.ticket.take()?;
        let mut shared = self.hook.lock();
        count(&mut shared.counters);
        let change = shared.breaker.record(ticket, outcome, Instant::now());
        if matches!(change, Some(BreakerChange::Opened { .. })) {
            shared.counters.opened += 1;
        }
        change
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let mut shared = self.hook.lock();
            shared.counters.cancelled += 1;
            let _ = shared.breaker.record(ticket, Outcome::Abandoned, Instant::now());
        }
    }
}
