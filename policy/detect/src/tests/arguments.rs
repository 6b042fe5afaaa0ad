//! Arguments of calls: secrets and sensitive paths in them.

use serde_json::json;

use super::*;

#[test]
fn secrets_in_arguments_are_found_and_masked() {
    let arguments =
        json!({"note": "my key is AKIAABCDEFGHIJ234567, keep it", "path": "/home/me/.ssh/id_rsa"});
    let inspection = detector().arguments(&arguments.to_string());
    let secret = found(&inspection, "secret-token").unwrap();
    assert_eq!((secret.field.as_str(), secret.severity), ("/note", Severity::High));
    assert_eq!((secret.matches[0].text.as_str(), secret.matches[0].position), ("AKIA…(20 bytes)", 10));
    assert_eq!(secret.matches[0].context, "AKIA…(20 bytes)");
    assert!(found(&inspection, "sensitive-path").is_some());
    // Nor where it is a key.
    let key = detector().arguments(r#"{"a": {"AKIAABCDEFGHIJ234567": 1}}"#);
    assert_eq!(found(&key, "secret-token").unwrap().field, "/a/…");
    let below = detector().arguments(r#"{"AKIAABCDEFGHIJ234567": {"x": "~/.ssh/id_rsa"}}"#);
    assert_eq!(found(&below, "sensitive-path").unwrap().field, "/…/x");
    assert_eq!(detector().arguments(r#"{"path": "/srv/data/report.txt", "n": 3}"#), Inspection::default());
}

/// Arguments, and whether a secret is found in them that only its key tells.
#[test]
fn secret_is_recognized_by_its_key() {
    for (arguments, is_secret) in [
        (json!({"password": "hunter2secretvalue99"}), true),
        (json!({"api_key": "abcdefgh12345"}), true),
        (json!({"apiKey": "abcdefgh12345"}), true),
        (json!({"X-Api-Key": "abcdefgh12345"}), true),
        (json!({"a": [{"token": "9f8e7d6c5b4a3f2e"}]}), true),
        (json!({"headers": {"Authorization": "Bearer abcdef1234567890abcdef"}}), true),
        (json!({"headers": {"authorization": "a value with blanks"}}), false),
        (json!({"password": "${PASSWORD}"}), false),
        (json!({"password": "short"}), false),
        (json!({"password": 12345678, "n": 1}), false),
        (json!({"pageToken": "CAoQAA1234567890"}), false),
        (json!({"token": "a b"}), false),
        (json!({"passwords": ["one", "two"]}), false),
        // Of a long one its beginning tells, and of a long key its end.
        (json!({"password": "0123456789".repeat(1_000)}), true),
        (json!({format!("{}-password", "x".repeat(10_000)): "hunter2secretvalue99"}), true),
    ] {
        let inspection = detector().arguments(&arguments.to_string());
        let secret = found(&inspection, "secret-assignment");
        assert_eq!(secret.is_some(), is_secret, "{arguments}: {inspection:?}");
        let shown = secret.map(|secret| format!("{:?}", secret.matches)).unwrap_or_default();
        assert!(!shown.contains("secretvalue") && !shown.contains("34567"), "{shown}");
    }
}

/// Spellings of a path that a file system, or who decodes it, does not mind.
#[test]
fn sensitive_path_is_found_in_every_spelling() {
    for path in [
        "/etc/shadow",
        "/etc//shadow",
        "/etc/./shadow",
        "/etc/x/../shadow",
        "/proc/self/root/etc//shadow",
        "/etc%2fshadow",
        "file:///etc%2Fshadow",
        "..%2f..%2f..%2fetc%2fshadow",
        "..%252f..%252fetc%252fshadow",
        "/home/u/.ssh",
        "cp -r ~/.ssh /tmp",
        "/proc/thread-self/environ",
        "/proc/self/task/1/environ",
        "http://2852039166/latest",
    ] {
        let inspection = detector().arguments(&json!({ "p": path }).to_string());
        assert!(found(&inspection, "sensitive-path").is_some(), "{path}: {inspection:?}");
    }
}
