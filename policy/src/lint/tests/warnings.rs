//! What is accepted and does not do what it seems to.

use super::*;

#[test]
fn ineffective_policy_settings_cause_warnings() {
    table(&[
        (
            "policy: { tool_policy: none, allowed_tools: [{ tool: a }], denied_tools: [{ tool: a }] }",
            &[
                ("1:30 warning policy.allowed_tools: ", "while `tool_policy` is not `allowlist`"),
                ("1:46 warning policy.allowed_tools[0]: ", "denied_tools"),
                ("1:60 warning policy.denied_tools: ", "enforcement.stdio"),
            ],
        ),
        (
            "policy: { rate_limits: { enabled: true } }\nenforcement: { stdio: deny }\n\
             guards: [{ kind: tool_access, config: { denied_tools: [a] } }, { kind: rate_limit }]",
            &[],
        ),
        ("policy: { rate_limits: { enabled: true } }", &[("1:11 ", "enforcement.stdio")]),
        (
            "policy: { allowed_servers: [a] }",
            &[(
                "1:11 warning policy.allowed_servers: ",
                "others are allowed, too, while `server_policy` is not",
            )],
        ),
        (
            "policy: { server_policy: allowlist, allowed_servers: [a] }",
            &[("1:26 warning policy.server_policy: ", "not enforced")],
        ),
        (
            "policy: { allowed_servers: [a], denied_servers: ['*'], allowed_tools: [b], denied_tools: ['*'] }",
            &[("1:33 warning policy.denied_servers: ", "not enforced"), ("1:76 ", "not enforced")],
        ),
        (
            "policy: { allowed_servers: [a] }\n\
             guards: [{ kind: server_access, servers: [x], config: { server_policy: allowlist } }]",
            &[("2:18 warning guards[0].kind: ", "not enforced")],
        ),
        (
            "inspection: { on_detection: { action: block } }",
            &[("1:39 warning inspection.on_detection.action: ", "not enforced")],
        ),
        (
            "guards: [{ kind: mode }, { kind: mode, servers: [a], enabled: false }, { kind: sampling, config: { deny_all: true } }]",
            &[
                ("1:18 warning guards[0].kind: ", "enforcement.stdio"),
                ("1:26 warning guards[1]: ", "never counts"),
                ("1:90 warning guards[2].config: ", "cannot be stopped"),
            ],
        ),
        (
            "sessions: [{ mode: planning, spec_frozen: true, project_id: p, policy_blacklist: [payments], \
             admin_token_file: /t }]",
            &[
                ("1:20 warning sessions[0].mode: ", "`kind: mode` in `guards` turns it on"),
                ("1:43 warning sessions[0].spec_frozen: ", "`spec_frozen` goes by it and is off"),
                ("1:61 warning sessions[0].project_id: ", "`project_binding`"),
                ("1:64 warning sessions[0].policy_blacklist: ", "`side_effects`"),
                ("1:112 warning sessions[0].admin_token_file: ", "`admin_token`"),
            ],
        ),
        (
            "sessions: [{ mode: planning, admin_token_file: /t }]\npolicy: { requires_admin_token: [a] }\n\
             guards: [{ kind: mode }]",
            &[("2:11 ", "not enforced"), ("3:18 ", "not enforced")],
        ),
        ("policy: { fail_closed: true }", &[("1:24 warning policy.fail_closed: ", "enforcement.stdio")]),
    ]);
    assert_eq!(
        said("enforcement: { window_bytes: 8KiB }"),
        ["1:30 warning enforcement.window_bytes: no effect while `enforcement.stdio` is `observe`"]
    );
    assert_eq!(said("enforcement: { window_bytes: }"), Vec::<String>::new());
    assert_eq!(said("enforcement: { stdio: deny, window_bytes: 8KiB }"), Vec::<String>::new());
    assert_eq!(said("enforcement: { persist: true }"), Vec::<String>::new());
    assert_eq!(said("sinks: [{ kind: webhook, url: \"https://x/\", format: ocsf }]"), Vec::<String>::new());
}

/// Entries of `guards:` that do less than they seem to.
#[test]
fn ineffective_guard_entries_cause_warnings() {
    table(&[
        // A guard is asked where it has something to say, and where a denial counts.
        (
            "guards: [{ kind: tool_poisoning, runs_on: [tools_list, response] }]",
            &[
                ("1:34 warning guards[0].runs_on: ", "without `tool_invoke` it denies nothing"),
                (
                    "1:56 warning guards[0].runs_on[1]: ",
                    "nothing to say of `response`, but of `tools_list` and",
                ),
            ],
        ),
        ("guards: [{ kind: tool_poisoning, runs_on: [tools_list, tool_invoke] }]", &[]),
        ("guards: [{ kind: result_injection, runs_on: [tool_result] }]", &[]),
        (
            "guards: [{ kind: cross_server, enabled: false, runs_on: [tool_invoke, tools_list] }]",
            &[("1:71 ", "`tools_list`")],
        ),
        // The first that names a server counts.
        (
            "guards: [{ kind: sampling }, { kind: sampling, servers: [a] }, { kind: result_injection }]",
            &[("1:30 warning guards[1]: ", "guards[0] is of this kind and for every server")],
        ),
        ("guards: [{ kind: sampling, servers: [a] }, { kind: sampling }]", &[]),
        // What a list takes the place of.
        (
            "policy: { denied_tools: [a], denied_servers: [b] }\n\
             guards: [{ kind: tool_access, servers: [x], config: { denied_tools: [c] } }, \
             { kind: server_access, config: { allowed_servers: [x] } }]",
            &[
                ("1:11 ", "not enforced"),
                ("1:30 ", "not enforced"),
                ("2:18 ", "not enforced"),
                ("2:55 warning guards[0].config.denied_tools: ", "takes the place of `policy.denied_tools`"),
                ("2:86 ", "not enforced"),
            ],
        ),
        // Denials that nothing enforces.
        ("guards: [{ kind: tool_access, config: { denied_tools: [a] } }]", &[("1:18 ", "not enforced")]),
        ("guards: [{ kind: rug_pull, config: { on_change: block } }]", &[("1:18 ", "not enforced")]),
        ("guards: [{ kind: rate_limit, config: {} }]", &[("1:18 ", "not enforced")]),
        (
            "servers: [{ id: a, command: x, trust: low, allow_tools: [b], deny_side_effect_tags: [payments], \
             enabled: false }]",
            &[
                ("1:39 warning servers[0].trust: ", "not enforced"),
                ("1:44 warning servers[0].allow_tools: ", "not enforced"),
                ("1:62 warning servers[0].deny_side_effect_tags: ", "not enforced"),
                ("1:106 warning servers[0].enabled: ", "not enforced"),
            ],
        ),
        (
            "servers: [{ id: a, type: http, url: 'https://x/', allow_tools: [b], enabled: false }]",
            &[("1:51 ", "single tools"), ("1:78 ", "`enforcement.network` is `observe`")],
        ),
        // Limits, detections and side effects that come to nothing.
        (
            "policy: { rate_limits: { per_tool: { send: { calls_per_minute: 1 } } } }",
            &[("1:11 warning policy.rate_limits: ", "not limited while `enabled`")],
        ),
        (
            "policy: { rate_limits: { default_rpm: 1 } }\nguards: [{ kind: rate_limit }]",
            &[("2:18 ", "not enforced")],
        ),
        (
            "inspection: { enabled: false, on_detection: { action: block } }",
            &[("1:55 ", "nothing is found while `inspection.enabled`"), ("1:55 ", "not enforced")],
        ),
        (
            "guards: [{ kind: tool_poisoning, config: { min_detections: 65 } }]",
            &[("1:60 error guards[0].config.min_detections: ", "64")],
        ),
        (
            "sessions: [{ policy_blacklist: [payment, fs.write, own] }]\nguards: [{ kind: side_effects }]\n\
             classifier: { overrides: [{ tool: x, side_effect_tags: [own] }] }",
            &[
                ("1:33 warning sessions[0].policy_blacklist[0]: ", "did you mean `payments`"),
                ("2:18 ", "not enforced"),
            ],
        ),
    ]);
}

/// `server_access` judges whatever it is asked about; only connections are refused by `request` alone.
#[test]
fn server_access_may_run_on_every_operation() {
    let on = |phases: &str| format!("guards: [{{ kind: server_access, runs_on: [{phases}] }}]");
    let remote = format!("{}\nservers: [{{ id: a, type: http, url: 'https://x/' }}]", on("tool_invoke"));
    table(&[
        (&on("tool_invoke"), &[]),
        (&on("tools_list, prompt_request"), &[]),
        (&on("tool_result"), &[("1:33 warning guards[0].runs_on: ", "without `request` it denies nothing")]),
        (&remote, &[("1:33 warning guards[0].runs_on: ", "without `request` it refuses no connection")]),
    ]);
}

/// Limits and lists that a guard goes by which is switched off.
#[test]
fn settings_of_disabled_guard_cause_warnings() {
    let off = |policy: &str, guard: &str| {
        format!("policy: {{ {policy} }}\nguards: [{{ kind: {guard}, enabled: false }}]")
    };
    let message = |guard: &str| format!("nothing goes by it: guards[0] switches `{guard}` off");
    for (policy, guard) in [
        ("denied_servers: [a]", "server_access"),
        ("allowed_servers: [a]", "server_access"),
        ("denied_tools: [a]", "tool_access"),
        ("allowed_tools: [a]", "tool_access"),
        ("disabled_tools: [a]", "disabled_tool"),
        ("requires_admin_token: [a]", "admin_token"),
        ("rate_limits: { enabled: true }", "rate_limit"),
        ("rate_limits: { default_rpm: 3 }", "rate_limit"),
        ("version_pinning: { on_change: block }", "rug_pull"),
    ] {
        table(&[(&off(policy, guard), &[("1:11 warning policy.", &message(guard))])]);
    }
    table(&[
        (
            &off("server_policy: allowlist, allowed_servers: [a]", "server_access"),
            &[("1:26 ", "nothing goes by it"), ("1:37 ", "nothing goes by it")],
        ),
        ("cross_server: { burst: { max_calls: 3 } }", &[]),
        ("cross_server: { enabled: false }", &[]),
        ("cross_server: { enabled: false, shadow_tool: {} }\nguards: [{ kind: sampling }]", &[]),
        (
            "cross_server: { enabled: false, burst: { max_calls: 10 } }",
            &[("1:1 warning cross_server: ", "nothing goes by it while its `enabled` is false")],
        ),
        (
            "cross_server: { burst: { max_calls: 10 } }\nguards: [{ kind: cross_server, enabled: false }]",
            &[("1:1 warning cross_server: ", "guards[0] switches `cross_server` off")],
        ),
        (
            "cross_server: { enabled: false }\nguards: [{ kind: cross_server }]",
            &[("2:18 warning guards[0].kind: ", "it judges nothing while `cross_server.enabled` is false")],
        ),
        (
            "servers: [{ id: a, command: x, enabled: false, allow_tools: [b], deny_side_effect_tags: [payments] }]\n\
             guards: [{ kind: tool_access, enabled: false }, { kind: server_access, enabled: false }]",
            &[
                ("1:41 warning servers[0].enabled: ", "guards[1] switches `server_access` off"),
                ("1:48 warning servers[0].allow_tools: ", "guards[0] switches `tool_access` off"),
                ("1:66 warning servers[0].deny_side_effect_tags: ", "guards[0]"),
            ],
        ),
        (
            "inspection: { on_detection: { action: block } }\nguards: [{ kind: tool_poisoning, enabled: false }]",
            &[("1:39 warning inspection.on_detection.action: ", "guards[0] switches `tool_poisoning` off")],
        ),
        // Of an entry's own lists.
        (
            "guards: [{ kind: tool_access, enabled: false, config: { denied_tools: [a] } }]",
            &[("1:47 warning guards[0].config: ", "nothing goes by it while `enabled` is false")],
        ),
        // Off for some servers is what somebody means.
        (
            "policy: { denied_tools: [a] }\nguards: [{ kind: tool_access, servers: [x], enabled: false }]",
            &[("1:11 ", "not enforced")],
        ),
        (
            "policy: { denied_tools: [a] }\n\
             guards: [{ kind: tool_access, servers: [x] }, { kind: tool_access, enabled: false }]",
            &[("1:11 ", "not enforced")],
        ),
    ]);
}

/// An entry whose condition is wrong is no entry for everything, and only that is said of it.
#[test]
fn entry_with_invalid_condition_reports_only_that() {
    table(&[
        (
            "sessions: [{ match: { uid: 1.5 }, mode: planning, policy_blacklist: [x] }, { match: { uid: 2 } }]",
            &[("1:28 error sessions[0].match.uid: ", "")],
        ),
        (
            "sessions: [{ name: all }, { match: { uid: -1 } }, { match: { uid: 2 } }]",
            &[
                ("1:43 error sessions[1].match.uid: ", ""),
                ("1:51 warning sessions[2]: ", "sessions[0] is for every client"),
            ],
        ),
        (
            "guards: [{ kind: sampling, servers: 5 }, { kind: sampling, servers: [a] }]",
            &[("1:37 error guards[0].servers: ", "")],
        ),
    ]);
}

/// The file's entries are counted, those that are wrong, too.
#[test]
fn lint_messages_use_file_entry_indices() {
    table(&[
        (
            "guards: [{ kind: nope }, { kind: sampling }, { kind: sampling }]",
            &[
                ("1:18 error guards[0].kind: ", ""),
                ("1:46 warning guards[2]: ", "guards[1] is of this kind and for every server"),
            ],
        ),
        (
            "sessions: [5, {}, { match: { uid: 1 } }]",
            &[
                ("1:12 error sessions[0]: ", ""),
                ("1:19 warning sessions[2]: ", "sessions[1] is for every client"),
            ],
        ),
    ]);
}

/// Entries that come too late, judge nothing, or are switched off.
#[test]
fn unreachable_entries_cause_warnings() {
    table(&[
        (
            "sessions: [{ match: { uid: 1 } }, { name: rest }, { match: { uid: 2 } }, { match: {} }]",
            &[
                ("1:51 warning sessions[2]: ", "sessions[1] is for every client: this one never counts"),
                ("1:74 warning sessions[3]: ", "sessions[1]"),
            ],
        ),
        ("sessions: [{ match: { uid: 1 } }, { match: { executable: '*' } }, { name: rest }]", &[]),
        (
            "guards: [{ kind: admin_token }, { kind: disabled_tool, config: { tools: [] } }]",
            &[
                ("1:18 warning guards[0].kind: ", "judges nothing: no tool is in its `config.tools` or"),
                ("1:41 warning guards[1].kind: ", "`policy.disabled_tools`"),
            ],
        ),
        ("guards: [{ kind: admin_token, enabled: false }]", &[]),
        (
            "policy: { disabled_tools: [a] }\nguards: [{ kind: disabled_tool }]",
            &[("1:11 ", "not enforced"), ("2:18 ", "not enforced")],
        ),
        ("policy: { version_pinning: { enabled: false, on_change: block } }", &[]),
        (
            "policy: { version_pinning: { enabled: false, on_change: block } }\nguards: [{ kind: rug_pull }]",
            &[("2:18 warning guards[0].kind: ", "not enforced")],
        ),
    ]);
}

/// Ids of tools, where only the name of a tool or of a server is compared.
#[test]
fn unmatchable_names_cause_warnings() {
    let (no_tool, no_server) =
        ("no server in it; write `x`", "matches no server: `mcp:` begins the ids of tools");
    table(&[
        (
            "policy: { denied_tools: [{ server: a, tool: 'mcp:a:x' }, 'mcp:a:x', 'a:x', { server: a, tool: x }] }",
            &[("1:11 ", "not enforced"), ("1:26 warning policy.denied_tools[0]: ", no_tool)],
        ),
        (
            "policy: { disabled_tools: [{ server: a, tool: 'a:x' }, { server: 'mcp:a', tool: x }] }",
            &[
                ("1:11 ", "not enforced"),
                ("1:28 warning policy.disabled_tools[0]: ", no_tool),
                ("1:56 warning policy.disabled_tools[1]: ", no_server),
            ],
        ),
        (
            "policy: { denied_servers: ['mcp:a', 'mcp:8080', mcp] }",
            &[("1:11 ", "not enforced"), ("1:28 warning policy.denied_servers[0]: ", "write `a`")],
        ),
        (
            "servers: [{ id: 'mcp:a', command: x, allow_tools: ['mcp:a:x'] }]\npolicy: { denied_servers: ['mcp:a'] }",
            &[
                ("1:38 ", "not enforced"),
                ("1:52 warning servers[0].allow_tools[0]: ", no_tool),
                ("2:11 ", "not enforced"),
            ],
        ),
        (
            "guards: [{ kind: sampling, servers: ['mcp:a'] }, { kind: disabled_tool, config: { tools: [{ tool: 'mcp:a:x' }] } }]",
            &[
                ("1:38 warning guards[0].servers[0]: ", no_server),
                ("1:58 ", "not enforced"),
                ("1:91 warning guards[1].config.tools[0]: ", no_tool),
            ],
        ),
        (
            "policy: { rate_limits: { enabled: true, per_tool: { 'mcp:a:x': { calls_per_minute: 1 } }, \
             per_server: { 'mcp:a': { calls_per_minute: 1 } } } }",
            &[("1:11 ", "not enforced"), ("1:105 ", no_server)],
        ),
        ("classifier: { overrides: [{ tool: 'mcp:a:x', category: read }] }", &[("1:27 ", no_tool)]),
    ]);
}
