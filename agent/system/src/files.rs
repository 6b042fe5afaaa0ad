//! Files beside each other, of which some may not be there.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A file whose name is that of another and something behind it.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes a file; what is not there is as good as removed.
///
/// # Errors
/// It is there and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    if_there(fs::remove_file(path))
}

/// Renames a file; what is not there need not be renamed.
///
/// # Errors
/// It is there and cannot be renamed.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if_there(fs::rename(from, to))
}

fn if_there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
