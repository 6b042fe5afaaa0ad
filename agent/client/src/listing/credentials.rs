//! What the agent shows a server so that it is let in. No error and no event has any of it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mcpwarden_policy::config::SecretFile;
use mcpwarden_system::secret_file;
use reqwest::header::{HeaderMap, HeaderName};

/// Shorter words of a header's value are no secrets, and could stand anywhere.
const MIN_SECRET_BYTES: usize = 8;

/// Reads headers. `directory`: where credentials are.
///
/// # Errors
/// The file cannot be read, is not root's alone, or has a line that is no header.
pub fn read(from: &SecretFile, directory: Option<&Path>) -> Result<HeaderMap> {
    let text =
        secret_file::read(from, directory).with_context(|| format!("headers_from: {}", from.as_str()))?;
    headers(&text).with_context(|| format!("headers_from: {}", from.as_str()))
}

/// The headers in a text: a line each; empty lines and those that begin with `#` are none.
fn headers(text: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let header = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, crate::secret(value.trim()).ok()?))
        });
        let (name, value) = header.with_context(|| format!("line {} is not `Name: value`", index + 1))?;
        headers.append(name, value);
    }
    ensure!(!headers.is_empty(), "there is no header in it");
    Ok(headers)
}

/// A text of a server's, without what it was shown: it may say that again.
pub fn conceal(text: String, headers: &HeaderMap) -> String {
    let values = headers.values().filter_map(|value| value.to_str().ok());
    let words = values.flat_map(str::split_whitespace).filter(|word| word.len() >= MIN_SECRET_BYTES);
    words.fold(text, |text, word| if text.contains(word) { text.replace(word, "***") } else { text })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn headers_are_parsed_line_by_line() {
        for (text, expected) in [
            ("Authorization: Bearer s3cret\n", Ok(vec![("authorization", "Bearer s3cret")])),
            ("# why\n\n A:1\r\nA: s3:x\n", Ok(vec![("a", "1"), ("a", "s3:x")])),
            ("A: 1\ns3cret\n", Err("line 2 is not `Name: value`")),
            ("a b: s3cret", Err("line 1 is not `Name: value`")),
            ("A: s3\u{1}", Err("line 1 is not `Name: value`")),
            ("# only words\n", Err("there is no header in it")),
            ("", Err("there is no header in it")),
        ] {
            let read = headers(text);
            assert!(!format!("{read:?}").contains("s3"), "{text}");
            let read = read.as_ref().map_err(ToString::to_string);
            let read = read.map(|headers| {
                headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
            });
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn secret_file_must_be_private_to_root() {
        let directory = tempfile::tempdir().unwrap();
        for (name, mode, expected) in [
            ("good", 0o600, None),
            ("read-only", 0o400, None),
            ("public", 0o644, Some("others may read it (mode 0644)")),
            ("group", 0o640, Some("others may read it (mode 0640)")),
            ("written", 0o602, Some("others may write to it (mode 0602)")),
        ] {
            let path = directory.path().join(name);
            fs::write(&path, "A: s3cret").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let by_path: SecretFile = path.display().to_string().parse().unwrap();
            let by_name: SecretFile = format!("credential:{name}").parse().unwrap();
            for from in [by_path, by_name] {
                let error = read(&from, Some(directory.path())).err().map(|error| format!("{error:#}"));
                match (&error, expected) {
                    (None, None) => {}
                    (Some(error), Some(part)) => assert!(error.contains(part), "{name}: {error}"),
                    _ => panic!("{name}: {error:?}"),
                }
            }
        }
        symlink("good", directory.path().join("link")).unwrap();
        let long = directory.path().join("long");
        fs::write(&long, vec![b'#'; secret_file::MAX_BYTES as usize + 1]).unwrap();
        fs::set_permissions(&long, Permissions::from_mode(0o600)).unwrap();
        for (from, directory, part) in [
            ("credential:link", Some(directory.path()), "symbolic link"),
            ("credential:long", Some(directory.path()), "longer than"),
            ("credential:none", Some(directory.path()), "No such file"),
            ("credential:good", None, "$CREDENTIALS_DIRECTORY is not set"),
            ("/", None, "no regular file"),
        ] {
            let error = format!("{:#}", read(&from.parse().unwrap(), directory).unwrap_err());
            assert!(error.starts_with(&format!("headers_from: {from}: ")), "{error}");
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn header_secrets_are_concealed() {
        let given = headers("Authorization: Bearer s3cret-token\nX-Env: prod").unwrap();
        for (text, expected) in [
            ("no", "no"),
            ("bad token s3cret-token of prod", "bad token *** of prod"),
            ("Bearer s3cret-token", "Bearer ***"),
        ] {
            assert_eq!(conceal(text.to_owned(), &given), expected);
        }
    }
}
