//! TLS: whom the agent trusts, and the certificate that it presents.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use rustls_platform_verifier::Verifier;

use crate::{
    HookConfig, HookError,
    secret::{read_private, read_public},
};

/// Longest file of certificates or keys. Bytes.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// TLS 1.2 and 1.3 with ring, for an HTTPS service or, without any authority, for one in plain text.
pub(crate) fn client_config(config: &HookConfig, https: bool) -> Result<ClientConfig, HookError> {
    let provider = Arc::new(ring::default_provider());
    let tls = |what| move |source| HookError::Tls { what, source };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(tls("cannot set up TLS"))?;
    let builder = match &config.ca_file {
        Some(path) => builder.with_root_certificates(authorities(path)?),
        // The system's certificates are read, which nothing needs for plain text.
        None if !https => builder.with_root_certificates(RootCertStore::empty()),
        None => {
            let verifier = Verifier::new(provider).map_err(tls(
                "cannot read the certificates of this system (ca-certificates); install them, or set ca_file",
            ))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    present(builder, config)
}

fn present(
    builder: rustls::ConfigBuilder<ClientConfig, WantsClientCert>,
    config: &HookConfig,
) -> Result<ClientConfig, HookError> {
    let Some((chain, key)) = &config.client_certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let certificates = certificates("client certificate", chain)?;
    let what = "key of the client certificate";
    let pem = read_private(key, MAX_PEM_BYTES).map_err(file(what, key))?;
    // The parser's error might repeat a part of the key.
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| HookError::Pem {
        what,
        path: key.clone(),
        why: "no private key in PEM",
    })?;
    builder
        .with_client_auth_cert(certificates, private)
        .map_err(|source| HookError::Tls { what: "client certificate and key", source })
}

fn authorities(path: &Path) -> Result<RootCertStore, HookError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates("ca_file", path)? {
        store.add(certificate).map_err(|source| HookError::Tls { what: "certificate in ca_file", source })?;
    }
    Ok(store)
}

/// At least one.
fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, HookError> {
    let pem = |why| HookError::Pem { what, path: path.to_owned(), why };
    let bytes = read_public(path, MAX_PEM_BYTES).map_err(file(what, path))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|_| pem("invalid PEM"))?;
    if certificates.is_empty() { Err(pem("no certificate in PEM")) } else { Ok(certificates) }
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> HookError {
    let path = path.to_owned();
    move |source| HookError::File { what, path, source }
}
