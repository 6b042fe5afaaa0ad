//! Other names for keys, and other forms of values.

use super::*;
use crate::config::OnDetection;

#[test]
fn config_aliases_are_accepted_with_warning() {
    let (config, warnings) = parse(
        b"mcp:
  inspection:
    enabled: false
    server_patterns: [\"a*\"]
    custom_servers: [\"b*\"]
    registry: { pin_on_first_use: false }
    detection:
      builtin: { exfiltration: false }
      custom_patterns: [{ name: n, pattern: p }]
      alert_threshold: low
    on_detection: { webhook_url: \"https://x/\" }
guards:
  - kind: server_whitelist
    config: { allowed_servers: [github] }
  - kind: tool_poisoning
    config: { alert_threshold: 2 }
",
    )
    .unwrap();
    assert!(!config.inspection.enabled && !config.registry.pin_on_first_use);
    assert_eq!(config.discovery.server_patterns.unwrap()[0].as_str(), "a*");
    assert_eq!(config.discovery.custom_servers[0].as_str(), "b*");
    assert_eq!(config.inspection.builtin.len(), 1);
    assert_eq!(config.inspection.custom_patterns[0].severity, crate::terms::Severity::High);
    assert_eq!(config.inspection.alert_threshold, crate::terms::Severity::Low);
    assert_eq!(config.sinks[0].url.as_ref().unwrap().as_str(), "https://x/");
    assert_eq!(config.sinks[0].filter.types[0].as_str(), "mcp_detection");
    assert_eq!(config.guards[0].kind, crate::terms::GuardKind::ServerAccess);
    assert_eq!(config.guards[1].config.as_ref().unwrap().min_detections, Some(2));
    assert_eq!(warnings.iter().filter(|warning| warning.message.contains("another name")).count(), 11);

    let (config, warnings) = parse(
        b"sandbox:
  mcp:
    enforce_policy: true
    fail_closed: true
    servers: [{ id: files, type: stdio, command: npx, args: [x] }]
    server_policy: allowlist
    allowed_servers: [{ id: files }]
    denied_servers: [{ id: '*' }]
    tool_policy: denylist
    allowed_tools: [{ server: '*', tool: '*' }]
    denied_tools: [{ server: files, tool: 'delete_*' }]
    version_pinning: { enabled: true, on_change: block, auto_trust_first: false }
    rate_limits: { enabled: true, default_rpm: 60, per_server: { files: { calls_per_minute: 10, burst: 3 } } }
",
    )
    .unwrap();
    assert!(config.policy.fail_closed && !config.registry.pin_on_first_use);
    assert_eq!(config.servers[0].id, "files");
    assert_eq!(config.policy.denied_tools.len(), 1);
    assert_eq!(config.enforcement, config::Enforcement::default());
    assert!(warnings.iter().any(|warning| warning.path.to_string() == "sandbox.mcp.enforce_policy"));
    assert_eq!(warnings.iter().filter(|warning| warning.message.contains("another name")).count(), 11);

    let (config, _) = parse(
        b"mcp_servers: [{ id: a, enabled: true, transport: stdio, command: [node, b.js], env: { K: v } }]",
    )
    .unwrap();
    assert_eq!(
        (config.servers[0].command.as_deref(), &*config.servers[0].args),
        (Some("node"), &["b.js".to_owned()][..])
    );

    for file in [
        "inspection: { on_detection: require_approval }",
        "inspection: { on_detection: { action: require_approval } }",
        "inspection: { on_detection: { require_approval: true } }",
        "mcp: { inspection: { on_detection: { require_approval: true, webhook_url: '' } } }",
    ] {
        let on_detection = parse(file.as_bytes()).unwrap().0.inspection.on_detection;
        let expected = OnDetection { action: DetectionAction::RequireApproval, ..OnDetection::default() };
        assert_eq!(on_detection, expected, "{file}");
    }

    table(&[
        (
            "inspection: { on_detection: require_approval }",
            &[("1:29 warning inspection.on_detection: ", "not enforced")],
        ),
        ("inspection: { on_detection: alert }", &[]),
        (
            "inspection: { on_detection: blok }",
            &[("1:29 error inspection.on_detection: ", "did you mean `block`?")],
        ),
        ("inspection: { on_detection: 5 }", &[("1:29 error ", "`block`, or a mapping")]),
        (
            "inspection: { on_detection: { require_approval: true } }",
            &[
                ("1:31 warning inspection.on_detection.require_approval: ", "of `action: require_approval`"),
                ("1:49 warning inspection.on_detection.action: ", "not enforced"),
            ],
        ),
        (
            "inspection: { on_detection: { require_approval: false, action: alert } }",
            &[("1:31 warning ", "another name of `action: require_approval`")],
        ),
        (
            "inspection: { on_detection: { require_approval: true, action: alert } }",
            &[("1:31 error ", "`action` is there as well")],
        ),
        (
            "inspection: { on_detection: { require_approval: yes } }",
            &[("1:49 error inspection.on_detection.require_approval: ", "expected true or false")],
        ),
        (
            "registry: { path: ~/.agentsh/mcp-tool-registry.json }",
            &[("1:13 warning registry.path: ", "no effect: `store.path` says where")],
        ),
        (
            "mcp: { inspection: { registry: { path: /x } } }",
            &[("1:22 warning ", "another name of `registry`"), ("1:34 warning registry.path: ", "no effect")],
        ),
        ("security_guards: [{ kind: sampling }]", &[("1:1 warning ", "another name of `guards`")]),
        (
            "security_guards: []\nguards: []",
            &[("1:1 error security_guards: ", "another name of `guards`, which is there as well")],
        ),
        (
            "servers: [{ id: a, transport: stdio, type: stdio, command: [b], args: [c] }]",
            &[
                ("1:20 error servers[0].transport: ", "as well"),
                ("1:51 error servers[0].command: ", "as well"),
            ],
        ),
        ("servers: [{ id: a, command: [] }]", &[("1:29 error servers[0].command: ", "text")]),
        (
            "servers: [{ id: a, command: [5] }]",
            &[("1:20 warning ", "another form"), ("1:30 error servers[0].command: ", "quotes")],
        ),
        ("servers: 5\nmcp_servers: []", &[("1:10 error servers: ", "a list"), ("2:1 error ", "as well")]),
        ("sandbox: { mcp: { proxy: 1 } }", &[("1:1 error sandbox: ", "no such key")]),
        ("inspection: { on_detection: { webhook_url: \"\" } }", &[("1:31 warning ", "another name")]),
        (
            "policy: { version_pinning: { auto_trust_first: false } }",
            &[("1:30 warning ", "registry.pin_on_first_use")],
        ),
        (
            "policy: { version_pinning: { auto_trust_first: false } }\nregistry: { pin_on_first_use: true }",
            &[("1:30 error ", "as well")],
        ),
        ("mcp: { inspection: { webhooks: 1 } }", &[("1:1 error mcp: ", "no such key")]),
        ("mcp: 5", &[("1:1 error mcp: ", "no such key")]),
        ("guards: 5", &[("1:9 error guards: ", "a list")]),
        (
            "guards: [{ kind: tool_poisoning, config: { alert_threshold: high } }]",
            &[
                ("1:44 warning ", "min_detections"),
                ("1:61 error guards[0].config.min_detections: ", "whole number"),
            ],
        ),
    ]);
}
