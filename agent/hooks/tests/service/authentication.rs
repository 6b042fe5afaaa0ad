//! How a service knows the agent: a token, a signature, and secrets that change.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mcpwarden_hooks::{Authentication, BreakerState, Hook, HookConfig, HookError, Secret, SecretSource};
use mcpwarden_terms::contract::{GuardFailure, GuardReply};
use ring::hmac;

use super::server::{ALLOW, Request, Server};
use super::{SHORT, SOON, config, request};

fn write(path: &Path, secret: &str) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// As a service checks it.
fn is_genuine(request: &Request, secret: &str) -> bool {
    let sent = request.header("x-mcpwarden-timestamp").unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(sent.parse().unwrap()) < 300, "{sent}");
    let signature = request.header("x-mcpwarden-signature").unwrap().strip_prefix("sha256=").unwrap();
    let bytes =
        (0..signature.len()).step_by(2).map(|at| u8::from_str_radix(&signature[at..at + 2], 16).unwrap());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = format!("{sent}.{}", request.body);
    hmac::verify(&key, signed.as_bytes(), &bytes.collect::<Vec<_>>()).is_ok()
}

#[tokio::test]
async fn secrets_are_read_for_each_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    for (authentication, check) in [
        (
            Authentication::Bearer as fn(SecretSource) -> Authentication,
            (|request, secret| request.header("authorization") == Some(&format!("Bearer {secret}")))
                as fn(&Request, &str) -> bool,
        ),
        (Authentication::Hmac, is_genuine),
    ] {
        let server = Server::answering(ALLOW).await;
        write(&path, "s3cret\n");
        let authentication = Some(authentication(SecretSource::File(path.clone())));
        let hook = Hook::new(HookConfig { authentication, ..config(&server.url) }).unwrap();
        let secrets = ["s3cret", "s3cret", "an0ther"];
        for secret in secrets {
            write(&path, &format!("{secret}\n"));
            assert_eq!(hook.ask(&request(), Some(1_000)).await.0, Ok(GuardReply::Allow));
        }
        let requests = server.requests();
        assert_eq!(requests.len(), secrets.len());
        for (request, secret) in requests.iter().zip(secrets) {
            assert!(check(request, secret), "{request:?}");
            assert!(!check(request, "wrong"), "{request:?}");
        }
        assert!(!format!("{hook:?}").contains("s3cret"));
    }
}

/// Of each way, the secret, and the reason why nothing is sent.
#[tokio::test]
async fn unusable_secrets_refuse_requests() {
    let server = Server::answering(ALLOW).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    for (secret, mode, expected) in [
        ("", 0o600, "it is empty"),
        ("s3cret", 0o644, "others may read it"),
        ("s3cret\u{1}", 0o600, "its secret has characters that no header may have"),
        ("s3cret\r\nx-forged: 1", 0o600, "its secret has characters that no header may have"),
    ] {
        write(&path, "s3cret");
        let authentication = Some(Authentication::Bearer(SecretSource::File(path.clone())));
        let hook = Hook::new(HookConfig { authentication, ..config(&server.url) }).unwrap();
        write(&path, secret);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        // More often than failures open the breaker: the service is not at fault.
        for _ in 0..6 {
            let (reply, told) = hook.ask(&request(), Some(1_000)).await;
            let Err(GuardFailure::Refused(why)) = reply else { panic!("{reply:?}") };
            assert!(why.contains(expected) && !why.contains("s3cret"), "{why}");
            assert_eq!((told.status, told.breaker), (None, None));
        }
        let state = hook.state();
        assert_eq!(state.breaker, BreakerState::Closed { failures: 0 });
        assert_eq!((state.counters.asked, state.counters.refused_by_secret, state.in_flight), (6, 6, 0));
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn missing_secret_is_found_at_the_start() {
    let authentication = Some(Authentication::Hmac(SecretSource::File("/nonexistent/secret".into())));
    let error = Hook::new(HookConfig { authentication, ..config("https://guards.example/") }).unwrap_err();
    let HookError::Secret(why) = error else { panic!("{error}") };
    assert!(why.contains("/nonexistent/secret: No such file"), "{why}");
}

/// Lets readers go on, also where the test fails: the runtime waits for them.
struct Hanging(Arc<AtomicBool>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A file system that hangs must not leave a thread behind for each request.
#[tokio::test]
async fn hanging_reader_is_bounded() {
    let server = Server::answering(ALLOW).await;
    let (hangs, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (is_hanging, counted) = (Arc::clone(&hangs), Arc::clone(&calls));
    let reader = SecretSource::Reader(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        while is_hanging.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Secret::new("s3cret")
    }));
    let authentication = Some(Authentication::Bearer(reader));
    let config = HookConfig { authentication, timeout: SHORT, max_concurrent: 2, ..config(&server.url) };
    let hook = Hook::new(config).unwrap();
    hangs.store(true, Ordering::SeqCst);
    let hanging = Hanging(hangs);
    for expected in ["in time", "in time", "2 requests are under way", "2 requests are under way"] {
        let (reply, told) = hook.ask(&request(), Some(1_000)).await;
        let Err(GuardFailure::Refused(why)) = reply else { panic!("{reply:?}") };
        assert!(why.contains(expected), "{why}");
        assert!(told.elapsed < SOON);
    }
    // One of them at the start.
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(server.connections(), 0);
    drop(hanging);
    while hook.state().in_flight > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(hook.ask(&request(), Some(1_000)).await.0, Ok(GuardReply::Allow));
}
