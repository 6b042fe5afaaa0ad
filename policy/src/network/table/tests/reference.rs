//! The rules read one by one, as a person would, held against the entries and the look-ups of the kernel half.

use proptest::prelude::*;

use super::*;
use crate::testing::cases;

/// An address as a number of its family, and the bits of one.
fn number(ip: IpAddr) -> (bool, u128, u32) {
    match ip {
        IpAddr::V4(ip) => (true, u128::from(u32::from(ip)), 32),
        IpAddr::V6(ip) => (false, u128::from(ip), 128),
    }
}

/// Where a connection to this address ends.
fn end(ip: IpAddr) -> IpAddr {
    let ip = match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        v4 => v4,
    };
    match number(ip) {
        (true, 0, _) => "127.0.0.1".parse().unwrap(),
        (false, 0, _) => "::1".parse().unwrap(),
        _ => ip,
    }
}

/// How many bits of a destination these hosts name; `None`: they do not name it.
fn bits(host: &Host, names: &Names, ip: IpAddr) -> Option<u32> {
    let (v4, value, longest) = number(ip);
    match host.to_string().as_str() {
        "*" => Some(0),
        "localhost" | "127.0.0.1" | "::1" | "0.0.0.0" | "::" => {
            ["127.0.0.1", "::1"].contains(&ip.to_string().as_str()).then_some(longest)
        }
        text => match text.split_once('/') {
            Some((start, length)) => {
                let (start, length): (_, u32) = (number(start.parse().unwrap()), length.parse().unwrap());
                let behind = longest - length.min(longest);
                let same = start.1.checked_shr(behind) == value.checked_shr(behind);
                (start.0 == v4 && (length == 0 || same)).then_some(length)
            }
            None => match text.parse::<IpAddr>() {
                Ok(only) => (only == ip).then_some(longest),
                Err(_) => {
                    let known = names.get(text).into_iter().flatten();
                    let mut known = known.filter(|known| !known.to_canonical().is_unspecified());
                    known.any(|known| end(*known) == ip).then_some(longest)
                }
            },
        },
    }
}

/// What rules say: that which names most bits, then the one that names the port, then the one that denies.
fn of_rules<'a>(
    rules: impl Iterator<Item = (&'a Address, Verdict)>,
    names: &Names,
    (ip, port): (IpAddr, u16),
) -> Option<Verdict> {
    let fitting = rules.filter(|(address, _)| address.port.is_none_or(|own| own == port));
    let ranked = fitting.filter_map(|(address, verdict)| {
        Some((bits(&address.host, names, ip)?, address.port.is_some(), verdict))
    });
    // Deny is the greater of the two.
    ranked.max().map(|(_, _, verdict)| verdict)
}

/// What is to come of a destination: the verdict, whether it is enforced, and the server there.
fn judge(
    (rules, names, blocks): (&NetworkRules, &Names, &[Block]),
    set: Option<u32>,
    (ip, port): (IpAddr, u16),
    now: Timestamp,
) -> (Verdict, bool, u32) {
    let ip = end(ip);
    let is_named = |address: &Address| {
        address.port.is_none_or(|own| own == port) && bits(&address.host, names, ip).is_some()
    };
    let is_there = |server: &&NetworkServer| server.address.as_ref().is_some_and(is_named);
    let server = rules.servers.iter().position(|server| is_there(&server));
    let server = server.map_or(0, |place| u32::try_from(place).unwrap() + 1);
    let is_blocked = |block: &Block| match &block.target {
        Target::Address(address) => is_named(address),
        Target::Server(id) => rules.servers.iter().filter(is_there).any(|server| server.id == *id),
        Target::Calls(_) => false,
    };
    if blocks.iter().any(|block| block.until.is_none_or(|until| until > now) && is_blocked(block)) {
        return (Verdict::Deny, true, server);
    }
    let denied = rules.servers.iter().filter(|server| server.denied.is_some());
    let denied = denied.filter_map(|server| Some((server.address.as_ref()?, Verdict::Deny)));
    let denies = rules.deny.iter().map(|rule| (&rule.address, Verdict::Deny)).chain(denied);
    let allows = rules.allow.iter().map(|rule| (&rule.address, Verdict::Allow));
    let for_all = of_rules(denies.chain(allows), names, (ip, port));
    let own = set.and_then(|set| rules.servers.get(usize::try_from(set).unwrap().checked_sub(1)?));
    let verdict = match (for_all, own.and_then(|server| server.egress.as_ref()), set) {
        (Some(Verdict::Deny), ..) => Verdict::Deny,
        (_, Some(egress), _) if egress.iter().any(|rule| is_named(&rule.address)) => Verdict::Allow,
        (_, Some(_), _) => Verdict::Deny,
        (None, None, Some(_)) if rules.deny_by_default => Verdict::Deny,
        _ => Verdict::Allow,
    };
    (verdict, verdict == Verdict::Deny && rules.enforced, server)
}

/// Addresses that are near each other, so that rules meet.
fn ip() -> impl Strategy<Value = IpAddr> {
    let near = || prop::sample::select(vec![0u8, 1, 2, 3, 0x80, 0xff]);
    let v4 = (prop_oneof![4 => Just(10u8), 1 => any::<u8>()], near(), near());
    let v4 = v4.prop_map(|(first, second, last)| IpAddr::from([first, second, 0, last]));
    let v6 = (near(), near()).prop_map(|(first, last)| {
        IpAddr::from([0x2001, 0xdb8, u16::from(first), 0, 0, 0, 0, u16::from(last)])
    });
    // Some are beside the block that IPv4 addresses are in.
    let named = [
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "::",
        "::1",
        "::2",
        "255.255.255.255",
        "::fffe:0:0",
        "::1:0:0:0",
    ];
    let named = prop::sample::select(named.to_vec()).prop_map(|text| text.parse().unwrap());
    prop_oneof![4 => v4, 3 => v6, 2 => named]
}

fn host() -> impl Strategy<Value = Host> {
    let bits = prop_oneof![3 => Just(128u8), 2 => 96..=128u8, 1 => 0..=128u8];
    let names = prop::sample::select(vec!["a.example", "b.example", "c.example", "localhost"]);
    prop_oneof![
        8 => (ip(), bits).prop_map(|(ip, bits)| Host::Block(Prefix::host(ip).shortened(bits))),
        2 => names.prop_map(|name| Host::Name(name.into())),
        1 => Just(Host::Any),
    ]
}

fn port() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![80u16, 443])
}

fn address() -> impl Strategy<Value = Address> {
    (host(), prop::option::of(port())).prop_map(|(host, port)| Address { host, port })
}

fn rule_list(most: usize) -> impl Strategy<Value = Vec<Rule>> {
    let rule = address().prop_map(|address| Rule { origin: "rule".into(), address, reason: None });
    prop::collection::vec(rule, 0..most)
}

/// A server, without an id.
fn server() -> impl Strategy<Value = NetworkServer> {
    let of = |kind, address, denied, egress| NetworkServer {
        id: ServerId("".into()),
        kind,
        address,
        plain: false,
        denied,
        egress,
        is_model: false,
    };
    let host = prop_oneof![
        ip().prop_map(|ip| Host::Block(Prefix::host(ip))),
        prop::sample::select(vec!["a.example", "b.example", "localhost"])
            .prop_map(|name| Host::Name(name.into())),
    ];
    let remote = (host, port(), any::<bool>()).prop_map(move |(host, port, denied)| {
        let address = Some(Address { host, port: Some(port) });
        of(ServerType::Http, address, denied.then(|| "why".to_owned()), None)
    });
    let stdio =
        prop::option::of(rule_list(6)).prop_map(move |egress| of(ServerType::Stdio, None, None, egress));
    prop_oneof![remote, stdio]
}

fn rules() -> impl Strategy<Value = NetworkRules> {
    let numbered = |(number, server)| NetworkServer { id: ServerId(format!("s{number}").into()), ..server };
    let servers = prop::collection::vec(server(), 0..4);
    let servers = servers.prop_map(move |servers| servers.into_iter().enumerate().map(numbered).collect());
    (any::<bool>(), any::<bool>(), rule_list(8), rule_list(8), servers).prop_map(
        |(enforced, deny_by_default, deny, allow, servers)| NetworkRules {
            enforced,
            deny_by_default,
            deny,
            allow,
            servers,
            found: Vec::new(),
        },
    )
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let target = prop_oneof![
        3 => address().prop_map(Target::Address),
        1 => (0..5).prop_map(|number| Target::Server(ServerId(format!("s{number}").into()))),
    ];
    let until = prop::option::of((0..4u64).prop_map(Timestamp));
    let block = (target, until).prop_map(|(target, until)| Block { target, until, reason: None });
    prop::collection::vec(block, 0..4)
}

fn known() -> impl Strategy<Value = Names> {
    let name = prop::sample::select(vec!["a.example".to_owned(), "b.example".to_owned()]);
    prop::collection::btree_map(name, prop::collection::vec(ip(), 0..4), 0..3)
}

/// A destination; IPv4 now and then in its IPv6 form.
fn destination() -> impl Strategy<Value = (IpAddr, u16)> {
    let written = (ip(), any::<bool>()).prop_map(|(ip, mapped)| match ip {
        IpAddr::V4(ip) if mapped => IpAddr::V6(ip.to_ipv6_mapped()),
        ip => ip,
    });
    (written, prop_oneof![3 => port(), 1 => Just(25u16)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(3_000)))]

    #[test]
    fn network_table_matches_reference_rules(
        rules in rules(),
        blocks in blocks(),
        names in known(),
        destinations in prop::collection::vec(destination(), 1..24),
        now in (0..4u64).prop_map(Timestamp),
    ) {
        let table = Table::compile(&rules, &names, &blocks).unwrap();
        let sets = rules.servers.iter().map(|server| Some(table.set_of(&server.id)));
        for set in sets.chain([None, Some(0)]) {
            for (ip, port) in &destinations {
                let said = table.look_up(set, *ip, *port, now);
                let expected = judge((&rules, &names, &blocks), set, (*ip, *port), now);
                prop_assert_eq!(
                    (said.verdict, said.enforced, said.server), expected,
                    "{} {} of {:?}: {:#?}", ip, port, set, table.entries()
                );
                prop_assert!(said.verdict == Verdict::Allow || table.reason(set, said).is_some());
            }
        }
    }

    /// No two entries are of one key, they are in order, and the rule of a verdict is known.
    #[test]
    fn network_table_entries_are_sorted_and_unique(rules in rules(), blocks in blocks(), names in known()) {
        let table = Table::compile(&rules, &names, &blocks).unwrap();
        prop_assert_eq!(&table, &Table::compile(&rules, &names, &blocks).unwrap());
        let keys: Vec<_> = table.entries().iter().map(Entry::key).collect();
        prop_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        for entry in table.entries() {
            prop_assert_eq!(entry.verdict.is_some(), entry.rule != 0);
            prop_assert_eq!(entry.verdict.is_some(), entry.verdict_bits != 0);
            prop_assert_eq!(entry.blocked_until.is_some(), entry.blocked_by != 0);
            prop_assert_eq!(entry.enforced, rules.enforced && entry.verdict == Some(Verdict::Deny));
            prop_assert!(entry.verdict_bits <= entry.prefix.bits() + 1);
            for number in [entry.rule, entry.blocked_by] {
                prop_assert!(number == 0 || table.rule(number).is_some());
            }
            let denies = entry.verdict == Some(Verdict::Deny);
            prop_assert!(entry.set == 0 || !denies && entry.server == 0 && entry.blocked_by == 0);
        }
    }
}
