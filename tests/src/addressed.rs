//! Servers that are spoken to over a socket with an address: the client makes the address, the server listens there and accepts one
//! connection (`--accept`), and the client connects.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrLike, UnixAddr, accept4, bind, connect,
    getsockname, listen, socket,
};

use crate::patience::{LIMIT, patience};
use crate::wiring::{Wired, Wiring};

/// What tells a server of ours that its standard input is a socket to listen on.
pub const ACCEPT: &str = "--accept";

/// Starts one of our servers and connects to it.
///
/// # Errors
/// It cannot be started, or does not listen.
pub fn start(wiring: Wiring, command: &mut Command) -> io::Result<Wired> {
    match wiring {
        Wiring::Pipes | Wiring::Sockets => Err(io::ErrorKind::InvalidInput.into()),
        Wiring::Tcp => at(
            AddressFamily::Inet,
            &SockaddrIn::from(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)),
            command,
        ),
        Wiring::Named => {
            let path = std::env::temp_dir().join(name());
            let wired = at(AddressFamily::Unix, &UnixAddr::new(&path)?, command);
            remove(path);
            wired
        }
        Wiring::Abstract => at(AddressFamily::Unix, &UnixAddr::new_abstract(name().as_bytes())?, command),
    }
}

/// A name that no other socket has.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("mcp-{}-{}.sock", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The connection does not need it any more.
fn remove(path: PathBuf) {
    // Where it was not bound there is none.
    let _ = fs::remove_file(path);
}

fn at<A: SockaddrLike>(family: AddressFamily, address: &A, command: &mut Command) -> io::Result<Wired> {
    let stream = || socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let bound = stream()?;
    bind(bound.as_raw_fd(), address)?;
    let address: A = getsockname(bound.as_raw_fd())?;
    let child = command.arg(ACCEPT).stdin(Stdio::from(bound)).stdout(Stdio::null()).spawn()?;
    // `command` still holds the socket: whoever listens is to be the server alone.
    command.stdin(Stdio::null());
    let deadline = Instant::now() + patience(LIMIT);
    loop {
        let client = stream()?;
        match connect(client.as_raw_fd(), &address) {
            Ok(()) => {
                let to_child = File::from(client.try_clone()?);
                return Ok(Wired { child, to_child, from_child: File::from(client) });
            }
            // It does not listen yet.
            Err(Errno::ECONNREFUSED) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Listens on the standard input, and accepts one connection there.
///
/// # Errors
/// The standard input is no socket that is bound.
pub fn accept() -> io::Result<File> {
    let listener = io::stdin();
    listen(&listener.as_fd(), Backlog::new(1)?)?;
    let accepted = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: the kernel has just given it to this process, and nobody else has it.
    Ok(File::from(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(accepted) }))
}
