//! Servers at addresses.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use mcpwarden_tests::http_server::{CERTIFICATE, HttpServer, Style};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};

use super::{Bench, servers};

/// Servers at addresses, as they are declared: with credentials and certificates, and those that are of no use.
#[test]
fn server_at_an_address_is_reached_as_declared() -> Result<()> {
    let place = tempfile::tempdir()?;
    let secret = |name: &str, text: &str| -> Result<String> {
        let path = place.path().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(format!(", headers_from: {}", path.display()))
    };
    let (right, wrong) = (
        secret("right", "Authorization: Bearer s3cret")?,
        secret("wrong", "Authorization: Bearer wr0ng-one")?,
    );
    let der = CertificateDer::from_pem_slice(CERTIFICATE)?;
    let digest: String = Sha256::digest(&der).iter().map(|byte| format!("{byte:02x}")).collect();
    let fingerprint = |digest: &str| format!(", tls_fingerprint: \"sha256:{digest}\"");
    for (name, style, more, code, part) in [
        ("plain", Style::Json, String::new(), 0, "decision     allowed"),
        ("events", Style::Events, String::new(), 0, "decision     allowed"),
        ("old", Style::Old, String::new(), 0, "decision     allowed"),
        ("credentials", Style::Locked, right, 0, "decision     allowed"),
        ("wrong credentials", Style::Locked, wrong, 2, "the credentials of its headers_from are not enough"),
        ("no credentials", Style::Locked, String::new(), 2, "name a file with them in its headers_from"),
        ("certificate", Style::Tls, fingerprint(&digest), 0, "decision     allowed"),
        (
            "another certificate",
            Style::Tls,
            fingerprint(&"0".repeat(64)),
            2,
            "its certificate is another than the declared one",
        ),
        ("unknown certificate", Style::Tls, String::new(), 2, "nobody whom this system trusts"),
        ("a page", Style::Page, String::new(), 2, "no MCP server is at this address"),
        ("silent", Style::Silent, String::new(), 4, "it did not answer within 3s"),
        ("floods", Style::Flood, String::new(), 2, "it sent more than 32 MiB"),
        ("gone", Style::Gone, String::new(), 2, "remote: "),
    ] {
        let server = HttpServer::start(style)?;
        let kind = if style == Style::Old { "sse" } else { "http" };
        let entry = format!("{{ id: remote, type: {kind}, url: \"{}\"{more} }}", server.url());
        let bench = Bench::new(&servers(&[entry]))?;
        let timeout = if code == 4 { "3s" } else { "60s" };
        let said = bench.call("mcp:remote:a", &["--dry-run", "--timeout", timeout])?;
        let all = format!("{}{}", said.stdout, said.stderr);
        ensure!(said.code == Some(code) && all.contains(part), "{name}: {said:?}");
        ensure!(!all.contains("s3cret") && !all.contains("wr0ng"), "{name}: {said:?}");
    }
    Ok(())
}
