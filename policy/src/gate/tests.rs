//! Policies into tables. That these say what the engine says is shown in `engine/tests/gate.rs`.

mod arguments;
mod history;
mod http;
mod readers;

use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::config;
use crate::detect::{DetectConfig, Detector, RuleSet};
use crate::terms::Callee;

static DETECTOR: LazyLock<Arc<Detector>> =
    LazyLock::new(|| Arc::new(Detector::new(RuleSet::default(), &DetectConfig::default()).unwrap()));

fn subject(server: &str, tools: &[(&str, ToolCategory)]) -> GateSubject {
    let facts = |(name, category): &(&str, ToolCategory)| {
        let facts = ToolFacts { name: (*name).into(), category: *category, ..ToolFacts::default() };
        (Arc::from(*name), facts)
    };
    GateSubject {
        server: ServerId(server.into()),
        also: Vec::new(),
        identity: Identity::Declared,
        enabled: true,
        trust: Trust::Medium,
        listing: Listing::Listed,
        profile: Profile::default(),
        tools: tools.iter().map(facts).collect(),
        block: None,
        standing: Vec::new(),
    }
}

fn compile(yaml: &str, subjects: &[GateSubject]) -> Result<GateTable, GateError> {
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    GateCompiler::new(&config, &DETECTOR)
        .and_then(|mut compiler| compiler.compile(subjects, 1, Timestamp(1_000)))
}

fn call(name: &str) -> String {
    format!("{}\n", serde_json::json!({ "id": 1, "method": "tools/call", "params": { "name": name } }))
}

/// What is said of a call: nothing, or verdict, guard, code and category. What passes is told where it is known what it does.
fn said(table: &GateTable, subject: u32, name: &str) -> String {
    let mut all = Vec::new();
    GateReader::default().write(table, subject, call(name).as_bytes(), |said| {
        let outcome = table.outcome(said.outcome).unwrap();
        assert_eq!(outcome.verdict, said.verdict);
        if outcome.verdict == GateVerdict::Allow && outcome.may_do_anything {
            return;
        }
        let guard = outcome.guard.map_or("-", GuardKind::name);
        all.push(format!("{:?} {guard} {} {}", said.verdict, outcome.code, outcome.category.name()));
    });
    all.join("; ")
}

/// What is denied or undecided: the codes, in the order of their numbers.
fn stops(table: &GateTable) -> Vec<&str> {
    let stopped = table.outcomes.iter().filter(|outcome| outcome.verdict != GateVerdict::Allow);
    stopped.map(|outcome| outcome.code.as_str()).collect()
}

const DENIED: &str = "Deny tool_access tool_denied unknown";

#[test]
fn each_gate_subject_has_its_own_rules() {
    let yaml = "{ policy: { denied_tools: [{ server: files, tool: 'delete_*' }, { server: 'm*', tool: '*' },
        { server: off, tool: x }], allowed_tools: [{ server: mail, tool: 'read_?' }] },
        servers: [{ id: off, command: off, enabled: false }] }";
    let off = GateSubject { enabled: false, ..subject("off", &[]) };
    let table =
        compile(yaml, &[subject("files", &[]), subject("mail", &[]), off, subject("none", &[])]).unwrap();
    for (subject, name, expected) in [
        (0, "delete_x", DENIED),
        (0, "delete_", DENIED),
        (0, "xdelete_x", ""),
        (0, "read_x", ""),
        (1, "delete_x", DENIED),
        (1, "read_x", ""),
        (1, "read_xy", DENIED),
        (1, "read_工", ""),
        (1, "", DENIED),
        (3, "delete_x", ""),
        // One that is no subject's.
        (9, "delete_x", ""),
    ] {
        assert_eq!(said(&table, subject, name), expected, "{subject} {name}");
    }
    let off = said(&table, 2, "x");
    assert!(off.starts_with("Deny server_access server_disabled unknown"), "{off}");
    assert!(stops(&table).contains(&"tool_denied"));
}

/// All that is asked, whatever the lists and guards say, and beside the same server while it is not blocked.
#[test]
fn manual_block_denies_every_message() {
    let yaml = "{ policy: { allowed_servers: ['*'], allowed_tools: ['*'] },
        guards: [{ kind: server_access, enabled: false }, { kind: tool_access, enabled: false }] }";
    let open = subject("files", &[("read", ToolCategory::Unknown)]);
    let blocked = |callee: &str| {
        let callee = Callee::parse(callee).unwrap();
        open.blocked(&CallBlock { callee, until: Some(Timestamp(5)), reason: Some("a test".into()) })
    };
    let subjects = [open.clone(), blocked("server=files"), blocked("session=s")];
    let table = compile(yaml, &subjects).unwrap();
    let codes = ["server_blocked", "session_blocked"];
    assert_eq!(said(&table, 0, "read"), "");
    for (subject, code) in (1..).zip(codes) {
        for message in [
            call("read"),
            call("what nobody knows"),
            call(&"long".repeat(100)),
            r#"{"id":1,"method":"initialize","params":{}}"#.to_owned() + "\n",
            r#"{"method":"notifications/initialized"}"#.to_owned() + "\n",
            r#"{"id":1,"method":"prompts/get","params":{"name":"x"}}"#.to_owned() + "\n",
            r#"{"id":1,"method":"resources/read","params":{"uri":"x"}}"#.to_owned() + "\n",
        ] {
            let mut told = Vec::new();
            GateReader::default().write(&table, subject, message.as_bytes(), |said| {
                told.push((said.verdict, table.outcome(said.outcome).unwrap().code.clone()));
            });
            assert!(told.contains(&(GateVerdict::Deny, code.to_owned())), "{message}: {told:?}");
        }
    }
}

#[test]
fn tool_globs_honour_case_sensitivity() {
    for (case, name, expected) in [
        (true, "DELETE_X", ""),
        (false, "DELETE_X", DENIED),
        (false, "größe", DENIED),
        (false, "GRÖSSE", ""),
        (false, "GRÖßE", DENIED),
        (false, "\u{212a}", DENIED),
    ] {
        let yaml = format!("policy: {{ case_sensitive: {case}, denied_tools: ['delete_*', 'Größe', k] }}");
        assert_eq!(said(&compile(&yaml, &[subject("s", &[])]).unwrap(), 0, name), expected, "{case} {name}");
    }
}

/// What words would say of names that nobody listed is not known; what an operator says of them is.
#[test]
fn unlisted_tool_without_override_is_undecided() {
    let yaml = "{ servers: [{ id: s, command: s, deny_side_effect_tags: [fs.delete] }],
        policy: { denied_tools: [never] },
        classifier: { overrides: [{ tool: 'safe_*', side_effect_tags: [] }, { tool: 'bad_*', side_effect_tags: [fs.delete] },
        { tool: 'r_*', category: read }] } }";
    let listed = [("delete_x", ToolCategory::Write), ("get", ToolCategory::Read)];
    let mut subject = subject("s", &listed);
    let known = subject.tools.get_mut("delete_x").unwrap();
    known.side_effects.insert("fs.delete".to_owned());
    let table = compile(yaml, &[subject]).unwrap();
    for (name, expected) in [
        ("delete_x", "Deny tool_access side_effect_denied unknown"),
        ("get", "Allow -  read"),
        ("delete_y", "Undecided - unlisted_tool unknown"),
        ("r_1", "Allow -  read"),
        ("safe_delete", ""),
        ("bad_delete", "Deny tool_access side_effect_denied unknown"),
        ("never", DENIED),
    ] {
        assert_eq!(said(&table, 0, name), expected, "{name}");
    }
}

/// What goes by more than the text of single arguments, the gate cannot tell: it decides where none of that matters.
#[test]
fn calls_that_arguments_decide_about_are_undecided() {
    let yaml = "{ policy: { denied_tools: [{ tool: 'cond_*', arguments: { /a/b: { equal: x } } }, { tool: both, when: 'true' },
        { tool: both }, { server: other, tool: far, when: 'true' }],
        allowed_tools: [{ tool: only, when: 'false' }] },
        cross_server: { enabled: false } }";
    let listed = [("cond_a", ToolCategory::Read), ("free", ToolCategory::Read)];
    let table = compile(yaml, &[subject("s", &listed)]).unwrap();
    for (name, expected) in [
        ("cond_a", "Undecided - arguments unknown"),
        ("cond_unlisted", "Undecided - arguments unknown"),
        ("free", ""),
        ("both", DENIED),
        ("far", ""),
        ("only", ""),
    ] {
        assert_eq!(said(&table, 0, name), expected, "{name}");
    }
    let allowlist = yaml.replace("policy: {", "policy: { tool_policy: allowlist,");
    let table = compile(&allowlist, &[subject("s", &listed)]).unwrap();
    for (name, expected) in [
        ("only", "Undecided - arguments unknown"),
        ("free", "Deny tool_access tool_not_allowed unknown"),
        ("cond_a", "Deny tool_access tool_not_allowed unknown"),
    ] {
        assert_eq!(said(&table, 0, name), expected, "{name}");
    }
}

/// Categories are for the rules across servers: without them there is nothing to say of what passes, and fewer states.
#[test]
fn categories_are_used_by_cross_server_rules_only() {
    let tools =
        [("read_file", ToolCategory::Read), ("send_mail", ToolCategory::Send), ("x", ToolCategory::Unknown)];
    let with = compile("{}", &[subject("s", &tools)]).unwrap();
    let without = compile("cross_server: { enabled: false }", &[subject("s", &tools)]).unwrap();
    assert_eq!(said(&with, 0, "read_file"), "Allow -  read");
    assert_eq!(said(&with, 0, "x"), "");
    assert_eq!(said(&without, 0, "read_file"), "");
    assert!(with.entries() > without.entries());
    // Nothing but forms that nobody can tell.
    assert_eq!(stops(&with), ["broken_line", "no_room"]);
    assert_eq!(stops(&without), ["no_room"]);
}

#[test]
fn pending_listing_limits_table_validity() {
    let pending = GateSubject { listing: Listing::Pending { since: Timestamp(500) }, ..subject("s", &[]) };
    for (fail_closed, grace, expected, until) in [
        (true, "1us", "", Some(1_500)),
        (true, "400ns", "Deny tool_access server_pending unknown", None),
        (false, "1us", "", None),
    ] {
        let yaml = format!("policy: {{ fail_closed: {fail_closed} }}");
        let (mut config, _) = config::parse(yaml.as_bytes()).unwrap();
        config.policy.pending_grace.0 = humantime::parse_duration(grace).unwrap_or(Duration::ZERO);
        let subjects = std::slice::from_ref(&pending);
        let table = GateCompiler::new(&config, &DETECTOR)
            .and_then(|mut compiler| compiler.compile(subjects, 1, Timestamp(1_000)))
            .unwrap();
        assert_eq!((said(&table, 0, "x"), table.until().map(|until| until.0)), (expected.to_owned(), until));
    }
}

/// What is remembered of servers that come and go changes nothing of what is said, and there is no end to them.
#[test]
fn reused_compiler_matches_fresh_compiler() {
    let yaml = "{ policy: { denied_tools: [{ server: 's1*', tool: 'a*' }, b], rate_limits: { enabled: true,
        per_server: { s3: { calls_per_minute: 7 } } } }, servers: [{ id: s2, command: s2, deny_side_effect_tags: [fs.delete] }] }";
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let mut compiler = GateCompiler::new(&config, &DETECTOR).unwrap();
    let tools = [("read_file", ToolCategory::Read), ("delete_x", ToolCategory::Write)];
    let kind = |number: usize| subject(&format!("s{number}"), &tools[..number % 3]);
    for turn in 0..200 {
        let subjects: Vec<GateSubject> =
            (0..turn % 4).map(|place| kind((turn + place * place) % 150)).collect();
        let table = compiler.compile(&subjects, 1, Timestamp(1_000)).unwrap();
        let fresh = compile(yaml, &subjects).unwrap();
        assert_eq!(table.states, fresh.states, "{turn}");
        for (place, _) in (0..).zip(&subjects) {
            for name in ["a", "b", "read_file", "delete_x", "delete_y"] {
                assert_eq!(said(&table, place, name), said(&fresh, place, name), "{turn} {place} {name}");
            }
            let [own, other] = [&table, &fresh].map(|table| {
                let view = table.view();
                view.limit(view.subject(place).limit)
            });
            assert_eq!(own, other, "{turn} {place}");
        }
    }
    assert!(compiler.knows() < 70, "{}", compiler.knows());
}

/// A server that lists more than there is room for costs the others nothing: what is denied whatever the tool is stays so, and
/// what else it is asked for is undecided.
#[test]
fn oversized_listing_is_undecided_for_that_server() {
    let yaml =
        "{ policy: { denied_tools: ['delete_*'], fail_closed: true }, cross_server: { enabled: false } }";
    let (config, _) = config::parse(yaml.as_bytes()).unwrap();
    let mut compiler = GateCompiler::new(&config, &DETECTOR).unwrap();
    let names = |numbers: std::ops::Range<usize>| -> Vec<String> {
        let name = |number: usize| {
            let mixed = (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
            format!("{mixed:064x}")
        };
        numbers.map(name).collect()
    };
    let of = |server: &str, names: &[String]| {
        let tools: Vec<(&str, ToolCategory)> =
            names.iter().map(|name| (&**name, ToolCategory::Unknown)).collect();
        subject(server, &tools)
    };
    let [few, some, many] = [0..3, 0..30, 0..600].map(names);
    let (small, middle, large) = (of("small", &few), of("middle", &some), of("large", &many));
    for (subjects, crowded) in [
        (&[small.clone(), middle.clone()][..], &[][..]),
        (&[small.clone(), large.clone(), middle.clone()], &["large"]),
        // Remembered, and then there is room again.
        (&[small.clone(), large.clone(), middle.clone()], &["large"]),
        (&[small, middle], &[]),
    ] {
        let table = compiler.compile(subjects, 1, Timestamp(1_000)).unwrap();
        assert_eq!(table.crowded(), crowded.iter().map(|id| ServerId((*id).into())).collect::<Vec<_>>());
        for (place, subject) in (0..).zip(subjects) {
            let listed = subject.tools.keys().next().unwrap();
            let (of_listed, of_other) = match crowded.contains(&&*subject.server.0) {
                true => ("Undecided - large_listing unknown", "Undecided - large_listing unknown"),
                false => ("", "Deny tool_access unknown_tool unknown"),
            };
            assert_eq!(said(&table, place, listed), of_listed, "{}", subject.server);
            assert_eq!(said(&table, place, "other"), of_other, "{}", subject.server);
            assert_eq!(said(&table, place, "delete_x"), DENIED);
        }
        // What there is no number for.
        assert_eq!(said(&table, NO_SUBJECT, "x"), "Undecided - no_room unknown");
    }
    // Many that are large together.
    let some = |number: usize| names(30 * number..30 * number + 30);
    let all: Vec<GateSubject> = (0..6).map(|number| of(&format!("s{number}"), &some(number))).collect();
    let table = compiler.compile(&all, 1, Timestamp(1_000)).unwrap();
    assert!((1..6).contains(&table.crowded().len()), "{:?}", table.crowded());
}

/// What hides a call from its readers hides it from rates and other servers' rules.
#[test]
fn line_break_within_message_hides_no_call() {
    for (yaml, expected) in [
        ("{}", GateVerdict::Undecided),
        ("cross_server: { enabled: false }", GateVerdict::Allow),
        (
            "{ cross_server: { enabled: false }, policy: { rate_limits: { enabled: true } } }",
            GateVerdict::Undecided,
        ),
        ("policy: { denied_tools: [x] }", GateVerdict::Deny),
    ] {
        let table = compile(yaml, &[subject("s", &[])]).unwrap();
        for text in ["{\"a\":\r1}\n", "{\"a\":\n1}\n", "{\"a\r\":1}\n"] {
            assert_eq!(GateReader::default().worst(&table, 0, text.as_bytes()), expected, "{yaml} {text:?}");
        }
    }
}

/// No rule goes by the names of prompts, or by where resources are: long ones are nobody's.
#[test]
fn long_prompt_names_and_uris_match_no_rule() {
    let long = "a".repeat(300);
    for (yaml, prompt) in [
        ("policy: { denied_tools: [x] }", GateVerdict::Allow),
        (
            "{ policy: { denied_servers: [s] }, guards: [{ kind: server_access, runs_on: [prompt_request] }] }",
            GateVerdict::Deny,
        ),
    ] {
        let table = compile(yaml, &[subject("s", &[])]).unwrap();
        for (method, key, expected) in [
            ("prompts/get", "name", prompt),
            ("resources/read", "uri", GateVerdict::Allow),
            ("ping", "name", GateVerdict::Allow),
        ] {
            let text = format!("{{\"method\":\"{method}\",\"params\":{{\"{key}\":\"{long}\"}}}}\n");
            assert_eq!(GateReader::default().worst(&table, 0, text.as_bytes()), expected, "{yaml} {method}");
        }
    }
}

/// Keys and methods are the same states in every table, whatever names there are.
#[test]
fn message_keys_share_states_across_tables() {
    let first = compile("{}", &[]).unwrap();
    let second =
        compile("policy: { denied_tools: ['m*d', params, 'tools/*', 工] }", &[subject("s", &[])]).unwrap();
    let (first, second) = (first.view(), second.view());
    let starts = |view: &View<'_>| [view.head.keys, view.head.param_keys, view.head.methods];
    assert_eq!(starts(&first), starts(&second));
    let words = [
        "method",
        "METHOD",
        "paramſ",
        "name",
        "nam",
        "uri",
        "tools/call",
        "prompts/get",
        "resources/read",
        "x",
    ];
    for start in starts(&first) {
        for word in words {
            let mut at = [start; 2];
            for byte in word.bytes() {
                at = [first.next(at[0], byte), second.next(at[1], byte)];
                assert_eq!(at[0], at[1], "{word}");
                assert_eq!(first.end(at[0], 0), second.end(at[1], 0), "{word}");
            }
        }
    }
}

/// Servers with the same rules share their states.
#[test]
fn servers_with_equal_rules_share_states() {
    let yaml = "policy: { denied_tools: ['delete_*', '*_secret', '{get,set}_*'] }";
    let of = |count: usize| {
        let subjects: Vec<GateSubject> =
            (0..count).map(|number| subject(&format!("s{number}"), &[])).collect();
        compile(yaml, &subjects).unwrap()
    };
    let (one, many) = (of(1), of(100));
    assert_eq!(one.entries(), many.entries());
    // The keys and methods alone take a hundred.
    assert!(one.states < 200, "{one:?}");
}

#[test]
fn oversized_policy_is_refused_with_exceeded_limit() {
    let subjects = vec![subject("s", &[]); SUBJECTS];
    let refused = |yaml: &str, subjects: &[GateSubject]| compile(yaml, subjects).unwrap_err().to_string();
    assert_eq!(
        refused("{}", &subjects),
        "the gate has room for 1023 kinds of connections, and there are 1024"
    );
    let names: Vec<String> =
        (0..2_000_u32).map(|number| format!("{:016x}", number.wrapping_mul(0x9E37_79B9))).collect();
    let yaml = serde_json::json!({ "policy": { "denied_tools": names } }).to_string();
    let error = refused(&yaml, &[subject("s", &[])]);
    assert!(
        error.starts_with("the gate's table has room for 262144 transitions, and the policy needs "),
        "{error}"
    );
    // Which of so many letters came is a state for each set of them.
    let globs: Vec<String> = ('a'..='p').map(|letter| format!("*{letter}*")).collect();
    let yaml = serde_json::json!({ "policy": { "denied_tools": globs } }).to_string();
    let error = refused(&yaml, &[subject("s", &[])]);
    let expected = "the 16 globs and tools of server 's' need an automaton of more than 8388608 bytes: ";
    assert!(error.starts_with(expected), "{error}");
}

/// Bytes that are no UTF-8 match no pattern, and are denied where anything is.
#[test]
fn non_utf8_tool_names_are_denied_if_rules_exist() {
    let table = compile("policy: { denied_tools: [x] }", &[subject("s", &[]), subject("free", &[])]).unwrap();
    let free = compile("{}", &[subject("s", &[])]).unwrap();
    for (name, expected) in [
        (&b"a"[..], GateVerdict::Allow),
        (b"\xff", GateVerdict::Deny),
        (b"a\xc3", GateVerdict::Deny),
        (b"\xed\xa0\x80", GateVerdict::Deny),
        ("é".as_bytes(), GateVerdict::Allow),
    ] {
        let text = [&br#"{"method":"tools/call","params":{"name":""#[..], name, b"\"}}\n"].concat();
        assert_eq!(GateReader::default().worst(&table, 0, &text), expected, "{name:?}");
        assert_eq!(GateReader::default().worst(&free, 0, &text), GateVerdict::Allow, "{name:?}");
    }
}
