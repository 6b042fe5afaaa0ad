//! The table that destinations are looked up in, compiled from everything that decides about them.
//!
//! The kernel half looks a destination up twice: among the entries of its port, and among those of any port, each time
//! for the longest prefix. So each entry carries all that the entries around it say: what is denied for `10.0.0.0/8` is
//! denied by the entry of `10.1.2.3` as well, unless that says otherwise itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{Address, Host, Prefix, reached};
use crate::event::ServerType;
use crate::ids::{ServerId, Timestamp};

/// Most entries of a table: what the kernel's map is made for.
pub const MAX_ENTRIES: usize = 16_384;

/// What may be, and what not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It must not.
    Deny,
}

/// The addresses of each name. [`names_of`] says of which.
pub type Names = BTreeMap<String, Vec<IpAddr>>;

/// A rule on destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it stands, such as `network.deny[3]`.
    pub origin: String,
    /// What it is about.
    pub address: Address,
    /// Why, in words of who wrote it.
    pub reason: Option<String>,
}

impl fmt::Display for Rule {
    /// `origin (address): reason`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.origin, self.address)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(formatter, ": {reason}"))
    }
}

/// A declared server, as far as connections are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkServer {
    /// Its id.
    pub id: ServerId,
    /// How it is reached.
    pub kind: ServerType,
    /// Where, of `http` and `sse`.
    pub address: Option<Address>,
    /// Why it may not be used at all, where that is so.
    pub denied: Option<String>,
    /// The only destinations of its processes; `None`: any, as far as other rules let them.
    pub egress: Option<Vec<Rule>>,
}

/// Everything of the configuration that decides about connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkRules {
    /// Whether denials are carried out, or only said.
    pub enforced: bool,
    /// Whether the processes of servers may connect only to what is allowed.
    pub deny_by_default: bool,
    /// What nobody may connect to.
    pub deny: Vec<Rule>,
    /// What may be connected to: exceptions to what is denied by a less specific rule, or by default.
    pub allow: Vec<Rule>,
    /// The declared servers, in their order.
    pub servers: Vec<NetworkServer>,
}

/// What is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A destination.
    Address(Address),
    /// Where a declared server of type `http` or `sse` is.
    Server(ServerId),
}

/// A block: a denial that is always enforced, by an operator or by a guard, for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What is blocked.
    pub target: Target,
    /// Until when; `None`: until it is lifted.
    pub until: Option<Timestamp>,
    /// By whom or why, in words.
    pub reason: Option<String>,
}

impl Block {
    /// The end of a block that has none.
    pub const FOREVER: Timestamp = Timestamp(u64::MAX);
}

/// The names whose addresses [`Table::compile`] needs.
pub fn names_of(rules: &NetworkRules, blocks: &[Block]) -> BTreeSet<String> {
    let egress = rules.servers.iter().flat_map(|server| server.egress.iter().flatten());
    let of_rules = rules.deny.iter().chain(&rules.allow).chain(egress).map(|rule| &rule.address);
    let of_servers = rules.servers.iter().filter_map(|server| server.address.as_ref());
    let of_blocks = blocks.iter().filter_map(|block| match &block.target {
        Target::Address(address) => Some(address),
        Target::Server(_) => None,
    });
    let hosts = of_rules.chain(of_servers).chain(of_blocks).map(|address| &address.host);
    let name = |host: &Host| match host {
        Host::Name(name) if !host.is_loopback() => Some(name.clone()),
        _ => None,
    };
    hosts.filter_map(name).collect()
}

/// One entry: what holds of a block of addresses and a port, unless another says more of a smaller block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whom it is for: 0 everybody, else the processes of one server: [`Table::set_of`].
    pub set: u32,
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
        let table = Self {
            enforced: rules.enforced,
            deny_by_default: rules.deny_by_default,
            servers: rules.servers.clone(),
            ..Self::default()
        };
        let mut compiler = Compiler { table, names, said: BTreeMap::new(), full: None };
        compiler.rules(rules);
        blocks.iter().for_each(|block| compiler.block(block));
        compiler.finish()
    }

    /// The entries: sets, ports, addresses in order, a block of addresses before those in it.
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

    /// What the kernel half says of a destination, step by step as it does. `set` is that of the process's server; `None`
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
        (0..=host.bits()).rev().find_map(|bits| {
            let key = (set, port, host.shortened(bits));
            let found =
                self.entries.binary_search_by_key(&key, |entry| (entry.set, entry.port, entry.prefix));
            found.ok().and_then(|index| self.entries.get(index))
        })
    }
}

/// The place in a list of a number that begins at 1.
fn place(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

/// What is said of one block of addresses and a port itself.
#[derive(Debug, Default)]
struct Said {
    verdict: Option<(Verdict, u32)>,
    blocked: Option<(Timestamp, u32)>,
    server: u32,
    /// A rule that allows what another denies here.
    overruled: u32,
}

struct Compiler<'a> {
    table: Table,
    names: &'a Names,
    /// By set, port, block: in this order a block comes right before those that lie in it.
    said: BTreeMap<(u32, u16, Prefix), Said>,
    full: Option<TableFull>,
}

impl Compiler<'_> {
    fn rules(&mut self, rules: &NetworkRules) {
        for rule in &rules.deny {
            self.add(0, rule.clone(), |said, rule| said.deny(rule));
        }
        for rule in &rules.allow {
            self.add(0, rule.clone(), |said, rule| said.allow(rule));
        }
        for (number, server) in (1..).zip(&rules.servers) {
            if let Some(address) = &server.address {
                let (origin, address) = (format!("server '{}'", server.id), address.clone());
                let reason = server.denied.clone();
                let denied = reason.is_some();
                self.add(0, Rule { origin, address, reason }, |said, rule| {
                    if said.server == 0 {
                        said.server = number;
                    }
                    if denied {
                        said.deny(rule);
                    }
                });
            }
            for rule in server.egress.iter().flatten() {
                self.add(number, rule.clone(), |said, rule| said.allow(rule));
            }
        }
    }

    fn block(&mut self, block: &Block) {
        let address = match &block.target {
            Target::Address(address) => address.clone(),
            Target::Server(id) => {
                let server = self.table.servers.iter().find(|server| server.id == *id);
                let Some(address) = server.and_then(|server| server.address.clone()) else {
                    return self
                        .note(format!("server '{id}' is blocked and has no address that is declared"));
                };
                address
            }
        };
        let origin = match &block.target {
            Target::Address(_) => "block".to_owned(),
            Target::Server(id) => format!("block of server '{id}'"),
        };
        let until = block.until.unwrap_or(Block::FOREVER);
        self.add(0, Rule { origin, address, reason: block.reason.clone() }, |said, rule| {
            said.blocked = said.blocked.filter(|(other, _)| *other >= until).or(Some((until, rule)));
        });
    }

    /// Says something of all blocks of a rule's address.
    fn add(&mut self, set: u32, rule: Rule, say: impl Fn(&mut Said, u32)) {
        let blocks = blocks(&rule.address.host, self.names);
        if blocks.is_empty() {
            self.note(format!("{rule} has no effect: no address of that name is known"));
        }
        let before = self.said.len();
        self.table.rules.push(rule);
        let number = u32::try_from(self.table.rules.len()).unwrap_or(u32::MAX);
        let port = self.table.rules.last().and_then(|rule| rule.address.port).unwrap_or(0);
        for block in blocks {
            // Other rules on IPv6 are none on IPv4: below one that its addresses begin with, all of it begins anew.
            if block.begins(&Prefix::IPV4) {
                self.said.entry((set, port, Prefix::IPV4)).or_default();
            }
            say(self.said.entry((set, port, block)).or_default(), number);
        }
        if self.said.len() > MAX_ENTRIES && self.said.len() > before {
            let rule = || self.table.rules.last().map_or_else(String::new, Rule::to_string);
            let full = self.full.get_or_insert_with(|| TableFull { needed: 0, first: rule(), rules: 0 });
            full.rules += 1;
        }
    }

    fn note(&mut self, note: String) {
        self.table.notes.push(note);
    }

    fn finish(mut self) -> Result<Table, TableFull> {
        if let Some(full) = self.full {
            return Err(TableFull { needed: self.said.len(), ..full });
        }
        // The entries that the one at hand lies in, outermost first: places in the list.
        let mut around: Vec<usize> = Vec::new();
        let said = std::mem::take(&mut self.said);
        for ((set, port, prefix), said) in said {
            let table = &mut self.table;
            let lies_in =
                |outer: &Entry| (outer.set, outer.port) == (set, port) && outer.prefix.begins(&prefix);
            while around
                .last()
                .and_then(|place| table.entries.get(*place))
                .is_some_and(|outer| !lies_in(outer))
            {
                around.pop();
            }
            let outer = around.last().and_then(|place| table.entries.get(*place));
            let entry = said.entry(
                (set, port, prefix),
                outer.filter(|outer| outer.prefix.covers(&prefix)),
                table.enforced,
            );
            self.remark_rules(&said, &entry);
            around.push(self.table.entries.len());
            self.table.entries.push(entry);
        }
        self.remark_servers();
        Ok(self.table)
    }

    /// Notes what one rule allows and another denies by another name: one address can have many.
    fn remark_rules(&mut self, said: &Said, entry: &Entry) {
        let (allowed, denied) = (self.table.rule(said.overruled), self.table.rule(entry.rule));
        if let (Some(allowed), Some(denied)) = (allowed, denied)
            && allowed.address != denied.address
        {
            let note = format!("{allowed} is denied at {}: {denied}", entry.prefix);
            self.note(note);
        }
    }

    /// Notes the servers that nothing denies by their id, and that cannot be reached for what is denied at their address.
    fn remark_servers(&mut self) {
        let table = &self.table;
        let mut notes = Vec::new();
        for server in table.servers.iter().filter(|server| server.denied.is_none()) {
            let Some(address) = &server.address else { continue };
            for ip in blocks(&address.host, self.names).iter().filter_map(Prefix::only) {
                // At the end of time no block counts, which is meant as it is.
                let judgement = table.look_up(None, ip, address.port.unwrap_or(0), Block::FOREVER);
                if let Some(rule) = table.rule(judgement.rule).filter(|_| judgement.verdict == Verdict::Deny)
                {
                    notes.push(format!("server '{}' is denied with its address {ip}: {rule}", server.id));
                }
            }
        }
        self.table.notes.extend(notes);
    }
}

/// The blocks of addresses that a rule on these hosts is about.
fn blocks(host: &Host, names: &Names) -> Vec<Prefix> {
    match host {
        host if host.is_loopback() => {
            [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].map(Prefix::host).to_vec()
        }
        Host::Any => vec![Prefix::IPV4, Prefix::IPV6],
        Host::Block(block) => vec![*block],
        Host::Name(name) => {
            // A resolver that blocks a name says 0.0.0.0. Read as loopback, that would deny all of this host.
            let known =
                names.get(name).into_iter().flatten().filter(|ip| !ip.to_canonical().is_unspecified());
            known.copied().map(Prefix::host).collect()
        }
    }
}

impl Said {
    /// Denies it, for the first rule that does.
    fn deny(&mut self, rule: u32) {
        if let Some((Verdict::Allow, allowed)) = self.verdict {
            self.overruled = allowed;
        }
        if self.verdict.is_none_or(|(verdict, _)| verdict == Verdict::Allow) {
            self.verdict = Some((Verdict::Deny, rule));
        }
    }

    /// Allows it, unless it is denied.
    fn allow(&mut self, rule: u32) {
        match self.verdict {
            None => self.verdict = Some((Verdict::Allow, rule)),
            Some((Verdict::Deny, _)) => self.overruled = rule,
            Some((Verdict::Allow, _)) => {}
        }
    }

    /// All that holds here, with what the nearest entry around it says.
    fn entry(&self, (set, port, prefix): (u32, u16, Prefix), outer: Option<&Entry>, enforced: bool) -> Entry {
        let own = self.verdict.map(|(verdict, rule)| (Some(verdict), 1 + prefix.bits(), rule));
        let around = outer.map(|outer| (outer.verdict, outer.verdict_bits, outer.rule));
        let (verdict, verdict_bits, rule) = own.or(around).unwrap_or((None, 0, 0));
        let around = outer.and_then(|outer| Some((outer.blocked_until?, outer.blocked_by)));
        let blocked = self.blocked.into_iter().chain(around).max_by_key(|(until, _)| *until);
        Entry {
            set,
            port,
            prefix,
            server: self.server,
            verdict,
            verdict_bits,
            enforced: enforced && verdict == Some(Verdict::Deny),
            rule,
            blocked_until: blocked.map(|(until, _)| until),
            blocked_by: blocked.map_or(0, |(_, rule)| rule),
        }
    }
}

#[cfg(test)]
mod tests;
