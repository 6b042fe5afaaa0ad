//! What addresses are called: answers of name servers, as they come by on this host.
//!
//! A packet socket that lets nothing through but UDP of port 53 sees questions and answers of the host's network
//! namespace, and what containers ask through it. An answer counts only where its question was seen, and where it comes
//! from a name server of this host: neither who can send packets from port 53 nor who asks a server of his own names
//! addresses at will. What is asked over TCP, TLS or HTTPS is not seen.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    time::{Duration, Instant},
};

use hickory_resolver::proto::{
    op::{Message, MessageType, ResponseCode},
    rr::RecordType,
};
use nix::libc;

/// Questions without an answer yet, and addresses with a name, that are remembered.
const QUESTIONS: usize = 1_024;
const ADDRESSES: usize = 16_384;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A name is kept at least this long: programs connect to what they asked for a while ago.
const KEPT: Duration = Duration::from_secs(600);
/// Longest packet that is looked at. Bytes.
const PACKET: usize = 4_096;
/// Room for packets that wait to be looked at. Bytes.
const BUFFER: libc::c_int = 1 << 20;
/// Packets taken at once where nobody waits, and before each name that is asked for.
pub const MANY: usize = 1_024;
const FEW: usize = 32;
/// `IPPROTO_UDP`
const UDP: u8 = 17;
const DNS: u16 = 53;

/// An address and a port.
type Place = (IpAddr, u16);

/// Which question an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Question {
    asker: Place,
    server: IpAddr,
    id: u16,
}

/// Names by address.
#[derive(Debug, Default)]
struct Known {
    /// Name servers of this host, beside those on its loopback.
    servers: Vec<IpAddr>,
    /// Questions for which there was no room, and names that made way for others.
    refused: u64,
    evicted: u64,
    questions: HashMap<Question, (String, Instant)>,
    asked: VecDeque<(Question, Instant)>,
    names: HashMap<IpAddr, (String, Instant)>,
    told: VecDeque<(IpAddr, Instant)>,
}

/// Listens to name servers.
#[derive(Debug)]
pub struct Dns {
    socket: OwnedFd,
    known: Known,
    missed: u64,
}

impl Dns {
    /// Begins to listen.
    ///
    /// # Errors
    /// It takes CAP_NET_RAW.
    pub fn listen() -> io::Result<Self> {
        // SAFETY: no pointers. Nothing is received before there is a filter: protocol 0.
        let socket = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
        };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let filter = filter();
        let program =
            libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
        set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER)?;
        // SAFETY: zeroes are a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address lives as long as the call, and is of that length.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, known: Known::default(), missed: 0 })
    }

    /// What an address is called, by what has come until now.
    pub fn name_of(&mut self, address: IpAddr) -> Option<String> {
        self.hear(FEW);
        self.known.names.get(&address).map(|(name, _)| name.clone())
    }

    /// Takes in what waits.
    pub fn hear(&mut self, most: usize) {
        let now = Instant::now();
        let mut packet = [0u8; PACKET];
        for _ in 0..most {
            let Ok(length) = nix::unistd::read(&self.socket, &mut packet) else { break };
            if let Some(packet) = packet.get(..length) {
                self.known.packet(packet, now);
            }
        }
        self.known.forget(now);
        self.missed += missed(&self.socket);
    }

    /// Packets, questions and names for which there was no room.
    pub fn missed(&self) -> u64 {
        self.missed + self.known.refused + self.known.evicted
    }

    /// Reads anew which name servers this host has: those of /etc/resolv.conf, and these.
    pub fn trust(&mut self, more: &[SocketAddr]) {
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        self.known.servers = name_servers(&text).chain(more.iter().map(SocketAddr::ip)).collect();
    }
}

impl Known {
    /// Takes a packet in, from its IP header on.
    fn packet(&mut self, packet: &[u8], now: Instant) -> Option<()> {
        let (from, to, payload) = datagram(packet)?;
        let message = Message::from_vec(payload).ok()?;
        let [query] = message.queries.as_slice() else { return None };
        let name = query.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
        let id = message.metadata.id;
        if message.metadata.message_type == MessageType::Query && to.1 == DNS {
            let question = Question { asker: from, server: to.0, id };
            if !self.is_trusted(to.0) {
                return None;
            }
            if self.questions.len() >= QUESTIONS {
                self.refused += 1;
            } else if self.questions.insert(question, (name, now)).is_none() {
                self.asked.push_back((question, now));
            }
            return Some(());
        }
        let question = Question { asker: to, server: from.0, id };
        // On the loopback each packet is seen twice, and so is its answer.
        let (asked, _) = self.questions.get(&question)?;
        if from.1 != DNS || *asked != name || message.metadata.response_code != ResponseCode::NoError {
            return None;
        }
        for record in &message.answers {
            let Some(address) = record.data.ip_addr() else { continue };
            if matches!(record.record_type(), RecordType::A | RecordType::AAAA) {
                self.name(address.to_canonical(), &name, now);
            }
        }
        Some(())
    }

    /// Whether a name server is this host's.
    fn is_trusted(&self, server: IpAddr) -> bool {
        server.is_loopback() || self.servers.contains(&server.to_canonical())
    }

    fn name(&mut self, address: IpAddr, name: &str, now: Instant) {
        if self.names.len() >= ADDRESSES && !self.names.contains_key(&address) {
            // The oldest makes way.
            while let Some((oldest, since)) = self.told.pop_front() {
                if self.names.get(&oldest).is_some_and(|(_, known)| *known == since) {
                    self.names.remove(&oldest);
                    self.evicted += 1;
                    break;
                }
            }
        }
        self.names.insert(address, (name.to_owned(), now));
        self.told.push_back((address, now));
    }

    /// Forgets questions that nobody answered, and names that are old.
    fn forget(&mut self, now: Instant) {
        while let Some((question, since)) = self.asked.front().copied()
            && now.duration_since(since) > PATIENCE
        {
            self.asked.pop_front();
            self.questions.remove(&question);
        }
        while let Some((address, since)) = self.told.front().copied()
            && (now.duration_since(since) > KEPT || self.told.len() > 2 * ADDRESSES)
        {
            self.told.pop_front();
            if self.names.get(&address).is_some_and(|(_, known)| *known == since) {
                self.names.remove(&address);
            }
        }
    }
}

/// The addresses in lines of `nameserver ADDRESS` (resolv.conf(5)); what follows a `%` is an interface.
fn name_servers(text: &str) -> impl Iterator<Item = IpAddr> {
    let words =
        text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.split_whitespace().next());
    words.filter_map(|word| word.split('%').next()?.parse().ok())
}

/// Who sends what to whom: of a datagram of UDP, from its IP header on.
fn datagram(packet: &[u8]) -> Option<(Place, Place, &[u8])> {
    let (from, to, udp): (IpAddr, IpAddr, &[u8]) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet.first()? & 15) * 4;
            let address = |at: usize| -> Option<IpAddr> {
                let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(Ipv4Addr::from(bytes).into())
            };
            (address(12)?, address(16)?, packet.get(header..)?)
        }
        6 => {
            let address = |at: usize| -> Option<IpAddr> {
                let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(bytes).into())
            };
            (address(8)?, address(24)?, packet.get(40..)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(udp.get(at..at + 2)?.try_into().ok()?));
    Some(((from, port(0)?), (to, port(2)?), udp.get(8..)?))
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

fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives as long as the call, and is of that length.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Packets that found the socket full since this was asked last (`PACKET_STATISTICS`, packet(7)).
fn missed(socket: &OwnedFd) -> u64 {
    // SAFETY: zeroes are a valid value.
    let mut statistics: libc::tpacket_stats = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: both pointers are to live values, and the option is of that length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    if result == 0 { statistics.tp_drops.into() } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use hickory_resolver::proto::{
        op::{OpCode, Query},
        rr::{Name, RData, Record, rdata},
    };

    use super::*;

    const ASKER: (&str, u16) = ("10.0.0.2", 40_000);
    const SERVER: (&str, u16) = ("10.0.0.1", 53);

    /// A datagram of IPv4.
    fn packet(from: (&str, u16), to: (&str, u16), payload: &[u8]) -> Vec<u8> {
        let ip = |text: &str| Ipv4Addr::from_str(text).unwrap().octets();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0];
        packet.extend(ip(from.0));
        packet.extend(ip(to.0));
        packet.extend([from.1.to_be_bytes(), to.1.to_be_bytes(), [0; 2], [0; 2]].concat());
        packet.extend(payload);
        packet
    }

    fn trusting() -> Known {
        Known {
            servers: name_servers("# mine\nnameserver 10.0.0.1\n nameserver fe80::1%eth0\n").collect(),
            ..Known::default()
        }
    }

    fn message(id: u16, kind: MessageType, name: &str, answers: &[[u8; 4]]) -> Vec<u8> {
        let mut message = Message::new(id, kind, OpCode::Query);
        let name = Name::from_str(name).unwrap();
        message.queries.push(Query::query(name.clone(), RecordType::A));
        // An alias first, as most have.
        let alias = Name::from_str("other.example.").unwrap();
        if !answers.is_empty() {
            let to = RData::CNAME(rdata::CNAME(alias.clone()));
            message.answers.push(Record::from_rdata(name, 60, to));
        }
        for [a, b, c, d] in answers {
            message.answers.push(Record::from_rdata(
                alias.clone(),
                60,
                RData::A(rdata::A::new(*a, *b, *c, *d)),
            ));
        }
        message.to_vec().unwrap()
    }

    /// What comes by, and what 192.0.2.7 is called then.
    #[test]
    fn answers_to_questions_that_were_seen_count() {
        let asked = |id, name| packet(ASKER, SERVER, &message(id, MessageType::Query, name, &[]));
        let answer = |id, name| message(id, MessageType::Response, name, &[[192, 0, 2, 6], [192, 0, 2, 7]]);
        let told = |id, name| packet(SERVER, ASKER, &answer(id, name));
        let name = Some("www.example");
        type Case = (&'static str, Vec<Vec<u8>>, Option<&'static str>);
        let cases: [Case; 10] = [
            ("nothing", vec![], None),
            ("asked and answered", vec![asked(1, "WWW.example."), told(1, "www.example.")], name),
            (
                "answered twice",
                vec![asked(1, "www.example."), told(1, "www.example."), told(1, "www.example.")],
                name,
            ),
            ("not asked", vec![told(1, "www.example.")], None),
            ("another question's number", vec![asked(1, "www.example."), told(2, "www.example.")], None),
            ("another name", vec![asked(1, "www.example."), told(1, "evil.example.")], None),
            (
                "another server",
                vec![asked(1, "www.example."), packet(("10.0.0.9", 53), ASKER, &answer(1, "www.example."))],
                None,
            ),
            (
                "another port",
                vec![asked(1, "www.example."), packet(("10.0.0.1", 54), ASKER, &answer(1, "www.example."))],
                None,
            ),
            (
                "a server of one's own",
                vec![
                    packet(ASKER, ("10.0.0.9", 53), &message(1, MessageType::Query, "www.example.", &[])),
                    packet(("10.0.0.9", 53), ASKER, &answer(1, "www.example.")),
                ],
                None,
            ),
            ("nonsense", vec![vec![0x45], vec![0x60; 30], packet(SERVER, ASKER, b"\xff"), vec![]], None),
        ];
        for (what, packets, expected) in cases {
            let (mut known, now) = (trusting(), Instant::now());
            for packet in packets {
                known.packet(&packet, now);
            }
            let address = IpAddr::from([192, 0, 2, 7]);
            let found = known.names.get(&address).map(|(name, _)| name.as_str());
            assert_eq!(found, expected, "{what}");
            known.forget(now + KEPT + Duration::from_secs(1));
            assert!(known.names.is_empty() && known.questions.is_empty(), "{what}: nothing is kept for ever");
        }
    }

    #[test]
    fn no_more_is_remembered_than_fits() {
        let (mut known, now) = (trusting(), Instant::now());
        for number in 0..ADDRESSES as u32 + 10 {
            known.name(Ipv4Addr::from(number).into(), "a.example", now + Duration::from_nanos(number.into()));
        }
        assert_eq!(known.names.len(), ADDRESSES);
        assert!(!known.names.contains_key(&IpAddr::from([0, 0, 0, 9])), "the oldest made way");
        for id in 0..u16::MAX {
            known.packet(&packet(ASKER, SERVER, &message(id, MessageType::Query, "a.example.", &[])), now);
        }
        assert_eq!(known.questions.len(), QUESTIONS);
        assert_eq!((known.evicted, known.refused), (10, u64::from(u16::MAX) - QUESTIONS as u64));
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
    fn the_filter_lets_dns_through() {
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
