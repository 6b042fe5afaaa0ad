//! Readers must not keep the writer from its work.
//!
//! Whoever may read a database in WAL mode may also take read locks on bytes of its index (`-shm`), even on those that a writer
//! needs alone; and an open read transaction keeps the log (`-wal`) from being merged. Neither can be forbidden by permissions as
//! long as others may read. So the writer, once it is kept from its work, gives up the index and begins another, which the readers
//! of the old one have nothing to do with: the index holds nothing that is not in the log. Their open queries fail or see an
//! inconsistent database. Where a lock was held, only the owner of the database can open the new index for some time.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use mcpwarden_system::files::{beside, remove};
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};

/// The bytes of the index that are locked by a writer, by who merges the log, and by who rebuilds the index (`WAL_WRITE_LOCK`,
/// `WAL_CKPT_LOCK`, `WAL_RECOVER_LOCK` of SQLite's wal.c, behind `UNIX_SHM_BASE` of os_unix.c).
const LOCKS: (libc::off_t, libc::off_t) = (120, 3);
/// For the owner and the group, and for the owner alone.
const SHARED: u32 = 0o640;
const PRIVATE: u32 = 0o600;

/// Who holds a lock that the writer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process, as far as the kernel names it.
    pub pid: Option<u32>,
    /// Whether it can write, too: then it is root, who may.
    pub writes: bool,
}

impl Holder {
    /// The user of its process.
    pub fn uid(&self) -> Option<u32> {
        use std::os::unix::fs::MetadataExt as _;
        Some(fs::metadata(format!("/proc/{}", self.pid?)).ok()?.uid())
    }
}

/// The index of a database that this process has open. It must outlive the connection: closing any descriptor of a file gives up all
/// locks of the process on it, those of SQLite as well.
#[derive(Debug)]
pub struct Index(File);

impl Index {
    /// That of the database at `path`, where it is in use.
    pub fn open(path: &Path) -> Option<Self> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags).open(beside(path, "-shm")).ok().map(Self)
    }

    /// Who else holds one of the locks that a writer needs; one of them.
    pub fn holder(&self) -> Option<Holder> {
        let mut lock = libc::flock {
            // The one that conflicts with every other.
            l_type: short(libc::F_WRLCK),
            l_whence: short(libc::SEEK_SET),
            l_start: LOCKS.0,
            l_len: LOCKS.1,
            l_pid: 0,
        };
        fcntl(&self.0, FcntlArg::F_GETLK(&mut lock)).ok()?;
        let kind = libc::c_int::from(lock.l_type);
        (kind != libc::F_UNLCK).then(|| Holder {
            // -1: a lock of an open file, and of no process.
            pid: u32::try_from(lock.l_pid).ok().filter(|pid| *pid != 0),
            writes: kind == libc::F_WRLCK,
        })
    }
}

/// A constant of the C library as it stands in a lock.
fn short(number: libc::c_int) -> libc::c_short {
    libc::c_short::try_from(number).unwrap_or_default()
}

/// Gives up the index of a database that this process has closed. `private`: only the owner can open the next one.
///
/// # Errors
/// It cannot be removed or made.
pub fn replace_index(path: &Path, private: bool) -> io::Result<()> {
    let index = beside(path, "-shm");
    remove(&index)?;
    if private {
        // SQLite gives an empty file the mode of the database.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&index)?;
        file.write_all(&[0])?;
    }
    Ok(())
}

/// Lets readers open the index again, where there is one.
///
/// # Errors
/// It is there and its mode cannot be changed.
pub fn share_index(path: &Path) -> io::Result<()> {
    match fs::set_permissions(beside(path, "-shm"), fs::Permissions::from_mode(SHARED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Size of the log of a database. Bytes.
pub fn log_bytes(path: &Path) -> u64 {
    fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len())
}
