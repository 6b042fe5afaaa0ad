//! Rules on the texts of single arguments.

use super::*;

const DENY: &str = "Deny";
const PASS: &str = "Allow";
const UNDECIDED: &str = "Undecided arguments";
const BROKEN: &str = "Deny broken_line";

/// The worst that is said of a text, and where not a rule says so, its code.
fn worst(table: &GateTable, writes: &[&[u8]]) -> (String, Option<usize>, usize) {
    let mut reader = GateReader::default();
    let mut worst = (GateVerdict::Allow, String::new(), None, 0);
    for (number, bytes) in writes.iter().enumerate() {
        reader.write(table, 0, bytes, |said| {
            if said.verdict > worst.0 {
                let code = &table.outcome(said.outcome).unwrap().code;
                let code = if code == "tool_denied" || code == "tool_not_allowed" { "" } else { code };
                worst = (said.verdict, code.to_owned(), said.place, number);
            }
        });
    }
    let (verdict, code, place, number) = worst;
    (format!("{verdict:?} {code}").trim_end().to_owned(), place, number)
}

fn table(rules: &str) -> GateTable {
    let yaml = format!("{{ policy: {{ {rules} }}, cross_server: {{ enabled: false }} }}");
    compile(&yaml, &[subject("s", &[("w", ToolCategory::Write)])]).unwrap()
}

fn denying(test: &str) -> GateTable {
    table(&format!("denied_tools: [{{ tool: w, arguments: {{ /path: {test} }} }}]"))
}

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"w","arguments":{arguments}}}}}"#
    ) + "\n"
}

fn of(table: &GateTable, text: &str) -> String {
    worst(table, &[text.as_bytes()]).0
}

#[test]
fn texts_of_arguments_decide() {
    for (test, path, expected) in [
        ("{ prefix: /etc/ }", "/etc/x", DENY),
        ("{ prefix: /etc/ }", "/etc/", DENY),
        ("{ prefix: /etc/ }", "/etc", PASS),
        ("{ prefix: /etc/ }", "/ETC/x", PASS),
        ("{ prefix: /etc/ }", "", PASS),
        ("{ prefix: [/etc/, /root/] }", "/root/x", DENY),
        ("{ prefix: gr\u{f6}\u{df}e }", r"gr\u00f6\u00DFe 1", DENY),
        ("{ equal: x }", "x", DENY),
        ("{ equal: x }", "xx", PASS),
        ("{ equal: 5 }", " 5", DENY),
        ("{ equal: 5 }", "6", PASS),
        ("{ equal: true }", "TRUE", DENY),
        ("{ glob: '*.key' }", "a.key", DENY),
        ("{ glob: '*.key' }", "a.keys", PASS),
        ("{ exists: true }", "", DENY),
        ("{ exists: false }", "", PASS),
        ("{ not: { prefix: /srv/ } }", "/srv/x", PASS),
        ("{ not: { prefix: /srv/ } }", "/etc/x", DENY),
        ("{ prefix: /srv/, not: { glob: '*.key' } }", "/srv/x", DENY),
        ("{ prefix: /srv/, not: { glob: '*.key' } }", "/srv/x.key", PASS),
        ("{ below: /etc }", "/etc/x", DENY),
        ("{ below: /etc }", "/etcx", PASS),
        ("{ below: /etc }", "/srv/x", PASS),
        // What may lead elsewhere; of a relative path the engine cannot tell either, and denies.
        ("{ below: /etc }", "/srv/../etc/x", UNDECIDED),
        ("{ below: /etc }", "//etc/x", UNDECIDED),
        ("{ below: /etc }", "~/x", UNDECIDED),
        ("{ below: /etc }", "/proc/self/root/etc", UNDECIDED),
        ("{ below: /etc }", "x", DENY),
        ("{ not: { below: [/srv, .] } }", "/srv/x", PASS),
        ("{ not: { below: [/srv, .] } }", "a/b.txt", PASS),
        ("{ not: { below: [/srv, .] } }", "../x", UNDECIDED),
        ("{ not: { below: [/srv] } }", "/etc/x", DENY),
        // More than the text.
        ("{ host: x.test }", "http://x.test/", UNDECIDED),
        ("{ max_length: 3 }", "x", UNDECIDED),
        ("{ prefix: /etc/, host: x.test }", "/srv", PASS),
        ("{ prefix: /etc/, host: x.test }", "/etc/x", UNDECIDED),
    ] {
        let said = of(&denying(test), &call(&format!(r#"{{"content":"x","path":"{path}"}}"#)));
        assert_eq!(said, expected, "{test} {path}");
    }
}

#[test]
fn arguments_that_readers_differ_in_are_undecided() {
    let table = denying("{ prefix: /etc/ }");
    let long = format!(r#"{{"content":"{}","path":"/etc/x"}}"#, "y".repeat(64 << 10));
    let longest = format!(r#"{{"content":"{}","path":"/srv/x"}}"#, "y".repeat(256 << 10));
    let long_path = format!(r#"{{"path":"{}"}}"#, "/srv".repeat(20_000));
    for (arguments, expected) in [
        (r#"{"path":"/etc/x"}"#, DENY),
        (r#"{"PATH":"/etc/x"}"#, DENY),
        (r#"{"p\u0061th":"\/etc\u002fx"}"#, DENY),
        (r#"{}"#, PASS),
        (r#"{"x":{"path":"/etc/x"},"path":"/srv"}"#, PASS),
        (r#"{"x":["path","/etc/x",{"path":"/etc/x"}],"path":"/srv"}"#, PASS),
        (r#"{"x":"\"path\":\"/etc/x\"","path":"/srv"}"#, PASS),
        (r#"{"path":"/srv","x":1e400,"y":"\ud800"}"#, PASS),
        (&long, DENY),
        (&long_path, PASS),
        // The first is enough; behind another, nobody can tell.
        (r#"{"path":"/etc/x","path":"/srv"}"#, DENY),
        (r#"{"path":"/srv","path":"/etc/x"}"#, UNDECIDED),
        (r#"{"path":"/srv","Path":"/srv"}"#, UNDECIDED),
        (r#"{"pa\ufb05h":"/etc/x"}"#, UNDECIDED),
        (r#"{"path":7}"#, UNDECIDED),
        (r#"{"path":null}"#, UNDECIDED),
        (r#"{"path":["/srv"]}"#, UNDECIDED),
        (r#"{"path":{"path":"/srv"}}"#, UNDECIDED),
        (r#"{"path":"/srv\ud800"}"#, UNDECIDED),
        (r#"{"path":"/srv","y\udc00":1}"#, UNDECIDED),
        (r#"{'path':"/etc/x"}"#, UNDECIDED),
        (r#"{path:"/etc/x"}"#, UNDECIDED),
        (r#"{/* */"path":"/srv"}"#, UNDECIDED),
        (r#"["/etc/x"]"#, UNDECIDED),
        (r#""/etc/x""#, UNDECIDED),
        ("null", UNDECIDED),
        (&longest, UNDECIDED),
    ] {
        assert_eq!(of(&table, &call(arguments)), expected, "{arguments:.80}");
    }
    for bytes in [
        &b"\"pa\xFFth\":\"x\""[..],
        b"\"path\xFF/etc/\":\"x\"",
        b"\"path\":\"/etc/\xFF\"",
        b"\"path\":\"\xC3\"",
    ] {
        let message = call("{@}");
        let (before, after) = message.split_once('@').unwrap();
        let message = [before.as_bytes(), bytes, after.as_bytes()].concat();
        let expected = if bytes.starts_with(b"\"path\":") { UNDECIDED } else { PASS };
        assert_eq!(worst(&table, &[&message]).0, expected, "{bytes:?}");
    }
}

/// The order of keys does not matter, nor what else a message or a line has.
#[test]
fn arguments_decide_wherever_they_stand() {
    let table = denying("{ prefix: /etc/ }");
    for (text, expected) in [
        (r#"{"params":{"arguments":{"path":"/etc/x"},"name":"w"},"method":"tools/call"}"#, DENY),
        (r#"{"params":{"arguments":{"path":"/srv"},"name":"w"},"method":"tools/call"}"#, PASS),
        (r#"{"method":"tools/call","params":{"arguments":{"path":"/etc/x"},"name":"w"}}"#, DENY),
        (r#"{"params":{"name":"w","arguments":{"path":"/etc/x"}},"method":"tools/call"}"#, DENY),
        (
            r#"{"params":{"name":"w", "arguments" : { "a" : 1 , "path" : "/etc/x" } },"method":"tools/call"}"#,
            DENY,
        ),
        (r#"{"params":{"name":"w","arguments":{"path":"/etc/x"}},"method":"prompts/get"}"#, PASS),
        (r#"{"params":{"name":"r","arguments":{"path":"/etc/x"}},"method":"tools/call"}"#, PASS),
        (r#"{"method":"tools/call","params":{"name":"w"},"arguments":{"path":"/etc/x"}}"#, PASS),
        (r#"{"method":"tools/call","params":{"name":"w","_meta":{"arguments":{"path":"/etc/x"}}}}"#, PASS),
        (r#"{"method":"tools/call","params":{"name":"w"}}"#, PASS),
        // Twice.
        (
            r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"/srv"},"arguments":{}}}"#,
            UNDECIDED,
        ),
        (r#"{"method":"tools/call","params":{"name":"w","Arguments":{"path":"/srv"}}}"#, UNDECIDED),
        (r#"{"method":"tools/call","params":{"arguments":{}},"params":{"name":"w"}}"#, UNDECIDED),
        (r#"{"params":{"arguments":{}},"method":"tools/call","params":{"name":"w"}}"#, UNDECIDED),
        (
            r#"{"method":"tools/call","params":{"name":"w","name":"r","arguments":{}}}"#,
            "Deny undecidable_name",
        ),
        (
            r#"{"method":"tools/call","params":{"name":"r","name":"w","arguments":{}}}"#,
            "Deny undecidable_name",
        ),
        (r#"{"method":"tools/call","method":"tools/call","params":{"name":"w","arguments":{}}}"#, UNDECIDED),
        // Several messages.
        (
            r#"[{"params":{"arguments":{"path":"/etc/x"}}},{"method":"tools/call","params":{"name":"w"}}]"#,
            PASS,
        ),
        (r#"[{"method":"tools/call","params":{"name":"w","arguments":{"path":"/etc/x"}}}]"#, DENY),
        (
            r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"/srv"}}}
               {"method":"tools/call","params":{"name":"w","arguments":{"path":"/etc/x"}}}"#,
            DENY,
        ),
        // A line that ends within a message.
        (
            "{\"method\":\"tools/call\",\"params\":{\"name\":\"w\",\"arguments\":{\"path\":\r\"/srv\"}}}",
            BROKEN,
        ),
    ] {
        let text = format!("{text}\n");
        assert_eq!(of(&table, &text), expected, "{text}");
        for cut in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            assert_eq!(worst(&table, &[first, second]).0, expected, "{text} cut at {cut}");
        }
    }
}

/// The name, where the write that decides has it; the write is refused where it has neither that nor the method.
#[test]
fn neutralized_byte_lies_in_the_deciding_write() {
    let table = denying("{ prefix: /etc/ }");
    let text = r#"{"method":"tools/call","params":{"name":"w","arguments":{"path":"/etc/x"}}}"#;
    let (name, decides) = (text.find("w\"").unwrap(), text.find("\"}}").unwrap());
    for cut in 0..=decides {
        let (first, second) = text.as_bytes().split_at(cut);
        let (said, place, number) = worst(&table, &[first, second]);
        let method = text.find("l\",").unwrap();
        let expected = [name, method].into_iter().find(|place| *place >= cut).map(|place| place - cut);
        assert_eq!((said.as_str(), place, number), (DENY, expected, 1), "{cut}");
    }
}

/// Arguments that another table read, in part or whole, tell nothing.
#[test]
fn arguments_read_under_replaced_table_are_undecided() {
    let of = |test: &str, generation| {
        let yaml = format!(
            "{{ policy: {{ denied_tools: [{{ tool: w, arguments: {{ /path: {test} }} }}] }}, cross_server: {{ enabled: false }} }}"
        );
        let (config, _) = config::parse(yaml.as_bytes()).unwrap();
        let subject = [subject("s", &[("w", ToolCategory::Write)])];
        let mut compiler = GateCompiler::new(&config, &DETECTOR).unwrap();
        compiler.compile(&subject, generation, Timestamp(1_000)).unwrap()
    };
    let (before, after) = (of("{ not: { prefix: /srv } }", 1), of("{ prefix: /etc }", 2));
    let text = r#"{"method":"tools/call","params":{"arguments":{"path":"/srv"},"name":"w"}}"#;
    for cut in 1..text.len() - 1 {
        let mut reader = GateReader::default();
        let (first, second) = text.as_bytes().split_at(cut);
        let first = reader.worst(&before, 0, first);
        let said = first.max(reader.worst(&after, 0, second));
        assert_ne!(said, GateVerdict::Allow, "{cut}");
    }
}

#[test]
fn several_rules_decide_together() {
    let both = table(
        "denied_tools: [{ tool: w, arguments: { /path: { prefix: /etc/ } } }, { tool: '*', arguments: { /mode: { equal: x } } }],
         tool_policy: allowlist, allowed_tools: [{ tool: w, arguments: { /path: { prefix: / }, /host: { exists: false } } }, r]",
    );
    for (arguments, expected) in [
        (r#"{"path":"/srv"}"#, PASS),
        (r#"{"path":"/etc/x"}"#, DENY),
        (r#"{"path":"x"}"#, DENY),
        (r#"{}"#, DENY),
        (r#"{"path":"/srv","mode":"x"}"#, DENY),
        (r#"{"path":"/srv","mode":"y"}"#, PASS),
        (r#"{"path":"/srv","mode":1}"#, UNDECIDED),
        (r#"{"path":"/srv","host":"y"}"#, DENY),
        (r#"{"path":"/srv","host":1}"#, UNDECIDED),
        // What cannot be told does not matter.
        (r#"{"path":1,"mode":"x"}"#, DENY),
        (r#"{"path":"/etc/x","mode":1}"#, DENY),
    ] {
        assert_eq!(of(&both, &call(arguments)), expected, "{arguments}");
        let other = call(arguments).replace("\"name\":\"w\"", "\"name\":\"r\"");
        let expected = if arguments.contains("\"mode\":\"x\"") {
            DENY
        } else if arguments.contains("\"mode\":1") {
            UNDECIDED
        } else {
            PASS
        };
        assert_eq!(of(&both, &other), expected, "{other}");
    }
    // More rules than one choice has.
    let rules: Vec<String> =
        (0..5).map(|number| format!("{{ tool: w, arguments: {{ /a{number}: {{ equal: x }} }} }}")).collect();
    let many = table(&format!("denied_tools: [{}]", rules.join(", ")));
    assert_eq!(of(&many, &call(r#"{"a1":"x"}"#)), UNDECIDED);
    // More tests than there are bits.
    let tests: Vec<String> = (0..20).map(|number| format!("/a{number:02}: {{ equal: x }}")).collect();
    let many = table(&format!("denied_tools: [{{ tool: w, arguments: {{ {} }} }}]", tests.join(", ")));
    let all: Vec<String> = (0..20).map(|number| format!("\"a{number:02}\":\"x\"")).collect();
    assert_eq!(of(&many, &call(&format!("{{{}}}", all.join(",")))), UNDECIDED);
    assert_eq!(of(&many, &call(r#"{"a01":"y"}"#)), PASS);
}

/// Calls are counted once, when it is known what becomes of them.
#[test]
fn consequences_of_calls_are_those_of_what_is_decided() {
    let yaml = "{ policy: { denied_tools: [{ tool: w, arguments: { /path: { prefix: /etc/ } } }] } }";
    let table = compile(yaml, &[subject("s", &[("w", ToolCategory::Write)])]).unwrap();
    for (path, expected) in [("/srv", "Allow write"), ("/etc/x", "Deny unknown")] {
        let mut all = Vec::new();
        GateReader::default().write(&table, 0, call(&format!(r#"{{"path":"{path}"}}"#)).as_bytes(), |said| {
            all.push(format!("{:?} {}", said.verdict, table.outcome(said.outcome).unwrap().category.name()));
        });
        assert_eq!(all, [expected], "{path}");
    }
}
