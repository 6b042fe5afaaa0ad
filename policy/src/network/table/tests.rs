//! What single rules do, as tables; and a naive reading of the rules against the look-ups of the kernel half.

mod reference;

use std::collections::BTreeSet;

use super::*;
use crate::network::{FoundDenial, Target, names_of};
use crate::terms::{Address, Host, ServerType};

/// The rules that a short text means: `deny ADDRESS`, `allow ADDRESS`, `server ID ADDRESS`, `denied ID ADDRESS`,
/// `egress ID ADDRESS…`, `block ADDRESS UNTIL`, `default deny`, `observe`; one a line.
fn read(text: &str) -> (NetworkRules, Vec<Block>) {
    let mut rules = NetworkRules { enforced: true, ..NetworkRules::default() };
    let mut blocks = Vec::new();
    let rule =
        |address: &str| Rule { origin: String::new(), address: address.parse().unwrap(), reason: None };
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut server = |kind, address: Option<&str>, denied: Option<&str>, egress| {
            rules.servers.push(NetworkServer {
                id: ServerId(words[1].into()),
                kind,
                address: address.map(|address| address.parse().unwrap()),
                plain: false,
                denied: denied.map(str::to_owned),
                egress,
                is_model: false,
            });
        };
        match words[0] {
            "deny" => {
                rules.deny.push(Rule { origin: format!("deny[{}]", rules.deny.len()), ..rule(words[1]) })
            }
            "allow" => {
                rules.allow.push(Rule { origin: format!("allow[{}]", rules.allow.len()), ..rule(words[1]) })
            }
            "server" => server(ServerType::Http, Some(words[2]), None, None),
            "denied" => server(ServerType::Sse, Some(words[2]), Some("it may not be used"), None),
            "egress" => {
                server(
                    ServerType::Stdio,
                    None,
                    None,
                    Some(words[2..].iter().map(|address| rule(address)).collect()),
                );
            }
            "stdio" => server(ServerType::Stdio, None, None, None),
            "block" => {
                let until = words.get(2).map(|until| Timestamp(until.parse().unwrap()));
                let target = words[1]
                    .parse()
                    .map_or_else(|_| Target::Server(ServerId(words[1].into())), Target::Address);
                blocks.push(Block { target, until, reason: None });
            }
            "block-server" => {
                let target = Target::Server(ServerId(words[1].into()));
                blocks.push(Block { target, until: None, reason: Some("by hand".into()) });
            }
            "default" => rules.deny_by_default = words[1] == "deny",
            "observe" => rules.enforced = false,
            other => panic!("{other}"),
        }
    }
    (rules, blocks)
}

fn names(list: &[(&str, &[&str])]) -> Names {
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    list.iter().map(|(name, texts)| ((*name).to_owned(), addresses(texts))).collect()
}

fn compile(text: &str, list: &[(&str, &[&str])]) -> Table {
    let (rules, blocks) = read(text);
    Table::compile(&rules, &names(list), &blocks).unwrap()
}

/// A destination as `ADDRESS PORT`, and what is said of it at time 10: `allow`, `deny`, `seen` (denied and not enforced).
fn said(table: &Table, set: Option<u32>, destination: &str) -> &'static str {
    let (ip, port) = destination.split_once(' ').unwrap();
    let judgement = table.look_up(set, ip.parse().unwrap(), port.parse().unwrap(), Timestamp(10));
    match judgement {
        Judgement { verdict: Verdict::Allow, .. } => "allow",
        Judgement { enforced: true, .. } => "deny",
        _ => "seen",
    }
}

/// Where servers were found: that address and port, and nothing else of loopback.
#[test]
fn found_servers_are_denied_at_exact_address_only() {
    let mut rules = NetworkRules { enforced: true, ..NetworkRules::default() };
    rules.found = vec![found("[::1]:80", None)];
    let table = Table::compile(&rules, &Names::new(), &[]).unwrap();
    for (ip, port, verdict) in [
        ("::1", 80, Verdict::Deny),
        ("::", 80, Verdict::Deny),
        ("127.0.0.1", 80, Verdict::Allow),
        ("0.0.0.0", 80, Verdict::Allow),
        ("::1", 81, Verdict::Allow),
    ] {
        let judgement = table.look_up(None, ip.parse().unwrap(), port, Timestamp(1));
        assert_eq!(judgement.verdict, verdict, "{ip} {port}");
        let reason = (verdict == Verdict::Deny).then(|| "server_access ([::1]:80): why".to_owned());
        assert_eq!(table.reason(None, judgement), reason, "{ip} {port}");
    }
}

fn found(address: &str, netns: Option<u64>) -> FoundDenial {
    FoundDenial { address: address.parse().unwrap(), netns, reason: "why".to_owned() }
}

/// Where servers were found, each in a network namespace or in every one; where something connects, from which
/// namespace; and what is said of it.
#[test]
fn found_servers_are_denied_in_their_namespace() {
    let rules = NetworkRules {
        enforced: true,
        found: vec![
            found("127.0.0.1:80", Some(7)),
            found("127.0.0.1:81", Some(1)),
            found("[::1]:80", Some(7)),
            found("10.0.0.1:80", Some(8)),
            found("10.0.0.2:80", None),
        ],
        ..NetworkRules::default()
    };
    let table = Table::compile(&rules, &Names::new(), &[]).unwrap();
    for (ip, port, netns, denied) in [
        ("127.0.0.1", 80, 7, true),
        ("0.0.0.0", 80, 7, true),
        ("::ffff:127.0.0.1", 80, 7, true),
        ("::ffff:0.0.0.0", 80, 7, true),
        ("127.0.0.1", 80, 1, false),
        ("0.0.0.0", 80, 1, false),
        ("127.0.0.1", 80, 8, false),
        ("127.0.0.2", 80, 7, false),
        ("127.0.0.1", 81, 7, false),
        ("127.0.0.1", 81, 1, true),
        ("::1", 80, 7, true),
        ("::", 80, 7, true),
        ("::", 80, 1, false),
        ("10.0.0.1", 80, 8, true),
        ("::ffff:10.0.0.1", 80, 8, true),
        ("10.0.0.1", 80, 1, false),
        ("10.0.0.1", 80, 7, false),
        ("10.0.0.2", 80, 7, true),
        ("10.0.0.2", 80, 1, true),
    ] {
        let ip = ip.parse().unwrap();
        let everywhere = table.look_up(None, ip, port, Timestamp(1));
        let judgement = table.look_up_in(netns, ip, port).unwrap_or(everywhere);
        assert_eq!(judgement.verdict == Verdict::Deny, denied, "{ip} {port} in {netns}");
        assert_eq!(judgement.enforced, denied, "{ip} {port} in {netns}");
        assert_eq!(table.reason(None, judgement).is_some(), denied, "{ip} {port} in {netns}");
    }
}

/// Rules; set; destination and what is said of it.
#[test]
fn most_specific_network_rule_applies() {
    type Said = &'static [(&'static str, &'static str)];
    let cases: &[(&str, Option<u32>, Said)] = &[
        ("", None, &[("1.2.3.4 80", "allow"), ("::1 80", "allow")]),
        (
            "deny 10.0.0.0/8\nallow 10.1.0.0/16\ndeny 10.1.2.3",
            None,
            &[
                ("10.0.0.1 1", "deny"),
                ("10.1.0.1 1", "allow"),
                ("10.1.2.3 1", "deny"),
                ("::ffff:10.1.2.3 1", "deny"),
                ("11.0.0.1 1", "allow"),
            ],
        ),
        ("allow 10.0.0.0/8\ndeny 10.0.0.0/8", None, &[("10.0.0.1 1", "deny")]),
        // The bits of the block come before the port, which decides between equals.
        (
            "deny 10.0.0.0/8\nallow 10.0.0.0/8:443",
            None,
            &[("10.0.0.1 443", "allow"), ("10.0.0.1 80", "deny")],
        ),
        (
            "deny 10.0.0.0/8:443\nallow 10.1.0.0/16",
            None,
            &[("10.1.0.1 443", "allow"), ("10.2.0.1 443", "deny"), ("10.2.0.1 80", "allow")],
        ),
        // A rule of this port that says nothing of this address hides none of any port.
        ("deny 10.0.0.0/8\nserver a 10.1.2.3:80", None, &[("10.1.2.3 80", "deny")]),
        ("deny *:25", None, &[("1.2.3.4 25", "deny"), ("2001:db8::1 25", "deny"), ("1.2.3.4 26", "allow")]),
        ("deny *\nallow 10.0.0.0/8", None, &[("10.0.0.1 1", "allow"), ("2001:db8::1 1", "deny")]),
        // All of IPv6 is none of IPv4, though its form is of the same bits.
        (
            "deny ::/0",
            None,
            &[
                ("::1 1", "deny"),
                ("2001:db8::1 1", "deny"),
                ("1.2.3.4 1", "allow"),
                ("::ffff:1.2.3.4 1", "allow"),
            ],
        ),
        (
            "deny ::/80\ndeny 10.0.0.0/8",
            None,
            &[("::1 1", "deny"), ("1.2.3.4 1", "allow"), ("10.2.3.4 1", "deny")],
        ),
        (
            "deny [::/0]:80\nallow [2001:db8::/32]:80",
            None,
            &[("2001:db8::1 80", "allow"), ("2001:db9::1 80", "deny"), ("9.9.9.9 80", "allow")],
        ),
        ("deny 0.0.0.0/0", None, &[("1.2.3.4 1", "deny"), ("0.0.0.0 1", "deny"), ("::1 1", "allow")]),
        // Loopback is what reaches a listener on it.
        (
            "deny 127.0.0.1:80",
            None,
            &[
                ("127.0.0.1 80", "deny"),
                ("::1 80", "deny"),
                ("0.0.0.0 80", "deny"),
                (":: 80", "deny"),
                ("::ffff:0.0.0.0 80", "deny"),
                ("::ffff:127.0.0.1 80", "deny"),
                ("127.0.0.2 80", "allow"),
                ("127.0.0.1 81", "allow"),
            ],
        ),
        ("deny 0.0.0.0", None, &[("127.0.0.1 1", "deny"), ("::1 1", "deny"), ("1.2.3.4 1", "allow")]),
        ("deny localhost", None, &[("127.0.0.1 1", "deny"), ("::1 1", "deny"), ("0.0.0.0 1", "deny")]),
        ("observe\ndeny 10.0.0.0/8", None, &[("10.0.0.1 1", "seen"), ("1.1.1.1 1", "allow")]),
        (
            "deny many.example",
            None,
            &[("10.0.0.1 1", "deny"), ("2001:db8::9 1", "deny"), ("10.0.0.2 1", "allow")],
        ),
        // A resolver's way to say that there is nothing.
        ("deny nothing.example\ndeny sunk.example", None, &[("127.0.0.1 1", "allow"), ("::1 1", "allow")]),
        ("denied a 10.0.0.1:443", None, &[("10.0.0.1 443", "deny"), ("10.0.0.1 80", "allow")]),
        // Server number 1 has a set of its own, and number 2 none.
        (
            "egress a 10.0.0.0/8 1.2.3.4:443\nstdio b\ndeny 10.9.0.0/16",
            Some(1),
            &[
                ("10.0.0.1 1", "allow"),
                ("1.2.3.4 443", "allow"),
                ("1.2.3.4 80", "deny"),
                ("10.9.0.1 1", "deny"),
            ],
        ),
        ("egress a\nstdio b", Some(1), &[("127.0.0.1 1", "deny"), ("1.2.3.4 1", "deny")]),
        ("egress a\nstdio b", Some(0), &[("127.0.0.1 1", "allow")]),
        ("egress a\nstdio b", None, &[("127.0.0.1 1", "allow")]),
        ("observe\negress a", Some(1), &[("1.2.3.4 1", "seen")]),
        ("default deny\nallow 10.0.0.0/8:443", None, &[("1.2.3.4 1", "allow")]),
        (
            "default deny\nallow 10.0.0.0/8:443\ndeny 10.1.0.0/16",
            Some(0),
            &[
                ("10.0.0.1 443", "allow"),
                ("10.0.0.1 80", "deny"),
                ("10.1.0.1 443", "deny"),
                ("1.2.3.4 1", "deny"),
            ],
        ),
        (
            "default deny\nallow 10.0.0.0/8\negress a 9.9.9.9",
            Some(1),
            &[("10.0.0.1 1", "deny"), ("9.9.9.9 1", "allow")],
        ),
        // What is blocked is denied whatever rules say, as long as the block lasts.
        (
            "observe\nallow 10.0.0.1:80\nblock 10.0.0.0/8 11\nblock 10.0.0.2 9",
            None,
            &[("10.0.0.1 80", "deny"), ("10.0.0.2 1", "deny"), ("11.0.0.1 1", "allow")],
        ),
        (
            "block 10.0.0.0/8:80 11\nallow 10.0.0.1",
            Some(0),
            &[("10.0.0.1 80", "deny"), ("10.0.0.1 81", "allow")],
        ),
        ("block 10.0.0.0/8 10\nblock 10.0.0.1 9", None, &[("10.0.0.1 80", "allow")]),
        ("block 10.0.0.0/8\nblock 10.0.0.1 9", None, &[("10.0.0.1 80", "deny")]),
        (
            "server a 10.0.0.1:443\nblock-server a",
            None,
            &[("10.0.0.1 443", "deny"), ("10.0.0.1 80", "allow")],
        ),
        ("egress a 10.0.0.1\nblock 10.0.0.1", Some(1), &[("10.0.0.1 80", "deny")]),
    ];
    let names: &[(&str, &[&str])] = &[
        ("many.example", &["10.0.0.1", "2001:db8::9"]),
        ("sunk.example", &["0.0.0.0", "::", "::ffff:0.0.0.0"]),
    ];
    for (rules, set, destinations) in cases {
        let table = compile(rules, names);
        for (destination, expected) in *destinations {
            assert_eq!(
                said(&table, *set, destination),
                *expected,
                "{rules}\n{destination}\n{:#?}",
                table.entries()
            );
        }
    }
}

/// Rules; set; destination; the server that is there and why it is denied.
#[test]
fn network_denial_names_server_and_rule() {
    for (rules, set, destination, server, reason) in [
        ("deny 10.0.0.0/8\ndeny 10.0.0.1", None, "10.0.0.1", "-", "deny[1] (10.0.0.1)"),
        ("deny 10.0.0.0/8\nallow 10.0.0.1:81", None, "10.0.0.1", "-", "deny[0] (10.0.0.0/8)"),
        ("server a x.example:80\ndeny 10.0.0.1", None, "10.0.0.1", "a", "deny[0] (10.0.0.1)"),
        ("denied a x.example:80", None, "10.0.0.1", "a", "server_access (x.example:80): it may not be used"),
        ("server a x.example:80\nserver b 10.0.0.1:80", None, "10.0.0.1", "a", "-"),
        (
            "server a x.example:80\nblock-server a",
            None,
            "10.0.0.1",
            "a",
            "block of server 'a' (x.example:80): by hand",
        ),
        ("server a 9.9.9.9:80\negress b 9.9.9.9:80", Some(2), "9.9.9.9", "a", "(9.9.9.9:80)"),
        ("server a 9.9.9.9:80\negress b", Some(2), "9.9.9.9", "a", "egress of server 'b' does not name it"),
        (
            "default deny",
            Some(0),
            "9.9.9.9",
            "-",
            "network.default is deny, and no rule of network.allow names it",
        ),
        ("", Some(0), "9.9.9.9", "-", "-"),
    ] {
        let table = compile(rules, &[("x.example", &["10.0.0.1"])]);
        let judgement = table.look_up(set, destination.parse().unwrap(), 80, Timestamp(10));
        let there = place(judgement.server).map_or("-", |place| &*table.servers()[place].id.0);
        let why = table.reason(set, judgement);
        assert_eq!((there, why.as_deref().unwrap_or("-").trim_start()), (server, reason), "{rules}");
    }
}

/// Rules, and what is to be said of them.
#[test]
fn shared_addresses_are_noted() {
    let names: &[(&str, &[&str])] = &[("x.example", &["10.0.0.1", "10.0.0.2"]), ("y.example", &["10.0.0.2"])];
    for (rules, notes) in [
        ("deny x.example", &[][..]),
        (
            "deny gone.example:1",
            &["deny[0] (gone.example:1) has no effect: no address of that name is known"],
        ),
        (
            "denied a x.example:443\nserver b y.example:443",
            &[
                "server 'b' is denied with its address 10.0.0.2: server_access (x.example:443): it may not be used",
            ],
        ),
        ("denied a x.example:443\nserver b y.example:80", &[]),
        ("denied a x.example:443\ndenied b y.example:443", &[]),
        (
            "deny x.example\nserver b y.example:443",
            &["server 'b' is denied with its address 10.0.0.2: deny[0] (x.example)"],
        ),
        (
            "deny x.example\nallow y.example",
            &["allow[0] (y.example) is denied at 10.0.0.2: deny[0] (x.example)"],
        ),
        ("deny x.example\nallow x.example", &[]),
        ("block x.example\nserver b y.example:443", &[]),
        ("stdio a\nblock-server a", &["server 'a' is blocked and has no address that is declared"]),
        ("block-server a", &["server 'a' is blocked and has no address that is declared"]),
    ] {
        assert_eq!(compile(rules, names).notes(), notes, "{rules}");
    }
}

#[test]
fn host_names_are_collected_from_all_rules() {
    let (rules, blocks) = read(
        "deny a.example\nallow b.example:80\nserver s c.example:443\negress t d.example 1.2.3.4\nblock e.example\n\
         deny localhost\nblock-server s",
    );
    let names = names_of(&rules, &blocks);
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        ["a.example", "b.example", "c.example", "d.example", "e.example"]
    );
}

#[test]
fn only_servers_with_egress_rules_get_sets() {
    let table = compile("server a 1.2.3.4:80\nstdio b\negress c\negress d 1.2.3.4", &[]);
    let sets = ["a", "b", "c", "d", "e"].map(|id| table.set_of(&ServerId(id.into())));
    assert_eq!(sets, [0, 0, 3, 4, 0]);
    let used: BTreeSet<u32> = table.entries().iter().map(|entry| entry.set).collect();
    assert_eq!(used, [0, 4].into(), "a set can be empty");
}

#[test]
fn oversized_network_table_is_refused_as_a_whole() {
    let rule = |number: u32| format!("deny {}\n", std::net::Ipv4Addr::from(0x0a00_0000 + number));
    let text = |most: usize| (0..).map(rule).take(most).collect::<String>();
    assert_eq!(compile(&text(MAX_ENTRIES), &[]).entries().len(), MAX_ENTRIES);
    let (rules, blocks) =
        read(&(text(MAX_ENTRIES) + "allow 10.0.0.7\nallow 9.9.9.9\nblock 8.8.8.8\nblock 10.0.0.7"));
    let full = Table::compile(&rules, &Names::new(), &blocks).unwrap_err();
    assert_eq!((full.needed, full.rules), (MAX_ENTRIES + 2, 2));
    let message = full.to_string();
    for part in ["need 16386 entries of 16384", "allow[1] (9.9.9.9) and 1 rules after it"] {
        assert!(message.contains(part), "{message}");
    }
}
