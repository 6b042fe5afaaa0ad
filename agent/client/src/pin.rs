//! A server's certificate that is known beforehand.
//!
//! It is looked at first: of a server with another one nothing else counts, and it is sent nothing. One that matches is
//! verified as any other, but that nobody needs to have signed it: who knows a certificate needs no authority to vouch
//! for it. When it ends, and whose it is where an authority says so, still count.

use std::sync::{Arc, OnceLock};

use mcpwarden_policy::config::Fingerprint;
use mcpwarden_policy::hash::bytes_hash;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Begins the fingerprint of a key.
const OF_KEY: &str = "spki-sha256:";
/// Begins the fingerprint of a certificate.
const OF_CERTIFICATE: &str = "sha256:";

/// Another certificate than the one that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The fingerprint that is known.
    pub expected: String,
    /// The one that the server has, of the same kind.
    pub found: String,
}

/// The certificate that a server must show. Clones are the same.
#[derive(Clone, Debug)]
pub struct Pin {
    expected: Fingerprint,
    found: Arc<OnceLock<String>>,
}

impl Pin {
    /// By its fingerprint.
    pub fn new(expected: Fingerprint) -> Self {
        Self { expected, found: Arc::default() }
    }

    /// Whether the server has shown another one.
    pub fn mismatch(&self) -> Option<Mismatch> {
        let found = self.found.get()?.clone();
        Some(Mismatch { expected: self.expected.as_str().to_owned(), found })
    }

    /// TLS that goes by it.
    pub(super) fn tls(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let platform = Arc::new(Verifier::new(Arc::clone(&provider))?);
        let verifier = PinVerifier { pin: self.clone(), platform };
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth())
    }

    /// Whether a certificate is the one.
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let found = if self.expected.as_str().starts_with(OF_KEY) {
            let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
            format!("{OF_KEY}{}", bytes_hash(&key))
        } else {
            format!("{OF_CERTIFICATE}{}", bytes_hash(certificate))
        };
        if found.eq_ignore_ascii_case(self.expected.as_str()) {
            return Ok(());
        }
        let _ = self.found.set(found);
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

#[derive(Debug)]
struct PinVerifier<V> {
    pin: Pin,
    platform: Arc<V>,
}

/// Whether all that is wrong with a certificate is that no authority whom this system trusts has signed it. When it
/// ends was looked at by then (webpki, `check_issuer_independent_properties`).
fn is_private(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // Signed itself as an authority: rustls has no kind of its own for that.
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            format!("{other:?}").contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}

impl<V: ServerCertVerifier> ServerCertVerifier for PinVerifier<V> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.pin.check(certificate)?;
        match self.platform.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(error) if is_private(&error) => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.platform.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.platform.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.platform.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// Signed itself, of the same key: as a server's, and as an authority's.
    const SERVER: &[u8] = include_bytes!("../../../tests/src/certificates/server.pem");
    const AUTHORITY: &[u8] = include_bytes!("../../../tests/src/certificates/authority.pem");

    /// Always says this of a certificate.
    #[derive(Debug)]
    struct Says(Result<(), Error>);

    impl ServerCertVerifier for Says {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            self.0.clone().map(|()| ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::DecryptError)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    /// The fingerprint of a certificate, and of its key.
    fn fingerprints(certificate: &CertificateDer<'_>) -> [String; 2] {
        let key = ParsedCertificate::try_from(certificate).unwrap().subject_public_key_info();
        [format!("sha256:{}", bytes_hash(certificate)), format!("spki-sha256:{}", bytes_hash(&key))]
    }

    #[test]
    fn pinned_certificate_is_accepted() {
        let (server, authority) = (
            CertificateDer::from_pem_slice(SERVER).unwrap(),
            CertificateDer::from_pem_slice(AUTHORITY).unwrap(),
        );
        let ([whole, key], [other, same_key]) = (fingerprints(&server), fingerprints(&authority));
        assert_eq!(key, same_key);
        let bad = |error: CertificateError| Err(Error::from(error));
        let unknown = || bad(CertificateError::UnknownIssuer);
        for (name, pin, reported, accepted, mismatch) in [
            ("signed by somebody", &whole, Ok(()), true, false),
            ("its key is known", &key, Ok(()), true, false),
            ("signed itself", &whole, unknown(), true, false),
            ("signed itself, its key is known", &key, unknown(), true, false),
            ("capitals", &whole.to_uppercase().replace("SHA256", "sha256"), unknown(), true, false),
            ("its time is over", &whole, bad(CertificateError::Expired), false, false),
            (
                "somebody else's, says an authority",
                &whole,
                bad(CertificateError::NotValidForName),
                false,
                false,
            ),
            ("taken back", &whole, bad(CertificateError::Revoked), false, false),
            ("another one, signed by somebody", &other, Ok(()), false, true),
            ("another one, signed itself", &other, unknown(), false, true),
        ] {
            let pin = Pin::new(pin.parse().unwrap());
            let verifier = PinVerifier { pin: pin.clone(), platform: Arc::new(Says(reported)) };
            let name_of = ServerName::try_from("localhost").unwrap();
            let outcome = verifier.verify_server_cert(&server, &[], &name_of, &[], UnixTime::now());
            assert_eq!(outcome.is_ok(), accepted, "{name}: {outcome:?}");
            let expected = mismatch.then(|| Mismatch { expected: other.clone(), found: whole.clone() });
            assert_eq!(pin.mismatch(), expected, "{name}");
        }
    }

    #[test]
    fn system_verifier_detects_private_certificates() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let platform = Verifier::new(provider).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        for pem in [SERVER, AUTHORITY] {
            let certificate = CertificateDer::from_pem_slice(pem).unwrap();
            let judge = |seconds: u64| {
                let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
                platform.verify_server_cert(&certificate, &[], &name, &[], now).unwrap_err()
            };
            assert!(is_private(&judge(1_800_000_000)), "{:?}", judge(1_800_000_000));
            // Both are of 2020.
            assert!(!is_private(&judge(1_000_000_000)), "{:?}", judge(1_000_000_000));
        }
    }
}
