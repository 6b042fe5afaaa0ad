//! The table that destinations are looked up in, compiled from everything that decides about them.
//!
//! The kernel half looks a destination up twice: among the entries of its port, and among those of any port, each time
//! for the longest prefix. So each entry carries all that the entries around it say: what is denied for `10.0.0.0/8` is
//! denied by the entry of `10.1.2.3` as well, unless that says otherwise itself.

mod compile;

use std::net::IpAddr;

use super::rules::{Block, NetworkRules, NetworkServer, Rule, Verdict};
use crate::terms::{Names, Prefix, ServerId, Timestamp, reached};
use compile::Compiler;

/// Most entries of a table: what the kernel's map is made for.
pub const MAX_ENTRIES: usize = 16_384;

/// One entry: what holds of a block of addresses and a port, unless another says more of a smaller block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whom it is for: 0 everybody, else the processes of one server: [`Table::set_of`].
    pub set: u32,
    /// In which network namespace (cookie); `None`: in every one. In set 0 alone, of whole addresses with their port.
    pub netns: Option<u64>,
    /// Which port; 0: any.
    pub port: u16,
    /// Which addresses.
    pub prefix: Prefix,
    /// The declared server that is there: 0 none, else its place in [`Table::servers`], from 1. In set 0 alone.
    pub server: u32,
    /// What is to be done, where a rule says so.
    pub verdict: Option<Verdict>,
    /// How specific the rule is that said so: 1 and the bits of its prefix; 0 where none did. The entry of more of the two
    /// look-ups counts, and that of the port where they are equal.
    pub verdict_bits: u8,
    /// Whether a denial is carried out.
    pub enforced: bool,
    /// That rule: 0 none, else its place in [`Table::rules`], from 1.
    pub rule: u32,
    /// Until when everything else is overruled and it is denied; [`Block::FOREVER`] where nobody said.
    pub blocked_until: Option<Timestamp>,
    /// The rule of that block: 0 none, else its place in [`Table::rules`], from 1.
    pub blocked_by: u32,
}

/// What entries are sorted by: set, network namespace, port, block.
type Key = (u32, Option<u64>, u16, Prefix);

impl Entry {
    fn key(&self) -> Key {
        (self.set, self.netns, self.port, self.prefix)
    }
}

/// What comes of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether it may be connected to.
    pub verdict: Verdict,
    /// Whether a denial is carried out.
    pub enforced: bool,
    /// The declared server that is there, as in [`Entry::server`].
    pub server: u32,
    /// The rule that decided, as in [`Entry::rule`].
    pub rule: u32,
}

/// There are more entries than a table can have. The table before it stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rules on addresses need {needed} entries of {MAX_ENTRIES}: {first} and {} rules after it do not fit; name blocks \
     in place of addresses, or fewer names", .rules - 1
)]
pub struct TableFull {
    /// How many entries would be needed.
    pub needed: usize,
    /// The first rule that does not fit.
    pub first: String,
    /// How many rules do not, this one included.
    pub rules: usize,
}

/// What everything together says of destinations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    entries: Vec<Entry>,
    rules: Vec<Rule>,
    servers: Vec<NetworkServer>,
    enforced: bool,
    deny_by_default: bool,
    notes: Vec<String>,
}

impl Table {
    /// Compiles it. Where names have no address, their rules say nothing: see [`Table::notes`].
    ///
    /// # Errors
    /// It would have more than [`MAX_ENTRIES`].
    pub fn compile(rules: &NetworkRules, names: &Names, blocks: &[Block]) -> Result<Self, TableFull> {
        let mut compiler = Compiler::new(rules, names);
        compiler.rules(rules);
        blocks.iter().for_each(|block| compiler.block(block));
        compiler.finish()
    }

    /// The entries: sets, network namespaces, ports, addresses in order, a block of addresses before those in it.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What entries and judgements name as `rule`.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What entries and judgements name as `server`: the declared servers in their order, those of type `stdio`, too.
    pub fn servers(&self) -> &[NetworkServer] {
        &self.servers
    }

    /// Whether rules are enforced; blocks always are.
    pub fn enforced(&self) -> bool {
        self.enforced
    }

    /// Whether the processes of servers without a set of their own may connect only to what set 0 allows.
    pub fn deny_by_default(&self) -> bool {
        self.deny_by_default
    }

    /// What is to be said of it: names without an address, servers that others are denied with.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The set of the processes of a server: its place in [`Table::servers`], from 1, where it has one of its own (there
    /// may be no entry in it: then they connect to nothing), else 0.
    pub fn set_of(&self, server: &ServerId) -> u32 {
        let mut numbered = (1..).zip(&self.servers);
        numbered.find(|(_, own)| own.id == *server && own.egress.is_some()).map_or(0, |(set, _)| set)
    }

    /// What the kernel half says of a destination to everybody in one network namespace, where it says anything of that one.
    pub fn look_up_in(&self, netns: u64, ip: IpAddr, port: u16) -> Option<Judgement> {
        let key = (0, Some(netns), port, Prefix::host(reached(ip)));
        let Entry { verdict, enforced, server, rule, .. } = *self.entry(key)?;
        verdict.map(|verdict| Judgement { verdict, enforced, server, rule })
    }

    /// What the kernel half says of a destination in every network namespace, step by step as it does. `set` is that of the process's server; `None`
    /// where it belongs to none.
    pub fn look_up(&self, set: Option<u32>, ip: IpAddr, port: u16, now: Timestamp) -> Judgement {
        let host = Prefix::host(reached(ip));
        let find = |set: u32| [port, 0].map(|port| self.longest(set, port, host));
        let [of_port, of_any] = find(0);
        let server =
            [of_port, of_any].into_iter().flatten().map(|entry| entry.server).find(|server| *server != 0);
        let server = server.unwrap_or(0);
        let block = [of_any, of_port].into_iter().flatten().max_by_key(|entry| entry.blocked_until);
        if let Some(entry) = block.filter(|entry| entry.blocked_until.is_some_and(|until| until > now)) {
            return Judgement { verdict: Verdict::Deny, enforced: true, server, rule: entry.blocked_by };
        }
        let said = |entries: [Option<&Entry>; 2]| {
            let [of_port, of_any] = entries;
            let bits = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.verdict_bits);
            let entry = if bits(of_any) > bits(of_port) { of_any } else { of_port };
            entry.and_then(|entry| Some((entry.verdict?, entry.rule)))
        };
        let for_all = said([of_port, of_any]);
        let (verdict, rule) = match (for_all, set) {
            (Some((Verdict::Deny, rule)), _) => (Verdict::Deny, rule),
            (_, Some(own)) if own != 0 => said(find(own)).unwrap_or((Verdict::Deny, 0)),
            (None, Some(_)) if self.deny_by_default => (Verdict::Deny, 0),
            (for_all, _) => for_all.unwrap_or((Verdict::Allow, 0)),
        };
        Judgement { verdict, enforced: self.enforced && verdict == Verdict::Deny, server, rule }
    }

    /// Why, in words: the rule, or what holds where none does. `set` as in [`Table::look_up`].
    pub fn reason(&self, set: Option<u32>, judgement: Judgement) -> Option<String> {
        if let Some(rule) = self.rule(judgement.rule) {
            return Some(rule.to_string());
        }
        let own = set.and_then(place).and_then(|place| self.servers.get(place));
        match (judgement.verdict, own) {
            (Verdict::Allow, _) => None,
            (Verdict::Deny, Some(server)) => {
                Some(format!("egress of server '{}' does not name it", server.id))
            }
            (Verdict::Deny, None) => {
                Some("network.default is deny, and no rule of network.allow names it".into())
            }
        }
    }

    fn rule(&self, number: u32) -> Option<&Rule> {
        self.rules.get(place(number)?)
    }

    /// The entry of the longest prefix that an address begins with.
    fn longest(&self, set: u32, port: u16, host: Prefix) -> Option<&Entry> {
        (0..=host.bits()).rev().find_map(|bits| self.entry((set, None, port, host.shortened(bits))))
    }

    fn entry(&self, key: Key) -> Option<&Entry> {
        let found = self.entries.binary_search_by_key(&key, Entry::key);
        found.ok().and_then(|index| self.entries.get(index))
    }
}

/// The place in a list of a number that begins at 1.
fn place(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests;
