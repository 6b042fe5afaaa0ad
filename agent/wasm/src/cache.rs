//! Compiled components in a directory, so that a restart of the agent does not compile.
//!
//! A compiled component is as powerful as the code of the agent: the engine believes it. The directory must therefore belong
//! to this user alone, and so must each file. A hash in each file finds torn writes and broken disks, not attackers.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process,
};

use nix::{libc, unistd::geteuid};
use sha2::{Digest as _, Sha256};
use wasmtime::{Engine, component::Component};

use crate::error::RuntimeError;

/// The first bytes of each file; the hash follows, then the compiled component.
const MAGIC: &[u8; 16] = b"mcpwarden-wasm 1";
const HASH_BYTES: usize = 32;
/// The largest file.
const FILE_BYTES: u64 = 512 << 20;
/// Files that the directory holds; beyond, the oldest is removed.
const FILES: usize = 64;
const SUFFIX: &str = "cwasm";

/// A directory of compiled components.
pub(crate) struct Cache {
    directory: PathBuf,
    /// Of the engine's version and settings: one that differs cannot use the files.
    engine: u64,
}

impl Cache {
    /// Makes the directory if it is missing, and checks that nobody else may enter it.
    ///
    /// # Errors
    /// It cannot be made, or others may enter it.
    pub(crate) fn open(directory: PathBuf, engine: &Engine) -> Result<Self, RuntimeError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            |error| RuntimeError::Cache { path, error }
        };
        // Without the slash at its end, which would lead through a symbolic link.
        let directory: PathBuf = directory.components().collect();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        let metadata =
            fs::symlink_metadata(&directory).map_err(|error| at(&directory)(made.err().unwrap_or(error)))?;
        let problem = if metadata.is_symlink() {
            Some("it is a symbolic link; give the directory itself".to_owned())
        } else if !metadata.is_dir() {
            Some("it is not a directory".to_owned())
        } else {
            exposure(&metadata)
        };
        if let Some(problem) = problem {
            return Err(RuntimeError::UnsafeCache { path: directory, problem });
        }
        // The hasher without a random key: the same settings give the same number in the next process.
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { directory, engine: hasher.finish() })
    }

    /// The compiled component of a file with this hash, if the cache has it and it is intact.
    pub(crate) fn get(&self, engine: &Engine, sha256: &str) -> Option<Component> {
        let path = self.path(sha256);
        let artifact = match read(&path) {
            Ok(artifact) => artifact,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("ignoring the compiled guard {}: {error}", path.display());
                return None;
            }
        };
        let content = artifact.get(MAGIC.len() + HASH_BYTES..)?;
        // SAFETY: the bytes were written by `put`, from `Component::serialize`: only this user can write to the directory
        // and to the file, and the hash shows that the write was complete. The engine checks its version and settings.
        match unsafe { Component::deserialize(engine, content) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!("ignoring the compiled guard {}: {error:#}", path.display());
                None
            }
        }
    }

    /// Stores a compiled component. Failures are logged: the cache only saves time.
    pub(crate) fn put(&self, component: &Component, sha256: &str) {
        let path = self.path(sha256);
        let stored = component
            .serialize()
            .map_err(|error| io::Error::other(format!("{error:#}")))
            .and_then(|artifact| write(&path, &artifact))
            .and_then(|()| self.remove_oldest());
        if let Err(error) = stored {
            tracing::warn!("cannot store the compiled guard {}: {error}", path.display());
        }
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.directory.join(format!("{sha256}-{:016x}.{SUFFIX}", self.engine))
    }

    /// Removes the oldest files beyond [`FILES`].
    fn remove_oldest(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new(SUFFIX)) {
                files.push((fs::symlink_metadata(&path)?.modified()?, path));
            }
        }
        files.sort();
        for (_, path) in files.iter().take(files.len().saturating_sub(FILES)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Why a file or directory is not this user's alone.
fn exposure(metadata: &Metadata) -> Option<String> {
    let (own, uid) = (geteuid().as_raw(), metadata.uid());
    if uid != own {
        return Some(format!("it belongs to user {uid}, not to {own}; remove it, or chown it"));
    }
    (metadata.mode() & 0o077 != 0).then(|| {
        format!("others may use it (mode {:04o}); see who did, then chmod go= it", metadata.mode() & 0o7777)
    })
}

/// Reads a file whole, and compares its hash.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Not blocking, so that a named pipe cannot keep the agent from starting.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if let Some(problem) = exposure(&metadata) {
        return Err(io::Error::other(problem));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(FILE_BYTES)).unwrap_or(0));
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    let intact = bytes
        .split_first_chunk::<{ MAGIC.len() }>()
        .filter(|(magic, _)| *magic == MAGIC)
        .and_then(|(_, rest)| rest.split_first_chunk::<HASH_BYTES>())
        .is_some_and(|(hash, artifact)| hash[..] == Sha256::digest(artifact)[..]);
    if intact { Ok(bytes) } else { Err(io::Error::other("it is damaged")) }
}

/// Writes a file beside, and renames it.
fn write(path: &Path, artifact: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", process::id()));
    let written = create(&fresh, artifact).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&fresh);
    }
    written
}

fn create(path: &Path, artifact: &[u8]) -> io::Result<()> {
    // One of an earlier process with the same number.
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(MAGIC)?;
    file.write_all(&Sha256::digest(artifact))?;
    file.write_all(artifact)?;
    file.sync_all()
}
