//! The socket in its directory: made with the rights that it has to have, in place of what a dead agent left behind.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net,
    },
    path::{Path, PathBuf},
};

use mcpwarden_system::instance::{self, InstanceError};
use nix::unistd::{Gid, chown};
use tokio::net::UnixListener;

use super::peer::Known;

/// Its owner and its group write to it, which is what connecting needs.
const MODE: u32 = 0o660;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Its directory.
    #[error("cannot create the control socket: {0}")]
    Directory(#[from] InstanceError),
    /// Something is in its place.
    #[error("cannot create the control socket {path}: {problem}; set control.socket to another path")]
    Taken {
        /// Where.
        path: PathBuf,
        /// By what.
        problem: &'static str,
    },
    /// It cannot be made.
    #[error("cannot create the control socket {path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A socket that is removed from its directory with this.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// Which file it is.
    inode: Option<u64>,
}

impl Socket {
    /// Makes the socket, and its directory where that is missing. Members of `group` can use it, and pass through the
    /// directory if that is made here or `runtime_dir`.
    ///
    /// # Errors
    /// It cannot be made, its directory is not safe, or something else is in its place: a file, or a socket at which
    /// somebody listens.
    pub fn make(
        path: PathBuf,
        runtime_dir: &Path,
        group: Option<&Known>,
    ) -> Result<(Self, UnixListener), SocketError> {
        let failed = |source| SocketError::Io { path: path.clone(), source };
        let directory = path.parent().unwrap_or(Path::new("/"));
        let own = directory == runtime_dir || !directory.exists();
        instance::make(directory)?;
        make_room(&path)?;
        let listener = net::UnixListener::bind(&path).map_err(failed)?;
        // From here on, an error removes it.
        let inode = fs::symlink_metadata(&path).map(|file| file.ino()).ok();
        let socket = Self { path: path.clone(), inode };
        if let Some(group) = group {
            let given = |path: &Path| chown(path, None, Some(Gid::from_raw(group.gid)));
            let result = if own { given(directory) } else { Ok(()) }.and_then(|()| given(&path));
            if let Err(error) = result {
                let (path, name) = (path.display(), &group.name);
                tracing::warn!(
                    "control: cannot give {path} to the group {name}: {error}; only root can use this agent, not the group's members"
                );
            }
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        Ok((socket, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path).map(|file| file.ino()).ok();
        if found.is_some() && found == self.inode {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket at which nobody listens.
fn make_room(path: &Path) -> Result<(), SocketError> {
    let taken = |problem| Err(SocketError::Taken { path: path.to_owned(), problem });
    match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(file) if !file.file_type().is_socket() => return taken("there is a file that is no socket"),
        Ok(_) => {}
    }
    match net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| SocketError::Io { path: path.to_owned(), source })
        }
        // Or it listens and cannot be asked, which is no less alive.
        _ => taken("another program listens there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in its place, and what comes of it.
    #[tokio::test]
    async fn stale_socket_is_replaced_and_live_one_kept() {
        type Before = fn(&Path) -> Option<net::UnixListener>;
        let cases: [(&str, Before, Option<&str>); 5] = [
            ("nothing", |_| None, None),
            (
                "a dead agent's",
                |path| {
                    drop(net::UnixListener::bind(path).unwrap());
                    None
                },
                None,
            ),
            (
                "a live one",
                |path| Some(net::UnixListener::bind(path).unwrap()),
                Some("another program listens there"),
            ),
            (
                "a file",
                |path| {
                    fs::write(path, "").unwrap();
                    None
                },
                Some("a file that is no socket"),
            ),
            (
                "a link to a socket",
                |path| {
                    let elsewhere = path.with_extension("else");
                    drop(net::UnixListener::bind(&elsewhere).unwrap());
                    std::os::unix::fs::symlink(elsewhere, path).unwrap();
                    None
                },
                Some("a file that is no socket"),
            ),
        ];
        for (name, before, problem) in cases {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("run/x.sock");
            fs::create_dir(directory.path().join("run")).unwrap();
            let alive = before(&path);
            let made = Socket::make(path.clone(), directory.path(), None);
            match (made, problem) {
                (Ok((socket, _listener)), None) => {
                    let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
                    assert_eq!(mode, 0o660, "{name}");
                    drop(socket);
                    assert!(!path.exists(), "{name}: it stays");
                }
                (Err(error), Some(problem)) => {
                    let error = error.to_string();
                    assert!(error.contains(problem), "{name}: {error}");
                    assert!(fs::symlink_metadata(&path).is_ok(), "{name}: it was removed");
                }
                (made, _) => panic!("{name}: {:?}", made.err()),
            }
            drop(alive);
        }
    }

    #[tokio::test]
    async fn socket_directory_writable_by_others_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        let error = Socket::make(open.join("x.sock"), directory.path(), None).unwrap_err().to_string();
        assert!(error.contains("others may write to it (mode 1777)"), "{error}");
    }

    #[tokio::test]
    async fn replaced_socket_file_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sock");
        let (socket, _listener) = Socket::make(path.clone(), directory.path(), None).unwrap();
        fs::rename(&path, directory.path().join("old")).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
