//! Whom the agent trusts, and the certificate that it presents.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use mcpwarden_hooks::{Hook, HookConfig, HookError};
use mcpwarden_terms::contract::{GuardFailure, GuardReply};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

use super::server::{ALLOW, Action, Server, ok};
use super::{config, request};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// By its name, which clients choose it by.
fn authority(name: &str) -> Authority {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for a name, as PEM and DER, and its key.
struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn leaf(authority: &Authority, name: &str, change: fn(&mut CertificateParams)) -> Leaf {
    let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
    change(&mut parameters);
    let key = KeyPair::generate().unwrap();
    Leaf { certificate: parameters.signed_by(&key, authority).unwrap(), key }
}

/// A server with this certificate, that requires one of its clients if an authority for them is given.
fn acceptor(leaf: &Leaf, clients: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = match clients {
        None => builder.unwrap().with_no_client_auth(),
        Some(authority) => {
            let mut store = RootCertStore::empty();
            store.add(authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider).build();
            builder.unwrap().with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf.key.serialize_der()));
    let config = builder.with_single_cert(vec![leaf.certificate.der().clone()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Files that are written for one test.
struct Files(TempDir);

impl Files {
    fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Certificate and key of a client.
    fn client(&self, leaf: &Leaf) -> Option<(PathBuf, PathBuf)> {
        let certificate = self.write("client.pem", &leaf.certificate.pem(), 0o644);
        Some((certificate, self.write("client.key", &leaf.key.serialize_pem(), 0o600)))
    }
}

fn files() -> Files {
    Files(tempfile::tempdir().unwrap())
}

/// The server's certificate, whether its authority is in `ca_file`, and the error.
#[tokio::test]
async fn trust_follows_the_authorities() {
    let (ours, another) = (authority("ours"), authority("another"));
    let both = format!("{}{}", another.pem(), ours.pem());
    let is_past = |parameters: &mut CertificateParams| {
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(2021, 1, 1);
    };
    let unknown = Err("its certificate is signed by no authority that is trusted; set ca_file");
    for (name, change, ca_file, expected) in [
        ("127.0.0.1", (|_| {}) as fn(&mut CertificateParams), Some(ours.pem()), Ok(())),
        ("127.0.0.1", |_| {}, Some(both), Ok(())),
        ("127.0.0.1", |_| {}, Some(another.pem()), unknown),
        // The system's.
        ("127.0.0.1", |_| {}, None, unknown),
        ("guards.example", |_| {}, Some(ours.pem()), Err("its certificate is for another name")),
        ("127.0.0.1", is_past, Some(ours.pem()), Err("its certificate has expired")),
    ] {
        let server =
            Server::with(Some(acceptor(&leaf(&ours, name, change), None)), |_| Action::Send(ok(ALLOW))).await;
        let files = files();
        let ca_file = ca_file.map(|pem| files.write("ca.pem", &pem, 0o644));
        let hook = Hook::new(HookConfig { ca_file, ..config(&server.url) }).unwrap();
        let expected =
            expected.map(|()| GuardReply::Allow).map_err(|why| GuardFailure::Error(why.to_owned()));
        assert_eq!(hook.ask(&request(), Some(1_000)).await.0, expected, "{name}");
        assert_eq!(hook.ask(&request(), Some(1_000)).await.0, expected, "{name}");
        // Nothing is sent to a server that is not trusted; one that is keeps its connection.
        let (connections, requests) = if expected.is_ok() { (1, 2) } else { (2, 0) };
        assert_eq!((server.connections(), server.requests().len()), (connections, requests), "{name}");
    }
}

/// Whose certificate is presented, and whether there is an answer.
#[tokio::test]
async fn client_certificate_is_presented() {
    let (ours, another) = (authority("ours"), authority("another"));
    let server = leaf(&ours, "127.0.0.1", |_| {});
    let server = Server::with(Some(acceptor(&server, Some(&ours))), |_| Action::Send(ok(ALLOW))).await;
    for (client, is_answered) in [
        (Some(leaf(&ours, "agent", |_| {})), true),
        (Some(leaf(&another, "agent", |_| {})), false),
        (None, false),
    ] {
        let files = files();
        let ca_file = Some(files.write("ca.pem", &ours.pem(), 0o644));
        let client_certificate = client.as_ref().and_then(|client| files.client(client));
        let hook = Hook::new(HookConfig { ca_file, client_certificate, ..config(&server.url) }).unwrap();
        let before = server.requests().len();
        match hook.ask(&request(), Some(1_000)).await.0 {
            Ok(reply) => assert!(is_answered && reply == GuardReply::Allow),
            Err(GuardFailure::Error(_)) => assert!(!is_answered),
            Err(failure) => panic!("{failure:?}"),
        }
        assert_eq!(server.requests().len() - before, usize::from(is_answered));
    }
}

#[tokio::test]
async fn plain_http_on_an_https_port_is_named() {
    let server = Server::of(Action::Send(ok(ALLOW))).await;
    // The first bytes that a server of plain HTTP sends to a client of TLS.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = [0; 1024];
        let _ = stream.read(&mut hello).await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // The client ends it.
        let _ = stream.read(&mut hello).await;
    });
    let (reply, told) = Hook::new(config(&url)).unwrap().ask(&request(), Some(1_000)).await;
    assert_eq!(reply, Err(GuardFailure::Error("it does not speak TLS".to_owned())));
    assert_eq!(told.status, None);
    task.await.unwrap();
    drop(server);
}

/// What is wrong with the files, and a part of the error.
#[test]
fn broken_files_are_named() {
    let authority = authority("ours");
    let (client, another) = (leaf(&authority, "agent", |_| {}), leaf(&authority, "agent", |_| {}));
    let (certificate, key) = (client.certificate.pem(), client.key.serialize_pem());
    let swapped = another.key.serialize_pem();
    for (ca, pem, key, mode, expected) in [
        ("", &*certificate, &*key, 0o600, "ca_file"),
        ("no certificate", &certificate, &key, 0o600, "no certificate in PEM"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", &certificate, &key, 0o600, "invalid PEM"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &certificate,
            &key,
            0o600,
            "ca_file",
        ),
        (&certificate, "", &key, 0o600, "no certificate in PEM"),
        (&certificate, &certificate, &certificate, 0o600, "no private key in PEM"),
        (&certificate, &certificate, &key, 0o640, "others may read it"),
        (&certificate, &certificate, &swapped, 0o600, "client certificate and key"),
    ] {
        let files = files();
        let ca_file = Some(files.write("ca.pem", ca, 0o644));
        let client_certificate =
            Some((files.write("client.pem", pem, 0o644), files.write("client.key", key, mode)));
        let config = HookConfig { ca_file, client_certificate, ..config("https://guards.example/") };
        let text = Hook::new(config).unwrap_err().to_string();
        assert!(text.contains(expected), "{text} instead of {expected}");
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
    let missing =
        HookConfig { ca_file: Some("/nonexistent/ca.pem".into()), ..config("https://guards.example/") };
    let error = Hook::new(missing).unwrap_err();
    assert!(matches!(error, HookError::File { what: "ca_file", .. }), "{error}");
}
