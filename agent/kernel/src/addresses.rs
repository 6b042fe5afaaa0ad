//! The tables that judge where processes connect, as the agent writes them.
//!
//! A change is written beside what counts as a generation of its own, and then one value makes it count: no connection
//! is judged by half of it. The old generation stays until no hook can be looking at it any more.

use std::{
    net::Ipv6Addr,
    time::{Duration, Instant},
};

use aya::{
    Ebpf,
    maps::{
        Array, HashMap, MapData, MapError,
        lpm_trie::{Key, LpmTrie},
    },
};
use mcpwarden_abi::{self as abi, Address, AddressKey, BEGINNING_BITS, Beginnings, KEY_BITS, Network};

use super::{KernelError, maps::take};
use nix::libc;

/// Bits before an IPv4 address in its mapped IPv6 address.
const MAPPED_BITS: u32 = 96;
/// Bits of a whole address.
const WHOLE: u8 = 128;
/// Rules in one generation, at most: half of what the kernel's tables hold.
pub const CAPACITY: usize = 16_384;
/// How long a generation stays, where the kernel does not tell when no hook looks at it any more.
const LINGER: Duration = Duration::from_secs(1);

/// A rule of one set: a prefix, and what is said of it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Whose.
    pub set: u16,
    /// In which network namespace (cookie) alone, 0 for every one. Only of a whole address, with its port.
    pub netns: u64,
    /// Port, 0 for every one.
    pub port: u16,
    /// In network byte order, IPv4 as its mapped IPv6 address.
    pub address: [u8; 16],
    /// How many bits of `address` count.
    pub bits: u8,
    /// What is said.
    pub entry: Address,
}

/// Why rules are not taken. What counted before still does.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// More than the kernel's tables hold.
    #[error(
        "too many addresses ({0}): the kernel's table has a capacity of {CAPACITY}; use prefixes (10.0.0.0/8), or fewer rules"
    )]
    TooMany(usize),
    /// The kernel refuses.
    #[error("the kernel refuses a rule on an address: {0}")]
    Refused(#[from] MapError),
}

/// What was written in one generation.
#[derive(Default)]
struct Written {
    whole: Vec<AddressKey>,
    prefixes: Vec<(u8, AddressKey)>,
}

/// Which addresses everybody's rules can be about.
fn beginnings(rules: &[Rule]) -> Beginnings {
    let mut all = Beginnings { words: [0; abi::BEGINNING_WORDS] };
    for rule in rules.iter().filter(|rule| rule.set == abi::SET_ALL) {
        let (address, bits) = (Ipv6Addr::from(rule.address), u32::from(rule.bits));
        let [in_six, in_four] = families(address, bits);
        for (is_about, four, first, bits) in [
            (in_six, false, address.segments()[0], bits),
            (in_four, true, address.segments()[6], bits.saturating_sub(MAPPED_BITS)),
        ] {
            if !is_about {
                continue;
            }
            let free = BEGINNING_BITS.saturating_sub(bits);
            let low = u32::from(first) >> free << free;
            for beginning in low..low + (1 << free) {
                let (word, bit) = Beginnings::place(Beginnings::of(beginning << BEGINNING_BITS, four));
                if let Some(word) = all.words.get_mut(word) {
                    *word |= bit;
                }
            }
        }
    }
    all
}

/// Whether a prefix is about IPv6 addresses, and about IPv4 addresses as mapped ones: a short one can be about both.
fn families(address: Ipv6Addr, bits: u32) -> [bool; 2] {
    let named = bits.min(MAPPED_BITS);
    let mapped = u128::from(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0));
    let in_four = named == 0 || (u128::from(address) ^ mapped) >> (128 - named) == 0;
    [!in_four || named < MAPPED_BITS, in_four]
}

/// Waits until every program that runs now has ended: `MEMBARRIER_CMD_GLOBAL` is `synchronize_rcu`
/// (kernel/sched/membarrier.c), which waits for them. False where the kernel has it not (`nohz_full`).
fn every_hook_ended() -> bool {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0 }
}

/// The kernel half's tables of addresses.
pub struct Addresses {
    network: Array<MapData, Network>,
    selected: Array<MapData, u32>,
    beginnings: Array<MapData, Beginnings>,
    whole: HashMap<MapData, AddressKey, Address>,
    prefixes: LpmTrie<MapData, AddressKey, Address>,
    now: Network,
    written: Written,
    retired: Option<(Instant, Written)>,
}

impl Addresses {
    /// Takes the tables out of a loaded object. What an agent before wrote into them counts until other rules are installed.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        let (network, selected) = (take(ebpf, "NETWORK")?, take(ebpf, "SELECTED")?);
        let whole: HashMap<MapData, AddressKey, Address> = take(ebpf, "ADDRESSES")?;
        let prefixes: LpmTrie<MapData, AddressKey, Address> = take(ebpf, "PREFIXES")?;
        let (network, selected): (Array<_, Network>, Array<_, u32>) = (network, selected);
        let slot = selected.get(&0, 0).unwrap_or_default();
        let bits =
            |key: &Key<AddressKey>| u8::try_from(key.prefix_len().saturating_sub(KEY_BITS)).unwrap_or(WHOLE);
        let now = network.get(&slot, 0).unwrap_or_default();
        let all_whole = whole.keys().filter_map(Result::ok);
        let all_prefixes = prefixes.keys().filter_map(Result::ok).map(|key| (bits(&key), key.data()));
        // Whoever was ended in the middle of a change left more than what counts.
        let counts = |key: &AddressKey| key.generation == now.generation;
        let (written, left): (Vec<_>, Vec<_>) = all_whole.partition(counts);
        let (written_prefixes, left_prefixes): (Vec<_>, Vec<_>) =
            all_prefixes.partition(|(_, key)| counts(key));
        let left = Written { whole: left, prefixes: left_prefixes };
        let mut addresses = Self {
            now,
            network,
            selected,
            beginnings: take(ebpf, "BEGINNINGS")?,
            whole,
            prefixes,
            written: Written { whole: written, prefixes: written_prefixes },
            retired: None,
        };
        // Nothing looks at it: what counted before did so for another agent, and what was to count never did.
        addresses.erase(left);
        Ok(addresses)
    }

    /// The generation that counts; 0: none was installed yet.
    pub fn generation(&self) -> u32 {
        self.now.generation
    }

    /// What counts for single addresses.
    pub fn whole(&self) -> impl Iterator<Item = (&AddressKey, Address)> {
        self.written.whole.iter().filter_map(|key| Some((key, self.whole.get(key, 0).ok()?)))
    }

    /// Makes these rules count, all at once, in place of what did. `flags` are `NETWORK_ENFORCE` and the like.
    pub fn install(&mut self, rules: &[Rule], netns_cookie: u64, flags: u32) -> Result<u32, InstallError> {
        if rules.len() > CAPACITY {
            return Err(InstallError::TooMany(rules.len()));
        }
        self.sweep();
        let generation = self.now.generation.wrapping_add(1);
        let mut fresh = Written::default();
        let result = rules.iter().try_for_each(|rule| self.write(rule, generation, &mut fresh));
        if let Err(error) = result {
            // Nothing looks at it yet.
            self.erase(fresh);
            return Err(error.into());
        }
        let has = |port: fn(&AddressKey) -> bool| fresh.prefixes.iter().any(|(_, key)| port(key));
        let with = |there: bool, flag: u32| if there { flag } else { 0 };
        let now = Network {
            netns_cookie,
            generation,
            flags: flags
                | with(has(|key| key.port != 0), abi::NETWORK_PORT_PREFIXES)
                | with(has(|key| key.port == 0), abi::NETWORK_PREFIXES)
                | with(fresh.whole.iter().any(|key| key.netns != [0; 2]), abi::NETWORK_NAMESPACES),
        };
        // Written where nobody looks, then one byte makes it count.
        let slot = generation % 2;
        let switched = self
            .beginnings
            .set(slot, beginnings(rules), 0)
            .and_then(|()| self.network.set(slot, now, 0))
            .and_then(|()| self.selected.set(0, slot, 0));
        if let Err(error) = switched {
            self.erase(fresh);
            return Err(error.into());
        }
        self.now = now;
        let old = std::mem::replace(&mut self.written, fresh);
        self.retired = Some((Instant::now(), old));
        Ok(generation)
    }

    /// Deletes the generation that counted before, when no hook looks at it any more: some milliseconds, or on a kernel
    /// that does not tell, up to a second.
    pub fn sweep(&mut self) {
        let Some((at, old)) = self.retired.take() else { return };
        if !every_hook_ended() {
            std::thread::sleep(LINGER.saturating_sub(at.elapsed()));
        }
        self.erase(old);
    }

    fn write(&mut self, rule: &Rule, generation: u32, fresh: &mut Written) -> Result<(), MapError> {
        let Rule { set, port, address, .. } = *rule;
        let key = AddressKey { generation, set, port, netns: AddressKey::halves(rule.netns), address };
        if rule.bits >= WHOLE {
            self.whole.insert(key, rule.entry, 0)?;
            fresh.whole.push(key);
        } else {
            self.prefixes.insert(&Key::new(KEY_BITS + u32::from(rule.bits), key), rule.entry, 0)?;
            fresh.prefixes.push((rule.bits, key));
        }
        Ok(())
    }

    fn erase(&mut self, written: Written) {
        // What is not there is as good as deleted.
        for key in &written.whole {
            let _ = self.whole.remove(key);
        }
        for (bits, key) in written.prefixes {
            let _ = self.prefixes.remove(&Key::new(KEY_BITS + u32::from(bits), key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// A prefix, as its addresses lie in the tables.
    fn rule(text: &str) -> Rule {
        let (address, bits) = text.split_once('/').unwrap();
        let (address, bits): (IpAddr, u8) = (address.parse().unwrap(), bits.parse().unwrap());
        let (address, bits) = match address {
            IpAddr::V4(four) => (four.to_ipv6_mapped(), bits + 96),
            IpAddr::V6(six) => (six, bits),
        };
        Rule {
            set: abi::SET_ALL,
            netns: 0,
            port: 0,
            address: address.octets(),
            bits,
            entry: Address::default(),
        }
    }

    /// As the kernel half asks.
    fn begins(beginnings: &Beginnings, address: &str) -> bool {
        let address: IpAddr = address.parse().unwrap();
        let beginning = match address {
            IpAddr::V4(four) => Beginnings::of(four.to_bits(), true),
            IpAddr::V6(six) => Beginnings::of((six.to_bits() >> 96) as u32, false),
        };
        let (word, bit) = Beginnings::place(beginning);
        beginnings.words[word] & bit != 0
    }

    #[test]
    fn address_prefilter_misses_no_rule() {
        type Case = (&'static str, &'static [&'static str], &'static [&'static str]);
        let cases: [Case; 8] = [
            ("10.1.2.3/32", &["10.1.2.3", "10.1.9.9"], &["10.2.2.3", "::1", "a01::"]),
            ("10.0.0.0/8", &["10.0.0.1", "10.255.255.255"], &["9.255.0.0", "11.0.0.0", "::1"]),
            ("0.0.0.0/0", &["0.0.0.1", "127.0.0.1", "255.255.255.255"], &["::1", "2001:db8::1"]),
            ("::1/128", &["::1"], &["127.0.0.1", "0.0.0.1", "2001:db8::1"]),
            ("::/0", &["::1", "ffff::", "1.2.3.4", "255.0.0.1"], &[]),
            ("::/64", &["::1", "1.2.3.4"], &["1::"]),
            ("2001:db8::/32", &["2001:db8::1"], &["2002::1", "32.1.13.184"]),
            ("2001:d00::/24", &["2001:dff::"], &["2000::", "2002::"]),
        ];
        for (text, about, others) in cases {
            let found = beginnings(&[rule(text)]);
            for address in about {
                assert!(begins(&found, address), "{text} is about {address}");
            }
            for address in others {
                assert!(!begins(&found, address), "{text} is not about {address}");
            }
        }
        let of_a_server = Rule { set: 1, ..rule("10.0.0.0/8") };
        assert!(!begins(&beginnings(&[of_a_server]), "10.1.2.3"), "only everybody's rules count");
    }
}
