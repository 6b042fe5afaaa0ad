//! Who asks for metrics and health: read within bounds, answered.
//!
//! So many are served at once; one more pushes out who has been there longest, so that those who only sit there keep
//! nobody away.

use std::{
    collections::VecDeque,
    io,
    net::TcpListener,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{Sample, Shared, page, table};
use crate::serving::{self, End, REST};

/// Connections at once.
const PLACES: usize = 64;
/// For so long everybody gets the same page: how often it is made does not depend on how often it is asked for.
const FRESH: Duration = Duration::from_secs(1);
/// The text format of Prometheus.
const PAGE_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const WORDS_TYPE: &str = "text/plain; charset=utf-8";

/// What came of requests, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrapeCounters {
    /// All that were read.
    pub requests: u64,
    /// Connections that were closed for later ones.
    pub pushed_out: u64,
    /// Connections with no HTTP, or too long a head, or whose other end went away.
    pub unusable: u64,
    /// Connections that took too long.
    pub timed_out: u64,
}

/// The same, while they are counted.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    pushed_out: AtomicU64,
    unusable: AtomicU64,
    timed_out: AtomicU64,
}

impl Counts {
    /// As of now.
    pub fn read(&self) -> ScrapeCounters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ScrapeCounters {
            requests: read(&self.requests),
            pushed_out: read(&self.pushed_out),
            unusable: read(&self.unusable),
            timed_out: read(&self.timed_out),
        }
    }
}

fn count(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Answers on a thread of its own until `stopped`, or its other end is dropped.
pub(super) fn start(
    listener: TcpListener,
    shared: Arc<Shared>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = stopped => {}
                () = serve(listener, shared) => {}
            }
        });
    })?;
    Ok(())
}

/// Takes connections, for ever.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // It is not blocking; within a runtime nothing else can go wrong.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        open.retain(|task| !task.is_finished());
        if open.len() >= PLACES
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            count(&shared.counts.pushed_out);
        }
        let shared = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let ended = serving::converse(stream, |request| std::future::ready(shared.respond(&request)));
            match ended.await {
                End::Answered => {}
                End::Unusable => count(&shared.counts.unusable),
                End::TimedOut => count(&shared.counts.timed_out),
            }
        });
        open.push_back(task.abort_handle());
        // Who has asked by now is answered before others can push him out.
        tokio::task::yield_now().await;
    }
}

impl Shared {
    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        count(&self.counts.requests);
        self.answer(request.method(), request.uri().path())
    }

    pub(super) fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = words(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let verdict = |found: Result<(), String>, remarks: Vec<String>| {
            let (status, first) = match found {
                Ok(()) => (StatusCode::OK, "ok".to_owned()),
                Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            };
            words(status, &[vec![first], remarks].concat().join("\n"))
        };
        match path {
            "/metrics" => match self.page() {
                Ok(page) => response(StatusCode::OK, PAGE_TYPE, page),
                Err(error) => words(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            "/healthz" => verdict(self.health.healthy(), self.health.remarks()),
            "/readyz" => verdict(self.health.ready(), Vec::new()),
            _ => words(StatusCode::NOT_FOUND, "there are only /metrics, /healthz and /readyz here"),
        }
    }

    /// The page, made anew where it is not fresh any more.
    fn page(&self) -> prometheus::Result<Bytes> {
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, page)) = kept.as_ref()
            && made.elapsed() < FRESH
        {
            return Ok(page.clone());
        }
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).as_ref().clone();
        if let Some(age) = self.health.drain_age() {
            snapshot.samples.push(Sample::new(table::DRAIN_AGE, &[], age.as_secs_f64()));
        }
        snapshot.samples.extend(own_process());
        let page = Bytes::from(page::text(&snapshot, self.registry.gather())?);
        *kept = Some((Instant::now(), page.clone()));
        Ok(page)
    }
}

/// What the kernel says of this process. Nothing where it does not.
fn own_process() -> Vec<Sample> {
    let Ok(own) = procfs::process::Process::myself() else { return Vec::new() };
    let mut samples = Vec::new();
    let ticks = procfs::ticks_per_second() as f64;
    if let Ok(stat) = own.stat() {
        let cpu = (stat.utime + stat.stime) as f64 / ticks;
        samples.push(Sample::new(table::CPU, &[], cpu));
        samples.push(Sample::new(table::RESIDENT, &[], (stat.rss * procfs::page_size()) as f64));
        if let Ok(boot) = procfs::boot_time_secs() {
            samples.push(Sample::new(table::STARTED, &[], boot as f64 + stat.starttime as f64 / ticks));
        }
    }
    if let Ok(count) = own.fd_count() {
        samples.push(Sample::new(table::DESCRIPTORS, &[], count as f64));
    }
    samples
}

fn words(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, WORDS_TYPE, Bytes::from(format!("{text}\n")))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
