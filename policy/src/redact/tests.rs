use serde_json::json;

use super::*;

fn redactor() -> Redactor {
    Redactor::new([7; 32])
}

#[test]
fn leaves_become_type_length_and_hash() {
    let digest = |kind: &str, text: &str| redactor().digest(kind, text.as_bytes());
    let cases = [
        (r#""abc""#, json!({"type": "string", "length": 3, "hash": digest("string", "abc")})),
        (r#""\u00e9""#, json!({"type": "string", "length": 2, "hash": digest("string", "é")})),
        ("1", json!({"type": "number", "hash": digest("number", "1")})),
        ("-1.50", json!({"type": "number", "hash": digest("number", "-1.5")})),
        ("true", json!({"type": "boolean", "hash": digest("boolean", "true")})),
        ("null", json!({"type": "null", "hash": digest("null", "")})),
        ("{}", json!({})),
        ("[]", json!([])),
        (r#"{"a":[null]}"#, json!({"a": [{"type": "null", "hash": digest("null", "")}]})),
        (r#"{"a":1,"a":null}"#, json!({"a": {"type": "null", "hash": digest("null", "")}})),
        (r#""\ud800""#, json!({"type": "string", "length": 3, "hash": digest("string", "\u{fffd}")})),
        ("1e999", json!({"type": "invalid", "length": 5, "hash": digest("invalid", "1e999")})),
        ("nonsense", json!({"type": "invalid", "length": 8, "hash": digest("invalid", "nonsense")})),
    ];
    for (text, expected) in cases {
        assert_eq!(redactor().redact(text), expected, "{text}");
    }
}

#[test]
fn the_key_decides_the_hash() {
    assert_ne!(redactor().redact("1"), Redactor::new([8; 32]).redact("1"));
    assert_ne!(redactor().digest("string", b"true"), redactor().digest("boolean", b"true"));
}

#[test]
fn big_values_are_bounded() {
    let many = format!("[{}]", vec!["1"; 5_000].join(","));
    let array = redactor().redact(&many);
    let items = array.as_array().unwrap();
    assert_eq!(items.len(), MAX_LEAVES + 1);
    assert_eq!(items[MAX_LEAVES]["type"], "truncated");
    assert_eq!(items[MAX_LEAVES]["length"], 4_000);

    let members: Vec<String> = (0..2_000).map(|at| format!("\"k{at}\":1")).collect();
    let object = redactor().redact(&format!("{{{}}}", members.join(",")));
    assert_eq!(object.as_object().unwrap().len(), MAX_LEAVES + 1);
    assert_eq!(object[REST]["type"], "truncated");

    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = redactor().redact(&deep).to_string();
    assert!(text.contains("truncated") && text.len() < 1_000, "{text}");
}

#[test]
fn long_keys_are_hashed() {
    let key = "k".repeat(MAX_KEY_BYTES + 1);
    let object = redactor().redact(&format!("{{\"{key}\":1}}"));
    let name = object.as_object().unwrap().keys().next().unwrap().clone();
    assert_eq!(name, format!("key:{}", redactor().digest("key", key.as_bytes())));
}

#[test]
fn command_lines_lose_their_secrets() {
    let cases: [(&[&str], &[&str]); 19] = [
        (&["npx", "-y", "pkg", "/data"], &["npx", "-y", "pkg", "/data"]),
        (&["s", "--token", "abc", "x"], &["s", "--token", "***", "x"]),
        (&["s", "--token=abc"], &["s", "--token=***"]),
        (&["s", "--api-key", "abc"], &["s", "--api-key", "***"]),
        (&["s", "--token", "--verbose"], &["s", "--token", "--verbose"]),
        (&["env", "GITHUB_TOKEN=abc", "s"], &["env", "GITHUB_TOKEN=***", "s"]),
        (&["docker", "run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "i"], {
            &["docker", "run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "i"]
        }),
        (&["docker", "-e", "OPENAI_API_KEY=abc"], &["docker", "-e", "OPENAI_API_KEY=***"]),
        (&["mcp-remote", "https://x/sse", "--header", "Authorization: Bearer abc"], {
            &["mcp-remote", "https://x/sse", "--header", "Authorization: ***"]
        }),
        (&["s", "postgresql://u:p@h/db"], &["s", "postgresql://u:***@h/db"]),
        (&["s", "https://h/p?a=1&api_key=2"], &["s", "https://h/p?a=1&api_key=***"]),
        (&["s", "ghp_abcdef"], &["s", "***"]),
        (
            &["sh", "-c", "X_SECRET=abc npx y --password zz q"],
            &["sh", "-c", "X_SECRET=*** npx y --password *** q"],
        ),
        (&["sh", "-c", "npx mcp-remote https://x --header \"Authorization: Bearer abc\" --debug"], {
            &["sh", "-c", "npx mcp-remote https://x --header \"Authorization: *** ***\" --debug"]
        }),
        (&["s", "Cookie: a=b; c=d"], &["s", "Cookie: ***"]),
        (&["sh", "-c", "curl -H Bearer abc"], &["sh", "-c", "curl -H Bearer ***"]),
        (&["s", "--max-tokens", "5"], &["s", "--max-tokens", "5"]),
        (&["git", "--author", "me"], &["git", "--author", "me"]),
        (&["s", "--model=x"], &["s", "--model=x"]),
    ];
    for (argv, expected) in cases {
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        assert_eq!(redact_argv(&argv), expected, "{argv:?}");
    }
    let long: Vec<String> = vec!["é".repeat(5_000); 100];
    let kept = redact_argv(&long);
    assert_eq!(kept.len(), 65);
    assert_eq!(kept[64], "… 36 more");
    assert!(kept.iter().all(|arg| arg.len() <= 1_024 + 3));
}
