//! The keys of the network: what they accept, what is refused and warned of, and the rules that are made of them.

use super::*;
use crate::guards::denied_servers;
use crate::network::NetworkRules;

#[test]
fn what_is_wrong_has_a_place() {
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
fn servers_are_whole_and_apart() {
    let http = |url: &str| format!("servers: [{{ id: a, type: http, url: '{url}' }}]");
    let cases = [
        ("https://example.com/mcp", ""),
        ("HTTP://[::1]:8080/", ""),
        ("http://127.0.0.1:/x", ""),
        ("ftp://x/", "its scheme is ftp"),
        ("example.com/mcp", "a URL that begins with"),
        ("https:///mcp", "names no host"),
        ("https://x:0/", "the port is 0"),
        ("https://x:99999/", "the port is 99999"),
        ("https://*/", "is not one host"),
        ("https://a_b..c/", "neither a name"),
        ("https://1.2.3/", "neither a name"),
        ("https://ex%61mple/", "neither a name"),
    ];
    for (url, part) in cases {
        let said = said(&http(url));
        match part {
            "" => assert_eq!(said, Vec::<String>::new(), "{url}"),
            part => assert!(said[0].starts_with("1:37 error") && said[0].contains(part), "{url}: {said:#?}"),
        }
    }
    let file = "\
servers:
  - { id: a, type: http, url: 'https://x.example/mcp' }
  - { id: b, type: sse, url: 'HTTPS://X.example.:443/mcp#there' }
  - { id: c, type: http, url: 'http://x.example/mcp' }
  - { id: d, type: http, url: 'https://x.example/other' }
  - { id: a, type: http }
  - { id: e, command: x, url: 'http://y/' }
  - { id: f, type: http, url: 'https://f/', tls_fingerprint: 'spki-sha256:12' }
";
    table(&[(
        file,
        &[
            ("3:30 error servers[1].url: ", "it is the URL of server 'a', too"),
            ("6:5 error servers[4].url: ", "needs this key"),
            ("6:11 error servers[4].id: ", "taken"),
            ("7:31 error servers[5].url: ", "has none"),
            ("8:62 error servers[6].tls_fingerprint: ", "2 characters, or not"),
        ],
    )]);
}

#[test]
fn what_does_not_do_what_it_seems_to_is_said() {
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

/// Rules are written as they are read.
#[test]
fn rules_have_two_forms() {
    for (rule, address, reason, written) in [
        ("10.0.0.0/8:443", "10.0.0.0/8:443", None, "\"10.0.0.0/8:443\""),
        ("{ host: example.com }", "example.com", None, "\"example.com\""),
        ("{ host: '::1', port: 80 }", "[::1]:80", None, "\"[::1]:80\""),
        ("{ host: a, reason: why }", "a", Some("why"), r#"{"host":"a","reason":"why"}"#),
        (
            "{ host: '*', port: 25, reason: mail }",
            "*:25",
            Some("mail"),
            r#"{"host":"*","port":25,"reason":"mail"}"#,
        ),
    ] {
        let (config, _) = parse(format!("network: {{ deny: [{rule}] }}").as_bytes()).unwrap();
        let read = &config.network.deny[0];
        assert_eq!((read.address.to_string().as_str(), read.reason.as_deref()), (address, reason), "{rule}");
        assert_eq!(serde_json::to_string(read).unwrap(), written, "{rule}");
    }
}

fn rules(file: &str) -> NetworkRules {
    let (config, _) = parse(file.as_bytes()).unwrap();
    config.network_rules(&denied_servers(&config).unwrap())
}

#[test]
fn the_file_makes_rules() {
    let rules = rules(
        "\
servers:
  - { id: files, command: x, egress: none }
  - { id: web, command: y, egress: [a.example, { host: 10.0.0.0/8, port: 443, reason: inside }] }
  - { id: free, command: z }
  - { id: remote, type: http, url: 'https://mcp.example/mcp', egress: none }
network: { default: deny, allow: [b.example], deny: [{ host: 169.254.169.254, reason: cloud metadata }] }
enforcement: { network: deny }
",
    );
    assert!(rules.enforced && rules.deny_by_default);
    let texts = |rules: &[crate::network::Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&rules.deny), ["network.deny[0] (169.254.169.254): cloud metadata"]);
    assert_eq!(texts(&rules.allow), ["network.allow[0] (b.example)"]);
    let egress: Vec<_> = rules.servers.iter().map(|server| server.egress.as_deref().map(texts)).collect();
    let web = ["egress of server 'web'[0] (a.example)", "egress of server 'web'[1] (10.0.0.0/8:443): inside"];
    assert_eq!(egress, [Some(vec![]), Some(web.map(str::to_owned).to_vec()), None, None]);
    let addresses: Vec<_> =
        rules.servers.iter().map(|server| server.address.as_ref().map(Address::to_string)).collect();
    assert_eq!(addresses, [None, None, None, Some("mcp.example:443".to_owned())]);
}

/// Servers whose denial the guard `server_access` says, by what it is told.
#[test]
fn servers_that_may_not_be_used_are_denied() {
    let servers =
        "servers: [{ id: a, type: http, url: 'http://a:81/' }, { id: b, type: sse, url: 'https://b/' }]\n";
    for (file, denied) in [
        ("", &[][..]),
        ("policy: { denied_servers: [a] }", &["a"]),
        ("policy: { denied_servers: ['*'], allowed_servers: [b] }", &["a"]),
        ("policy: { server_policy: allowlist, allowed_servers: [b] }", &["a"]),
        ("policy: { server_policy: allowlist }", &["a", "b"]),
        ("policy: { fail_closed: true }", &[]),
        (
            "policy: { denied_servers: [a, b] }\nguards: [{ kind: server_access, servers: [a], enabled: false }]",
            &["b"],
        ),
        (
            "policy: { denied_servers: [a] }\nguards: [{ kind: server_access, servers: [b], config: { denied_servers: [b] } }]",
            &["a", "b"],
        ),
        ("policy: { denied_servers: [a] }\nguards: [{ kind: server_access, runs_on: [tools_list] }]", &[]),
    ] {
        let rules = rules(&format!("{servers}{file}"));
        let found: Vec<_> = rules
            .servers
            .iter()
            .filter(|server| server.denied.is_some())
            .map(|server| &*server.id.0)
            .collect();
        assert_eq!(found, denied, "{file}");
    }
    let disabled = rules("servers: [{ id: a, type: http, url: 'http://a:81/', enabled: false }]");
    assert_eq!(disabled.servers[0].denied.as_deref(), Some("server 'a' is declared with enabled: false"));
}
