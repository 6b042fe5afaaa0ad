//! Secrets, and where they stand. A secret is read for each request, so that it can be replaced while the agent runs.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Longest secret. Bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Permissions of anyone but the owner.
const OTHERS: u32 = 0o077;

/// A text that no output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Of a text, without the line break at its end.
    ///
    /// # Errors
    /// The text is empty.
    pub fn new(text: &str) -> Result<Self, String> {
        let secret = text.trim_end_matches(['\r', '\n']);
        if secret.is_empty() { Err("it is empty".to_owned()) } else { Ok(Self(secret.to_owned())) }
    }

    /// The text, for a header or a key alone.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Reads a secret; an error must not contain any of it.
pub type Reader = dyn Fn() -> Result<Secret, String> + Send + Sync;

/// Where a secret stands.
#[derive(Clone)]
pub enum SecretSource {
    /// In a regular file that its owner alone may read: the whole content, without the line break at its end.
    File(PathBuf),
    /// Where only the caller knows how to read it. It may block; it is called on a thread for that.
    Reader(Arc<Reader>),
}

impl SecretSource {
    /// Reads the secret as it is now. Blocks.
    ///
    /// # Errors
    /// It cannot be read, it is empty, or others may read the file. No text contains any of it.
    pub fn read(&self) -> Result<Secret, String> {
        match self {
            Self::Reader(read) => read(),
            Self::File(path) => {
                let text = read_private(path, MAX_SECRET_BYTES)
                    .and_then(|bytes| String::from_utf8(bytes).map_err(|_| invalid("it is no UTF-8")))
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                Secret::new(&text).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
            Self::Reader(_) => formatter.write_str("Reader(…)"),
        }
    }
}

/// The content of a regular file of at most so many bytes that nobody but its owner may read.
pub(crate) fn read_private(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read(path, max_bytes, true)
}

/// The content of a regular file of at most so many bytes.
pub(crate) fn read_public(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read(path, max_bytes, false)
}

fn read(path: &Path, max_bytes: u64, private: bool) -> io::Result<Vec<u8>> {
    // Not blocking, so that a named pipe cannot hold anything up.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(invalid("it is no regular file"));
    }
    if private && metadata.mode() & OTHERS != 0 {
        return Err(invalid("others may read it; chmod go= it"));
    }
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(invalid("it is too long"));
    }
    Ok(bytes)
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    /// Content, mode, and the secret or a part of the error.
    #[test]
    fn secret_files_are_private_and_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let long = "x".repeat(64 << 10);
        for (content, mode, expected) in [
            (b"s3cret\n".to_vec(), 0o600, Ok("s3cret")),
            (b"s3cret\r\n".to_vec(), 0o400, Ok("s3cret")),
            (b" s3 cret ".to_vec(), 0o600, Ok(" s3 cret ")),
            (long.clone().into_bytes(), 0o600, Ok(&*long)),
            (format!("{long}x").into_bytes(), 0o600, Err("too long")),
            (b"\n".to_vec(), 0o600, Err("empty")),
            (b"s3cret".to_vec(), 0o640, Err("others may read it")),
            (b"s3cret".to_vec(), 0o604, Err("others may read it")),
            (b"s3cret\xff".to_vec(), 0o600, Err("no UTF-8")),
        ] {
            let _ = fs::remove_file(&path);
            fs::write(&path, &content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match (SecretSource::File(path.clone()).read(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.expose(), expected),
                (Err(found), Err(expected)) => {
                    assert!(found.contains(expected) && found.contains("secret:"), "{found}");
                    assert!(!found.contains("s3cret"), "{found}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
        // A pipe that nobody writes to must not hold the agent up.
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = SecretSource::File(pipe).read().unwrap_err();
        assert!(error.contains("no regular file"), "{error}");
        let missing = SecretSource::File(directory.path().join("missing")).read().unwrap_err();
        assert!(missing.contains("No such file"), "{missing}");
        let no_file = SecretSource::File(directory.path().to_owned()).read().unwrap_err();
        assert!(no_file.contains("no regular file"), "{no_file}");
    }

    #[test]
    fn debug_output_hides_secrets() {
        let secret = Secret::new("s3cret").unwrap();
        let reader = SecretSource::Reader(Arc::new(|| Secret::new("s3cret")));
        assert_eq!(format!("{secret:?} {reader:?}"), "Secret(…) Reader(…)");
        assert_eq!(reader.read().unwrap(), secret);
    }
}
