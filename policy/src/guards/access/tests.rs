use serde_json::json;

use super::super::Question;
use super::super::tests::{World, at, decide, entries, guards, policy, tool};
use super::*;
use crate::config::{Config, Server};
use crate::guard::{CallBlock, ToolFacts};
use crate::terms::Callee;

/// The example of the requirements.
fn example() -> serde_json::Value {
    json!({
        "server_policy": "allowlist",
        "allowed_servers": [{"id": "filesystem"}, {"id": "weather-api"}],
        "denied_servers": [{"id": "*"}],
        "tool_policy": "denylist",
        "allowed_tools": [{"server": "*", "tool": "*"}],
        "denied_tools": [
            {"server": "weather-api", "tool": "delete_*"},
            {"server": "*", "tool": "execute_command"},
        ],
    })
}

#[test]
fn example_policy_of_requirements_decides_as_intended() {
    for (server, name, expected) in [
        ("filesystem", "delete_file", "allow"),
        ("filesystem", "execute_command", "tool_access: tool_denied"),
        ("weather-api", "get_weather", "allow"),
        ("weather-api", "delete_x", "tool_access: tool_denied"),
        ("evil", "get_weather", "server_access: server_denied"),
    ] {
        let world = World::server(server);
        assert_eq!(
            decide(&mut guards(&policy(example())), &world, name, at(0.0)),
            expected,
            "{server} {name}"
        );
    }
}

/// Before any guard is asked, and for as long as it lasts.
#[test]
fn manual_block_denies_until_it_expires() {
    let world = |callee: &str, until: Option<f64>| {
        let callee = Callee::parse(callee).unwrap();
        let block = CallBlock { callee, until: until.map(at), reason: None };
        World { block: Some(block), ..World::server("files") }
    };
    let mut guards = guards(&policy(json!({"allowed_servers": ["*"]})));
    for (callee, until, now, expected) in [
        ("server=files", None, 1e6, "server_access: server_blocked"),
        ("session=sess_1", None, 0.0, "server_access: session_blocked"),
        ("server=files", Some(5.0), 4.9, "server_access: server_blocked"),
        ("server=files", Some(5.0), 5.0, "allow"),
    ] {
        let said = decide(&mut guards, &world(callee, until), "read", at(now));
        assert_eq!(said, expected, "{callee} {until:?} {now}");
    }
}

#[test]
fn server_deny_rules_precede_the_allowlist() {
    let allow = "allow";
    let denied = "server_access: server_denied";
    let missing = "server_access: server_not_allowed";
    for (rules, expected) in [
        (json!({}), allow),
        (json!({"server_policy": "allowlist"}), missing),
        (json!({"server_policy": "denylist"}), allow),
        (json!({"server_policy": "none", "allowed_servers": ["other"]}), allow),
        (json!({"server_policy": "allowlist", "allowed_servers": ["other"]}), missing),
        (json!({"server_policy": "allowlist", "allowed_servers": ["files"]}), allow),
        (json!({"server_policy": "allowlist", "allowed_servers": ["*"]}), allow),
        // What is denied by name is denied in every mode.
        (json!({"server_policy": "none", "denied_servers": ["files"]}), denied),
        (json!({"server_policy": "denylist", "denied_servers": ["fil*"]}), denied),
        (
            json!({"server_policy": "allowlist", "allowed_servers": ["files"], "denied_servers": ["f*"]}),
            denied,
        ),
        // A bare `*` yields to what is allowed by name, in every mode, and to nothing else.
        (json!({"denied_servers": ["*"]}), denied),
        (json!({"denied_servers": ["*"], "allowed_servers": ["files"]}), allow),
        (json!({"denied_servers": ["*"], "allowed_servers": ["fi*"]}), allow),
        (json!({"denied_servers": ["*"], "allowed_servers": ["*"]}), denied),
        (json!({"denied_servers": ["*", "files"], "allowed_servers": ["files"]}), denied),
        (json!({"denied_servers": ["FILES"]}), allow),
        (json!({"denied_servers": ["FILES"], "case_sensitive": false}), denied),
    ] {
        let decided = decide(&mut guards(&policy(rules.clone())), &World::default(), "read", at(0.0));
        assert_eq!(decided, expected, "{rules}");
    }
}

#[test]
fn tool_deny_rules_precede_the_allowlist() {
    let allow = "allow";
    let denied = "tool_access: tool_denied";
    let missing = "tool_access: tool_not_allowed";
    for (rules, expected) in [
        (json!({}), allow),
        (json!({"tool_policy": "allowlist"}), missing),
        (json!({"tool_policy": "none", "allowed_tools": ["list"]}), allow),
        (json!({"tool_policy": "allowlist", "allowed_tools": ["list"]}), missing),
        (json!({"tool_policy": "allowlist", "allowed_tools": ["read"]}), allow),
        (json!({"tool_policy": "allowlist", "allowed_tools": [{"server": "mail", "tool": "read"}]}), missing),
        // A rule without a server means every server.
        (json!({"denied_tools": [{"tool": "re*"}]}), denied),
        (json!({"denied_tools": [{"server": "mail", "tool": "read"}]}), allow),
        (json!({"tool_policy": "none", "denied_tools": ["read"]}), denied),
        (json!({"tool_policy": "allowlist", "allowed_tools": ["read"], "denied_tools": ["read"]}), denied),
        // A bare `*` yields to what names a tool, or a server where it names none.
        (json!({"denied_tools": ["*"]}), denied),
        (json!({"denied_tools": ["*"], "allowed_tools": ["read"]}), allow),
        (json!({"denied_tools": ["*"], "allowed_tools": ["*"]}), denied),
        (json!({"denied_tools": ["*"], "allowed_tools": [{"server": "files", "tool": "*"}]}), allow),
        // What is said of every server is no exception to what is said of this one.
        (json!({"denied_tools": [{"server": "files", "tool": "*"}], "allowed_tools": ["read"]}), denied),
        (json!({"denied_tools": [{"server": "files", "tool": "*"}], "allowed_tools": ["re*"]}), denied),
        (
            json!({
                "denied_tools": [{"server": "f*", "tool": "*"}],
                "allowed_tools": [{"server": "files", "tool": "re*"}],
            }),
            allow,
        ),
        (
            json!({
                "denied_tools": [{"server": "files", "tool": "*"}],
                "allowed_tools": [{"server": "files", "tool": "*"}],
            }),
            denied,
        ),
        (json!({"denied_tools": ["r*"], "allowed_tools": ["read"]}), denied),
    ] {
        let decided = decide(&mut guards(&policy(rules.clone())), &World::default(), "read", at(0.0));
        assert_eq!(decided, expected, "{rules}");
    }
}

#[test]
fn content_hash_in_a_rule_pins_the_tool() {
    let (own, other) = (format!("sha256:{}", "A".repeat(64)), format!("sha256:{}", "b".repeat(64)));
    let mismatch = "tool_access: tool_hash_mismatch";
    let rule = |hash: &str| json!({"server": "files", "tool": "read", "content_hash": hash});
    for (rules, known, expected) in [
        (json!({"allowed_tools": [rule(&own)]}), true, "allow"),
        (json!({"allowed_tools": [rule(&other)]}), true, mismatch),
        (json!({"allowed_tools": ["*", rule(&other)]}), true, mismatch),
        (json!({"allowed_tools": [rule(&other), rule(&own)]}), true, "allow"),
        (json!({"allowed_tools": [rule(&own)]}), false, mismatch),
        (json!({"tool_policy": "allowlist", "allowed_tools": [rule(&own)]}), true, "allow"),
        (json!({"denied_tools": ["*"], "allowed_tools": [rule(&own)]}), true, "allow"),
        (json!({"denied_tools": ["*"], "allowed_tools": [rule(&other)]}), true, "tool_access: tool_denied"),
        (json!({"denied_tools": [rule(&own)]}), true, "tool_access: tool_denied"),
        (json!({"denied_tools": [rule(&other)]}), true, "allow"),
    ] {
        let world = World { tool: known.then(|| tool("read")), ..World::default() };
        let decided = decide(&mut guards(&policy(rules.clone())), &world, "read", at(0.0));
        assert_eq!(decided, expected, "{rules} {known}");
    }
}

#[test]
fn fail_closed_denies_unknown_tools_and_undeclared_servers() {
    let since = at(0.0);
    for (identity, listing, known, seconds, expected) in [
        (Identity::Declared, Listing::Listed, true, 0.0, "allow"),
        (Identity::Declared, Listing::Listed, false, 0.0, "tool_access: unknown_tool"),
        (Identity::Declared, Listing::Unknown, false, 0.0, "tool_access: unknown_tool"),
        (Identity::Derived, Listing::Listed, true, 0.0, "server_access: server_undeclared"),
        // A server is pending for its grace, the last moment included.
        (Identity::Declared, Listing::Pending { since }, false, 30.0, "allow"),
        (Identity::Declared, Listing::Pending { since }, false, 30.000_001, "tool_access: server_pending"),
    ] {
        let world = World { identity, listing, tool: known.then(|| tool("read")), ..World::default() };
        let closed = decide(&mut guards(&policy(json!({"fail_closed": true}))), &world, "read", at(seconds));
        assert_eq!(closed, expected, "{identity:?} {listing:?} {known} {seconds}");
        let open = decide(&mut guards(&Config::default()), &world, "read", at(seconds));
        assert_eq!(open, "allow");
    }
}

#[test]
fn declared_server_applies_its_own_rules() {
    let mut config = Config::default();
    let servers: Vec<Server> = serde_json::from_value(json!([
        {"id": "files", "allow_tools": ["read_*", "delete_*"], "deny_side_effect_tags": ["fs.delete"]},
        {"id": "all"},
    ]))
    .unwrap();
    config.servers = servers;
    let deleting =
        |name: &str| Some(ToolFacts { side_effects: ["fs.delete".to_owned()].into(), ..tool(name) });
    for (server, name, known, expected) in [
        ("files", "read_x", Some(tool("read_x")), "allow"),
        ("files", "list", Some(tool("list")), "tool_access: tool_not_allowed"),
        ("files", "read_x", deleting("read_x"), "tool_access: side_effect_denied"),
        // Of a tool that is not listed, the name tells.
        ("files", "delete_x", None, "tool_access: side_effect_denied"),
        ("files", "read_x", None, "allow"),
        ("all", "list", deleting("list"), "allow"),
        ("other", "list", deleting("list"), "allow"),
    ] {
        let world = World { tool: known, ..World::server(server) };
        assert_eq!(decide(&mut guards(&config), &world, name, at(0.0)), expected, "{server} {name}");
    }
    let off = World { enabled: false, ..World::default() };
    assert_eq!(decide(&mut guards(&config), &off, "read_x", at(0.0)), "server_access: server_disabled");
}

#[test]
fn low_trust_server_needs_approval_of_every_tool() {
    let approved = ToolFacts { approved: true, ..tool("read") };
    for (trust, known, expected) in [
        (Trust::Low, None, "tool_access: approval_required"),
        (Trust::Low, Some(tool("read")), "tool_access: approval_required"),
        (Trust::Low, Some(approved), "allow"),
        (Trust::Medium, Some(tool("read")), "allow"),
        (Trust::High, None, "allow"),
    ] {
        let world = World { trust, tool: known, ..World::default() };
        assert_eq!(decide(&mut guards(&Config::default()), &world, "read", at(0.0)), expected, "{trust:?}");
    }
}

#[test]
fn denial_message_names_rule_and_truncates_long_name() {
    let mut guard = guards(&policy(json!({"denied_tools": [{"server": "fi*", "tool": "ä*"}]})));
    let name = "ä".repeat(100_000);
    let operations = [crate::guard::Operation::ToolInvoke { tool_name: &name, arguments: None }];
    let world = World::default();
    let facts = world.facts();
    let question = crate::guards::Question { operations: &operations, facts: &facts, now: at(0.0) };
    let verdict = guard.ask(&question, None);
    let message = verdict.denied.unwrap().1.message;
    assert_eq!(message, format!("tool '{}' of server 'files' is denied by 'fi*:ä*'", "ä".repeat(64)));
}

/// Rules, and what is decided of the program that a declaration demands and of one that is only called so.
#[test]
fn impersonated_server_id_gains_no_rights() {
    let allow = "allow";
    for (rules, own, borrowed) in [
        (json!({}), allow, allow),
        (
            json!({"server_policy": "allowlist", "allowed_servers": ["files"]}),
            allow,
            "server_access: server_not_allowed",
        ),
        (json!({"server_policy": "allowlist", "allowed_servers": ["*"]}), allow, allow),
        (
            json!({"denied_servers": ["*"], "allowed_servers": ["files"]}),
            allow,
            "server_access: server_denied",
        ),
        (
            json!({"denied_servers": ["files"]}),
            "server_access: server_denied",
            "server_access: server_denied",
        ),
        (
            json!({"tool_policy": "allowlist", "allowed_tools": [{"server": "files", "tool": "read"}]}),
            allow,
            "tool_access: tool_not_allowed",
        ),
        (json!({"tool_policy": "allowlist", "allowed_tools": ["read"]}), allow, allow),
        (
            json!({"denied_tools": ["*"], "allowed_tools": [{"server": "files", "tool": "read"}]}),
            allow,
            "tool_access: tool_denied",
        ),
    ] {
        let file = json!({"policy": rules, "servers": [{"id": "files", "command": "f", "executable": "/usr/bin/f"}]});
        let (config, _) = crate::config::parse(file.to_string().as_bytes()).unwrap();
        for (identity, expected) in [(Identity::Declared, own), (Identity::Derived, borrowed)] {
            let world = World { identity, ..World::default() };
            assert_eq!(
                decide(&mut guards(&config), &world, "read", at(0.0)),
                expected,
                "{rules} {identity:?}"
            );
        }
    }
}

/// `server_access` judges in every phase that it is told to be asked in, as [`GuardKind::judges`] says of it.
#[test]
fn denied_server_is_denied_in_every_phase() {
    let mut config = policy(json!({"denied_servers": ["files"]}));
    let world = World::default();
    let operations = [
        Operation::Request { method: "tools/list", params: None },
        Operation::Response { method: "tools/list", result: None, error: None },
        Operation::ToolsList { tools: &[] },
        Operation::ToolInvoke { tool_name: "read", arguments: None },
        Operation::ToolResult { tool_name: "read", result: None, error: None },
        Operation::PromptRequest { name: "p", arguments: None },
        Operation::ResourceRequest { uri: "file:///x", is_listed: false },
    ];
    for operation in operations {
        let phase = operation.phase();
        config.guards = entries(json!([{"kind": "server_access", "runs_on": [phase.name()]}]));
        let (operations, facts, mut trace) = ([operation], world.facts(), Vec::new());
        let question = Question { operations: &operations, facts: &facts, now: at(0.0) };
        guards(&config).ask(&question, Some(&mut trace));
        let said = trace.iter().find(|asked| asked.guard == GuardKind::ServerAccess).unwrap();
        assert_eq!(json!(said.answer), "deny", "{}", phase.name());
        assert!(GuardKind::ServerAccess.judges(phase));
    }
}

/// What is kept of a name of more than 256 bytes is its beginning: rules that deny by name cannot tell, and it is denied.
#[test]
fn truncated_name_cannot_evade_deny_rules() {
    let long = crate::definition::bounded_name(&format!("{}_delete_all", "a".repeat(250)));
    let denies = json!({"denied_tools": [{"tool": "*delete*"}]});
    let elsewhere = json!({"denied_tools": [{"server": "other", "tool": "*delete*"}]});
    for (rules, name, expected) in [
        (&denies, long.as_str(), "tool_access: tool_denied"),
        (&denies, "read_file", "allow"),
        (&elsewhere, &long, "allow"),
        (&json!({}), &long, "allow"),
        // As long as one that is kept whole.
        (&denies, &"a".repeat(256), "allow"),
    ] {
        let decided = decide(&mut guards(&policy(rules.clone())), &World::server("files"), name, at(0.0));
        assert_eq!(decided, expected, "{rules} {name}");
    }
}

/// The lists of a client's profile, a call, and its decision under a policy without lists.
#[test]
fn profile_restricts_servers_and_tools_of_its_client() {
    let cases = [
        ("", "files", "read", "allow"),
        ("allowed_servers: [files]", "files", "read", "allow"),
        ("allowed_servers: [files]", "mail", "read", "server_not_allowed"),
        ("denied_servers: ['ma*']", "mail", "read", "server_denied"),
        ("denied_servers: ['*'], allowed_servers: [files]", "files", "read", "allow"),
        ("allowed_tools: ['read*']", "files", "read", "allow"),
        ("allowed_tools: ['read*']", "files", "write", "tool_not_allowed"),
        ("allowed_tools: ['mail:*']", "files", "read", "tool_not_allowed"),
        ("denied_tools: ['files:write']", "files", "write", "tool_denied"),
        ("denied_tools: ['files:write']", "mail", "write", "allow"),
        ("denied_tools: ['*'], allowed_tools: [read]", "files", "read", "allow"),
        ("denied_tools: ['*'], allowed_tools: [read]", "files", "write", "tool_denied"),
    ];
    for (lists, server, tool, expected) in cases {
        let yaml = format!("sessions: [{{ name: nightly, {lists} }}]");
        let (config, _) = crate::config::parse(yaml.as_bytes()).unwrap();
        let rule = crate::guards::SessionRule::new(&config.sessions[0], true, None, false).unwrap();
        let rules = crate::guards::SessionRules::from(vec![rule]);
        let mut world = World::server(server).with(ToolFacts { name: tool.into(), ..ToolFacts::default() });
        world.profile = rules.profile(Some(0)).clone();
        let said = decide(&mut guards(&config), &world, tool, at(0.0));
        assert!(said.ends_with(expected), "{lists} {server} {tool}: {said}");
    }
}
