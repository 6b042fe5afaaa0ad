//! The six capability checks, by the profile that the configuration gives the session's client.

use super::*;
use crate::config::{self, User};
use crate::guards::SessionRule;

/// What the program at this path is told about a call of this tool: `allow`, or the code of the denial.
fn decided(yaml: &str, admin_token: bool, executable: &str, tool: &str) -> String {
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let rule = |entry: &config::Session| {
        let uid = entry.matches.uid.as_ref().map(|user| match user {
            User::Id(uid) => *uid,
            User::Name(name) => panic!("{name}"),
        });
        SessionRule::new(entry, true, uid, admin_token && entry.admin_token_file.is_some()).unwrap()
    };
    let rules = config.sessions.iter().map(rule).collect();
    let mut bench = Bench::new();
    bench.engine = bench.engine.with_judge(Judge::new(&config, rules, &inspect::DETECTOR).unwrap());
    let client = Process {
        pid: 9,
        uid: Some(1000),
        executable: Some(executable.to_owned()),
        cgroup: Some("/user.slice/user-1000.slice".to_owned()),
        ..Process::default()
    };
    let process = Process { pid: 5, argv: vec!["mcp-server-files".to_owned()], ..Process::default() };
    let (connection, time) = (ConnectionId(1), Timestamp(bench.now));
    bench.input(Input::Exec(Exec {
        connection,
        time,
        adopted: false,
        process,
        client: Some(client),
        session: None,
    }));
    bench.c2s(1, HELLO);
    bench.s2c(1, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    bench.c2s(1, r#"{"id":3,"method":"tools/list"}"#);
    let tools =
        r#"{"tools":[{"name":"list_files"},{"name":"fetch_url"},{"name":"write_file"},{"name":"pay"}]}"#;
    bench.s2c(1, &answer(3, tools));
    bench.out.clear();
    bench.c2s(1, &call(4, tool));
    let events = bench.events();
    let called = events.iter().find(|event| event["type"] == "mcp_tool_called").unwrap();
    called["code"].as_str().unwrap_or("allow").to_owned()
}

#[test]
fn capability_checks_use_client_profile() {
    let hash = format!("sha256:{}", "a".repeat(64));
    let frozen = format!(
        "guards: [{{ kind: spec_frozen }}]\nsessions: [{{ match: {{ executable: /bin/ide }}, spec_frozen: true, spec_hash: '{hash}' }}]"
    );
    let planning =
        "guards: [{ kind: mode }]\nsessions: [{ match: { executable: /bin/ide }, mode: planning }]";
    let bound = "guards: [{ kind: project_binding }]\nsessions: [{ match: { executable: /bin/ide }, project_id: billing }]";
    let blacklist = "guards: [{ kind: side_effects }]\nsessions: [{ match: { cgroup: '/user.slice/*' }, policy_blacklist: [fs.write] }]";
    let admin = "policy: { requires_admin_token: [pay] }\nsessions: [{ match: { uid: 1000, executable: /bin/ide }, admin_token_file: /x }]";
    let first = "guards: [{ kind: mode }]\nsessions: [{ match: { uid: 0 }, mode: planning }, { match: { uid: 1000 } }, { mode: planning }]";
    for (gate, yaml, admin_token, executable, tool, expected) in [
        ("disabled_tool", "policy: { disabled_tools: [pay] }", false, "/bin/ide", "pay", "tool_disabled"),
        ("disabled_tool", "policy: { disabled_tools: [pay] }", false, "/bin/ide", "list_files", "allow"),
        ("mode", planning, false, "/bin/ide", "write_file", "planning_mode"),
        ("mode", planning, false, "/bin/ide", "list_files", "allow"),
        ("mode", planning, false, "/bin/other", "write_file", "allow"),
        ("spec_frozen", &frozen, false, "/bin/ide", "write_file", "allow"),
        ("spec_frozen", &frozen, false, "/bin/other", "write_file", "spec_not_frozen"),
        ("spec_frozen", &frozen, false, "/bin/other", "fetch_url", "allow"),
        ("project_binding", bound, false, "/bin/ide", "fetch_url", "allow"),
        ("project_binding", bound, false, "/bin/other", "fetch_url", "project_required"),
        ("project_binding", bound, false, "/bin/other", "list_files", "allow"),
        ("side_effects", blacklist, false, "/bin/ide", "write_file", "side_effect_denied"),
        ("side_effects", blacklist, false, "/bin/ide", "fetch_url", "allow"),
        ("admin_token", admin, true, "/bin/ide", "pay", "allow"),
        ("admin_token", admin, false, "/bin/ide", "pay", "admin_token_required"),
        ("admin_token", admin, true, "/bin/other", "pay", "admin_token_required"),
        ("admin_token", admin, false, "/bin/other", "list_files", "allow"),
        (
            "off",
            "sessions: [{ mode: planning, policy_blacklist: [fs.write] }]",
            false,
            "/bin/ide",
            "write_file",
            "allow",
        ),
        ("the first entry that fits", first, false, "/bin/ide", "write_file", "allow"),
    ] {
        assert_eq!(decided(yaml, admin_token, executable, tool), expected, "{gate}: {executable} {tool}");
    }
}

/// Asked of a policy without a profile, the answer is that of a client of which nothing is known: the last entry may fit
/// everybody.
#[test]
fn policy_query_uses_catch_all_session_entry() {
    for (sessions, denied) in [
        ("[{ match: { uid: 0 } }, { mode: planning }]", true),
        ("[{ mode: planning }]", true),
        ("[{ match: { uid: 0 }, mode: planning }]", false),
    ] {
        let yaml = format!("{{ guards: [{{ kind: mode }}], sessions: {sessions} }}");
        let (config, _) = config::parse(yaml.as_bytes()).unwrap();
        let rule = |entry: &config::Session| {
            let uid = entry.matches.uid.as_ref().map(|_| 0);
            SessionRule::new(entry, true, uid, false).unwrap()
        };
        let rules = config.sessions.iter().map(rule).collect();
        let mut judge = Judge::new(&config, rules, &inspect::DETECTOR).unwrap();
        let (verdict, _) = judge.decide(&ServerId("s".into()), "write_file", "", None, None, Timestamp(0));
        assert_eq!(verdict.denied.is_some(), denied, "{sessions}");
    }
}
