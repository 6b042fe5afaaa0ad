//! The tables that judge where processes connect, as the agent writes them.
//!
//! A change is written beside what counts as a generation of its own, and then one value makes it count: no connection
//! is judged by half of it. The old generation stays until no hook can be looking at it any more.

use std::time::{Duration, Instant};

use aya::{
    Ebpf,
    maps::{
        Array, HashMap, MapData, MapError,
        lpm_trie::{Key, LpmTrie},
    },
};
use mcpwarden_abi::{self as abi, Address, AddressKey, KEY_BITS, Network};

use super::{KernelError, take};
use nix::libc;

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
    /// Port, 0 for every one.
    pub port: u16,
    /// In network byte order, IPv4 as its mapped IPv6 address.
    pub address: [u8; 16],
    /// How many bits of `address` count.
    pub bits: u8,
    /// What is said.
    pub said: Address,
}

/// Why rules are not taken. What counted before still does.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// More than the kernel's tables hold.
    #[error(
        "{0} addresses are too many: the kernel's table holds {CAPACITY}; use prefixes (10.0.0.0/8), or fewer rules"
    )]
    TooMany(usize),
    /// The kernel refuses.
    #[error("the kernel refuses a rule for an address: {0}")]
    Refused(#[from] MapError),
}

/// What was written in one generation.
#[derive(Default)]
struct Written {
    whole: Vec<AddressKey>,
    prefixes: Vec<(u8, AddressKey)>,
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
    whole: HashMap<MapData, AddressKey, Address>,
    prefixes: LpmTrie<MapData, AddressKey, Address>,
    now: Network,
    written: Written,
    retired: Option<(Instant, Written)>,
}

impl Addresses {
    /// Takes the tables out of a loaded object.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        Ok(Self {
            network: take(ebpf, "NETWORK")?,
            selected: take(ebpf, "SELECTED")?,
            whole: take(ebpf, "ADDRESSES")?,
            prefixes: take(ebpf, "PREFIXES")?,
            now: Network::default(),
            written: Written::default(),
            retired: None,
        })
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
                | with(has(|key| key.port == 0), abi::NETWORK_PREFIXES),
        };
        // Written where nobody looks, then one byte makes it count.
        let slot = generation % 2;
        let switched = self.network.set(slot, now, 0).and_then(|()| self.selected.set(0, slot, 0));
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
        let key = AddressKey { generation, set: rule.set, port: rule.port, address: rule.address };
        if rule.bits >= WHOLE {
            self.whole.insert(key, rule.said, 0)?;
            fresh.whole.push(key);
        } else {
            self.prefixes.insert(&Key::new(KEY_BITS + u32::from(rule.bits), key), rule.said, 0)?;
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
