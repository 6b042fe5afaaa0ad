//! Proof that programs run: what each hook waits for is made to happen, in this process and in children that end at once.
//!
//! A hook that is attached and does not run would let everything by, and nobody would know.

use std::{
    fs::{self, OpenOptions},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::{
            self,
            fs::OpenOptionsExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    process::{Command, Stdio},
};

use nix::{
    libc,
    sys::{
        stat::Mode,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork, mkfifo},
};

/// What cannot be made to happen here, and so neither be missed: a word in the names of hooks, and why.
pub type Impossible = Vec<(&'static str, &'static str)>;

/// Makes everything happen once. What fails shows in the hooks that did not run.
pub fn all() -> Impossible {
    let mut impossible = Vec::new();
    let _ = pipes();
    let _ = named_pipe();
    let _ = unix_sockets();
    let _ = internet("127.0.0.1", "127.0.0.1");
    // Mapped addresses: a machine may have none of its own, and the sockets are IPv6's all the same.
    if UdpSocket::bind("[::]:0").is_ok() {
        let _ = internet("[::ffff:127.0.0.1]", "[::1]");
    } else {
        let why = "this machine has no IPv6";
        impossible.extend(["inet6_", "connect6", "sendmsg6"].map(|hook| (hook, why)));
    }
    let _ = without_memory();
    duplicates();
    let _ = processes();
    if !calls_of_32_bits() {
        impossible.push(("__ia32_", "this kernel runs no 32-bit calls"));
    }
    if io_uring().is_err() {
        impossible.push(("io_uring", "io_uring cannot be used here"));
    }
    impossible
}

fn pipes() -> std::io::Result<()> {
    let (mut reader, mut writer) = std::io::pipe()?;
    writer.write_all(b".")?;
    reader.read_exact(&mut [0])
}

fn named_pipe() -> std::io::Result<()> {
    let path = std::env::temp_dir().join(format!("mcpwarden-doctor-{}", std::process::id()));
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let both = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&path);
    fs::remove_file(&path)?;
    let mut both = both?;
    both.write_all(b".")?;
    both.read_exact(&mut [0])
}

fn unix_sockets() -> std::io::Result<()> {
    let name = unix::net::SocketAddr::from_abstract_name(format!("mcpwarden-doctor-{}", std::process::id()))?;
    let listener = UnixListener::bind_addr(&name)?;
    let mut one = UnixStream::connect_addr(&name)?;
    let (mut other, _) = listener.accept()?;
    one.write_all(b".")?;
    other.read_exact(&mut [0])
}

/// TCP to an own listener at `host`, and a datagram to nobody at `nobody`.
fn internet(host: &str, nobody: &str) -> std::io::Result<()> {
    let any = UdpSocket::bind(if nobody.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" })?;
    // Whether it has a way to go does not matter: the hook comes before. Port 9 throws away.
    let _ = any.send_to(b".", format!("{nobody}:9"));
    let listener = TcpListener::bind(format!("{host}:0"))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.write_all(b".")?;
    server.read_exact(&mut [0])
}

/// The calls whose bytes never lie in anybody's memory.
fn without_memory() -> std::io::Result<()> {
    let ((from, into), (_to_read, to)) = (std::io::pipe()?, std::io::pipe()?);
    let file = fs::File::open("/proc/self/exe")?;
    let none = std::ptr::null_mut;
    let [from, into, to, file] = [from.as_raw_fd(), into.as_raw_fd(), to.as_raw_fd(), file.as_raw_fd()];
    let bytes = libc::iovec { iov_base: c"..".as_ptr().cast_mut().cast(), iov_len: 2 };
    // SAFETY: the bytes are alive and only read; the descriptors are open until the end.
    unsafe {
        libc::vmsplice(into, &raw const bytes, 1, 0);
        libc::tee(from, to, 1, 0);
        libc::splice(from, none(), to, none(), 1, 0);
        libc::sendfile64(to, file, std::ptr::null_mut(), 1);
    }
    Ok(())
}

/// The calls that put a descriptor in another's place, with one that is none.
fn duplicates() {
    // SAFETY: nothing is done.
    unsafe {
        libc::dup(-1);
        libc::dup2(-1, 1);
        libc::dup3(-1, 1, 0);
    }
}

fn processes() -> std::io::Result<()> {
    // It names no file, and has been entered all the same.
    // SAFETY: the kernel checks every pointer.
    unsafe {
        libc::syscall(libc::SYS_execveat, -1, c"".as_ptr(), std::ptr::null::<u8>(), std::ptr::null::<u8>(), 0)
    };
    let quiet = || Stdio::null();
    Command::new("/proc/self/exe")
        .arg("--version")
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .status()
        .map(drop)
}

/// The calls by their 32-bit numbers, with descriptors that are none. In a child: where the kernel runs no such calls
/// it is killed. Whether it was not.
fn calls_of_32_bits() -> bool {
    // `arch/x86/entry/syscalls/syscall_32.tbl`: splice, tee, vmsplice, sendfile, sendfile64, dup, dup2, dup3.
    const NUMBERS: [i32; 8] = [313, 315, 316, 187, 239, 41, 63, 330];
    // SAFETY: the child makes these calls and ends.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            for number in NUMBERS {
                // SAFETY: every descriptor is -1, so nothing is done; rbx is given back, r8 to r11 are said to be lost.
                unsafe {
                    std::arch::asm!(
                        "xchg rbx, {first}",
                        "int 0x80",
                        "mov rbx, {first}",
                        first = inout(reg) -1_i64 => _,
                        inlateout("eax") number => _,
                        in("ecx") -1,
                        in("edx") -1,
                        in("esi") -1,
                        in("edi") 0,
                        out("r8") _,
                        out("r9") _,
                        out("r10") _,
                        out("r11") _,
                    );
                }
            }
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0))),
        Err(_) => false,
    }
}

/// One request that does nothing. Layouts: `linux/io_uring.h`.
fn io_uring() -> std::io::Result<()> {
    /// `IORING_OFF_SQES`
    const SQES: libc::off_t = 0x1000_0000;
    /// `sizeof(struct io_uring_sqe)`
    const SQE_BYTES: usize = 64;
    /// Bytes of the rings of one request; the kernel maps whole pages.
    const RING_BYTES: usize = 4096;
    // `struct io_uring_params`: 40 bytes, then `struct io_sqring_offsets`: head, tail, mask, entries, flags, dropped, array.
    let mut parameters = [0_u32; 30];
    // SAFETY: the kernel writes 120 bytes there, and returns a new descriptor, or -1.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let ring = i32::try_from(ring).ok().filter(|fd| *fd >= 0).ok_or_else(std::io::Error::last_os_error)?;
    // SAFETY: it is new, and nobody else's.
    let ring = unsafe { OwnedFd::from_raw_fd(ring) };
    let map = |bytes: usize, offset: libc::off_t| {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, ring.as_raw_fd(), offset) };
        if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(at.cast::<u8>()) }
    };
    let (queue, requests) = (map(RING_BYTES, 0)?, map(SQE_BYTES, SQES)?);
    let (tail, array) = (parameters[11] as usize, parameters[16] as usize);
    // SAFETY: both lie in the first page of the queue, says the kernel; the request is all zeroes, which is IORING_OP_NOP.
    let entered = unsafe {
        std::ptr::write_bytes(requests, 0, SQE_BYTES);
        queue.add(array).cast::<u32>().write_volatile(0);
        queue.add(tail).cast::<u32>().write_volatile(1);
        libc::syscall(libc::SYS_io_uring_enter, ring.as_raw_fd(), 1, 0, 0, std::ptr::null::<u8>(), 0)
    };
    let entered = if entered == 1 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    // SAFETY: mapped so above, and used by nobody else.
    unsafe {
        libc::munmap(queue.cast(), RING_BYTES);
        libc::munmap(requests.cast(), SQE_BYTES);
    }
    entered
}
