//! bpf(2), where aya does not do it: pins of any object, and programs and links of types that aya lacks. Layouts: `union bpf_attr`,
//! linux/bpf.h.

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use nix::libc;

/// Of `enum bpf_cmd`.
const PROG_LOAD: i64 = 5;
const OBJ_PIN: i64 = 6;
const OBJ_GET: i64 = 7;
const RAW_TRACEPOINT_OPEN: i64 = 17;
const BTF_LOAD: i64 = 18;
const LINK_CREATE: i64 = 28;

/// `BPF_PROG_TYPE_KPROBE`
const KPROBE: u32 = 2;
/// `BPF_PROG_TYPE_TRACING`
const TRACING: u32 = 26;
/// Of `enum bpf_attach_type`.
const MODIFY_RETURN: u32 = 26;
const PERF_EVENT: u32 = 41;
const TRACE_UPROBE_MULTI: u32 = 48;
/// `BPF_F_UPROBE_MULTI_RETURN`
const AT_RETURN: u32 = 1;
/// `BPF_OBJ_NAME_LEN`, with the zero at its end.
const NAME_BYTES: usize = 16;
/// What the log of the verifier is given: nothing where it is not asked for, then this much, and where that is too little, this much.
/// (Kernels before 6.4 refuse a program whose log does not fit.)
const LOG_BYTES: [usize; 2] = [1 << 20, 16 << 20];

/// A call that gives a new descriptor, or 0.
fn bpf<T>(command: i64, attributes: &T) -> io::Result<RawFd> {
    // SAFETY: the attributes are as long as is said, and what they point to outlives the call: callers hold it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    number(result)
}

/// The same where a descriptor is given.
fn bpf_fd<T>(command: i64, attributes: &T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the kernel has just given it to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a system call has returned: a descriptor, or 0.
///
/// # Errors
/// It has failed.
pub fn number(result: libc::c_long) -> io::Result<RawFd> {
    RawFd::try_from(result).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)
}

/// `BPF_OBJ_PIN` and `BPF_OBJ_GET`
#[repr(C)]
struct Pin {
    path: u64,
    fd: u32,
    flags: u32,
}

/// What is pinned there. aya asks the kernel for the types of a program that it opens, which takes CAP_SYS_ADMIN.
///
/// # Errors
/// Nothing is pinned there, or it may not be opened.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    bpf_fd(OBJ_GET, &Pin { path: name.as_ptr() as u64, fd: 0, flags: 0 })
}

/// Pins a program, a link or a table in the BPF file system.
///
/// # Errors
/// There is something at that path, or the file system refuses.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let fd = object.as_raw_fd().cast_unsigned();
    bpf(OBJ_PIN, &Pin { path: name.as_ptr() as u64, fd, flags: 0 }).map(drop)
}

/// Gives the kernel the types of an object.
///
/// # Errors
/// It refuses them.
pub fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        types: u64,
        log: u64,
        types_bytes: u32,
        log_bytes: u32,
        log_level: u32,
        zero: u32,
    }
    let types_bytes = u32::try_from(types.len()).map_err(io::Error::other)?;
    let types = types.as_ptr() as u64;
    bpf_fd(BTF_LOAD, &Attributes { types, log: 0, types_bytes, log_bytes: 0, log_level: 0, zero: 0 })
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To run before a function of the kernel and perhaps to answer in its place (`fmod_ret`, 5.7).
    ModifyReturn {
        /// The number of the function among the kernel's types.
        target: u32,
    },
    /// For functions of programs, each of which is a perf event.
    Uprobe,
    /// For functions of programs, with one link for all in a file (6.6).
    UprobeMulti,
}

/// A program, to be loaded.
pub struct Program<'a> {
    /// What it is for.
    pub kind: Kind,
    /// Its name; the kernel keeps the first 15 bytes.
    pub name: &'a str,
    /// Its instructions, relocated, of 8 bytes each.
    pub instructions: &'a [u8],
    /// Under which it may use helpers.
    pub license: &'a CStr,
    /// The types of its object, where it has some.
    pub types: Option<BorrowedFd<'a>>,
    /// `struct bpf_func_info`, and how many bytes each has: callbacks are refused without.
    pub functions: (&'a [u8], usize),
}

/// The beginning of `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
    line_bytes: u32,
    lines: u64,
    line_count: u32,
    target: u32,
    target_object: u32,
    zero: u32,
}

impl Program<'_> {
    /// Has the verifier take it. `Err`: why it does not, and where that can be had, its log.
    pub fn load(&self) -> Result<OwnedFd, (io::Error, String)> {
        let without_log = self.attributes().and_then(|attributes| bpf_fd(PROG_LOAD, &attributes));
        let mut error = match without_log {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        let mut log = Vec::new();
        for log_bytes in LOG_BYTES {
            log = vec![0_u8; log_bytes];
            let with_log = self.attributes().and_then(|attributes| {
                let (level, bytes) = (1, u32::try_from(log.len()).map_err(io::Error::other)?);
                let log = log.as_mut_ptr() as u64;
                bpf_fd(PROG_LOAD, &Load { log_level: level, log_bytes: bytes, log, ..attributes })
            });
            match with_log {
                Ok(program) => return Ok(program),
                Err(refused) => error = refused,
            }
            if error.raw_os_error() != Some(libc::ENOSPC) {
                break;
            }
        }
        let written = log.split(|byte| *byte == 0).next().unwrap_or_default();
        Err((error, String::from_utf8_lossy(written).into_owned()))
    }

    fn attributes(&self) -> io::Result<Load> {
        /// `sizeof(struct bpf_insn)`
        const INSTRUCTION_BYTES: usize = 8;
        let count = |bytes: usize, each: usize| u32::try_from(bytes / each.max(1)).map_err(io::Error::other);
        let (functions, function_bytes) = self.functions;
        let (kind, attach_type, target) = match self.kind {
            Kind::ModifyReturn { target } => (TRACING, MODIFY_RETURN, target),
            Kind::Uprobe => (KPROBE, 0, 0),
            Kind::UprobeMulti => (KPROBE, TRACE_UPROBE_MULTI, 0),
        };
        let mut name = [0; NAME_BYTES];
        for (into, byte) in name.iter_mut().zip(self.name.bytes().take(NAME_BYTES - 1)) {
            *into = byte;
        }
        Ok(Load {
            kind,
            attach_type,
            instruction_count: count(self.instructions.len(), INSTRUCTION_BYTES)?,
            instructions: self.instructions.as_ptr() as u64,
            license: self.license.as_ptr() as u64,
            name,
            types: self.types.map_or(0, |types| types.as_raw_fd().cast_unsigned()),
            function_bytes: u32::try_from(function_bytes).map_err(io::Error::other)?,
            functions: functions.as_ptr() as u64,
            function_count: count(functions.len(), function_bytes)?,
            target,
            ..Load::default()
        })
    }
}

/// Whether the kernel takes a program that could write into the memory of processes.
pub fn takes_writes() -> bool {
    /// `*(u64 *)(r10 - 8) = 0; bpf_probe_write_user(0, r10 - 8, 8); return 0;`
    const CODE: [[u8; 8]; 8] = [
        [0x7a, 0x0a, 0xf8, 0xff, 0, 0, 0, 0],
        [0xb7, 0x01, 0, 0, 0, 0, 0, 0],
        [0xbf, 0xa2, 0, 0, 0, 0, 0, 0],
        [0x07, 0x02, 0, 0, 0xf8, 0xff, 0xff, 0xff],
        [0xb7, 0x03, 0, 0, 8, 0, 0, 0],
        [0x85, 0, 0, 0, 36, 0, 0, 0],
        [0xb7, 0, 0, 0, 0, 0, 0, 0],
        [0x95, 0, 0, 0, 0, 0, 0, 0],
    ];
    let instructions = CODE.as_flattened();
    let (kind, name, license) = (Kind::Uprobe, "may_write", c"GPL");
    let program = Program { kind, name, instructions, license, types: None, functions: (&[], 0) };
    // Why not is of no interest.
    program.attributes().and_then(|attributes| bpf_fd(PROG_LOAD, &attributes)).is_ok()
}

/// Attaches a tracing program to what it was loaded for: it runs until the link is closed everywhere.
///
/// # Errors
/// The kernel makes no trampoline for it.
pub fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        name: u64,
        program: u32,
        zero: u32,
    }
    let program = program.as_raw_fd().cast_unsigned();
    bpf_fd(RAW_TRACEPOINT_OPEN, &Attributes { name: 0, program, zero: 0 })
}

/// Has a program run at a perf event, which tells it this cookie (5.15), until the link is closed everywhere.
///
/// # Errors
/// The kernel refuses it.
pub fn attach_to_event(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        event: u32,
        attach_type: u32,
        flags: u32,
        cookie: u64,
    }
    let [program, event] = [program, event].map(|fd| fd.as_raw_fd().cast_unsigned());
    bpf_fd(LINK_CREATE, &Attributes { program, event, attach_type: PERF_EVENT, flags: 0, cookie })
}

/// Has a program run in one process wherever it is in a file at one of these offsets, or where the functions that begin there return, with the
/// cookie of the place, until the link is closed everywhere.
///
/// # Errors
/// The kernel refuses it.
pub fn attach_to_places(
    program: BorrowedFd<'_>,
    (pid, file): (u32, &Path),
    (offsets, cookies): (&[u64], &[u64]),
    at_return: bool,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        target: u32,
        attach_type: u32,
        flags: u32,
        path: u64,
        offsets: u64,
        counters: u64,
        cookies: u64,
        count: u32,
        multi_flags: u32,
        pid: u32,
        zero: u32,
    }
    let path = CString::new(file.as_os_str().as_bytes())?;
    let attributes = Attributes {
        program: program.as_raw_fd().cast_unsigned(),
        target: 0,
        attach_type: TRACE_UPROBE_MULTI,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        counters: 0,
        cookies: cookies.as_ptr() as u64,
        count: u32::try_from(offsets.len().min(cookies.len())).map_err(io::Error::other)?,
        multi_flags: if at_return { AT_RETURN } else { 0 },
        pid,
        zero: 0,
    };
    bpf_fd(LINK_CREATE, &attributes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn attributes_lie_where_the_kernel_reads_them() {
        for (field, at, expected) in [
            ("log", std::mem::offset_of!(Load, log), 32),
            ("name", std::mem::offset_of!(Load, name), 48),
            ("attach_type", std::mem::offset_of!(Load, attach_type), 68),
            ("functions", std::mem::offset_of!(Load, functions), 80),
            ("line_bytes", std::mem::offset_of!(Load, line_bytes), 92),
            ("target", std::mem::offset_of!(Load, target), 108),
        ] {
            assert_eq!(at, expected, "{field}");
        }
        assert_eq!(size_of::<Load>(), 120);
    }

    #[test]
    fn long_name_is_cut_and_ends_with_zero() {
        let types = std::fs::File::open("/dev/null").unwrap();
        for (name, expected) in [("short", &b"short\0"[..]), ("a_name_of_17_long", b"a_name_of_17_lo\0")] {
            let program = Program {
                kind: Kind::ModifyReturn { target: 7 },
                name,
                instructions: &[0; 16],
                license: c"GPL",
                types: Some(types.as_fd()),
                functions: (&[0; 24], 8),
            };
            let attributes = program.attributes().unwrap();
            assert!(attributes.name.starts_with(expected), "{name}: {:?}", attributes.name);
            let counts = (attributes.instruction_count, attributes.function_count, attributes.target);
            assert_eq!(counts, (2, 3, 7), "{name}");
        }
    }

    #[test]
    fn missing_pin_is_an_error() {
        let path = Path::new("/sys/fs/bpf/mcpwarden-no-such-pin");
        assert!(open(path).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(pin(file.as_fd(), path).is_err(), "what is no BPF object cannot be pinned");
    }
}
