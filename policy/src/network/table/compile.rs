//! Rules into entries: what each says of a block of addresses, and then what all around it say.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Entry, Key, MAX_ENTRIES, Table, TableFull};
use crate::network::rules::{Block, FoundDenial, NetworkRules, Rule, Target, Verdict};
use crate::terms::{Address, Host, Names, Prefix, Timestamp};

/// What is said of one block of addresses and a port itself.
#[derive(Debug, Default)]
struct BlockRules {
    verdict: Option<(Verdict, u32)>,
    blocked: Option<(Timestamp, u32)>,
    server: u32,
    /// A rule that allows what another denies here.
    overruled: u32,
}

/// What becomes a table.
pub(super) struct Compiler<'a> {
    table: Table,
    names: &'a Names,
    /// In the order of these keys a block comes right before those that lie in it.
    said: BTreeMap<Key, BlockRules>,
    full: Option<TableFull>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(rules: &NetworkRules, names: &'a Names) -> Self {
        let table = Table {
            enforced: rules.enforced,
            deny_by_default: rules.deny_by_default,
            servers: rules.servers.clone(),
            ..Table::default()
        };
        Self { table, names, said: BTreeMap::new(), full: None }
    }

    pub(super) fn rules(&mut self, rules: &NetworkRules) {
        for rule in &rules.deny {
            self.add(0, rule.clone(), |said, rule| said.deny(rule));
        }
        for rule in &rules.allow {
            self.add(0, rule.clone(), |said, rule| said.allow(rule));
        }
        for (number, server) in (1..).zip(&rules.servers) {
            if let Some(address) = &server.address {
                let denied = server.denied.is_some();
                let origin =
                    if denied { "server_access".to_owned() } else { format!("server '{}'", server.id) };
                let rule = Rule { origin, address: address.clone(), reason: server.denied.clone() };
                self.add(0, rule, |said, rule| {
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
        // Last: the numbers of what is configured depend on the configuration alone.
        for FoundDenial { address, netns, reason } in &rules.found {
            let block = Prefix::host(address.ip());
            let address = Address { host: Host::Block(block), port: Some(address.port()) };
            let rule = Rule { origin: "server_access".to_owned(), address, reason: Some(reason.clone()) };
            self.add_at((0, *netns), rule, vec![block], |said, rule| said.deny(rule));
        }
    }

    pub(super) fn block(&mut self, block: &Block) {
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
            Target::Calls(_) => return,
        };
        let origin = match &block.target {
            Target::Server(id) => format!("block of server '{id}'"),
            Target::Address(_) | Target::Calls(_) => "block".to_owned(),
        };
        let until = block.until.unwrap_or(Block::FOREVER);
        self.add(0, Rule { origin, address, reason: block.reason.clone() }, |said, rule| {
            said.blocked = said.blocked.filter(|(other, _)| *other >= until).or(Some((until, rule)));
        });
    }

    /// Says something of all blocks of a rule's address.
    fn add(&mut self, set: u32, rule: Rule, say: impl Fn(&mut BlockRules, u32)) {
        let blocks = blocks(&rule.address.host, self.names);
        if blocks.is_empty() {
            self.note(format!("{rule} has no effect: no address of that name is known"));
        }
        self.add_at((set, None), rule, blocks, say);
    }

    /// Says something of these blocks, to a set in a network namespace.
    fn add_at(
        &mut self,
        (set, netns): (u32, Option<u64>),
        rule: Rule,
        blocks: Vec<Prefix>,
        say: impl Fn(&mut BlockRules, u32),
    ) {
        let before = self.said.len();
        self.table.rules.push(rule);
        let number = u32::try_from(self.table.rules.len()).unwrap_or(u32::MAX);
        let port = self.table.rules.last().and_then(|rule| rule.address.port).unwrap_or(0);
        for block in blocks {
            // Other rules on IPv6 are none on IPv4: below one that its addresses begin with, all of it begins anew.
            if block.begins(&Prefix::IPV4) {
                self.said.entry((set, netns, port, Prefix::IPV4)).or_default();
            }
            say(self.said.entry((set, netns, port, block)).or_default(), number);
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

    pub(super) fn finish(mut self) -> Result<Table, TableFull> {
        if let Some(full) = self.full {
            return Err(TableFull { needed: self.said.len(), ..full });
        }
        // The entries that the one at hand lies in, outermost first: places in the list.
        let mut around: Vec<usize> = Vec::new();
        let said = std::mem::take(&mut self.said);
        for (key, said) in said {
            let (set, netns, port, prefix) = key;
            let table = &mut self.table;
            let lies_in = |outer: &Entry| {
                (outer.set, outer.netns, outer.port) == (set, netns, port) && outer.prefix.begins(&prefix)
            };
            while around
                .last()
                .and_then(|place| table.entries.get(*place))
                .is_some_and(|outer| !lies_in(outer))
            {
                around.pop();
            }
            let outer = around.last().and_then(|place| table.entries.get(*place));
            let entry = said.entry(key, outer.filter(|outer| outer.prefix.covers(&prefix)), table.enforced);
            self.remark_rules(&said, &entry);
            around.push(self.table.entries.len());
            self.table.entries.push(entry);
        }
        self.remark_servers();
        Ok(self.table)
    }

    /// Notes what one rule allows and another denies by another name: one address can have many.
    fn remark_rules(&mut self, said: &BlockRules, entry: &Entry) {
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

impl BlockRules {
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
    fn entry(&self, (set, netns, port, prefix): Key, outer: Option<&Entry>, enforced: bool) -> Entry {
        let own = self.verdict.map(|(verdict, rule)| (Some(verdict), 1 + prefix.bits(), rule));
        let around = outer.map(|outer| (outer.verdict, outer.verdict_bits, outer.rule));
        let (verdict, verdict_bits, rule) = own.or(around).unwrap_or((None, 0, 0));
        let around = outer.and_then(|outer| Some((outer.blocked_until?, outer.blocked_by)));
        let blocked = self.blocked.into_iter().chain(around).max_by_key(|(until, _)| *until);
        Entry {
            set,
            netns,
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
