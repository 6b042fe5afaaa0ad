//! Sockets that are open to what becomes denied: found and destroyed, in every network namespace.
//!
//! The kernel lists them (`sock_diag(7)`) and destroys one by its number (`SOCK_DESTROY`, Linux 4.9, where it is built with
//! `CONFIG_INET_DIAG_DESTROY`): its owner gets ECONNABORTED.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt as _,
};

use mcpwarden_policy::event::Protocol;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::{
    SOCK_DESTROY, SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP},
    inet::{ExtensionFlags, InetRequest, SocketId, StateFlags},
};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use nix::sched::{CloneFlags, setns};

/// Network namespaces that are looked into, at most.
const NAMESPACES: usize = 4_096;
/// Where the type of a message stands in its header (`struct nlmsghdr`).
const TYPE: std::ops::Range<usize> = 4..6;

/// What became of the sockets to one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// So many were destroyed.
    pub closed: u64,
    /// So many could not be.
    pub left: u64,
}

/// Destroys the sockets that are connected to what is denied. `denied` is asked for an address and a port, and whether
/// the socket is in the network namespace of the agent.
///
/// Looks into the namespaces of all processes, each by a thread that enters it.
pub fn destroy(
    denied: impl Fn(IpAddr, u16, bool) -> bool + Send + Sync,
) -> io::Result<BTreeMap<(SocketAddr, Protocol), Outcome>> {
    let own = fs::metadata("/proc/self/ns/net")?.ino();
    let mut seen = HashSet::new();
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let path = entry.path().join("ns/net");
        // No process, or gone.
        let Ok(number) = fs::metadata(&path).map(|namespace| namespace.ino()) else { continue };
        if seen.len() >= NAMESPACES || !seen.insert(number) {
            continue;
        }
        let Ok(namespace) = File::open(&path) else { continue };
        let denied = &denied;
        let found = std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                setns(namespace, CloneFlags::CLONE_NEWNET)?;
                destroy_here(|ip, port| denied(ip, port, number == own))
            });
            inside.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed")))
        })?;
        for (key, outcome) in found {
            let sum: &mut Outcome = all.entry(key).or_default();
            sum.closed += outcome.closed;
            sum.left += outcome.left;
        }
    }
    Ok(all)
}

/// The same in the network namespace of this thread.
fn destroy_here(
    denied: impl Fn(IpAddr, u16) -> bool,
) -> io::Result<BTreeMap<(SocketAddr, Protocol), Outcome>> {
    let mut all: BTreeMap<_, Outcome> = BTreeMap::new();
    let socket = Socket::new(NETLINK_SOCK_DIAG)?;
    for (protocol, name) in [(IPPROTO_TCP, Protocol::Tcp), (IPPROTO_UDP, Protocol::Udp)] {
        for family in [AF_INET, AF_INET6] {
            for id in list(&socket, family, protocol)? {
                let (ip, port) = (id.destination_address.to_canonical(), id.destination_port);
                if port == 0 || !denied(ip, port) {
                    continue;
                }
                let outcome = all.entry(((ip, port).into(), name)).or_default();
                match request(&socket, family, protocol, Some(id)) {
                    Ok(_) => outcome.closed += 1,
                    // It was closed meanwhile.
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => outcome.closed += 1,
                    Err(_) => outcome.left += 1,
                }
            }
        }
    }
    Ok(all)
}

/// The connected sockets.
fn list(socket: &Socket, family: u8, protocol: u8) -> io::Result<Vec<SocketId>> {
    request(socket, family, protocol, None)
}

/// Asks for the connected sockets, or to destroy one.
fn request(
    socket: &Socket,
    family: u8,
    protocol: u8,
    destroy: Option<SocketId>,
) -> io::Result<Vec<SocketId>> {
    let is_list = destroy.is_none();
    let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | if is_list { NLM_F_DUMP } else { NLM_F_ACK };
    let states = StateFlags::all() & !(StateFlags::LISTEN | StateFlags::TIME_WAIT | StateFlags::CLOSE);
    let inet = InetRequest {
        family,
        protocol,
        extensions: ExtensionFlags::empty(),
        states,
        socket_id: destroy.unwrap_or(any),
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(inet).into());
    message.finalize();
    let mut bytes = vec![0; message.header.length as usize];
    message.serialize(&mut bytes);
    if !is_list && let Some(kind) = bytes.get_mut(TYPE) {
        kind.copy_from_slice(&SOCK_DESTROY.to_ne_bytes());
    }
    socket.send(&bytes, 0)?;
    let mut found = Vec::new();
    loop {
        let (part, _) = socket.recv_from_full()?;
        let mut rest = part.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
            let length = (message.header.length as usize).next_multiple_of(4);
            match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(one)) => {
                    found.push(one.header.socket_id);
                }
                NetlinkPayload::Done(_) => return Ok(found),
                NetlinkPayload::Error(error) => {
                    return match error.code {
                        None => Ok(found),
                        Some(_) => Err(error.to_io()),
                    };
                }
                _ => {}
            }
            rest = rest.get(length.max(1)..).unwrap_or_default();
        }
    }
}
