//! What operators block by hand: denied to everybody until its end, whatever `enforcement.network` says. The kernel half
//! checks the end itself; here it is said, and makes room.

use std::time::{Duration, Instant};

use mcpwarden_kernel::addresses::Addresses;
use mcpwarden_policy::{
    Timestamp,
    event::ServerType,
    guards::{CallBlock, Callee},
    network::{Address, Block, Host, Prefix, Target, names_of},
};
use mcpwarden_system::boot::boot_ns;

use super::{Network, NetworkError};
use crate::host::clock::Clock;

/// Blocks at once, at most. Those of addresses are bounded by the table, too.
pub const MOST: usize = 4_096;
/// Longest reason. Bytes.
const REASON_BYTES: usize = 1_000;
/// Bits of an IPv6 address before the IPv4 address in its v4-mapped form.
const MAPPED_BITS: u8 = 96;

/// Who blocks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// User id.
    pub uid: u32,
    /// That user's name, where there is one.
    pub user: Option<String>,
}

/// A block that counts.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What is blocked.
    pub target: Target,
    /// Why, in words.
    pub reason: Option<String>,
    /// By whom.
    pub by: Who,
    /// Since when.
    pub since: Timestamp,
    /// Its end, by the clock that nobody sets; nanoseconds since boot. `None`: until it is lifted.
    pub ends_ns: Option<u64>,
}

impl Standing {
    /// Its end in wall time.
    pub fn until(&self, clock: &Clock) -> Option<Timestamp> {
        self.ends_ns.map(|ends| clock.wall(ends))
    }
}

/// Why something is not blocked, or not unblocked.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// It is no destination, or the reason or the time is none.
    #[error("{0}")]
    Unusable(String),
    /// It would cut off more than is meant, perhaps.
    #[error("{0} is blocked only with --yes: {1}")]
    Sweeping(String, &'static str),
    /// There are too many.
    #[error(
        "the limit of {MOST} blocks is reached: unblock some, or block a network (10.0.0.0/8) instead of its addresses"
    )]
    TooMany,
    /// Calls are stopped by the gate alone.
    #[error("calls cannot be blocked on this host: {0}; `mcpwarden doctor` shows the details")]
    NoGate(String),
    /// There is no such session.
    #[error(
        "no running session {0} has a server whose calls can be blocked; `mcpwarden sessions` lists the known sessions"
    )]
    NoSession(String),
    /// The table does not take it.
    #[error(transparent)]
    Table(#[from] NetworkError),
    /// It is not blocked.
    #[error("{0} is not blocked{1}; `mcpwarden blocks` lists all blocks")]
    NotBlocked(String, String),
}

/// What is to be blocked.
pub struct BlockRequest<'a> {
    /// As in [`Network::target`].
    pub target: Target,
    /// For how long; `None`: until it is lifted.
    pub period: Option<Duration>,
    /// Why, in words.
    pub reason: Option<&'a str>,
    /// Whether it is meant, even where it cuts off more than one may mean.
    pub sure: bool,
    /// Who asks for it.
    pub by: Who,
}

impl Network {
    /// What a word means: the id of a declared server, calls (`server=…`, `session=…`), or an address; and a port beside it.
    ///
    /// # Errors
    /// It is neither, or has two ports.
    pub fn target(&self, text: &str, port: Option<u16>) -> Result<Target, BlockError> {
        let unusable = |why: String| Err(BlockError::Unusable(why));
        if let Some(server) =
            self.rules.servers.iter().find(|server| !server.is_model && &*server.id.0 == text)
        {
            return match (&server.address, port) {
                (None, Some(port)) => {
                    unusable(format!("server '{text}' is a program: it has no port; leave {port} out"))
                }
                (None, None) => Ok(Target::Calls(Callee::Server(server.id.clone()))),
                (_, Some(port)) => {
                    unusable(format!("server '{text}' has the port of its URL; leave {port} out"))
                }
                (Some(_), None) => Ok(Target::Server(server.id.clone())),
            };
        }
        if let Some(callee) = Callee::parse(text) {
            return match port {
                Some(port) => unusable(format!("calls have no port; leave {port} out")),
                None => Ok(Target::Calls(callee)),
            };
        }
        let mut address: Address = text.parse().map_err(BlockError::Unusable)?;
        match (address.port, port) {
            (Some(_), Some(port)) => unusable(format!("{text} has a port; leave {port} out")),
            (None, Some(0)) => unusable("the port is 0; it must be 1 to 65535".into()),
            (own, port) => {
                address.port = own.or(port);
                Ok(Target::Address(address))
            }
        }
    }

    /// Blocks something, in place of a block of the same before it. It counts when this returns.
    ///
    /// # Errors
    /// It would cut off too much, or does not fit. What counted before still does.
    pub fn block(
        &mut self,
        request: BlockRequest<'_>,
        addresses: &mut Addresses,
        clock: &Clock,
    ) -> Result<Standing, BlockError> {
        let unusable = |why: &str| Err(BlockError::Unusable(why.to_owned()));
        if request.period.is_some_and(|period| period.is_zero()) {
            return unusable("a block of no time blocks nothing; say 1s or more");
        }
        if request.reason.is_some_and(|reason| reason.len() > REASON_BYTES) {
            return unusable("the reason is longer than 1,000 bytes");
        }
        if let Target::Address(address) = &request.target
            && let Some(why) = sweeping(address)
            && !request.sure
        {
            return Err(BlockError::Sweeping(address.to_string(), why));
        }
        let ends =
            |period: Duration| boot_ns().saturating_add(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
        let standing = Standing {
            target: request.target,
            reason: request.reason.map(str::to_owned),
            by: request.by,
            since: clock.now(),
            ends_ns: request.period.map(ends),
        };
        let before = self.blocks.clone();
        match self.blocks.iter_mut().find(|known| known.target == standing.target) {
            Some(known) => *known = standing.clone(),
            None if before.len() >= MOST => {
                self.counters.blocks_refused += 1;
                return Err(BlockError::TooMany);
            }
            None => self.blocks.push(standing.clone()),
        }
        if let Err(error) = self.apply(addresses, clock) {
            self.blocks = before;
            self.follow(clock);
            self.counters.blocks_refused += 1;
            return Err(error.into());
        }
        Ok(standing)
    }

    /// Lifts a block.
    ///
    /// # Errors
    /// There is none, or the table without it cannot be installed.
    pub fn unblock(
        &mut self,
        target: &Target,
        addresses: &mut Addresses,
        clock: &Clock,
    ) -> Result<Standing, BlockError> {
        let Some(place) = self.blocks.iter().position(|known| known.target == *target) else {
            return Err(BlockError::NotBlocked(text(target), self.nearest(target)));
        };
        let lifted = self.blocks.remove(place);
        if let Err(error) = self.apply(addresses, clock) {
            self.blocks.insert(place, lifted);
            self.follow(clock);
            return Err(error.into());
        }
        Ok(lifted)
    }

    /// Takes out the blocks whose time is over. They have not counted since.
    pub fn expire(&mut self, addresses: &mut Addresses, clock: &Clock) -> Vec<Standing> {
        let now = boot_ns();
        let over = |block: &mut Standing| block.ends_ns.is_some_and(|ends| ends <= now);
        let expired: Vec<Standing> = self.blocks.extract_if(.., over).collect();
        if !expired.is_empty()
            && let Err(error) = self.apply(addresses, clock)
        {
            tracing::error!("network: {error}; the previous rules stay in force");
        }
        expired
    }

    /// The agent ends, and blocks with it: they are taken out of the table, too, which may outlive it.
    pub fn lift_all(&mut self, addresses: &mut Addresses, clock: &Clock) -> Vec<Standing> {
        let lifted = std::mem::take(&mut self.blocks);
        // Nobody is left to close what is open, or to take in the addresses of names.
        if !lifted.is_empty()
            && let Err(error) = self.install(addresses, clock)
        {
            tracing::error!("network: {error}; the previous rules stay in force");
        }
        lifted
    }

    /// When the next block ends, or servers that were found are to be judged.
    pub fn next_expiry(&self, clock: &Clock) -> Option<Timestamp> {
        let block = self.blocks.iter().filter_map(|block| block.ends_ns).min();
        let ends = block.map(|ends| clock.wall(ends));
        ends.into_iter().chain(self.next_found(clock)).min()
    }

    /// What is blocked, in the order in which it was.
    pub fn blocks(&self) -> &[Standing] {
        &self.blocks
    }

    /// What a target is now, as far as it is known: the addresses of a name.
    pub fn addresses_of(&self, target: &Target) -> Vec<Address> {
        let address = match target {
            Target::Address(address) => Some(address),
            Target::Server(id) => self
                .rules
                .servers
                .iter()
                .find(|server| server.id == *id)
                .and_then(|found| found.address.as_ref()),
            Target::Calls(_) => None,
        };
        match address {
            None => Vec::new(),
            Some(Address { host: Host::Name(name), port }) if name != "localhost" => {
                let at = |ip| Address { host: Host::Block(Prefix::host(ip)), port: *port };
                self.names.of(name).map(at).collect()
            }
            Some(address) => vec![address.clone()],
        }
    }

    /// How a declared server is reached.
    pub fn kind_of(&self, target: &Target) -> Option<ServerType> {
        let id = match target {
            Target::Server(id) => id,
            Target::Calls(Callee::Server(_)) => return Some(ServerType::Stdio),
            Target::Address(_) | Target::Calls(_) => return None,
        };
        self.rules.servers.iter().find(|server| server.id == *id).map(|server| server.kind)
    }

    /// Whose calls are blocked.
    pub fn blocked_calls(&self, clock: &Clock) -> Vec<CallBlock> {
        let calls = self.blocks.iter().filter_map(|block| match &block.target {
            Target::Calls(callee) => Some((callee, block)),
            Target::Address(_) | Target::Server(_) => None,
        });
        calls
            .map(|(callee, block)| CallBlock {
                callee: callee.clone(),
                until: block.until(clock),
                reason: block.reason.clone(),
            })
            .collect()
    }

    /// The blocks as the policy core compiles them.
    pub(super) fn compiled(&self, clock: &Clock) -> Vec<Block> {
        let compiled = |block: &Standing| Block {
            target: block.target.clone(),
            until: block.until(clock),
            reason: block.reason.clone(),
        };
        self.blocks.iter().map(compiled).collect()
    }

    /// Makes the blocks of now count, closes what is open to them, and asks for the addresses of their names.
    fn apply(&mut self, addresses: &mut Addresses, clock: &Clock) -> Result<(), NetworkError> {
        self.follow(clock);
        self.install(addresses, clock)?;
        self.close(clock);
        self.resolve();
        Ok(())
    }

    pub(super) fn follow(&mut self, clock: &Clock) {
        let names = names_of(&self.rules, &self.compiled(clock));
        self.names.follow(names, Instant::now());
    }

    /// The block that was meant, perhaps: one of the same host, or of a network that it is in.
    fn nearest(&self, target: &Target) -> String {
        let Target::Address(Address { host, .. }) = target else { return String::new() };
        let around = |other: &Host| match (other, host) {
            (Host::Block(other), Host::Block(block)) => other.covers(block),
            (Host::Any, _) => true,
            (other, host) => other == host,
        };
        let found = self.blocks.iter().find(|known| match &known.target {
            Target::Address(address) => around(&address.host),
            Target::Server(_) | Target::Calls(_) => false,
        });
        found.map_or_else(String::new, |found| format!(", but {} is", text(&found.target)))
    }
}

/// A target as it is written.
pub fn text(target: &Target) -> String {
    match target {
        Target::Address(address) => address.to_string(),
        Target::Server(id) => id.to_string(),
        Target::Calls(callee) => callee.to_string(),
    }
}

/// Why a block of this would cut off more than one may mean, if so.
fn sweeping(address: &Address) -> Option<&'static str> {
    const MOST_OF_IT: &str = "that is most of the network";
    const LOOPBACK: &str = "programs of this host speak to each other there; with --port it is one service";
    /// What is shorter holds a good part of all addresses.
    const SHORT: (u8, u8) = (8, 16);
    let loopback = |block: &Prefix| {
        let host = |ip: [u16; 8]| Prefix::host(std::net::IpAddr::from(ip));
        block.covers(&host([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]))
            || block.covers(&host([0, 0, 0, 0, 0, 0, 0, 1]))
    };
    match &address.host {
        Host::Any => Some(MOST_OF_IT),
        Host::Block(block) if block.is_ipv4() && block.bits() < MAPPED_BITS + SHORT.0 => Some(MOST_OF_IT),
        Host::Block(block) if !block.is_ipv4() && block.bits() < SHORT.1 => Some(MOST_OF_IT),
        host if host.is_loopback() && address.port.is_none() => Some(LOOPBACK),
        Host::Block(block) if loopback(block) && address.port.is_none() => Some(LOOPBACK),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeping_block_targets_are_detected() {
        for (written, expected) in [
            ("*", true),
            ("*:443", true),
            ("0.0.0.0/0", true),
            ("0.0.0.0/0:443", true),
            ("128.0.0.0/1", true),
            ("10.0.0.0/7", true),
            ("10.0.0.0/8", false),
            ("::/0", true),
            ("2000::/3", true),
            ("2001::/16", false),
            ("::/96", true),
            ("localhost", true),
            ("127.0.0.1", true),
            ("0.0.0.0", true),
            ("::", true),
            ("::1", true),
            ("127.0.0.0/8", true),
            ("127.0.0.0/8:80", false),
            ("127.0.0.1:80", false),
            ("localhost:80", false),
            ("127.0.0.2", false),
            ("example.com", false),
            ("192.0.2.1", false),
        ] {
            assert_eq!(sweeping(&written.parse().unwrap()).is_some(), expected, "{written}");
        }
    }

    fn network() -> Network {
        let file = "servers: [{ id: crm, type: http, url: 'https://mcp.example.com/mcp' }, { id: files, command: x }]";
        let (config, _) = mcpwarden_policy::config::parse(file.as_bytes()).unwrap();
        Network::new(&config, crate::config::network_rules(&config).unwrap()).unwrap()
    }

    /// Word, port beside it, what it means or what is said.
    #[test]
    fn block_targets_are_parsed() {
        let network = network();
        for (word, port, expected) in [
            ("192.0.2.1", None, Ok("192.0.2.1")),
            ("192.0.2.1", Some(443), Ok("192.0.2.1:443")),
            ("192.0.2.0/24:443", None, Ok("192.0.2.0/24:443")),
            ("2001:db8::1", Some(443), Ok("[2001:db8::1]:443")),
            ("Example.com.", None, Ok("example.com")),
            ("*", Some(25), Ok("*:25")),
            ("crm", None, Ok("crm")),
            ("crm:443", None, Ok("crm:443")),
            ("crm", Some(443), Err("the port of its URL")),
            ("files", None, Ok("server=files")),
            ("files", Some(80), Err("it has no port")),
            ("server=files", None, Ok("server=files")),
            ("server=other", None, Ok("server=other")),
            ("session=one", None, Ok("session=one")),
            ("session=one", Some(80), Err("calls have no port")),
            ("192.0.2.1:443", Some(80), Err("has a port")),
            ("192.0.2.1", Some(0), Err("the port is 0")),
            ("192.0.2.1:0", None, Err("the port is 0")),
            ("192.0.2.1/24", None, Err("the block is 192.0.2.0/24")),
            ("192.0.2.256", None, Err("192.0.2.256 is neither a name nor an IP address")),
            ("a b", None, Err("a b is neither a name nor an IP address")),
            ("", None, Err("neither a name nor an IP address")),
        ] {
            match (network.target(word, port), expected) {
                (Ok(target), Ok(expected)) => {
                    assert_eq!(text(&target), expected, "{word}");
                    let server = matches!(target, Target::Server(_));
                    assert_eq!(server, word == "crm", "{word}");
                }
                (Err(error), Err(part)) => {
                    let reported = error.to_string();
                    assert!(reported.contains(part), "{word}: {reported}");
                }
                (found, _) => panic!("{word}: {found:?}"),
            }
        }
    }

    #[test]
    fn nearest_block_is_suggested() {
        let mut network = network();
        for word in ["192.0.2.0/24", "example.com:443"] {
            let target = network.target(word, None).unwrap();
            let by = Who { uid: 0, user: None };
            let since = Timestamp(0);
            network.blocks.push(Standing { target, reason: None, by, since, ends_ns: None });
        }
        for (word, expected) in [
            ("192.0.2.1", ", but 192.0.2.0/24 is"),
            ("192.0.2.0/24:80", ", but 192.0.2.0/24 is"),
            ("example.com", ", but example.com:443 is"),
            ("198.51.100.1", ""),
            ("crm", ""),
        ] {
            assert_eq!(network.nearest(&network.target(word, None).unwrap()), expected, "{word}");
        }
    }
}
