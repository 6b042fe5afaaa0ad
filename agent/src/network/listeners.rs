//! Which process listens where clients connect that speak in lines: /proc tells.
//!
//! One walk over the descriptors of all processes costs milliseconds, and anybody can connect as often as he likes: there is one
//! in a second, in the long run, and what it found holds for as long as that process lives.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::{Duration, Instant},
};

use mcpwarden_policy::{Process, ServerAddress, network::reached};

use crate::host::process;

/// Addresses that are remembered, at most.
const MOST: usize = 256;
/// Walks, at most, in a time.
const WALKS: usize = 16;
const PERIOD: Duration = Duration::from_secs(16);
/// Who listens for services that are not started yet, and for those that are.
const INIT: u32 = 1;

/// An address, in the network namespace with this cookie.
type Place = (Option<u64>, String);

/// Those that were found.
#[derive(Default)]
pub struct Listeners {
    known: HashMap<Place, Process>,
    /// When the last walks were.
    walked: VecDeque<Instant>,
    /// How often nobody was looked for, since that had been done too often just before.
    pub skipped: u64,
}

impl Listeners {
    /// The process that listens at an address to which `client` has connected; of several the first that was started.
    pub fn at(&mut self, address: &ServerAddress, netns: Option<u64>, client: u32) -> Option<Process> {
        let place = (netns, address.to_string());
        if let Some(known) = self.known.get(&place)
            && process::lives(known.pid, known.start_ns)
        {
            return Some(known.clone());
        }
        self.walked.retain(|walked| walked.elapsed() < PERIOD);
        if self.walked.len() >= WALKS {
            self.skipped += 1;
            return None;
        }
        self.walked.push_back(Instant::now());
        let inodes = sockets_at(address, client);
        let holders = process::holders_of_sockets();
        let pids = inodes.iter().filter_map(|inode| holders.get(inode)).flatten();
        let found = pids.map(|pid| process::of(*pid)).filter(|found| found.start_ns != 0);
        let first = found.min_by_key(|found| (found.pid == INIT, found.start_ns))?;
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known.insert(place, first.clone());
        Some(first)
    }
}

/// The inodes of the sockets that listen at an address, in the network namespace of a process.
fn sockets_at(address: &ServerAddress, pid: u32) -> Vec<u64> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    match address {
        ServerAddress::Internet(address) => [read("tcp"), read("tcp6")]
            .iter()
            .flat_map(|table| table.lines().filter_map(|line| inode_of_tcp(line, *address)))
            .collect(),
        ServerAddress::Unix(name) => {
            read("unix").lines().filter_map(|line| inode_of_unix(line, name)).collect()
        }
    }
}

/// The inode in a line of /proc/net/tcp or tcp6, if it listens at this address (`net/ipv4/tcp_ipv4.c`, `get_tcp4_sock`).
fn inode_of_tcp(line: &str, address: SocketAddr) -> Option<u64> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (ip, port) = fields.next()?.split_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?.parse().ok()?;
    let listens = listening_ip(ip)?;
    let is_there = listens.is_unspecified() || listens == reached(address.ip());
    let is_port = u16::from_str_radix(port, 16).ok()? == address.port();
    (state == LISTEN && is_there && is_port && inode != 0).then_some(inode)
}

/// An address in hexadecimal, as words in the processor's byte order.
fn listening_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

/// The inode in a line of /proc/net/unix, if it listens under this name (`net/unix/af_unix.c`, `unix_seq_show`).
fn inode_of_unix(line: &str, name: &str) -> Option<u64> {
    /// `__SO_ACCEPTCON` (`linux/net.h`)
    const LISTENS: u32 = 1 << 16;
    let mut rest = line;
    let mut field = || {
        let (field, after) = rest.trim_start().split_once(' ')?;
        rest = after;
        Some(field)
    };
    let flags = [field()?, field()?, field()?, field()?][3];
    let (_type, _state) = (field()?, field()?);
    let (inode, path) = rest.trim_start().split_once(' ')?;
    let listens = u32::from_str_radix(flags, 16).ok()? & LISTENS != 0;
    (listens && path == name).then(|| inode.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_in_tables_of_tcp() {
        const LOOPBACK: &str =
            "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 0";
        const ANY: &str =
            "1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4712 1 0";
        const OPEN: &str =
            "2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  0 0 4713 1 0";
        const SIX: &str = "0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A \
                           00000000:00000000 00:00000000 00000000  0 0 4714 1 0";
        const MAPPED: &str = "0: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A \
                              00000000:00000000 00:00000000 00000000  0 0 4715 1 0";
        for (name, line, address, expected) in [
            ("loopback", LOOPBACK, "127.0.0.1:8080", Some(4711)),
            ("reached by the unspecified address", LOOPBACK, "0.0.0.0:8080", Some(4711)),
            ("another port", LOOPBACK, "127.0.0.1:8081", None),
            ("another address", LOOPBACK, "127.0.0.2:8080", None),
            ("every address", ANY, "127.0.0.2:8080", Some(4712)),
            ("a connection", OPEN, "127.0.0.1:8080", None),
            ("IPv6", SIX, "[::1]:8080", Some(4714)),
            ("IPv6, and IPv4 is asked for", SIX, "127.0.0.1:8080", None),
            ("a mapped address", MAPPED, "127.0.0.1:8080", Some(4715)),
            ("the headings", "sl  local_address rem_address   st tx_queue", "127.0.0.1:8080", None),
            ("half a line", "0: 0100007F:1F90 00000000:0000", "127.0.0.1:8080", None),
            ("nothing", "", "127.0.0.1:8080", None),
        ] {
            assert_eq!(inode_of_tcp(line, address.parse().unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn listeners_are_found_in_tables_of_unix_sockets() {
        const LINE: &str = "ffff8880: 00000002 00000000 00010000 0001 01 4711 ";
        for (name, line, asked, expected) in [
            ("a path", format!("{LINE}/run/a"), "/run/a", Some(4711)),
            ("a path with blanks", format!("{LINE}/run/a b "), "/run/a b ", Some(4711)),
            ("an abstract name", format!("{LINE}@a"), "@a", Some(4711)),
            ("another path", format!("{LINE}/run/a"), "/run/b", None),
            ("no name", LINE.trim_end().to_owned(), "", None),
            ("one that was accepted", LINE.replace("00010000", "00000000") + "/run/a", "/run/a", None),
            ("the headings", "Num RefCount Protocol Flags Type St Inode Path".to_owned(), "Path", None),
            ("nothing", String::new(), "/run/a", None),
        ] {
            assert_eq!(inode_of_unix(&line, asked), expected, "{name}");
        }
    }
}
