//! Cgroups (v2) by number: their paths, whether or not any process is left in them.

use std::{
    fs::File,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use nix::libc;

/// `struct file_handle` of `fcntl.h`, for files of kernfs: their number.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: u64,
}

/// `FILEID_KERNFS` of `linux/exportfs.h`, since Linux 5.5.
const FILEID_KERNFS: i32 = 0xfe;

/// The inode number of the root of the host's tree.
pub const ROOT: u64 = 1;

/// Where cgroup v2 is mounted, from mountinfo: on hybrid systems it is not /sys/fs/cgroup itself. In a container there may be
/// several: that of the host's whole tree, where there is one.
pub fn mounted() -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_whole = |path: &&str| std::fs::metadata(path).is_ok_and(|root| root.ino() == ROOT);
    let path = mounted_in(&mounts).find(is_whole).or_else(|| mounted_in(&mounts).next());
    path.map(str::to_owned)
}

/// The same, where it is known to be mounted.
pub fn root() -> PathBuf {
    mounted().map_or_else(|| "/sys/fs/cgroup".into(), PathBuf::from)
}

fn mounted_in(mountinfo: &str) -> impl Iterator<Item = &str> {
    mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("cgroup2 ").then(|| left.split(' ').nth(4))?
    })
}

/// The path of a cgroup from the root of the tree: `/user.slice`. `None` where it is removed, or not below what is
/// mounted here.
pub fn path_of(id: u64) -> Option<String> {
    let root = root();
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
    fn cgroup_paths_are_relative_to_the_root() {
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
    fn cgroup_root_is_found_by_inode_number() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: only root opens files by number");
            return;
        }
        let number = std::fs::metadata(root()).unwrap().ino();
        assert_eq!(path_of(number).as_deref(), Some("/"));
        assert_eq!(path_of(u64::MAX - 1), None);
    }

    #[test]
    fn cgroup2_mount_is_found_in_mountinfo() {
        let hybrid = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      42 30 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted_in(hybrid).collect::<Vec<_>>(), ["/sys/fs/cgroup/unified"]);
        assert_eq!(mounted_in("30 24 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n").next(), None);
        let twice = "31 24 0:27 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n\
                     43 24 0:27 / /host/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted_in(twice).collect::<Vec<_>>(), ["/sys/fs/cgroup", "/host/cgroup"]);
    }
}
