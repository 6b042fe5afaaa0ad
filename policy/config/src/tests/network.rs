//! The keys of the network: what they accept, and what is refused.

use super::*;

#[test]
fn invalid_or_conflicting_server_is_refused() {
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

/// Rules are written as they are read.
#[test]
fn network_rules_accept_two_forms() {
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
