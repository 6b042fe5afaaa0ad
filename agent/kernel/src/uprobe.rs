//! Probes on functions of programs (uprobes), for one process each: with one link for all places in a file (`uprobe_multi`), or on kernels
//! that do not have that, or apply it to single threads (before 6.10, or 6.6.33), with a perf event and a link for each place.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::libc;

use super::{relocated::Relocated, sys};

/// Where the kernel says which kind of perf event probes are.
const EVENT_KIND: &str = "/sys/bus/event_source/devices/uprobe/type";

/// `PERF_FLAG_FD_CLOEXEC`
const CLOSE_ON_EXEC: u64 = 8;

/// How probes are attached on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// With one link for all places in a file.
    Multi,
    /// With a perf event for each, of this kind. A kernel that is strict about those (Debian's, by default) takes CAP_SYS_ADMIN for them.
    Events(u32),
}

/// Where a program is to run, and what it is told then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// What it is told.
    pub cookie: u64,
}

/// The way of this kernel, as one of the programs shows: a file that is none is another error than a process that is none, where that
/// is looked at.
pub fn way(programs: &Relocated, name: &str) -> io::Result<Way> {
    if let Ok(program) = programs.load(name, sys::Kind::UprobeMulti) {
        let refused = |pid: u32| {
            let attached = sys::attach_to_places(program.as_fd(), (pid, Path::new("/")), (&[0], &[0]), false);
            attached.err().and_then(|error| error.raw_os_error())
        };
        if (refused(0), refused(u32::MAX)) == (Some(libc::EBADF), Some(libc::EINVAL)) {
            return Ok(Way::Multi);
        }
    }
    let kind = fs::read_to_string(EVENT_KIND)
        .map_err(|error| io::Error::other(format!("this kernel has no probes of programs: {error}")))?;
    kind.trim().parse().map(Way::Events).map_err(io::Error::other)
}

impl Way {
    /// How a program is loaded for it.
    pub fn kind(self) -> sys::Kind {
        match self {
            Self::Multi => sys::Kind::UprobeMulti,
            Self::Events(_) => sys::Kind::Uprobe,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Multi => "uprobe_multi",
            Self::Events(_) => "perf events",
        }
    }

    /// Has a program run at these places of a file in one process that has it mapped, or where the functions that begin there return, as long
    /// as what is given is open.
    ///
    /// # Errors
    /// The kernel refuses one: it runs nowhere.
    pub fn attach(
        self,
        program: BorrowedFd<'_>,
        (pid, file): (u32, &Path),
        places: &[Place],
        at_return: bool,
    ) -> io::Result<Vec<OwnedFd>> {
        match self {
            Self::Multi => {
                let (offsets, cookies): (Vec<u64>, Vec<u64>) =
                    places.iter().map(|place| (place.offset, place.cookie)).unzip();
                let link = sys::attach_to_places(program, (pid, file), (&offsets, &cookies), at_return)?;
                Ok(vec![link])
            }
            Self::Events(kind) => {
                let link = |place: &Place| {
                    // The link holds the event.
                    let event = event(kind, (pid, file), place.offset, at_return)?;
                    sys::attach_to_event(program, event.as_fd(), place.cookie)
                };
                places.iter().map(link).collect()
            }
        }
    }
}

/// The beginning of `struct perf_event_attr`, up to its second version (linux/perf_event.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    /// `uprobe_path`
    path: u64,
    /// `probe_offset`
    offset: u64,
}

/// A perf event at a place of a file in one process.
fn event(kind: u32, (pid, file): (u32, &Path), offset: u64, at_return: bool) -> io::Result<OwnedFd> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    let attributes = Attributes {
        kind,
        size: u32::try_from(size_of::<Attributes>()).map_err(io::Error::other)?,
        // `retprobe`
        config: u64::from(at_return),
        path: path.as_ptr() as u64,
        offset,
        ..Attributes::default()
    };
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let (any_processor, no_group) = (-1, -1);
    // SAFETY: the attributes are as long as they say, and their path outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            any_processor,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let fd = sys::number(result)?;
    // SAFETY: the kernel has just given it to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_events_lie_where_the_kernel_reads_them() {
        for (field, at, expected) in [
            ("config", std::mem::offset_of!(Attributes, config), 8),
            ("flags", std::mem::offset_of!(Attributes, flags), 40),
            ("path", std::mem::offset_of!(Attributes, path), 56),
            ("offset", std::mem::offset_of!(Attributes, offset), 64),
        ] {
            assert_eq!(at, expected, "{field}");
        }
        // `PERF_ATTR_SIZE_VER1`
        assert_eq!(size_of::<Attributes>(), 72);
    }
}
