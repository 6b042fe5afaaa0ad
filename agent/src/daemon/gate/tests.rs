//! When the gate is needed, and what it says of itself.

use super::*;

#[test]
fn gate_troubles_name_every_limit() {
    let server = |name: &str| ServerId(name.into());
    let cases: [(&str, Gate, &[&str]); 5] = [
        ("well", Gate::default(), &[]),
        (
            "no gate",
            Gate { unusable: Some("no BPF LSM".into()), ..Gate::default() },
            &["calls are reported and not stopped: no BPF LSM"],
        ),
        (
            "old table",
            Gate { failed: Some("too large".into()), is_blunt: true, ..Gate::default() },
            &["calls are stopped by an older policy: too large", "denied calls are refused"],
        ),
        (
            "one server",
            Gate { crowded: vec![server("a")], ..Gate::default() },
            &["the gate has no capacity for the tools that a lists"],
        ),
        (
            "two servers",
            Gate { crowded: vec![server("a"), server("b")], ..Gate::default() },
            &["the gate has no capacity for the tools that a and 1 more lists"],
        ),
    ];
    for (name, gate, expected) in cases {
        let troubles: Vec<String> = gate.troubles().collect();
        let matches = troubles.iter().zip(expected).all(|(trouble, start)| trouble.starts_with(start));
        assert!(troubles.len() == expected.len() && matches, "{name}: {troubles:?}");
    }
}

#[test]
fn gate_is_required_by_enforcement_or_a_block() {
    let config = |yaml: &str| mcpwarden_policy::config::parse(yaml.as_bytes()).unwrap().0;
    let block = CallBlock { callee: Callee::Session(SessionId("s".into())), until: None, reason: None };
    for (yaml, blocks, expected) in [
        ("", vec![], false),
        ("enforcement: { stdio: deny }", vec![], true),
        ("enforcement: { stdio: neutralize }", vec![], true),
        ("", vec![block.clone()], true),
    ] {
        let mut gate = Gate::default();
        assert_eq!(gate.set_blocks(&blocks), !blocks.is_empty(), "{yaml}");
        assert!(!gate.set_blocks(&blocks), "the same blocks are no change");
        assert_eq!(gate.is_required(&config(yaml)), expected, "{yaml} {blocks:?}");
    }
}
