//! What addresses are called: answers of name servers, as they come by on this host.
//!
//! [`PacketSockets`] sniff questions and answers of the host's network namespace, and those of containers that pass it. An answer is used only where its question was seen, and where it comes
//! from a name server of this host: neither who can send packets from port 53 nor who asks a server of his own names
//! addresses at will. What is asked over TCP, TLS or HTTPS is not seen.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::{Duration, Instant},
};

use hickory_resolver::proto::{
    op::{Message, MessageType, ResponseCode},
    rr::RecordType,
};

use super::packet_sockets::{DNS, PACKET, PacketSockets};

/// Questions without an answer yet, and addresses with a name, that are remembered.
const QUESTIONS: usize = 1_024;
const ADDRESSES: usize = 16_384;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A name is kept at least this long: programs connect to what they asked for a while ago.
const KEPT: Duration = Duration::from_secs(600);
/// Packets taken at once where nobody waits, and before each name that is asked for.
pub const MANY: usize = 1_024;
const FEW: usize = 32;

/// An address and a port.
type ServerEndpoint = (IpAddr, u16);

/// Which question an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Question {
    asker: ServerEndpoint,
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
    question_order: VecDeque<(Question, Instant)>,
    names: HashMap<IpAddr, (String, Instant)>,
    /// What was told since it was taken away last, each once.
    news: BTreeSet<(String, IpAddr)>,
    name_order: VecDeque<(IpAddr, Instant)>,
}

/// Listens to name servers.
#[derive(Debug)]
pub struct Dns {
    packet_sockets: PacketSockets,
    known: Known,
}

impl Dns {
    /// Begins to listen.
    ///
    /// # Errors
    /// It takes CAP_NET_RAW.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { packet_sockets: PacketSockets::open()?, known: Known::default() })
    }

    /// What an address is called, by what has come until now.
    pub fn name_of(&mut self, address: IpAddr) -> Option<String> {
        self.receive(FEW);
        self.known.names.get(&address).map(|(name, _)| name.clone())
    }

    /// Takes in what waits.
    pub fn receive(&mut self, most: usize) {
        let now = Instant::now();
        let mut packet = [0u8; PACKET];
        for _ in 0..most {
            let Some(packet) = self.packet_sockets.next(&mut packet) else { break };
            self.known.packet(packet, now);
        }
        self.known.forget(now);
    }

    /// What names were said to have since the last time.
    pub fn news(&mut self) -> impl Iterator<Item = (String, IpAddr)> + use<> {
        std::mem::take(&mut self.known.news).into_iter()
    }

    /// Packets, questions and names for which there was no room.
    pub fn missed(&self) -> u64 {
        self.packet_sockets.missed() + self.known.refused + self.known.evicted
    }

    /// Listens at the interfaces that are there by now.
    pub fn follow(&mut self) {
        self.packet_sockets.follow();
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
                self.question_order.push_back((question, now));
            }
            return Some(());
        }
        let question = Question { asker: to, server: from.0, id };
        // On the loopback each packet is seen twice, and so is its answer.
        let (expected, _) = self.questions.get(&question)?;
        if from.1 != DNS || *expected != name || message.metadata.response_code != ResponseCode::NoError {
            return None;
        }
        for record in &message.answers {
            let Some(address) = record.data.ip_addr() else { continue };
            if matches!(record.record_type(), RecordType::A | RecordType::AAAA) {
                self.name(address.to_canonical(), &name, now);
                if self.news.len() < ADDRESSES {
                    self.news.insert((name.clone(), address.to_canonical()));
                } else {
                    self.refused += 1;
                }
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
            while let Some((oldest, since)) = self.name_order.pop_front() {
                if self.names.get(&oldest).is_some_and(|(_, known)| *known == since) {
                    self.names.remove(&oldest);
                    self.evicted += 1;
                    break;
                }
            }
        }
        self.names.insert(address, (name.to_owned(), now));
        self.name_order.push_back((address, now));
    }

    /// Forgets questions that nobody answered, and names that are old.
    fn forget(&mut self, now: Instant) {
        while let Some((question, since)) = self.question_order.front().copied()
            && now.duration_since(since) > PATIENCE
        {
            self.question_order.pop_front();
            self.questions.remove(&question);
        }
        while let Some((address, since)) = self.name_order.front().copied()
            && (now.duration_since(since) > KEPT || self.name_order.len() > 2 * ADDRESSES)
        {
            self.name_order.pop_front();
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
fn datagram(packet: &[u8]) -> Option<(ServerEndpoint, ServerEndpoint, &[u8])> {
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

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use hickory_resolver::proto::{
        op::{OpCode, Query},
        rr::{Name, RData, Record, rdata},
    };

    use super::*;
    use crate::network::packet_sockets::tests::packet;

    const ASKER: (&str, u16) = ("10.0.0.2", 40_000);
    const SERVER: (&str, u16) = ("10.0.0.1", 53);

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
    fn dns_answer_needs_an_observed_question() {
        let query = |id, name| packet(ASKER, SERVER, &message(id, MessageType::Query, name, &[]));
        let answer = |id, name| message(id, MessageType::Response, name, &[[192, 0, 2, 6], [192, 0, 2, 7]]);
        let response = |id, name| packet(SERVER, ASKER, &answer(id, name));
        let name = Some("www.example");
        type Case = (&'static str, Vec<Vec<u8>>, Option<&'static str>);
        let cases: [Case; 10] = [
            ("nothing", vec![], None),
            ("asked and answered", vec![query(1, "WWW.example."), response(1, "www.example.")], name),
            (
                "answered twice",
                vec![query(1, "www.example."), response(1, "www.example."), response(1, "www.example.")],
                name,
            ),
            ("not asked", vec![response(1, "www.example.")], None),
            ("another question's number", vec![query(1, "www.example."), response(2, "www.example.")], None),
            ("another name", vec![query(1, "www.example."), response(1, "evil.example.")], None),
            (
                "another server",
                vec![query(1, "www.example."), packet(("10.0.0.9", 53), ASKER, &answer(1, "www.example."))],
                None,
            ),
            (
                "another port",
                vec![query(1, "www.example."), packet(("10.0.0.1", 54), ASKER, &answer(1, "www.example."))],
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
            let news: Vec<&str> = known.news.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(news, expected.map_or(vec![], |name| vec![name; 2]), "{what}");
            known.forget(now + KEPT + Duration::from_secs(1));
            assert!(known.names.is_empty() && known.questions.is_empty(), "{what}: nothing is kept for ever");
        }
    }

    #[test]
    fn dns_cache_is_bounded() {
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
}
