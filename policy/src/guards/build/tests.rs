use super::*;
use crate::config::parse;
use crate::network::NetworkRules;
use crate::settings;

fn rules(file: &str) -> NetworkRules {
    let (config, _) = parse(file.as_bytes()).unwrap();
    settings::network_rules(&config, &denied_servers(&config).unwrap())
}

/// Servers whose denial the guard `server_access` says, by what it is told.
#[test]
fn forbidden_servers_are_listed_as_denied() {
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
