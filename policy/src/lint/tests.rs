mod alias;
mod muted;
mod network;
mod values;
mod warnings;

use super::*;

/// What a file gives: its problems, one a line, as `line:column level path: message`.
fn said(file: &str) -> Vec<String> {
    let problems = match parse(file.as_bytes()) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    let line =
        |problem: &Problem| format!("{}:{} {} {problem}", problem.at.line, problem.at.column, problem.level);
    problems.iter().map(line).collect()
}

/// File, the lines that are said (each a start and a part).
fn table(cases: &[(&str, &[(&str, &str)])]) {
    for (file, expected) in cases {
        let lines = said(file);
        assert_eq!(lines.len(), expected.len(), "{file}\n{lines:#?}");
        for (line, (start, part)) in lines.iter().zip(*expected) {
            assert!(line.starts_with(start), "{file}\n{line}\ndoes not start with {start}");
            assert!(line.contains(part), "{file}\n{line}\ndoes not contain {part}");
        }
    }
}

#[test]
fn all_config_errors_are_reported_at_once() {
    let file = "\
capture:
  rings: 1
  backend: magic
  ring_bytes: 5000
servers:
  - id: a
    command: x
  - id: a
    type: http
polcy: {}
policy:
  server_policy: allow-list
  denied_tools:
    - tool: \"x[\"
    - server: 5
      tool: y
    - srver: z
guards:
  - kind: tool_poisonin
    timeout_ms: 9
    priority: 101
    runs_on: []
";
    table(&[(
        file,
        &[
            ("2:3 error capture.rings: ", "did you mean `ring_bytes`?"),
            ("3:12 error capture.backend: ", "one of `auto`, `trampolines`, `tracepoints`, found \"magic\""),
            ("4:15 error capture.ring_bytes: ", "power of two"),
            ("8:5 error servers[1].url: ", "needs this key"),
            ("8:9 error servers[1].id: ", "line 6"),
            ("10:1 error polcy: ", "did you mean `policy`?"),
            ("12:18 error policy.server_policy: ", "did you mean `allowlist`?"),
            ("13:3 warning policy.denied_tools: ", "enforcement.stdio"),
            ("14:13 error policy.denied_tools[0].tool: ", "\"x[\" is not a glob"),
            ("15:15 error policy.denied_tools[1].server: ", "quotes"),
            ("17:7 error policy.denied_tools[2]: ", "`tool` is missing"),
            ("17:7 error policy.denied_tools[2].srver: ", "did you mean `server`?"),
            ("19:11 error guards[0].kind: ", "did you mean `tool_poisoning`?"),
            ("20:17 error guards[0].timeout_ms: ", "least is 10"),
            ("21:15 error guards[0].priority: ", "most is 100"),
            ("22:14 error guards[0].runs_on: ", "must not be empty"),
        ],
    )]);
}

#[test]
fn rules_on_arguments_that_the_gate_cannot_enforce_are_said() {
    let rules = "policy: { denied_tools: [{ tool: x, when: 'true' }, y] }\nenforcement: ";
    for (enforcement, expected) in [
        ("{ stdio: observe }", ("1:11 warning policy.denied_tools: ", "`enforcement.stdio` is `observe`")),
        ("{ stdio: deny }", ("1:26 warning policy.denied_tools[0]: ", "`enforcement.undecided: deny`")),
    ] {
        table(&[(&format!("{rules}{enforcement}"), &[expected])]);
    }
    table(&[(&format!("{rules}{{ stdio: deny, undecided: deny }}"), &[])]);
    for (arguments, is_enforced) in [
        ("/path: { prefix: /etc/ }", true),
        ("/path: { not: { below: [/srv, .] } }, /mode: { exists: true }", true),
        ("/path: { glob: '*.key', equal: x }", true),
        ("/path: { host: x.test }", false),
        ("/path: { prefix: /etc/, max: 5 }", false),
        ("/path: { not: { max_length: 5 } }", false),
        ("/options/path: { prefix: /etc/ }", false),
        ("'/*': { prefix: /etc/ }", false),
        ("'': { exists: true }", false),
    ] {
        let file = format!(
            "policy: {{ denied_tools: [{{ tool: x, arguments: {{ {arguments} }} }}] }}\nenforcement: {{ stdio: deny }}"
        );
        let expected = ("1:26 warning policy.denied_tools[0]: ", "the text of single arguments");
        table(&[(&file, if is_enforced { &[] } else { std::slice::from_ref(&expected) })]);
    }
}
