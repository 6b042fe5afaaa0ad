//! Where questions to name servers and their answers are heard: UDP of port 53, at each interface of the host's network
//! namespace.
//!
//! One packet socket for all interfaces would do. But it also hears what goes out, for which the kernel copies each packet
//! before it asks any filter, and what stays within this host goes out as well: connecting to the loopback took a tenth
//! longer. So each interface has a socket of its own, but for the loopback, where what comes in is everything.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use nix::{
    libc,
    net::if_::if_nameindex,
    sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
};

/// Longest packet that is looked at. Bytes.
pub const PACKET: usize = 4_096;
/// The port of name servers.
pub const DNS: u16 = 53;
/// `IPPROTO_UDP`
const UDP: u8 = libc::IPPROTO_UDP as u8;
/// Room for packets that wait to be looked at, of each socket. Bytes.
const BUFFER: libc::c_int = 1 << 20;
/// Interfaces that are listened at, at most.
const INTERFACES: usize = 256;
/// The loopback's number (`LOOPBACK_IFINDEX` of include/net/flow.h).
const LOOPBACK: u32 = 1;

/// What one socket hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ear {
    /// What comes in and goes out, but on the loopback.
    Interface(u32),
    /// UDP of IPv4 on the loopback.
    Loopback4,
    /// What comes in of IPv6 on the loopback. (A raw socket would be told neither header nor who is asked.)
    Loopback6,
}

/// Hears questions and answers.
#[derive(Debug)]
pub struct PacketSockets {
    /// Tells which sockets have something, by their descriptors.
    ready: Epoll,
    sockets: HashMap<Ear, OwnedFd>,
    /// Interfaces that were one too many, each time that another one was.
    left_out: u64,
    /// Packets for which sockets that are closed had no room.
    missed: u64,
}

impl PacketSockets {
    /// Begins to listen at all interfaces.
    ///
    /// # Errors
    /// It takes CAP_NET_RAW.
    pub fn open() -> io::Result<Self> {
        let ready = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut packet_sockets = Self { ready, sockets: HashMap::new(), left_out: 0, missed: 0 };
        packet_sockets.listen(Ear::Loopback4)?;
        // Where there is no IPv6, there is nothing to hear of it.
        let _ = packet_sockets.listen(Ear::Loopback6);
        packet_sockets.follow();
        Ok(packet_sockets)
    }

    /// Listens at interfaces that have come, and no more at those that are gone.
    pub fn follow(&mut self) {
        // They stay as they are where the kernel does not tell.
        let Ok(interfaces) = if_nameindex() else { return };
        let there: Vec<u32> = interfaces.iter().map(|interface| interface.index()).collect();
        let is_gone =
            |ear: &Ear, _: &mut OwnedFd| matches!(ear, Ear::Interface(index) if !there.contains(index));
        self.missed += self.sockets.extract_if(is_gone).map(|(_, socket)| missed(&socket)).sum::<u64>();
        let mut left_out = 0;
        for index in there.into_iter().filter(|index| *index != LOOPBACK) {
            let ear = Ear::Interface(index);
            if self.sockets.contains_key(&ear) {
                continue;
            }
            // It is gone again, or there are too many.
            if self.sockets.len() >= INTERFACES || self.listen(ear).is_err() {
                left_out += 1;
            }
        }
        self.left_out = self.left_out.max(left_out);
    }

    /// The next packet, from its IP header on. `None`: no more wait.
    pub fn next<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let mut events = [EpollEvent::empty()];
        while self.ready.wait(&mut events, EpollTimeout::ZERO).is_ok_and(|count| count > 0) {
            let [event] = &events;
            let descriptor = libc::c_int::try_from(event.data()).ok()?;
            // SAFETY: the buffer lives as long as the call, and is of that length. The descriptor is that of a socket
            // in `sockets`: one that is closed is in the set no more.
            let length = unsafe { libc::recv(descriptor, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            // An error, such as that an interface went down, is taken by this: it is not there again.
            if let Ok(length) = usize::try_from(length) {
                return buffer.get(..length);
            }
        }
        None
    }

    /// Packets for which there was no room, and interfaces that are one too many.
    pub fn missed(&self) -> u64 {
        self.sockets.values().map(missed).sum::<u64>() + self.missed + self.left_out
    }

    fn listen(&mut self, ear: Ear) -> io::Result<()> {
        let socket = ear.open()?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, socket.as_raw_fd() as u64);
        self.ready.add(&socket, event)?;
        self.sockets.insert(ear, socket);
        Ok(())
    }
}

impl Ear {
    fn open(self) -> io::Result<OwnedFd> {
        const FLAGS: libc::c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0 of a packet socket: nothing is received before it is bound, and by then there is a filter.
        let (family, kind, protocol) = match self {
            Self::Interface(_) | Self::Loopback6 => (libc::AF_PACKET, libc::SOCK_DGRAM, 0),
            Self::Loopback4 => (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_UDP),
        };
        // SAFETY: no pointers.
        let socket = unsafe { libc::socket(family, kind | FLAGS, protocol) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let filter = filter();
        let program =
            libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
        set(&socket, libc::SO_ATTACH_FILTER, &program)?;
        set(&socket, libc::SO_RCVBUF, &BUFFER)?;
        match self {
            Self::Interface(index) => bind(&socket, index, libc::ETH_P_ALL)?,
            Self::Loopback4 => set(&socket, libc::SO_BINDTODEVICE, b"lo\0")?,
            Self::Loopback6 => bind(&socket, LOOPBACK, libc::ETH_P_IPV6)?,
        }
        Ok(socket)
    }
}

/// Has a packet socket hear one interface.
fn bind(socket: &OwnedFd, interface: u32, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: zeroes are a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = interface as libc::c_int;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives as long as the call, and is of that length.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// UDP from or to port 53, of IPv4 (no later fragment) and IPv6 (without extension headers), from the IP header on.
fn filter() -> [libc::sock_filter; 21] {
    const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
    const LOAD_HALF: u16 = 0x28; // BPF_LD | BPF_H | BPF_ABS
    const LOAD_HALF_BEHIND: u16 = 0x48; // BPF_LD | BPF_H | BPF_IND
    const HEADER_LENGTH: u16 = 0xb1; // BPF_LDX | BPF_B | BPF_MSH
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    // Where to go on.
    const SIX: usize = 12;
    const TAKE: usize = 19;
    const LEAVE: usize = 20;
    let (port, udp, take) = (u32::from(DNS), u32::from(UDP), PACKET as u32);
    // Code, constant, and where to go on where it is so, and where it is not.
    let steps: [(u16, u32, usize, usize); 21] = [
        (LOAD_BYTE, 0, 1, 1),
        (AND, 0xf0, 2, 2),
        (EQUAL, 0x40, 3, SIX),
        (LOAD_BYTE, 9, 4, 4),
        (EQUAL, udp, 5, LEAVE),
        (LOAD_HALF, 6, 6, 6),
        (ANY_BIT, 0x1fff, LEAVE, 7),
        (HEADER_LENGTH, 0, 8, 8),
        (LOAD_HALF_BEHIND, 0, 9, 9),
        (EQUAL, port, TAKE, 10),
        (LOAD_HALF_BEHIND, 2, 11, 11),
        (EQUAL, port, TAKE, LEAVE),
        (EQUAL, 0x60, 13, LEAVE),
        (LOAD_BYTE, 6, 14, 14),
        (EQUAL, udp, 15, LEAVE),
        (LOAD_HALF, 40, 16, 16),
        (EQUAL, port, TAKE, 17),
        (LOAD_HALF, 42, 18, 18),
        (EQUAL, port, TAKE, LEAVE),
        (RETURN, take, 0, 0),
        (RETURN, 0, 0, 0),
    ];
    let mut at = 0;
    steps.map(|(code, k, so, not)| {
        at += 1;
        let jumps = matches!(code, EQUAL | ANY_BIT);
        let over = |to: usize| if jumps { (to - at) as u8 } else { 0 };
        libc::sock_filter { code, jt: over(so), jf: over(not), k }
    })
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives as long as the call, and is of that length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Packets that found the socket full.
fn missed(socket: &OwnedFd) -> u64 {
    // `SK_MEMINFO_DROPS` and `SK_MEMINFO_VARS` of linux/sock_diag.h
    const DROPS: usize = 8;
    let mut numbers = [0u32; DROPS + 1];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: both pointers are to live values, and no more than `length` is written.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { numbers[DROPS].into() } else { 0 }
}

#[cfg(test)]
pub mod tests {
    use std::{net::Ipv4Addr, str::FromStr as _};

    use super::*;

    /// A datagram of IPv4.
    pub fn packet(from: (&str, u16), to: (&str, u16), payload: &[u8]) -> Vec<u8> {
        let ip = |text: &str| Ipv4Addr::from_str(text).unwrap().octets();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0];
        packet.extend(ip(from.0));
        packet.extend(ip(to.0));
        packet.extend([from.1.to_be_bytes(), to.1.to_be_bytes(), [0; 2], [0; 2]].concat());
        packet.extend(payload);
        packet
    }

    /// Runs the filter as the kernel does.
    fn takes(packet: &[u8]) -> bool {
        let (program, mut a, mut x, mut at) = (filter(), 0u32, 0usize, 0usize);
        loop {
            let step = program[at];
            at += 1;
            let half =
                |from: usize| packet.get(from..from + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
            let k = step.k as usize;
            match step.code {
                0x30 => match packet.get(k) {
                    Some(byte) => a = (*byte).into(),
                    None => return false,
                },
                0x28 | 0x48 => match half(if step.code == 0x48 { x + k } else { k }) {
                    Some(half) => a = half.into(),
                    None => return false,
                },
                0xb1 => x = usize::from(packet[k] & 15) * 4,
                0x54 => a &= step.k,
                0x15 => at += usize::from(if a == step.k { step.jt } else { step.jf }),
                0x45 => at += usize::from(if a & step.k != 0 { step.jt } else { step.jf }),
                0x06 => return step.k != 0,
                code => panic!("{code:#x}"),
            }
        }
    }

    #[test]
    fn socket_filter_passes_only_dns() {
        let four = |from, to| packet(("10.0.0.1", from), ("10.0.0.2", to), b"x");
        let six = |protocol: u8, from: u16, to: u16| {
            let mut packet = vec![0; 40];
            (packet[0], packet[6]) = (0x60, protocol);
            packet.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
            packet
        };
        let with = |mut packet: Vec<u8>, at: usize, byte: u8| {
            packet[at] = byte;
            packet
        };
        let mut options = four(53, 9);
        options[0] = 0x46;
        options.splice(20..20, [0; 4]);
        for (name, packet, expected) in [
            ("an answer", four(53, 9), true),
            ("a question", four(9, 53), true),
            ("something else", four(9, 10), false),
            ("TCP", with(four(53, 9), 9, 6), false),
            ("a later fragment", with(four(53, 9), 7, 1), false),
            ("with options", options, true),
            ("an answer, IPv6", six(UDP, 53, 9), true),
            ("a question, IPv6", six(UDP, 9, 53), true),
            ("something else, IPv6", six(UDP, 9, 10), false),
            ("TCP, IPv6", six(6, 53, 9), false),
            ("neither", with(four(53, 9), 0, 0x35), false),
            ("cut off", vec![0x45; 12], false),
        ] {
            assert_eq!(takes(&packet), expected, "{name}");
        }
    }
}
