//! Options of the command line that are for servers at addresses: headers, and certificates of authorities.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_text::clean;
use reqwest::Certificate;
use reqwest::header::{HeaderName, HeaderValue};

use crate::secret;

/// Longest file with the value of a header.
const MAX_VALUE_BYTES: u64 = 64 << 10;
/// Longest file with certificates: some four times what systems have.
const MAX_CERTIFICATES_BYTES: u64 = 1 << 20;

/// Reads `NAME:VALUE`, or `NAME:@FILE` for what must not stand in a command line. No error shows the value.
///
/// # Errors
/// It is no header, or the file cannot be read.
pub fn header(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("--header requires NAME:VALUE or NAME:@FILE")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .with_context(|| format!("--header: `{}` is no name of a header", clean(name)))?;
    let value = match value.trim().strip_prefix('@') {
        Some(path) => {
            let text = read(Path::new(path), MAX_VALUE_BYTES);
            text.with_context(|| format!("--header {name}: {}", clean(path)))?.trim().to_owned()
        }
        None => value.trim().to_owned(),
    };
    Ok((name.clone(), secret(&value).with_context(|| format!("--header {name}: its value cannot be sent"))?))
}

/// Reads the certificates of authorities (PEM).
///
/// # Errors
/// The file cannot be read, or has none.
pub fn authorities(path: &Path) -> Result<Vec<Certificate>> {
    let place = || format!("--ca-file {}", path.display());
    let text = read(path, MAX_CERTIFICATES_BYTES).with_context(place)?;
    let found = Certificate::from_pem_bundle(text.as_bytes()).with_context(place)?;
    ensure!(!found.is_empty(), "{}: there is no certificate in it (`-----BEGIN CERTIFICATE-----`)", place());
    Ok(found)
}

fn read(path: &Path, max_bytes: u64) -> Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(max_bytes + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= max_bytes, "longer than {max_bytes} bytes");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_option_is_read_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "Bearer s3cret\n").unwrap();
        let from_file = format!("Authorization:@{}", file.display());
        let cases = [
            ("X-Key: s3cret", Ok(("x-key", "s3cret"))),
            (from_file.as_str(), Ok(("authorization", "Bearer s3cret"))),
            ("s3cret", Err("--header requires NAME:VALUE or NAME:@FILE")),
            ("a b:s3cret", Err("--header: `a b` is no name of a header: invalid HTTP header name")),
            ("a:s3\ncret", Err("--header a: its value cannot be sent: invalid value of a header")),
            ("a:@/nowhere", Err("--header a: /nowhere: No such file or directory (os error 2)")),
        ];
        for (text, expected) in cases {
            let read = header(text).map_err(|error| format!("{error:#}"));
            assert!(!format!("{read:?}").contains("s3"), "{text}");
            let read = read.as_ref().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
            assert_eq!(read.map_err(String::as_str), expected, "{text}");
        }
    }
}
