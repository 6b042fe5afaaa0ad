//! Every way in which a process reaches an address, and what comes of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use io_uring::{IoUring, opcode, types};

/// How an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `connect` of a TCP socket.
    Tcp,
    /// The same, without waiting.
    TcpNonBlocking,
    /// `connect` of a TCP socket of IPv6 to the v4-mapped form of the address.
    TcpMapped,
    /// TCP fast open: `sendto` connects.
    TcpFastOpen,
    /// Multipath TCP.
    Mptcp,
    /// io_uring: `CONNECT` of a TCP socket.
    TcpRing,
    /// `connect` of a UDP socket, then `send`.
    Udp,
    /// `sendto` of a UDP socket.
    UdpTo,
    /// `sendto` of a UDP socket of IPv6 to the v4-mapped form of the address.
    UdpToMapped,
    /// `sendmsg` of a UDP socket.
    UdpMessage,
}

/// All ways there are.
pub const WAYS: [Way; 10] = [
    Way::Tcp,
    Way::TcpNonBlocking,
    Way::TcpMapped,
    Way::TcpFastOpen,
    Way::Mptcp,
    Way::TcpRing,
    Way::Udp,
    Way::UdpTo,
    Way::UdpToMapped,
    Way::UdpMessage,
];

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was let through.
    Through,
    /// EPERM.
    Denied,
    /// This kernel does not know that way, or nobody listens, or no route: the error's number.
    Other(i32),
}

impl Way {
    /// Whether it speaks UDP.
    pub fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::UdpTo | Self::UdpToMapped | Self::UdpMessage)
    }

    /// Whether it exists for an address: IPv6 has no v4-mapped form.
    pub fn fits(self, address: IpAddr) -> bool {
        address.is_ipv4() || !matches!(self, Self::TcpMapped | Self::UdpToMapped)
    }

    /// Reaches `to` this way, once.
    pub fn dial(self, to: SocketAddr) -> Outcome {
        match self.reach(to) {
            Ok(()) => Outcome::Through,
            Err(error) => match error.raw_os_error() {
                Some(libc::EPERM) => Outcome::Denied,
                Some(libc::EINPROGRESS) => Outcome::Through,
                number => Outcome::Other(number.unwrap_or(0)),
            },
        }
    }

    fn reach(self, to: SocketAddr) -> io::Result<()> {
        let to = if matches!(self, Self::TcpMapped | Self::UdpToMapped) { mapped(to) } else { to };
        let kind = if self.is_udp() { libc::SOCK_DGRAM } else { libc::SOCK_STREAM };
        let flags = if self == Self::TcpNonBlocking { libc::SOCK_NONBLOCK } else { 0 };
        let protocol = if self == Self::Mptcp { libc::IPPROTO_MPTCP } else { 0 };
        let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: no pointers.
        let socket = check(unsafe { libc::socket(family, kind | flags | libc::SOCK_CLOEXEC, protocol) })?;
        // SAFETY: it was just opened, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let (address, length) = raw(to);
        let address = (&raw const address).cast::<libc::sockaddr>();
        let fd = socket.as_raw_fd();
        let word = b"hello";
        let send = |flags: i32, address: *const libc::sockaddr, length: u32| {
            // SAFETY: buffer and address live until the call returns.
            let sent = unsafe {
                libc::sendto(
                    fd,
                    word.as_ptr().cast(),
                    word.len(),
                    flags | libc::MSG_NOSIGNAL,
                    address,
                    length,
                )
            };
            if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        match self {
            Self::Tcp | Self::TcpNonBlocking | Self::TcpMapped | Self::Mptcp => {
                // SAFETY: the address lives until the call returns.
                check(unsafe { libc::connect(fd, address, length) }).map(drop)
            }
            Self::TcpFastOpen => send(libc::MSG_FASTOPEN, address, length),
            Self::TcpRing => ring_connect(fd, address, length),
            Self::Udp => {
                // SAFETY: the address lives until the call returns.
                check(unsafe { libc::connect(fd, address, length) })?;
                send(0, std::ptr::null(), 0)
            }
            Self::UdpTo | Self::UdpToMapped => send(0, address, length),
            Self::UdpMessage => {
                let mut part = libc::iovec { iov_base: word.as_ptr().cast_mut().cast(), iov_len: word.len() };
                // SAFETY: any bytes are a msghdr, and zeros an empty one.
                let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
                message.msg_name = address.cast_mut().cast();
                message.msg_namelen = length;
                message.msg_iov = &raw mut part;
                message.msg_iovlen = 1;
                // SAFETY: all that the message points at lives until the call returns.
                let sent = unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) };
                if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
            }
        }
    }
}

impl FromStr for Way {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = WAYS.into_iter().find(|way| format!("{way:?}") == text);
        found.with_context(|| format!("{text} is no way to reach an address"))
    }
}

/// The addresses by which a listener on `port` of the IPv4 loopback is reached, each written another way.
pub fn loopback_names(port: u16) -> [SocketAddr; 4] {
    let unspecified = Ipv4Addr::UNSPECIFIED;
    [
        (Ipv4Addr::LOCALHOST, port).into(),
        (unspecified, port).into(),
        (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port).into(),
        (unspecified.to_ipv6_mapped(), port).into(),
    ]
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddrV6::new(ip.to_ipv6_mapped(), address.port(), 0, 0).into(),
        IpAddr::V6(_) => address,
    }
}

/// A TCP socket that is bound to an address.
///
/// # Errors
/// The address is not this host's.
pub fn socket_from(from: SocketAddr) -> io::Result<OwnedFd> {
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let socket = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: it was just opened, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let (address, length) = raw(from);
    // SAFETY: the address lives until the call returns.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}

/// Connects a socket.
///
/// # Errors
/// As `connect(2)`.
pub fn connect(socket: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    let (address, length) = raw(to);
    // SAFETY: the address lives until the call returns.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

/// An address as the kernel reads it, and its length.
fn raw(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: any bytes are an address, and zeros one of no family.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let into = &raw mut storage;
    let length = match address {
        SocketAddr::V4(address) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is larger, and aligned for every address.
            unsafe { into.cast::<libc::sockaddr_in>().write(raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { into.cast::<libc::sockaddr_in6>().write(raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

fn ring_connect(fd: i32, address: *const libc::sockaddr, length: u32) -> io::Result<()> {
    let mut ring = IoUring::new(2)?;
    let entry = opcode::Connect::new(types::Fd(fd), address, length).build();
    // SAFETY: the address lives until the request is done, which is waited for.
    unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    let result = ring.completion().next().map_or(-libc::EIO, |entry| entry.result());
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Whether two outcomes of the same way to two addresses tell them apart: what this kernel cannot do proves nothing.
pub fn is_known(outcome: Outcome) -> Result<bool> {
    match outcome {
        Outcome::Through | Outcome::Denied => Ok(true),
        Outcome::Other(libc::EPROTONOSUPPORT | libc::ENOSYS | libc::EINVAL) => Ok(false),
        Outcome::Other(number) => bail!("an unexpected error: {}", io::Error::from_raw_os_error(number)),
    }
}

/// The IPv6 loopback.
pub const LOOPBACK_V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
