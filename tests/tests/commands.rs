//! Commands that need no kernel: `check-config`, `decide`.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::places;
use serde_json::Value;

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn mcpwarden(args: &[&str]) -> Result<Said> {
    let output = Command::new(places::agent()).args(args).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Said { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
}

/// File, arguments, exit code, what standard output and standard error hold.
#[test]
fn what_is_said_of_a_file() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml").display().to_string();
    let good = "capture: { payloads: full }\n";
    let warned = "policy:\n  denied_tools: [{ tool: a }]\n";
    let bad = "capture:\n  payloads: ful\n  rings: 5\nsinks: []\n";
    let bad_lines = [
        ":2:13: error: capture.payloads: expected one of `redacted`, `full`, found \"ful\"; did you mean `full`?\n",
        "\n    2 |   payloads: ful\n      |             ^^^\n",
        ":3:3: error: capture.rings: there is no such key; did you mean `ring_bytes`?\n",
        ": 2 errors, 1 warning\n",
    ];
    type Case<'a> = (&'a str, &'a [&'a str], i32, &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 9] = [
        (good, &[], 0, &[], &[": nothing is wrong\n"]),
        (good, &["--effective"], 0, &["payloads: full\n", "read_then_send:\n", "window: 30s\n"], &[]),
        (good, &["--json"], 0, &["\"problems\":[]"], &[]),
        (good, &["--json", "--effective"], 0, &["\"pending_grace\":\"30s\""], &[]),
        (warned, &[], 0, &[], &[":2:3: warning: policy.denied_tools: ", "0 errors, 1 warning"]),
        (warned, &["--strict"], 1, &[], &["enforcement.stdio"]),
        (bad, &[], 2, &[], &bad_lines),
        (bad, &["--strict", "--effective"], 2, &[], &bad_lines),
        (bad, &["--json"], 2, &["\"level\":\"error\"", "\"nearest\":\"full\"", "\"line\":2"], &[]),
    ];
    for (text, args, code, stdout, stderr) in cases {
        fs::write(&path, text)?;
        let said = mcpwarden(&[&["check-config", &path], args].concat())?;
        ensure!(said.code == Some(code), "{text} {args:?}: {:?}\n{}", said.code, said.stderr);
        for (output, parts) in [(&said.stdout, stdout), (&said.stderr, stderr)] {
            for part in parts {
                ensure!(output.contains(part), "{text} {args:?}: no {part:?} in\n{output}");
            }
        }
        ensure!(!stdout.is_empty() || said.stdout.is_empty(), "{text} {args:?}: {}", said.stdout);
    }
    let said = mcpwarden(&["check-config", "/nowhere/x.yaml"])?;
    ensure!(said.code == Some(2) && said.stderr.contains("No such file"), "{}", said.stderr);
    Ok(())
}

/// Rule file, exit code, what standard error holds of `check-config`, and what `inspect` finds of `xyzzy`.
#[test]
fn rule_files_are_checked_and_used() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (config, rules, definition) = (path("x.yaml"), path("rules.yaml"), path("x.json"));
    fs::write(
        &config,
        format!("inspection:\n  rule_files: ['{rules}']\nsessions: [{{ match: {{ uid: root }} }}]\n"),
    )?;
    fs::write(&definition, r#"{"name":"a","description":"Say xyzzy."}"#)?;
    let rule = |pattern: &str| {
        format!(
            "rules:\n- {{id: own, title: t, why: w, category: exfiltration, severity: high, patterns: ['{pattern}']}}\n"
        )
    };
    let place = format!("{rules}:2:");
    for (text, code, part, found) in [
        (rule("xyzzy"), 0, "nothing is wrong", 1),
        (rule("("), 2, place.as_str(), 2),
        ("rules: []".to_owned(), 0, "nothing is wrong", 0),
    ] {
        fs::write(&rules, &text)?;
        let said = mcpwarden(&["check-config", &config])?;
        ensure!(
            said.code == Some(code) && said.stderr.contains(part),
            "{text}: {:?} {}",
            said.code,
            said.stderr
        );
        let said = mcpwarden(&["inspect", "--config", &config, &definition])?;
        ensure!(said.code == Some(found), "{text}: {:?} {}{}", said.code, said.stdout, said.stderr);
        ensure!(found != 2 || said.stderr.contains(&place), "{text}: {}", said.stderr);
    }
    let said = mcpwarden(&["check-config", "--json", &config])?;
    ensure!(said.stdout.contains("\"problems\":[]"), "{}", said.stdout);
    fs::write(
        &config,
        "inspection:\n  rule_files: [/nowhere/x.yaml]\nsessions: [{ match: { uid: nobody at all } }]\n",
    )?;
    let said = mcpwarden(&["check-config", &config])?;
    for part in [
        ":2:16: error: inspection.rule_files[0]: /nowhere/x.yaml cannot be used: No such file",
        ":3:28: error: sessions[0].match.uid: there is no user \"nobody at all\"",
    ] {
        ensure!(said.code == Some(2) && said.stderr.contains(part), "no {part:?} in\n{}", said.stderr);
    }
    Ok(())
}

/// What `--effective` prints is a file that says the same.
#[test]
fn the_effective_configuration_is_a_file() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml").display().to_string();
    fs::write(&path, "servers: [{ id: a, command: \"true\", args: [\"5\"] }]\n")?;
    let first = mcpwarden(&["check-config", "--effective", &path])?;
    fs::write(&path, &first.stdout)?;
    let second = mcpwarden(&["check-config", "--effective", &path])?;
    ensure!(second.code == Some(0) && first.stdout == second.stdout, "{}\n{}", first.stdout, second.stderr);
    Ok(())
}

/// Files that are made to take long or much.
#[test]
fn hostile_files_are_refused_soon() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml").display().to_string();
    let patterns = |pattern: &str, count: usize| {
        let each = (0..count).map(|number| format!("- {{ name: n{number}, pattern: '{pattern}' }}\n"));
        format!(
            "inspection:\n  custom_patterns:\n{}",
            each.map(|line| format!("  {line}")).collect::<String>()
        )
    };
    let files = [
        ("deep", "[".repeat(1 << 20)),
        ("deep mappings", "{a: ".repeat(1 << 18)),
        ("keys", (0..100_000).map(|number| format!("a{number}: 1\n")).collect()),
        ("lists", format!("servers: [{}]", "[],".repeat(90_000))),
        ("patterns", patterns(r"(\w{9}){9}", 1_000) + "x: 1\n"),
        ("globs", format!("discovery: {{ custom_servers: [{}\"a[\"] }}", "\"{a,b}*{c,d}*\",".repeat(60_000))),
        ("addresses", format!("network: {{ deny: [{}x y] }}", "\"a.example.com:1\",".repeat(50_000))),
        ("100 MB", " ".repeat(100 << 20)),
    ];
    for (name, file) in files {
        fs::write(&path, file)?;
        // More of address space (1 GiB) and of time on the processor (unoptimised: a minute) than the agent ever needs for a
        // configuration: what needs more is killed, which is no exit code.
        let output = Command::new("sh")
            .args([
                "-c",
                "ulimit -v 1048576; ulimit -t 60; exec \"$0\" check-config \"$1\"",
                &places::agent().display().to_string(),
            ])
            .arg(&path)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(2), "{name}: {:?} {said}", output.status);
        ensure!(said.contains(": error: "), "{name}: {said}");
    }
    Ok(())
}

#[test]
fn the_schema_is_printed() -> Result<()> {
    let said = mcpwarden(&["schema", "--config"])?;
    let schema: Value = serde_json::from_str(&said.stdout).with_context(|| said.stdout.clone())?;
    ensure!(schema["properties"]["cross_server"].is_object(), "{schema}");
    let file = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.schema.json"))?;
    ensure!(serde_json::from_str::<Value>(&file)? == schema, "docs/config.schema.json is another");
    Ok(())
}

/// Configuration, tool, exit code, the last line.
#[test]
fn what_would_be_decided() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml").display().to_string();
    let denied = "policy: { denied_tools: [{ tool: 'delete_*' }] }\n";
    let off = "servers: [{ id: files, command: f, enabled: false }]\n";
    let cases = [
        ("", "delete_all", 0, "allowed"),
        (denied, "read", 0, "allowed"),
        (denied, "delete_all", 1, "denied by tool_access: "),
        (off, "read", 1, "denied by server_access: "),
    ];
    for (file, tool, code, last) in cases {
        fs::write(&path, file)?;
        let said = mcpwarden(&["decide", "--server", "files", "--tool", tool, "--config", &path])?;
        ensure!(said.code == Some(code), "{file} {tool}: {:?}\n{}{}", said.code, said.stdout, said.stderr);
        let line = said.stdout.lines().last().unwrap_or_default();
        ensure!(line.starts_with(last), "{file} {tool}: {}", said.stdout);
    }
    let asked = ["decide", "--server", "files", "--tool", "read"];
    let secret = mcpwarden(&[&asked[..], &["--arguments", r#"{"path": "/root/.ssh/id_rsa"}"#]].concat())?;
    let found = "\nfound in the arguments: high sensitive-path /path\n";
    ensure!(secret.code == Some(0) && secret.stdout.contains(found), "{}", secret.stdout);
    Ok(())
}

/// Arguments, and what is said: a question that cannot be answered is no answer, which 1 would be.
#[test]
fn failures_are_no_answers() -> Result<()> {
    let cases: [(&[&str], &str); 8] = [
        (&["decide", "--server", "a", "--tool", "b", "--config", "/nowhere.yaml"], "No such file"),
        (&["decide", "--server", "a", "--tool", "b", "--arguments", "{"], "--arguments is no JSON: "),
        (&["decide", "--server", "a", "--tool", "b", "--arguments", "[1]"], "write {\"name\": value}"),
        (&["decide", "--server", "a", "--tool", "b", "--profile", "x"], "there is no profile \"x\""),
        (&["match", "--config", "/nowhere.yaml", "--", "x"], "No such file"),
        (&["replay", "/nowhere.jsonl"], "cannot open /nowhere.jsonl"),
        (&["inspect", "/nowhere.json"], "cannot open /nowhere.json"),
        (&["check-config", "/nowhere.yaml"], "No such file"),
    ];
    for (args, part) in cases {
        let said = mcpwarden(args)?;
        ensure!(
            said.code == Some(2) && said.stderr.contains(part),
            "{args:?}: {:?} {}",
            said.code,
            said.stderr
        );
        ensure!(said.stdout.is_empty(), "{args:?}: {}", said.stdout);
    }
    Ok(())
}

/// Where standard output is a pipe without a reader, every command ends as other programs in a pipe do; where it is
/// full, each says so.
#[test]
fn output_that_cannot_be_written() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (tool, recording) = (path("tool.json"), path("calls.jsonl"));
    fs::write(&tool, r#"{"name":"a"}"#)?;
    fs::write(&recording, "{\"t\":1,\"server\":\"a\",\"event\":\"exec\"}\n")?;
    let commands: [&[&str]; 9] = [
        &["inspect", &tool],
        &["inspect", "--json", &tool],
        &["replay", &recording],
        &["decide", "--server", "a", "--tool", "b"],
        &["match", "--", "x"],
        &["schema"],
        &["check-config", "--effective", "/dev/null"],
        &["completions", "bash"],
        &["man"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let full = fs::File::options().write(true).open("/dev/full")?;
        for (stdout, code, part) in
            [(Stdio::from(writer), 141, ""), (Stdio::from(full), 2, "mcpwarden: cannot write: No space left")]
        {
            let output = Command::new(places::agent()).args(args).stdout(stdout).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(code), "{args:?}: {:?} {said}", output.status);
            ensure!(said.contains(part) && !said.contains("panicked"), "{args:?}: {said}");
        }
    }
    Ok(())
}

/// Profile, tool, exit code, the last line of standard output or what standard error holds.
#[test]
fn what_would_be_decided_of_a_client() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml").display().to_string();
    let missing = directory.path().join("no.token").display().to_string();
    let file = format!(
        "guards: [{{ kind: mode }}, {{ kind: project_binding }}]\npolicy: {{ requires_admin_token: [read_users] }}\n\
         sessions:\n- {{ name: plan, mode: planning, project_id: p, match: {{ uid: root }} }}\n\
         - {{ project_id: p, admin_token_file: '{missing}' }}\n"
    );
    fs::write(&path, file)?;
    let cases = [
        (None, "write_file", 1, "denied by project_binding: "),
        (Some("plan"), "write_file", 1, "denied by mode: "),
        (Some("plan"), "read_file", 0, "allowed"),
        (Some("0"), "write_file", 1, "denied by mode: "),
        (Some("1"), "write_file", 0, "allowed"),
        // The token is not there.
        (Some("1"), "read_users", 1, "denied by admin_token: "),
        (Some("2"), "read_file", 2, "there is no profile \"2\"; the entries of `sessions` are plan, 1"),
    ];
    for (profile, tool, code, part) in cases {
        let mut args = vec!["decide", "--server", "files", "--tool", tool, "--config", &path];
        args.extend(profile.into_iter().flat_map(|profile| ["--profile", profile]));
        let said = mcpwarden(&args)?;
        ensure!(
            said.code == Some(code),
            "{profile:?} {tool}: {:?}\n{}{}",
            said.code,
            said.stdout,
            said.stderr
        );
        let line = said.stdout.lines().last().unwrap_or_default();
        ensure!(line.starts_with(part) || said.stderr.contains(part), "{profile:?} {tool}: {}", said.stdout);
        ensure!(said.stderr.contains("no.token holds no token: No such file"), "{}", said.stderr);
    }
    Ok(())
}
