//! One agent a host, and the secret of this host.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg};

/// What can go wrong with the two directories.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another agent runs.
    #[error("another mcpwarden already runs (pid {pid}, lock {path}); stop it first, or give --runtime-dir")]
    Running {
        /// Its process id, as it wrote it.
        pid: String,
        /// The lock.
        path: PathBuf,
    },
    /// A file or directory cannot be used.
    #[error("cannot use {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> InstanceError + '_ {
    |source| InstanceError::Io { path: path.to_owned(), source }
}

/// Held while the agent runs; the kernel frees it however the agent ends.
pub struct Lock {
    _file: Flock<File>,
}

/// Takes the lock in `directory`, which is made where it is missing.
pub fn lock(directory: &Path) -> Result<Lock, InstanceError> {
    make(directory)?;
    let path = directory.join("agent.lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o640)
        .open(&path)
        .map_err(at(&path))?;
    let mut pid = String::new();
    file.read_to_string(&mut pid).map_err(at(&path))?;
    let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| InstanceError::Running { pid: pid.trim().to_owned(), path: path.clone() })?;
    file.set_len(0).map_err(at(&path))?;
    io::Seek::rewind(&mut *file).map_err(at(&path))?;
    writeln!(file, "{}", std::process::id()).map_err(at(&path))?;
    Ok(Lock { _file: file })
}

/// The secret that hashes of redacted values are keyed with: made once, kept in `directory`, read by root only.
pub fn redaction_key(directory: &Path) -> Result<[u8; 32], InstanceError> {
    make(directory)?;
    let path = directory.join("redaction.key");
    if let Ok(bytes) = fs::read(&path)
        && let Ok(key) = bytes.try_into()
    {
        return Ok(key);
    }
    let mut key = [0; 32];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut key)).map_err(at(random))?;
    // Whole or not at all: a key cut short would be another key.
    let fresh = directory.join("redaction.key.new");
    // A left-over, or something that somebody put there to be written through.
    let _ = fs::remove_file(&fresh);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).map_err(at(&fresh))?;
    file.write_all(&key).and_then(|()| file.sync_all()).map_err(at(&fresh))?;
    fs::rename(&fresh, &path).map_err(at(&path))?;
    Ok(key)
}

fn make(directory: &Path) -> Result<(), InstanceError> {
    DirBuilder::new().recursive(true).mode(0o750).create(directory).map_err(at(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mcpwarden-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn one_at_a_time() {
        let directory = scratch("lock");
        let held = lock(&directory).unwrap();
        match lock(&directory) {
            Err(InstanceError::Running { pid, .. }) => assert_eq!(pid, std::process::id().to_string()),
            other => panic!("{:?}", other.err()),
        }
        drop(held);
        lock(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_secret_stays() {
        let directory = scratch("key");
        let first = redaction_key(&directory).unwrap();
        assert_ne!(first, [0; 32]);
        assert_eq!(redaction_key(&directory).unwrap(), first);
        fs::write(directory.join("redaction.key"), b"damaged").unwrap();
        assert_ne!(redaction_key(&directory).unwrap(), first);
        fs::remove_dir_all(&directory).unwrap();
    }
}
