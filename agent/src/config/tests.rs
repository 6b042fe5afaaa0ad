use super::*;

#[test]
fn invalid_file_is_reported_with_position_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.yaml");
    for (text, place, part) in [
        ("capture:\n  rings: 1\n", ":2:3: ", "rings"),
        ("capture:\n  backend: magic\n", ":2:12: ", "magic"),
        ("capture: [", ":1:", "YAML"),
        ("capture:\n  ring_bytes: 5000\n", ":2:15: ", "power of two"),
        ("servers:\n  - id: a\n", ":2:5: ", "command"),
        ("discovery: { custom_servers: [\"a[\"] }", ":1:31: ", "a["),
        ("a: 1\nb: 2\nc: 3\n", ":1:1: ", "(and 2 more: see `mcpwarden check-config`)"),
        ("\"\\u202e\": 1\n", ":1:1: ", "no such key"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = read(Some(&path)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}{place}", path.display())), "{text:?} gives {error}");
        assert!(error.contains(part), "{text:?} gives {error}");
        assert!(!error.contains(['\n', '\u{202e}']), "{text:?} gives {error}");
    }
}

/// What only shows when something is made of what was read.
#[test]
fn unbuildable_config_is_reported_with_position() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.yaml");
    let empty = "matches the empty text; expected a regular expression";
    for (text, reported) in [
        (
            "inspection:\n  custom_patterns:\n  - { name: own, pattern: 'a*' }\n",
            ["3:13: inspection.custom_patterns[0].name: custom pattern \"own\": \"a*\" ", empty],
        ),
        (
            "guards:\n- kind: tool_poisoning\n  config: { custom_patterns: [a, 'b*'] }\n",
            ["3:34: guards[0].config.custom_patterns[1]: \"b*\" ", empty],
        ),
        (
            "inspection: { custom_patterns: [{ name: own, pattern: 'a*' }] }\nguards:\n- kind: tool_poisoning\n  config: { custom_patterns: ['b*'] }\n",
            ["1:41: ", " (and 1 more: see `mcpwarden check-config`)"],
        ),
        (
            "inspection:\n  rule_files:\n  - /nowhere/x\n",
            ["3:5: inspection.rule_files[0]: /nowhere/x cannot be used: ", "expected a rule file"],
        ),
        (
            "sessions:\n- match:\n    uid: rooot\n",
            ["3:10: sessions[0].match.uid: there is no user \"rooot\"", "did you mean `root`?"],
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = engine(&read(Some(&path)).unwrap(), [0; 32], false, false).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.starts_with(&format!("{}:{}", path.display(), reported[0])), "{text}: {error}");
        assert!(error.contains(reported[1]) && !error.contains(['\n']), "{text}: {error}");
    }
    let error = format!("{:#}", anyhow::Error::from(read(Some(Path::new("/nowhere/x"))).unwrap_err()));
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
}

#[test]
fn config_defaults_equal_capture_defaults() {
    let (file, capture) = (limits(&Config::default()), CaptureLimits::default());
    assert_eq!(format!("{file:?}"), format!("{capture:?}"));
}

#[test]
fn documented_config_file_is_valid() {
    let page = include_str!("../../../docs/reference/configuration.md");
    let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (config, warnings) = lint::parse(yaml.as_bytes()).unwrap();
    // What it shows of `capture` are the defaults.
    assert_eq!(config.capture, Config::default().capture);
    assert_eq!((config.servers.len(), warnings), (1, Vec::new()));
}
