//! One agent a host, and the secret of this host.
//!
//! Who can write to the directories of these can keep the agent from starting, or choose the key that redaction rests
//! on. So they must belong to whom the agent runs as, and nobody else may write to them.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg},
    libc,
};

const KEY_BYTES: usize = 32;

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
    /// A file or directory is not as it must be.
    #[error("will not use {path}: {problem}")]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
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
///
/// # Errors
/// Another agent holds it, or the directory cannot be used or is not safe to.
pub fn lock(directory: &Path) -> Result<Lock, InstanceError> {
    make(directory)?;
    let path = directory.join("agent.lock");
    let mut options = OpenOptions::new();
    let mut file = open(&path, options.read(true).write(true).create(true).mode(0o640))?;
    let mut pid = String::new();
    file.read_to_string(&mut pid).map_err(at(&path))?;
    let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| InstanceError::Running { pid: pid.trim().to_owned(), path: path.clone() })?;
    file.set_len(0).map_err(at(&path))?;
    io::Seek::rewind(&mut *file).map_err(at(&path))?;
    writeln!(file, "{}", std::process::id()).map_err(at(&path))?;
    Ok(Lock { _file: file })
}

/// A secret of this host: made once, kept in the state directory, read by its owner only. One that is there is never
/// replaced.
pub struct Secret {
    /// Name of its file.
    pub file: &'static str,
    /// What is so with another one.
    pub lost: &'static str,
}

/// What hashes of redacted values are keyed with.
pub const REDACTION_KEY: Secret =
    Secret { file: "redaction.key", lost: "hashes of before and after cannot be compared" };

impl Secret {
    /// Reads it from `directory`, or makes it there.
    ///
    /// # Errors
    /// The directory or the file cannot be used or is not safe to.
    pub fn get(&self, directory: &Path) -> Result<[u8; KEY_BYTES], InstanceError> {
        make(directory)?;
        let path = directory.join(self.file);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(directory, &path),
            _ => read_key(&path, self.lost),
        }
    }
}

fn read_key(path: &Path, lost: &str) -> Result<[u8; KEY_BYTES], InstanceError> {
    let file = open(path, OpenOptions::new().read(true))?;
    let metadata = file.metadata().map_err(at(path))?;
    owned(path, &metadata)?;
    let unsafe_key = |problem| InstanceError::Unsafe { path: path.to_owned(), problem };
    if metadata.mode() & 0o077 != 0 {
        return Err(unsafe_key(format!(
            "others may use it (mode {:04o}); if none but root has read it, chmod 0600 it, else remove it: the next \
             start makes a new one, and {lost}",
            metadata.mode() & 0o7777
        )));
    }
    let mut bytes = Vec::with_capacity(KEY_BYTES + 1);
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(at(path))?;
    bytes.try_into().map_err(|_| {
        unsafe_key(format!(
            "it is {} bytes long, not {KEY_BYTES}; restore it from a backup, or remove it: the next start makes a new \
             one, and {lost}",
            metadata.len()
        ))
    })
}

fn make_key(directory: &Path, path: &Path) -> Result<[u8; KEY_BYTES], InstanceError> {
    let mut key = [0; KEY_BYTES];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut key)).map_err(at(random))?;
    // Whole or not at all: a key cut short would be another key.
    let fresh = path.with_extension("key.new");
    // A left-over.
    let _ = fs::remove_file(&fresh);
    let mut file = open(&fresh, OpenOptions::new().write(true).create_new(true).mode(0o600))?;
    file.write_all(&key).and_then(|()| file.sync_all()).map_err(at(&fresh))?;
    // Not a rename: that would replace the key that an agent with another runtime directory makes at the same time.
    fs::hard_link(&fresh, path).map_err(at(path))?;
    fs::remove_file(&fresh).map_err(at(&fresh))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(at(directory))?;
    Ok(key)
}

/// Makes a directory where it is missing, and sees that nobody else can put something into it.
///
/// # Errors
/// It cannot be made, or is not safe to use.
pub fn make(directory: &Path) -> Result<(), InstanceError> {
    // Without the slash at its end, which would lead through a symbolic link.
    let directory: PathBuf = directory.components().collect();
    let made = DirBuilder::new().recursive(true).mode(0o750).create(&directory);
    let metadata =
        fs::symlink_metadata(&directory).map_err(|error| at(&directory)(made.err().unwrap_or(error)))?;
    check(directory, &metadata)
}

/// Whether a directory, found to be this, is one that nobody else may write to.
///
/// # Errors
/// It is not, or no directory.
pub fn check(directory: PathBuf, metadata: &Metadata) -> Result<(), InstanceError> {
    let problem = if metadata.is_symlink() {
        "it is a symbolic link; give the directory itself".to_owned()
    } else if !metadata.is_dir() {
        "it is no directory".to_owned()
    } else if metadata.mode() & 0o022 != 0 {
        format!(
            "others may write to it (mode {:04o}); see who did, then chmod go-w it",
            metadata.mode() & 0o7777
        )
    } else {
        return owned(&directory, metadata);
    };
    Err(InstanceError::Unsafe { path: directory, problem })
}

fn owned(path: &Path, metadata: &Metadata) -> Result<(), InstanceError> {
    let (own, uid) = (nix::unistd::geteuid().as_raw(), metadata.uid());
    if uid == own {
        return Ok(());
    }
    let problem =
        format!("it belongs to user {uid}, not to {own}; see what is in it, then chown it or remove it");
    Err(InstanceError::Unsafe { path: path.to_owned(), problem })
}

/// Opens a regular file that is no symbolic link.
fn open(path: &Path, options: &mut OpenOptions) -> Result<File, InstanceError> {
    let problem = |text: &str| InstanceError::Unsafe { path: path.to_owned(), problem: text.to_owned() };
    // Not blocking, so that a named pipe cannot keep the agent from starting.
    let file =
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map_err(|error| match error
            .raw_os_error()
        {
            Some(libc::ELOOP) => problem("it is a symbolic link; put the file itself there, or remove it"),
            _ => at(path)(error),
        })?;
    if !file.metadata().map_err(at(path))?.is_file() {
        return Err(problem("it is no regular file; remove it"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mcpwarden-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn second_instance_is_refused() {
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
    fn redaction_key_is_stable() {
        let directory = scratch("key");
        let first = REDACTION_KEY.get(&directory).unwrap();
        assert_ne!(first, [0; KEY_BYTES]);
        assert_eq!(REDACTION_KEY.get(&directory).unwrap(), first);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing else is left there");
        fs::remove_dir_all(&directory).unwrap();
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// What was done to the directory and the key in it, and what is said of it. (Foreign owners: with root, end to end.)
    #[test]
    fn unsafe_key_or_directory_is_refused_unchanged() {
        type Change = fn(&Path, &Path);
        let cases: [(&str, Change, Option<&str>); 11] = [
            ("nothing", |_, _| (), None),
            ("a public directory", |directory, _| mode(directory, 0o755), None),
            (
                "a directory of the group",
                |directory, _| mode(directory, 0o770),
                Some("others may write to it (mode 0770)"),
            ),
            (
                "a directory of everybody",
                |directory, _| mode(directory, 0o1777),
                Some("others may write to it (mode 1777)"),
            ),
            ("a short key", |_, key| fs::write(key, b"short").unwrap(), Some("it is 5 bytes long, not 32")),
            ("an empty key", |_, key| fs::write(key, b"").unwrap(), Some("it is 0 bytes long, not 32")),
            ("a long key", |_, key| fs::write(key, [1; 33]).unwrap(), Some("it is 33 bytes long, not 32")),
            ("a key that the group reads", |_, key| mode(key, 0o640), Some("others may use it (mode 0640)")),
            (
                "a link to a key",
                |directory, key| {
                    fs::rename(key, directory.join("else")).unwrap();
                    symlink("else", key).unwrap();
                },
                Some("redaction.key: it is a symbolic link"),
            ),
            (
                "a link to nothing",
                |_, key| {
                    fs::remove_file(key).unwrap();
                    symlink("nothing", key).unwrap();
                },
                Some("redaction.key: it is a symbolic link"),
            ),
            (
                "a directory for a key",
                |_, key| {
                    fs::remove_file(key).unwrap();
                    fs::create_dir(key).unwrap();
                },
                Some("it is no regular file"),
            ),
        ];
        for (name, change, problem) in cases {
            let directory = scratch("refused");
            let first = REDACTION_KEY.get(&directory).unwrap();
            let path = directory.join("redaction.key");
            change(&directory, &path);
            let before = fs::read(&path).ok();
            let found = REDACTION_KEY.get(&directory);
            match problem {
                None => assert_eq!(found.unwrap(), first, "{name}"),
                Some(problem) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains(problem) && !error.contains('\n'), "{name}: {error}");
                    assert_eq!(fs::read(&path).ok(), before, "{name}: it was replaced");
                }
            }
            fs::remove_dir_all(&directory).unwrap();
        }
    }

    #[test]
    fn symbolic_links_are_refused() {
        let (directory, link) = (scratch("target"), scratch("link"));
        fs::create_dir(&directory).unwrap();
        let _ = fs::remove_file(&link);
        symlink(&directory, &link).unwrap();
        for path in [link.clone(), link.join(""), link.join(".")] {
            for error in [lock(&path).err().unwrap(), REDACTION_KEY.get(&path).unwrap_err()] {
                assert!(error.to_string().contains("it is a symbolic link"), "{}: {error}", path.display());
            }
        }
        symlink(directory.join("elsewhere"), directory.join("agent.lock")).unwrap();
        assert!(lock(&directory).err().unwrap().to_string().contains("agent.lock: it is a symbolic link"));
        assert!(!directory.join("elsewhere").exists());
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }
}
