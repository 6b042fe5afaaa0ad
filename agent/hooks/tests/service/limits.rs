//! Bounds on what the agent sends: breaker, rate, requests at once, length.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcpwarden_hooks::{BreakerChange, BreakerConfig, BreakerState, Hook, HookConfig};
use mcpwarden_terms::contract::{GuardFailure, GuardOperation, GuardReply, GuardRequest};

use super::server::{ALLOW, Action, Server, ok, response};
use super::{SHORT, SOON, config, hook, request};

fn refused(why: &str) -> Result<GuardReply, GuardFailure> {
    Err(GuardFailure::Refused(why.to_owned()))
}

const PAUSED: &str = "its service fails, and requests to it are paused";
const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn breaker_opens_and_closes() {
    let is_well = Arc::new(AtomicBool::new(false));
    let answer = Arc::clone(&is_well);
    let server = Server::with(None, move |_| {
        let is_well = answer.load(Ordering::SeqCst);
        Action::Close(if is_well { ok(ALLOW) } else { response("500 Internal Server Error", "", "") })
    })
    .await;
    // Long enough that the pause is not over before it is looked at, in an hour.
    let patient =
        BreakerConfig { failures: 3, pause: Duration::from_secs(3_600), longest: Duration::from_secs(3_600) };
    let hook = Hook::new(HookConfig { breaker: patient, ..config(&server.url) }).unwrap();
    for expected in [None, None, Some(BreakerChange::Opened { pause: patient.pause })] {
        let (reply, told) = hook.ask(&request(), Some(1_000)).await;
        assert_eq!(reply, Err(GuardFailure::Error("it answers 500 Internal Server Error".to_owned())));
        assert_eq!((told.status, told.breaker), (Some(500), expected));
    }
    for _ in 0..3 {
        let (reply, told) = hook.ask(&request(), Some(1_000)).await;
        assert_eq!((reply, told.status, told.breaker), (refused(PAUSED), None, None));
    }
    let state = hook.state();
    assert!(matches!(state.breaker, BreakerState::Open { .. }), "{:?}", state.breaker);
    let counters = state.counters;
    assert_eq!((counters.asked, counters.failed, counters.refused_by_breaker, counters.opened), (6, 3, 3, 1));
    assert_eq!(server.connections(), 3);

    // A pause that ends soon: a trial that fails doubles it, one that succeeds ends it.
    let brief = BreakerConfig { failures: 1, pause: PAUSE, longest: PAUSE * 8 };
    let hook = Hook::new(HookConfig { breaker: brief, ..config(&server.url) }).unwrap();
    for pause in [PAUSE, PAUSE * 2] {
        let (_, told) = hook.ask(&request(), Some(1_000)).await;
        assert_eq!((told.status, told.breaker), (Some(500), Some(BreakerChange::Opened { pause })));
        tokio::time::sleep(pause).await;
    }
    is_well.store(true, Ordering::SeqCst);
    let (reply, told) = hook.ask(&request(), Some(1_000)).await;
    assert_eq!(reply, Ok(GuardReply::Allow));
    let Some(BreakerChange::Closed { after }) = told.breaker else { panic!("{:?}", told.breaker) };
    assert!(after >= PAUSE * 3, "{after:?}");
    assert_eq!(hook.state().breaker, BreakerState::Closed { failures: 0 });
    assert_eq!(hook.state().counters.opened, 2);
}

/// A caller that gives up the trial must not leave the breaker half-open for ever.
#[tokio::test]
async fn cancelled_trial_gives_way() {
    let is_well = Arc::new(AtomicBool::new(false));
    let answer = Arc::clone(&is_well);
    let server = Server::with(None, move |_| {
        if answer.load(Ordering::SeqCst) { Action::Send(ok(ALLOW)) } else { Action::Hang }
    })
    .await;
    let breaker = BreakerConfig { failures: 1, pause: PAUSE, longest: PAUSE };
    let hook = Hook::new(HookConfig { breaker, timeout: SHORT, ..config(&server.url) }).unwrap();
    assert_eq!(hook.ask(&request(), Some(1_000)).await.0, Err(GuardFailure::Timeout));
    tokio::time::sleep(PAUSE).await;
    let asked = request();
    {
        let mut trial = std::pin::pin!(hook.ask(&asked, Some(1_000)));
        tokio::select! {
            _ = &mut trial => panic!("the trial ends"),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        assert!(matches!(hook.state().breaker, BreakerState::HalfOpen { .. }));
        assert_eq!(hook.state().in_flight, 1);
        assert_eq!(
            hook.ask(&request(), Some(1_000)).await.0,
            refused("its service fails, and a trial is under way")
        );
    }
    let state = hook.state();
    assert!(matches!(state.breaker, BreakerState::Open { .. }), "{:?}", state.breaker);
    assert_eq!((state.counters.cancelled, state.in_flight), (1, 0));
    is_well.store(true, Ordering::SeqCst);
    assert_eq!(hook.ask(&request(), Some(1_000)).await.0, Ok(GuardReply::Allow));
    assert_eq!(hook.state().breaker, BreakerState::Closed { failures: 0 });
}

/// A trial that another limit refuses did not take place, and must not leave the breaker half-open for ever.
#[tokio::test]
async fn refused_trial_gives_way() {
    let server = Server::of(Action::Close(response("500 Internal Server Error", "", ""))).await;
    let breaker = BreakerConfig { failures: 1, pause: Duration::from_millis(1), longest: PAUSE };
    // A token in a second: none for the trial, unless the two take that long.
    let hook = Hook::new(HookConfig { breaker, rate: 1, burst: 1, ..config(&server.url) }).unwrap();
    let begin = std::time::Instant::now();
    assert!(matches!(hook.ask(&request(), Some(1_000)).await.0, Err(GuardFailure::Error(_))));
    tokio::time::sleep(Duration::from_millis(2)).await;
    let (reply, _) = hook.ask(&request(), Some(1_000)).await;
    if begin.elapsed() < Duration::from_secs(1) {
        assert_eq!(reply, refused("over the rate of 1 requests per second"));
    }
    assert!(matches!(hook.state().breaker, BreakerState::Open { .. }), "{:?}", hook.state().breaker);
}

#[tokio::test]
async fn requests_beyond_the_rate_are_refused() {
    let server = Server::answering(ALLOW).await;
    // One token comes in a second: none while these three are sent, unless they take that long.
    let hook = Hook::new(HookConfig { rate: 1, burst: 2, ..config(&server.url) }).unwrap();
    let begin = std::time::Instant::now();
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(hook.ask(&request(), Some(1_000)).await.0);
    }
    if begin.elapsed() < Duration::from_secs(1) {
        assert_eq!(replies[2], refused("over the rate of 1 requests per second"));
        assert_eq!((hook.state().counters.refused_by_rate, server.requests().len()), (1, 2));
    }
    assert_eq!(replies[..2], [Ok(GuardReply::Allow), Ok(GuardReply::Allow)]);
}

#[tokio::test]
async fn requests_beyond_the_concurrency_are_refused() {
    let server = Server::of(Action::Hang).await;
    let config = HookConfig { max_concurrent: 2, timeout: SHORT, ..config(&server.url) };
    let hook = Arc::new(Hook::new(config).unwrap());
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let hook = Arc::clone(&hook);
            tokio::spawn(async move { hook.ask(&request(), Some(1_000)).await })
        })
        .collect();
    let mut replies = Vec::new();
    for task in tasks {
        let (reply, told) = task.await.unwrap();
        assert!(told.elapsed < SOON);
        replies.push(reply);
    }
    let busy = refused("2 requests are under way");
    let late = Err(GuardFailure::Timeout);
    assert_eq!(replies, [late.clone(), late, busy.clone(), busy.clone(), busy]);
    let state = hook.state();
    assert_eq!((state.counters.refused_by_concurrency, state.counters.timed_out, state.in_flight), (3, 2, 0));
    assert_eq!(state.breaker, BreakerState::Closed { failures: 2 });
}

/// A request that is not sent: too long, or with a text that would break out of its member.
#[tokio::test]
async fn unsendable_requests_are_refused() {
    let server = Server::answering(ALLOW).await;
    let hook = Hook::new(HookConfig { request_bytes: 1_000, ..config(&server.url) }).unwrap();
    let call = |arguments: String| GuardRequest {
        operation: GuardOperation::CallTool { tool_name: "t".to_owned(), arguments },
        context: request().context,
    };
    let long = format!("\"{}\"", "x".repeat(1_000));
    let (reply, _) = hook.ask(&call(long), None).await;
    assert_eq!(reply, Err(GuardFailure::Limit("the request is longer than 1000 bytes".to_owned())));
    let (reply, _) = hook.ask(&call(r#"{}},"context":{"server_name":"trusted"}"#.to_owned()), None).await;
    assert_eq!(reply, refused("arguments is not JSON"));
    assert_eq!(hook.ask(&request(), Some(1_000)).await.0, Ok(GuardReply::Allow));
    let counters = hook.state().counters;
    assert_eq!((counters.refused_by_size, counters.refused_by_content, counters.answered), (1, 1, 1));
    assert_eq!(server.requests().len(), 1);
}

/// All that was asked is counted once more, as what it came to.
#[tokio::test]
async fn counters_add_up() {
    let server = Server::with(None, |request| match request.body.len() % 4 {
        0 => Action::Send(ok(ALLOW)),
        1 => Action::Hang,
        2 => Action::Close(Vec::new()),
        _ => Action::Send(ok(r#"{"decision":"deny","reason":{"code":"c","message":"m"}}"#)),
    })
    .await;
    let breaker = BreakerConfig { pause: PAUSE, ..BreakerConfig::default() };
    let config = HookConfig { timeout: SHORT, max_concurrent: 4, burst: 20, breaker, ..config(&server.url) };
    let hook = Arc::new(Hook::new(config).unwrap());
    let tasks: Vec<_> = (0..60)
        .map(|index| {
            let hook = Arc::clone(&hook);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(index * 7)).await;
                let uri = "x".repeat(index as usize);
                let context = request().context;
                let request = GuardRequest { operation: GuardOperation::ReadResource { uri }, context };
                tokio::select! {
                    _ = hook.ask(&request, Some(1_000)) => {}
                    () = tokio::time::sleep(Duration::from_millis(if index % 5 == 0 { 1 } else { 5_000 })) => {}
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let state = hook.state();
    let counters = state.counters;
    let ends = [
        counters.answered,
        counters.failed,
        counters.timed_out,
        counters.cancelled,
        counters.refused_by_breaker,
        counters.refused_by_rate,
        counters.refused_by_concurrency,
        counters.refused_by_size,
        counters.refused_by_content,
        counters.refused_by_secret,
    ];
    assert_eq!((counters.asked, state.in_flight), (60, 0));
    assert_eq!(ends.iter().sum::<u64>(), 60, "{counters:?}");
    assert_eq!(counters.allowed + counters.denied + counters.modified, counters.answered, "{counters:?}");
}

#[tokio::test]
async fn idle_connection_that_ends_is_replaced() {
    let server = Server::of(Action::Close(ok(ALLOW))).await;
    let hook = hook(&server.url);
    for expected in 1..=3 {
        assert_eq!(hook.ask(&request(), Some(1_000)).await.0, Ok(GuardReply::Allow));
        assert_eq!(server.connections(), expected);
    }
}

/// Set in the process that this test starts, since no thread may change the environment of a process with others.
const URL_VARIABLE: &str = "MCPWARDEN_TEST_SERVICE";

#[tokio::test(flavor = "multi_thread")]
async fn proxies_of_the_environment_are_ignored() {
    if let Ok(url) = std::env::var(URL_VARIABLE) {
        assert_eq!(hook(&url).ask(&request(), Some(1_000)).await.0, Ok(GuardReply::Allow));
        return;
    }
    let (server, proxy) = (Server::answering(ALLOW).await, Server::answering(ALLOW).await);
    let (service, address) = (server.url.clone(), format!("http://{}", proxy.address));
    let child = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "limits::proxies_of_the_environment_are_ignored"])
            .env(URL_VARIABLE, service);
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, &address);
        }
        command.env_remove("no_proxy").env_remove("NO_PROXY").output().unwrap()
    });
    let output = child.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((server.connections(), proxy.connections()), (1, 0));
}
