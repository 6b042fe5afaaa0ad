//! The forms of values.

use super::*;

#[test]
fn config_values_accept_one_form_only() {
    table(&[
        ("store: { retention: { bytes: 2GB } }", &[]),
        ("store: { retention: { bytes: 1073741824 } }", &[]),
        (
            "store: { retention: { bytes: 2 gibibytes } }",
            &[("1:30 error store.retention.bytes: ", "a size such as")],
        ),
        ("store: { retention: { bytes: 5KiB } }", &[("1:30 ", "5KiB is too small; the least is 1048576")]),
        ("store: { retention: { bytes: -1 } }", &[("1:30 ", "-1 is too small")]),
        ("store: { retention: { age: 30 } }", &[("1:28 ", "expected a duration such as")]),
        ("store: { retention: { age: 3 fortnights } }", &[("1:28 ", "fortnights")]),
        ("store: { retention: { age: 20y } }", &[("1:28 ", "ten years")]),
        ("store: { path: x.db }", &[("1:16 ", "absolute path")]),
        ("inspection: { custom_patterns: [{ name: n, pattern: \"(?!a)b\" }] }", &[("1:53 ", "look-around")]),
        (
            "inspection: { custom_patterns: [{ name: n, pattern: \"\\\\w{900}{90}\" }] }",
            &[("1:53 ", "too big")],
        ),
        ("inspection: { builtin: { credential_theft: false } }", &[]),
        ("inspection: { similarity_threshold: 0.9 }", &[]),
        ("inspection: { similarity_threshold: 1 }", &[]),
        (
            "inspection: { similarity_threshold: 0.49 }",
            &[("1:37 error inspection.similarity_threshold: ", "0.49 is too small; the least is 0.5")],
        ),
        ("inspection: { similarity_threshold: 85 }", &[("1:37 ", "85 is too large; the most is 1")]),
        ("inspection: { similarity_threshold: 85% }", &[("1:37 ", "expected a number, found \"85%\"")]),
        ("inspection: { similarity_threshold: \"0.9\" }", &[("1:37 ", "expected a number")]),
        (
            "inspection: { builtin: { credential_thft: false } }",
            &[("1:26 error inspection.builtin.credential_thft: ", "did you mean `credential_theft`?")],
        ),
        (
            "inspection: { alert_threshold: 1 }",
            &[("1:32 ", "one of `low`, `medium`, `high`, `critical`, found the number 1")],
        ),
        ("metrics: { listen: localhost }", &[("1:20 ", "127.0.0.1:9464")]),
        ("metrics: { listen: null }", &[]),
        ("metrics: { listen: \"[::1]:9464\" }", &[]),
        ("servers: [{ id: a, type: http, url: \"ftp://x\" }]", &[("1:37 ", "its scheme is ftp")]),
        ("servers: [{ id: a, type: http, url: \"https://u:p@x\" }]", &[("1:37 ", "headers_from")]),
        ("servers: [{ id: a, type: http, url: \"https://x/mcp\" }]", &[]),
        ("servers: [{ id: \"\", command: a }]", &[("1:17 ", "must not be empty")]),
        ("servers: [{ id: a, command: a, tls_fingerprint: \"sha256:abc\" }]", &[("1:49 ", "3 characters")]),
        ("servers: [{ id: a, command: a, args: [8080] }]", &[("1:39 error servers[0].args[0]: ", "quotes")]),
        ("servers: [{ id: a, command: a, max_concurrent: 4294967296 }]", &[("1:48 ", "the most is 100000")]),
        ("sessions: [{ match: { uid: 4294967296 } }]", &[("1:28 ", "the most is 4294967295")]),
        ("sessions: [{ match: { uid: alice } }, { match: { uid: 0 } }]", &[]),
        ("sessions: [{ match: { uid: \"\" } }]", &[("1:28 ", "must not be empty")]),
        (
            "sessions: [{ match: { uid: [1] } }]",
            &[("1:28 ", "expected a whole number, or a text, found a list")],
        ),
        ("sessions: [{ name: a, match: { uid: 1 } }, { name: a }]", &[("1:52 ", "taken")]),
        ("servers: [{ id: a, command: a, egress: nowhere }]", &[("1:40 ", "`any`, `none`")]),
        ("servers: [{ id: a, command: a, egress: { } }]", &[("1:40 ", "or a list")]),
        ("servers: { id: a }", &[("1:10 error servers: ", "expected a list (`[a, b]`), found a mapping")]),
        (
            "policy: { denied_servers: [a, { id: b }], tool_policy: allowlist, allowed_tools: [a, { tool: b }] }",
            &[("1:11 ", "not enforced"), ("1:56 ", "not enforced")],
        ),
        (
            "policy: { denied_servers: [{ server: a }] }",
            &[("1:28 ", "`id` is missing"), ("1:30 ", "no such key")],
        ),
        (
            "policy: { denied_tools: [{ server: a, name: b }] }",
            &[("1:26 ", "`tool` is missing"), ("1:39 ", "no such key")],
        ),
        (
            "policy: { allowed_tools: [5] }",
            &[("1:27 ", "expected a glob: `*`, `?`, `[…]`, `{a,b}`, or a mapping")],
        ),
        ("policy: { version_pinning: { on_change: deny } }", &[("1:41 ", "`block`, `alert`, `allow`")]),
        ("policy: { pending_grace: 30 }", &[("1:26 ", "a duration")]),
        ("guards: [{ kind: wasn }]", &[("1:18 ", "one of `tool_shadowing`")]),
        ("guards: [{ kind: rug_pull, failure_mode: closed }]", &[("1:42 ", "`fail_closed`, `fail_open`")]),
        ("guards: [{ kind: rug_pull, failure_mode: open }]", &[("1:42 ", "did you mean `fail_open`?")]),
        ("guards: [{ kind: rug_pull, failure_mode: clsed }]", &[("1:42 ", "did you mean `fail_closed`?")]),
        ("guards: [{ kind: poisoning }]", &[("1:18 ", "did you mean `tool_poisoning`?")]),
        ("inspection: { builtin: { smuggling: false } }", &[("1:26 ", "did you mean `unicode_smuggling`?")]),
        ("cross_server: { burstt: {} }", &[("1:17 ", "did you mean `burst`?")]),
        ("guards: [{ kind: rug_pull, runs_on: [always] }]", &[("1:38 ", "one of `request`")]),
        ("guards: [{ enabled: true }]", &[("1:10 ", "`kind` is missing")]),
        ("cross_server: { burst: { max_calls: 1001 } }", &[("1:37 ", "the most is 1000")]),
        ("policy: { fail_closed: yes }", &[("1:24 ", "true or false")]),
        (
            "policy: { rate_limits: { per_server: { \"a[\": { calls_per_minute: 1 } } } }",
            &[("1:40 ", "glob")],
        ),
        ("guards: [{ kind: tool_poisoning, config: { min_detections: 0 } }]", &[("1:60 ", "least is 1")]),
    ]);
}
