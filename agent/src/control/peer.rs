//! Who is at the other end of a connection, and what they may do. The kernel says so (`SO_PEERCRED`, `SO_PEERGROUPS`), of
//! the moment at which they connected.

use std::io;
use std::os::fd::AsRawFd as _;

use mcpwarden_policy::config;
use nix::libc;
use nix::unistd::Group;
use tokio::net::UnixStream;

/// A group of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Its number.
    pub gid: u32,
}

/// Whose members may do what. `None` of a group that is not there: then only root may.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Who may ask.
    pub read: Option<Known>,
    /// Who may change things, too.
    pub change: Option<Known>,
}

impl Groups {
    /// Those of a configuration.
    pub fn of(config: &config::Control) -> Self {
        Self { read: known(&config.group), change: config.admin_group.as_deref().and_then(known) }
    }
}

fn known(name: &str) -> Option<Known> {
    let gid = Group::from_name(name).ok().flatten()?.gid.as_raw();
    Some(Known { name: name.to_owned(), gid })
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Nothing.
    None,
    /// Ask.
    Read,
    /// Change things, too.
    Change,
}

/// Who connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// All groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Asks the kernel.
    ///
    /// # Errors
    /// It does not say.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        let mut groups = more_groups(stream)?;
        groups.push(credentials.gid());
        Ok(Self { uid: credentials.uid(), groups })
    }

    /// What they may do.
    pub fn rights(&self, groups: &Groups) -> Rights {
        let member =
            |group: &Option<Known>| group.as_ref().is_some_and(|group| self.groups.contains(&group.gid));
        match () {
            () if self.uid == 0 || member(&groups.change) => Rights::Change,
            () if member(&groups.read) => Rights::Read,
            () => Rights::None,
        }
    }
}

/// The supplementary groups of who connected (`SO_PEERGROUPS`, Linux 4.13).
fn more_groups(stream: &UnixStream) -> io::Result<Vec<u32>> {
    /// `NGROUPS_MAX` of `linux/limits.h`
    const MOST: usize = 65_536;
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut length = size_of_val(&*groups) as libc::socklen_t;
        // SAFETY: buffer and length are of live values, and the length is the buffer's.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // Then the length is the one that is needed.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > MOST {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(gid: u32) -> Option<Known> {
        Some(Known { name: format!("g{gid}"), gid })
    }

    #[test]
    fn peer_rights_follow_uid_and_groups() {
        let two = Groups { read: group(10), change: group(20) };
        let one = Groups { read: group(10), change: None };
        let none = Groups::default();
        for (uid, own, groups, expected) in [
            (0, &[0][..], &none, Rights::Change),
            (0, &[], &two, Rights::Change),
            (1, &[0], &none, Rights::None),
            (1, &[], &two, Rights::None),
            (1, &[10], &two, Rights::Read),
            (1, &[20], &two, Rights::Change),
            (1, &[5, 10, 20], &two, Rights::Change),
            (1, &[10, 20], &one, Rights::Read),
            (1, &[10, 20], &none, Rights::None),
        ] {
            let peer = Peer { uid, groups: own.to_vec() };
            assert_eq!(peer.rights(groups), expected, "{peer:?} {groups:?}");
        }
    }

    #[tokio::test]
    async fn peer_identity_comes_from_the_kernel() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.uid, nix::unistd::getuid().as_raw());
        for group in nix::unistd::getgroups().unwrap() {
            assert!(peer.groups.contains(&group.as_raw()), "{peer:?}");
        }
        assert!(peer.groups.contains(&nix::unistd::getgid().as_raw()), "{peer:?}");
    }
}
