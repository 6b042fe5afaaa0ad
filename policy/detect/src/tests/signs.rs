//! Arguments that are told to be harmless at a glance.

use proptest::prelude::*;

use super::*;

/// What secrets, sensitive paths, encodings and other spellings are made of, and what is none of these.
const PIECES: &[&str] = &[
    "AKIA",
    "ABCDEFGHIJ234567",
    "ghp_",
    "0123456789abcdefghij",
    "sk-",
    "API_KEY=",
    "9f8e7d6c5b4a",
    "password",
    ": ",
    "hunter2hunter2",
    "://",
    "app:pw123@",
    "/home/me/",
    ".ssh/",
    "id_rsa",
    "/etc/",
    "shadow",
    "passwd",
    ".aws/",
    "credentials",
    ".env",
    "; ",
    "rm -rf",
    "$(",
    "curl ",
    "| sh",
    "169.254.169.254",
    "-----BEGIN RSA PRIVATE KEY-----",
    "cGFzc3dvcmQgaXMgaHVudGVyMmh1bnRlcjI",
    "2f6574632f736861646f77206973",
    "%20",
    "%2e",
    "&#46;",
    "&lt;",
    "\\\\x2e",
    "\\u002f",
    "\\n",
    "i g n o r e",
    "1gn0r3",
    "u53r",
    "vtaber",
    "hfre",
    "erongi",
    "metsys",
    "\u{200b}",
    "\u{ff0f}etc",
    "а",
    "read",
    "notes.txt",
    " and ",
    "7",
    "_",
    "-",
    "/srv/a/very/long/path/to/some/file",
];

/// Arguments as a call may have them, often with few of those pieces.
fn arguments() -> impl Strategy<Value = String> {
    let piece = || prop::sample::select(PIECES);
    let text = prop::collection::vec(piece(), 0..4).prop_map(|pieces| pieces.concat());
    let key = prop_oneof![4 => "[a-e]", 1 => text.clone()];
    let leaf = prop_oneof![
        6 => text.prop_map(|text| format!("\"{text}\"")),
        1 => Just("17".to_owned()),
        1 => Just("null".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        let member = (key.clone(), inner.clone()).prop_map(|(key, value)| format!("\"{key}\" : {value}"));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn sign_prefilter_misses_no_argument_finding(json in arguments()) {
        prop_assert_eq!(detector().arguments(&json), detector().search_arguments(&json), "{}", json);
    }
}

/// Arguments, whether a glance is enough.
#[test]
fn everyday_arguments_skip_the_full_search() {
    let long = format!(r#"{{"text":"{}"}}"#, "a b ".repeat(20_000));
    let many: Vec<String> = (0..17).map(|at| format!(r#""k{at}":{at}"#)).collect();
    let cases: &[(&str, bool)] = &[
        ("{}", true),
        (r#"{"path": "/srv/notes/a.txt", "head": 20, "query": "what is left to do before Monday"}"#, true),
        (r#"{"paths": ["/home/me/projects/one/src/main.rs"], "options": {"limit": 5}}"#, true),
        (r#"{"path": "config/app.json", "url": "https://host.test/x"}"#, true),
        (r#"{"path": "config/secrets.json"}"#, false),
        (r#"{"path": "/etc/shadow"}"#, false),
        (r#"{"/root/.profile": 1}"#, false),
        (r#"{"a": 1, "a": 2}"#, false),
        (r#"{"a": "two\nlines"}"#, false),
        (r#"{"a": "Zürich"}"#, false),
        (r#"{"a": "cGFzc3dvcmQgaXMgaHVudGVyMmh1bnRlcjI"}"#, false),
        (r#"{"a": "p%41ssword"}"#, false),
        (r#"{"a": "p%61ssword"}"#, false),
        (r#"{"a": "a%20b"}"#, false),
        (&format!("{{{}}}", many[..16].join(",")), true),
        (&format!("{{{}}}", many.join(",")), false),
        (&long, false),
        (&format!(r#"{{"a":"{}"}}"#, "a.txt ".repeat(16)), true),
        (&format!(r#"{{"a":"{}"}}"#, "a.txt ".repeat(17)), false),
    ];
    for (json, enough) in cases {
        assert_eq!(detector().argument_signs.are_missing(json), *enough, "{json}");
        assert_eq!(detector().arguments(json), detector().search_arguments(json), "{json}");
    }
    // A pattern without words is looked for everywhere.
    let pattern = CustomPattern {
        name: "digits".into(),
        pattern: "^[0-9]{4}$".into(),
        severity: Severity::High,
        description: String::new(),
    };
    let config = DetectConfig { custom_patterns: vec![pattern], ..DetectConfig::default() };
    let with = Detector::new(RuleSet::built_in().unwrap(), &config).unwrap();
    for (json, detections) in [(r#"{"a":"1234"}"#, 1), (r#"{"a":"b1234"}"#, 0)] {
        assert_eq!(with.arguments(json).detections.len(), detections, "{json}");
        assert_eq!(with.argument_signs.are_missing(json), detections == 0, "{json}");
    }
}
