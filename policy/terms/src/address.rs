//! Where a connection goes, as rules write it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::as_text;

/// Bits of an IPv6 address before the IPv4 address in its v4-mapped form.
const MAPPED_BITS: u8 = 96;
/// Bits of an address.
const ALL_BITS: u8 = 128;

/// A block of addresses: all that begin with the same bits.
///
/// An IPv4 address is its v4-mapped IPv6 form (RFC 4291, section 2.5.5.2), as which a socket of either family reaches it:
/// `10.0.0.0/8` has 104 bits. In the order of these, a block comes right before all that lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: [u8; 16],
    bits: u8,
}

impl Prefix {
    /// All IPv4 addresses.
    pub const IPV4: Self =
        Self { address: Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().octets(), bits: MAPPED_BITS };
    /// All IPv6 addresses; as [`Prefix::covers`] has it, without those of IPv4.
    pub const IPV6: Self = Self { address: [0; 16], bits: 0 };

    /// One address.
    pub fn host(ip: IpAddr) -> Self {
        let mapped = match ip.to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self { address: mapped.octets(), bits: ALL_BITS }
    }

    /// The block of this many bits that an address is in; of more bits than it has, the address.
    #[must_use]
    pub fn shortened(self, bits: u8) -> Self {
        let bits = bits.min(self.bits);
        let mask = u128::MAX.checked_shl(u32::from(ALL_BITS - bits)).unwrap_or(0);
        Self { address: (u128::from_be_bytes(self.address) & mask).to_be_bytes(), bits }
    }

    /// Its first address, in network order.
    pub fn address(&self) -> [u8; 16] {
        self.address
    }

    /// How many bits the addresses have in common: 0 to 128, of IPv4 96 to 128.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether it is one of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.bits >= MAPPED_BITS && Ipv6Addr::from(self.address).to_ipv4_mapped().is_some()
    }

    /// Whether the other begins with the bits of this.
    pub fn begins(&self, other: &Self) -> bool {
        other.bits >= self.bits && other.shortened(self.bits) == *self
    }

    /// Whether all addresses of the other are in this. What is written for IPv6 (`::/0`) covers none of IPv4.
    pub fn covers(&self, other: &Self) -> bool {
        self.begins(other) && self.is_ipv4() == other.is_ipv4()
    }

    /// Its only address, where it is one.
    pub fn only(&self) -> Option<IpAddr> {
        (self.bits == ALL_BITS).then(|| IpAddr::from(self.address).to_canonical())
    }
}

impl FromStr for Prefix {
    type Err = String;

    /// An IP address, or an address and its number of bits: `10.0.0.0/8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
        if let Some((_, zone)) = ip.split_once('%') {
            return Err(format!("%{zone} names an interface, and rules count on all of them; leave it out"));
        }
        let address: IpAddr = ip.parse().map_err(|_| format!("{ip} is no IP address"))?;
        let (before, longest) = if address.is_ipv4() { (MAPPED_BITS, 32) } else { (0, ALL_BITS) };
        let length = match length {
            None => longest,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|length| *length <= longest)
                .ok_or_else(|| format!("the prefix is {digits}; it must be 0 to {longest}"))?,
        };
        let host = Self::host(address);
        let block = host.shortened(before + length);
        if block.address != host.address {
            return Err(format!("{ip} has bits set behind the first {length}; the block is {block}"));
        }
        Ok(block)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.address);
        match address.to_ipv4_mapped().filter(|_| self.is_ipv4()) {
            Some(address) => address.fmt(formatter)?,
            None => address.fmt(formatter)?,
        }
        if self.bits == ALL_BITS {
            return Ok(());
        }
        write!(formatter, "/{}", if self.is_ipv4() { self.bits - MAPPED_BITS } else { self.bits })
    }
}

/// The address that a connection to this one reaches: of `0.0.0.0` and `::` the loopback address (Linux:
/// `__ip4_datagram_connect`, `tcp_v6_connect`), of `::ffff:1.2.3.4` the IPv4 address. The kernel half looks up that one.
pub fn reached(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Where something listens: every network namespace has a loopback of its own, and whatever other addresses its owner likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// Its network namespace (cookie), of another than the agent's.
    pub netns: Option<u64>,
}

impl Endpoint {
    /// One in the network namespace of the agent.
    pub fn here(address: SocketAddr) -> Self {
        Self { address, netns: None }
    }
}

impl fmt::Display for Endpoint {
    /// `127.0.0.1:80`, and `127.0.0.1:80@netns-4170` in another network namespace than the agent's.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(formatter)?;
        self.netns.map_or(Ok(()), |netns| write!(formatter, "@netns-{netns}"))
    }
}

/// The addresses of each name. The module `network` says of which.
pub type Names = BTreeMap<String, Vec<IpAddr>>;

/// Where a connection goes: `example.com`, `example.com:443`, `10.0.0.0/8`, `[2001:db8::1]:443`, `*:25`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Which hosts.
    pub host: Host,
    /// Which port; `None`: any.
    pub port: Option<u16>,
}

/// Which hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// All.
    Any,
    /// Those that a name resolves to. In small letters, without a dot at the end.
    Name(String),
    /// Those of a block.
    Block(Prefix),
}

impl Host {
    /// Whether this is the host itself: what a listener on loopback is reached by is all the same to a rule, since one on
    /// `::` is reached by `127.0.0.1` as by `::1`, and `0.0.0.0` reaches the one and `::` the other.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Name(name) => name == "localhost",
            Self::Block(block) => block.only().map(reached).is_some_and(|ip| {
                [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(&ip)
            }),
        }
    }

    /// Whether it is written as `0.0.0.0` or `::`, which is read as loopback.
    pub fn is_unspecified(&self) -> bool {
        matches!(self, Self::Block(block) if block.only().is_some_and(|ip| ip.is_unspecified()))
    }
}

impl Address {
    /// Whether it is this address, or one of those that it stands for, as its name is resolved. Loopback is one, whichever way it
    /// is written.
    pub fn is_at(&self, address: SocketAddr, names: &Names) -> bool {
        let ip = reached(address.ip());
        let is_there = match &self.host {
            Host::Name(name) if name.eq_ignore_ascii_case("localhost") => ip.is_loopback(),
            Host::Name(name) => {
                names.get(name.as_str()).is_some_and(|all| all.iter().any(|one| reached(*one) == ip))
            }
            Host::Block(block) => {
                block.covers(&Prefix::host(ip)) || self.host.is_loopback() && ip.is_loopback()
            }
            Host::Any => true,
        };
        is_there && self.port.is_none_or(|port| port == address.port())
    }
}

fn port(text: &str) -> Result<Option<u16>, String> {
    match text.parse::<u16>() {
        _ if text == "*" => Ok(None),
        Ok(port) if port > 0 && !text.starts_with('+') => Ok(Some(port)),
        _ => Err(format!("the port is {text}; it must be 1 to 65535, or * for any")),
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or("a `[` without `]`")?;
            let port = match rest.strip_prefix(':') {
                Some(digits) => port(digits)?,
                None if rest.is_empty() => None,
                None => return Err(format!("`{rest}` follows the address")),
            };
            return match host.contains(':') {
                true => Ok(Self { host: Host::Block(host.parse()?), port }),
                false => Err(format!("{host} is no IPv6 address")),
            };
        }
        // More than one colon: an IPv6 address without brackets, which has no port.
        match text.split_once(':') {
            Some((host, digits)) if !digits.contains(':') => {
                Ok(Self { host: host.parse()?, port: port(digits)? })
            }
            _ => Ok(Self { host: text.parse()?, port: None }),
        }
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if ["*", "any"].contains(&text) {
            return Ok(Self::Any);
        }
        if text.starts_with("*.") {
            return Err(format!(
                "the addresses of all names below {} cannot be asked for; list the names, or their blocks",
                text.trim_start_matches("*.")
            ));
        }
        let ip = text.split(['/', '%']).next().unwrap_or(text);
        if ip.parse::<IpAddr>().is_ok() {
            return text.parse().map(Self::Block);
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        // RFC 1123, section 2.1.
        let label = |label: &str| {
            let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() <= 253 && name.split('.').all(label) && !is_number(name) {
            Ok(Self::Name(name.to_ascii_lowercase()))
        } else {
            Err(format!("{text} is neither a name nor an IP address nor a CIDR block"))
        }
    }
}

/// Whether the last label of a name is a number, as which resolvers read `127.1` and `0x7f000001` as addresses
/// (`inet_aton`): an address that was meant otherwise, perhaps.
fn is_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("*"),
            Self::Name(name) => formatter.write_str(name),
            Self::Block(block) => block.fmt(formatter),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (host, None) => host.fmt(formatter),
            (Host::Block(block), Some(port)) if !block.is_ipv4() => write!(formatter, "[{block}]:{port}"),
            (host, Some(port)) => write!(formatter, "{host}:{port}"),
        }
    }
}

as_text!(Host, "host", "string");
as_text!(Address, "address", "string");

#[cfg(test)]
mod tests;
