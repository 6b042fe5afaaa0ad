//! What was found, by file: a search takes up to a second, and the same file is started again and again.
//!
//! The build id alone is no key: whoever writes a program gives it any, and one with the id of another program, searched first, would hide
//! the TLS of that one. A [`FileId`] cannot be forged: nobody but the kernel sets the time of the last change.
//!
//! The file is JSON, replaced as a whole. One that cannot be read is begun anew, and that is reported once; one of another version of the
//! signatures is begun anew without a word.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    bounds::{MAX_CACHE_BYTES, MAX_CACHED},
    facts::Located,
};

/// Which file: its device and inode, its length, and when it was last changed in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl FileId {
    /// Of an open file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// As in the file of a cache.
impl fmt::Display for FileId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, length, changed: (seconds, nanoseconds) } = self;
        write!(to, "{device:x}:{inode}:{length}:{seconds}.{nanoseconds:09}")
    }
}

/// Results by file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    version: String,
    entries: BTreeMap<String, Entry>,
    uses: u64,
    /// Entries that were given up, because there were too many.
    evicted: u64,
}

/// One result, and when it was used last: a number that grows with each use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    used: u64,
    located: Located,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: String,
    entries: BTreeMap<String, Entry>,
}

/// Why the file of a cache was not used, or not written.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The reason of the system.
        error: io::Error,
    },
    /// It is not what this program wrote.
    #[error("{}: {reason}; it is begun anew", path.display())]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Cache {
    /// An empty one for results of this version of the signatures ([`Signatures::version`](crate::Signatures::version)).
    pub fn new(version: &str) -> Self {
        Self { version: version.to_owned(), entries: BTreeMap::new(), uses: 0, evicted: 0 }
    }

    /// What the file holds, and what is wrong with it if it cannot be used: the cache is empty then. No file is no mistake.
    pub fn open(path: &Path, version: &str) -> (Self, Option<CacheError>) {
        let empty = Self::new(version);
        let fault = |error| CacheError::Io { path: path.to_owned(), error };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return (empty, None),
            Err(error) => return (empty, Some(fault(error))),
        };
        let mut text = Vec::new();
        if let Err(error) = file.take(MAX_CACHE_BYTES + 1).read_to_end(&mut text) {
            return (empty, Some(fault(error)));
        }
        let corrupt = |reason: String| Some(CacheError::Corrupt { path: path.to_owned(), reason });
        if text.len() as u64 > MAX_CACHE_BYTES {
            return (empty, corrupt(format!("longer than {MAX_CACHE_BYTES} bytes")));
        }
        match serde_json::from_slice::<Stored>(&text) {
            Ok(stored) if stored.version != version => (empty, None),
            Ok(stored) => {
                let uses = stored.entries.values().map(|entry| entry.used).max().unwrap_or(0);
                let mut read = Self { entries: stored.entries, uses, ..empty };
                read.evict();
                (read, None)
            }
            Err(error) => (empty, corrupt(error.to_string())),
        }
    }

    /// What was found in this file.
    pub fn get(&mut self, file: FileId) -> Option<&Located> {
        let entry = self.entries.get_mut(&file.to_string())?;
        self.uses = self.uses.saturating_add(1);
        entry.used = self.uses;
        Some(&entry.located)
    }

    /// Remembers a result. `file` was asked for before the search began: a file that was changed meanwhile has another id then.
    pub fn insert(&mut self, file: FileId, located: Located) {
        self.uses = self.uses.saturating_add(1);
        self.entries.insert(file.to_string(), Entry { used: self.uses, located });
        self.evict();
    }

    /// Results that were given up so far, because there were too many.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn evict(&mut self) {
        while self.entries.len() > MAX_CACHED {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { return };
            self.entries.remove(&oldest);
            self.evicted += 1;
        }
    }

    /// Writes the file: first another beside it, which then takes its place, so that whoever reads sees a whole one. The directory must be
    /// the agent's own: others could put a link in its way.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, path: &Path) -> Result<(), CacheError> {
        let fault = |error| CacheError::Io { path: path.to_owned(), error };
        let stored = Stored { version: self.version.clone(), entries: self.entries.clone() };
        let text = serde_json::to_vec(&stored).map_err(|error| fault(error.into()))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(fault)
    }
}
