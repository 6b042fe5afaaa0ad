//! Sockets that are connected to something: found, and destroyed where that becomes denied, in the network namespaces of all
//! processes.
//!
//! The kernel lists them (`sock_diag(7)`) and destroys one by its number (`SOCK_DESTROY`, Linux 4.9, where it is built with
//! `CONFIG_INET_DIAG_DESTROY`): its owner gets ECONNABORTED. Only what a process of this host opened is destroyed: who
//! connected to a listener here did no more than be there.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::MetadataExt as _,
    },
    time::{Duration, Instant},
};

use mcpwarden_policy::event::{Family, NetworkClosed, Protocol};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::{
    SOCK_DESTROY, SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP},
    inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr as Peer, protocols::NETLINK_SOCK_DIAG};
use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, setns},
    sys::socket::{AddressFamily, SockFlag, SockType},
};

/// Network namespaces that are looked into, at most.
const NAMESPACES: usize = 4_096;
/// Sockets of one kind and namespace that are looked at, at most.
const SOCKETS: usize = 1 << 20;
/// How long the kernel may take to answer one question.
const PATIENCE: Duration = Duration::from_secs(5);
/// Those of IPv6 have IPv4 addresses, too.
const FAMILIES: [u8; 2] = [AF_INET, AF_INET6];
/// Where the type of a message stands in its header (`struct nlmsghdr`).
const TYPE: std::ops::Range<usize> = 4..6;

/// What became of the sockets to what is denied, by address.
pub type Closed = BTreeMap<(SocketAddr, Protocol), NetworkClosed>;

/// Network namespaces that could not be looked into.
#[derive(Debug, Default)]
pub struct Skipped {
    /// So many.
    pub namespaces: u64,
    /// Why the last one could not.
    pub why: Option<io::Error>,
}

impl Skipped {
    fn one(&mut self, why: io::Error) {
        self.namespaces += 1;
        self.why = Some(why);
    }
}

/// A socket that somebody on this host has connected to something.
#[derive(Debug)]
pub struct Connected {
    /// What it speaks.
    pub protocol: Protocol,
    /// Its family.
    pub family: Family,
    /// Where to; a v4-mapped address is the IPv4 address.
    pub remote: SocketAddr,
    /// Its network namespace (cookie).
    pub netns: u64,
    /// By which descriptors name it; 0 where it has none.
    pub inode: u64,
    id: SocketId,
}

/// What is done with each socket; by the list that it is in it can be destroyed.
pub type Visit<'a> = dyn FnMut(&mut Diag, &Connected) + Send + 'a;

/// Looks at each socket that is connected to something, but for those that a listener of this host accepted, in the network
/// namespaces of all processes.
///
/// # Errors
/// Processes cannot be listed.
pub fn each(visit: &mut Visit<'_>) -> io::Result<Skipped> {
    let own = fs::metadata("/proc/self/ns/net")?.ino();
    let mut skipped = Skipped::default();
    if let Err(error) = each_here(visit) {
        skipped.one(error);
    }
    let mut seen = HashSet::from([own]);
    for entry in fs::read_dir("/proc")?.flatten() {
        let path = entry.path().join("ns/net");
        // No process, or gone.
        let Ok(number) = fs::metadata(&path).map(|namespace| namespace.ino()) else { continue };
        if !seen.insert(number) {
            continue;
        }
        if seen.len() > NAMESPACES {
            skipped.one(io::Error::other("too many network namespaces"));
            continue;
        }
        let Ok(namespace) = File::open(&path) else { continue };
        let visit = &mut *visit;
        // A thread stays in the namespace that it entered, so it is one that ends.
        let result = std::thread::scope(|scope| {
            let inside = std::thread::Builder::new().spawn_scoped(scope, move || {
                setns(namespace, CloneFlags::CLONE_NEWNET)?;
                each_here(visit)
            });
            inside?.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed")))
        });
        if let Err(error) = result {
            skipped.one(error);
        }
    }
    Ok(skipped)
}

/// The same in the network namespace of this thread.
fn each_here(visit: &mut Visit<'_>) -> io::Result<()> {
    let (mut diag, netns) = (Diag::open()?, netns_cookie()?);
    for (number, protocol, listening) in [
        (IPPROTO_TCP, Protocol::Tcp, StateFlags::LISTEN),
        // Of UDP one that is not connected: whoever answers from its port was asked there.
        (IPPROTO_UDP, Protocol::Udp, StateFlags::CLOSE),
    ] {
        let mut listeners = HashSet::new();
        for family in FAMILIES {
            let listed = diag.list(family, number, listening.clone()).map_err(absent)?;
            listeners.extend(listed.iter().map(|one| one.socket_id.source_port));
        }
        let connected = StateFlags::all() & !(StateFlags::LISTEN | StateFlags::TIME_WAIT | StateFlags::CLOSE);
        for family in FAMILIES {
            for one in diag.list(family, number, connected.clone())? {
                let id = one.socket_id;
                let (ip, port) = (id.destination_address.to_canonical(), id.destination_port);
                if port == 0 || listeners.contains(&id.source_port) {
                    continue;
                }
                let family = if family == AF_INET { Family::Ipv4 } else { Family::Ipv6 };
                let (remote, inode) = (SocketAddr::new(ip, port), one.inode.into());
                visit(&mut diag, &Connected { protocol, family, remote, netns, inode, id });
            }
        }
    }
    Ok(())
}

/// What it means that the kernel knows of no such list, and that nothing could load what makes it.
fn absent(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => io::Error::new(
            io::ErrorKind::NotFound,
            "the kernel has no list of sockets; `modprobe -a tcp_diag udp_diag` loads it",
        ),
        _ => error,
    }
}

/// The kernel's list of sockets, in the network namespace of the thread that opened it.
pub struct Diag {
    socket: Socket,
    sequence: u32,
}

impl Diag {
    fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_SOCK_DIAG)?;
        // Others in that namespace can send to this socket, too; to one that is connected only the kernel can.
        socket.connect(&Peer::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The sockets in some states.
    fn list(&mut self, family: u8, protocol: u8, states: StateFlags) -> io::Result<Vec<InetResponseHeader>> {
        let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
        self.query(
            NLM_F_DUMP,
            InetRequest { family, protocol, extensions: ExtensionFlags::empty(), states, socket_id: any },
        )
    }

    /// Destroys one that is denied, by the rule that `reason` names. Whether it is gone.
    pub fn destroy(&mut self, socket: &Connected, reason: Option<String>, closed: &mut Closed) -> bool {
        let family = if socket.family == Family::Ipv4 { AF_INET } else { AF_INET6 };
        let protocol = if socket.protocol == Protocol::Tcp { IPPROTO_TCP } else { IPPROTO_UDP };
        let (extensions, states) = (ExtensionFlags::empty(), StateFlags::all());
        let request = InetRequest { family, protocol, extensions, states, socket_id: socket.id.clone() };
        let gone = match self.query(NLM_F_ACK, request) {
            Ok(_) => true,
            // It was closed meanwhile.
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        let (protocol, remote_addr) = (socket.protocol, socket.remote.to_string());
        let closed = closed.entry((socket.remote, protocol));
        let closed = closed.or_insert(NetworkClosed { remote_addr, protocol, closed: 0, left: 0, reason });
        *(if gone { &mut closed.closed } else { &mut closed.left }) += 1;
        gone
    }

    fn query(&mut self, flags: u16, request: InetRequest) -> io::Result<Vec<InetResponseHeader>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
        message.finalize();
        let mut bytes = vec![0; message.header.length as usize];
        message.serialize(&mut bytes);
        // The library knows questions alone.
        if flags == NLM_F_ACK
            && let Some(kind) = bytes.get_mut(TYPE)
        {
            kind.copy_from_slice(&SOCK_DESTROY.to_ne_bytes());
        }
        self.socket.send(&bytes, 0)?;
        let until = Instant::now() + PATIENCE;
        let mut found = Vec::new();
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            self.wait(until)?;
            buffer.clear();
            self.socket.recv(&mut buffer, 0)?;
            if take(&buffer, self.sequence, &mut found)? {
                return Ok(found);
            }
        }
    }

    /// Waits for something to read.
    fn wait(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        // SAFETY: the socket outlives this call.
        let socket = unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&self.socket)) };
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        match poll(&mut ready, timeout)? {
            0 => Err(io::Error::from(io::ErrorKind::TimedOut)),
            _ => Ok(()),
        }
    }
}

/// More than the kernel puts into one datagram (`NLMSG_GOODSIZE`, and 32 KiB for lists).
const BUFFER: usize = 64 * 1024;

/// Takes in one datagram of answers to question `sequence`. Whether it was the last.
fn take(mut bytes: &[u8], sequence: u32, found: &mut Vec<InetResponseHeader>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(bytes).map_err(io::Error::other)?;
        let length = (message.header.length as usize).next_multiple_of(4).max(4);
        bytes = bytes.get(length..).unwrap_or_default();
        if message.header.sequence_number != sequence {
            continue;
        }
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(one)) => {
                if found.len() >= SOCKETS {
                    return Err(io::Error::other("too many sockets"));
                }
                found.push(one.header);
            }
            NetlinkPayload::Done(done) if done.code < 0 => {
                return Err(io::Error::from_raw_os_error(-done.code));
            }
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => {
                return match error.code {
                    None => Ok(true),
                    Some(_) => Err(error.to_io()),
                };
            }
            _ => {}
        }
    }
    Ok(false)
}

/// The number of this thread's network namespace (`SO_NETNS_COOKIE`, Linux 5.14).
///
/// # Errors
/// There is no socket, or the kernel has no such number.
pub fn netns_cookie() -> io::Result<u64> {
    // Not bound: a namespace may have no loopback yet.
    let socket =
        nix::sys::socket::socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option is of 8 bytes, and both pointers are to live values.
    let result = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header of a message: length, type, flags, sequence, port.
    fn message(length: u32, kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn diag_replies_are_parsed() {
        const ERROR: u16 = 2;
        const DONE: u16 = 3;
        let not_found = (-2_i32).to_ne_bytes();
        let cases: [(&str, Vec<u8>, Option<bool>); 8] = [
            ("nothing", Vec::new(), Some(false)),
            ("the end", message(20, DONE, 7, &[0; 4]), Some(true)),
            ("the end of another question", message(20, DONE, 6, &[0; 4]), Some(false)),
            ("the end with an error: no such module", message(20, DONE, 7, &not_found), None),
            ("half a header", vec![1; 7], None),
            ("longer than it is", message(200, DONE, 7, &[0; 4]), None),
            ("an error without an error", message(36, ERROR, 7, &[0; 20]), Some(true)),
            ("an error", message(36, ERROR, 7, &[not_found.as_slice(), &[0; 16]].concat()), None),
        ];
        for (name, bytes, expected) in cases {
            assert_eq!(take(&bytes, 7, &mut Vec::new()).ok(), expected, "{name}");
        }
    }

    #[test]
    fn diag_lists_own_sockets() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut diag = Diag::open().unwrap();
        let found = diag.list(AF_INET, IPPROTO_TCP, StateFlags::LISTEN).unwrap();
        assert!(found.iter().any(|one| one.socket_id.source_port == port), "{port} is not among {found:?}");
    }
}
