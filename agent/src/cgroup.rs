//! Cgroups (v2) by number: their paths, whether or not any process is left in them.

use std::{
    fs::File,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::libc;

use crate::kernel::surroundings;

/// `struct file_handle` of `fcntl.h`, for files of kernfs: their number.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: u64,
}

/// `FILEID_KERNFS` of `linux/exportfs.h`, since Linux 5.5.
const FILEID_KERNFS: i32 = 0xfe;

/// The path of a cgroup from the root of the tree: `/user.slice`. `None` where it is removed, or not below what is
/// mounted here.
pub fn path_of(id: u64) -> Option<String> {
    let root = surroundings::cgroup_root();
    let mount = File::open(&root).ok()?;
    let mut handle = Handle { bytes: size_of::<u64>() as u32, kind: FILEID_KERNFS, id };
    let flags = libc::O_RDONLY | libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: the handle is as long as it says, and lives until the call returns.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), flags) };
    if fd < 0 {
        return None;
    }
    // SAFETY: it was just opened, and nobody else has it.
    let directory = unsafe { OwnedFd::from_raw_fd(fd) };
    let path = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()?;
    below(&path, &root)
}

/// The path in the tree of a directory whose root is mounted at `root`.
fn below(path: &Path, root: &Path) -> Option<String> {
    let path = path.strip_prefix(root).ok()?;
    Some(format!("/{}", String::from_utf8_lossy(path.as_os_str().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_the_tree() {
        let root = Path::new("/sys/fs/cgroup/unified");
        for (path, expected) in [
            ("/sys/fs/cgroup/unified", Some("/")),
            ("/sys/fs/cgroup/unified/user.slice/a", Some("/user.slice/a")),
            ("/sys/fs/cgroup/other", None),
        ] {
            assert_eq!(below(Path::new(path), root).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn the_root_has_a_number_and_nothing_has_this_one() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: only root opens files by number");
            return;
        }
        use std::os::unix::fs::MetadataExt as _;
        let number = std::fs::metadata(surroundings::cgroup_root()).unwrap().ino();
        assert_eq!(path_of(number).as_deref(), Some("/"));
        assert_eq!(path_of(u64::MAX - 1), None);
    }
}
