//! The keys of the network: what is refused and warned of.

use super::*;

#[test]
fn network_config_errors_have_positions() {
    table(&[
        ("network: { deny: [10.0.0.1/8] }", &[("1:19 error network.deny[0]: ", "the block is 10.0.0.0/8")]),
        (
            "network: { default: allow, deny: [a, 'fe80::1%eth0'] }",
            &[("1:28 warning ", "enforcement"), ("1:38 error network.deny[1]: ", "%eth0 names an interface")],
        ),
        ("network: { allow: ['*.example.com'] }", &[("1:20 ", "all names below example.com")]),
        ("network: { allow: ['a:0'] }", &[("1:20 ", "the port is 0")]),
        ("network: { deny: [{ host: 'a:80' }] }", &[("1:27 error network.deny[0].host: ", "without a port")]),
        (
            "network: { deny: [{ host: a, port: 0 }] }\nenforcement: { network: deny }",
            &[("1:36 error network.deny[0].port: ", "the least is 1")],
        ),
        (
            "network: { deny: [{ host: a, port: 65536 }] }\nenforcement: { network: deny }",
            &[("1:36 ", "the most is 65535")],
        ),
        ("network: { deny: [{ port: 80 }] }", &[("1:19 error network.deny[0]: ", "`host` is missing")]),
        (
            "network: { deny: [{ host: a, ports: 80 }] }\nenforcement: { network: deny }",
            &[("1:30 error network.deny[0].ports: ", "did you mean `port`?")],
        ),
        ("network: { default: block }", &[("1:21 ", "one of `allow`, `deny`")]),
        ("network: { resolver: { min_ttl: 2h } }", &[("1:33 ", "max_ttl")]),
        ("network: { resolver: { min_ttl: 0s } }", &[("1:33 ", "1s")]),
        ("network: { resolver: { servers: [example.com] } }", &[("1:34 ", "one IP address")]),
        ("network: { resolver: { servers: [\"10.0.0.0/8\"] } }", &[("1:34 ", "one IP address")]),
        ("enforcement: { network: neutralize }", &[("1:25 ", "one of `observe`, `deny`")]),
        (
            "servers: [{ id: a, command: b, egress: ['10.0.0.1/8'] }]\nenforcement: { network: deny }",
            &[("1:41 error servers[0].egress[0]: ", "10.0.0.0/8")],
        ),
    ]);
}

#[test]
fn ineffective_network_settings_cause_warnings() {
    let observed = "enforcement.network";
    table(&[
        ("network: { deny: [10.0.0.0/8] }", &[("1:12 warning network.deny: ", observed)]),
        ("network: { default: deny }", &[("1:21 warning network.default: ", observed)]),
        ("servers: [{ id: a, command: b, egress: none }]", &[("1:40 warning ", observed)]),
        (
            "servers: [{ id: a, type: http, url: 'http://x/', enabled: false }]",
            &[("1:59 warning servers[0].enabled: ", observed)],
        ),
        (
            "servers: [{ id: a, type: http, url: 'http://x/' }]\npolicy: { denied_servers: [a] }",
            &[
                ("2:11 warning policy.denied_servers: ", "enforcement.stdio"),
                ("2:11 warning policy.denied_servers: ", observed),
            ],
        ),
        ("network: { deny: [10.0.0.0/8] }\nenforcement: { network: deny }", &[]),
        (
            "network: { deny: [0.0.0.0, '[::]:80', 0.0.0.0/0, '*'] }\nenforcement: { network: deny }",
            &[
                ("1:19 warning network.deny[0]: ", "loopback"),
                ("1:28 warning network.deny[1]: ", "all addresses are 0.0.0.0/0, ::/0 or *"),
            ],
        ),
        (
            "servers: [{ id: a, command: b, egress: ['0.0.0.0:80'] }]\nenforcement: { network: deny }",
            &[("1:41 warning servers[0].egress[0]: ", "loopback")],
        ),
        (
            "servers: [{ id: a, type: http, url: 'http://x/', egress: none }]",
            &[("1:58 warning servers[0].egress: ", "no effect")],
        ),
        ("network: { allow: [a] }", &[("1:12 warning network.allow: ", "others are allowed, too")]),
        (
            "network: { allow: [a, b], deny: [{ host: b, reason: r }] }\nenforcement: { network: deny }",
            &[("1:23 warning network.allow[1]: ", "in `deny`, too")],
        ),
        ("network: { allow: [a], default: deny }\nenforcement: { network: deny }", &[]),
    ]);
}
