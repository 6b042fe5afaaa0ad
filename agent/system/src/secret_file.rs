//! Secrets that an administrator puts into a file of root's alone, or hands to the unit. No error has any of one.

use std::{
    fs::File,
    io::Read as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail, ensure};
use mcpwarden_policy::config::SecretFile;
use nix::libc;

use crate::owner::ours_alone;

/// Longest file with a secret.
pub const MAX_BYTES: u64 = 64 << 10;

/// Where systemd puts the credentials of the unit (systemd.exec(5)).
const DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// What stands where a secret is said to be.
///
/// # Errors
/// The file cannot be read, or is not root's alone.
pub fn read(from: &SecretFile, directory: Option<&Path>) -> Result<String> {
    path(from, directory).and_then(|path| text(&path))
}

/// Where this process finds its credentials.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// The file that it stands in.
///
/// # Errors
/// It is a credential, and this process has none.
pub fn path(from: &SecretFile, directory: Option<&Path>) -> Result<PathBuf> {
    match (from.as_str().strip_prefix("credential:"), directory) {
        (None, _) => Ok(PathBuf::from(from.as_str())),
        (Some(name), Some(directory)) => Ok(directory.join(name)),
        (Some(_), None) => bail!("no credentials are available: ${DIRECTORY} is not set"),
    }
}

/// A file that nobody but root can have written, and nobody else can read.
fn text(path: &Path) -> Result<String> {
    // Not blocking, so that a named pipe cannot hold anything up.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is no regular file");
    ours_alone(path, &metadata).map_err(anyhow::Error::msg)?;
    let mode = metadata.mode() & 0o7777;
    ensure!(mode & 0o077 == 0, "others may read it (mode {mode:04o}); chmod go= it");
    let mut text = String::new();
    // The error of what is no UTF-8 has none of it.
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= MAX_BYTES, "it is longer than {MAX_BYTES} bytes");
    Ok(text)
}
