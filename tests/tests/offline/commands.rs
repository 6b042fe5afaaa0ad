//! Commands that need no kernel: `decide`, `match`, and what all of them have.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::command::{ask, mcpwarden};
use mcpwarden_tests::places;
use serde_json::{Value, json};

/// A configuration that cannot be used: where in it is said, once, whoever reads it.
#[test]
fn invalid_configuration_is_refused_with_position() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (config, recording) = (path("x.yaml"), path("recording"));
    fs::write(&config, "inspection:\n  custom_patterns:\n  - { name: own, pattern: 'a*' }\n")?;
    fs::write(&recording, "")?;
    let place =
        format!("mcpwarden: {config}:3:13: inspection.custom_patterns[0].name: custom pattern \"own\"");
    let missing = format!("mcpwarden: cannot read the configuration {}: No such file", path("none"));
    for command in
        [&["decide", "--server", "a", "--tool", "b"][..], &["inspect", &recording], &["replay", &recording]]
    {
        for (config, expected) in [(&config, &place), (&path("none"), &missing)] {
            let said = ask(&[command, &["--config", config]].concat())?;
            let once = said.stderr.lines().count() == 1 && said.stderr.matches("os error").count() < 2;
            ensure!(
                said.code == Some(2) && said.stderr.starts_with(expected.as_str()) && once,
                "{command:?}: {:?} {}",
                said.code,
                said.stderr
            );
        }
    }
    Ok(())
}

/// Configuration, tool, exit code, the last line.
#[test]
fn decide_reports_the_decision_for_a_tool() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("x.yaml").display().to_string();
    let denied = "policy: { denied_tools: [{ tool: 'delete_*' }] }\n";
    let off = "servers: [{ id: files, command: f, enabled: false }]\n";
    let cases = [
        ("", "delete_all", 0, "allowed"),
        (denied, "read", 0, "allowed"),
        (denied, "delete_all", 1, "denied by tool_access (tool_denied): "),
        (off, "read", 1, "denied by server_access (server_disabled): "),
    ];
    for (file, tool, code, last) in cases {
        fs::write(&path, file)?;
        let said = ask(&["decide", "--server", "files", "--tool", tool, "--config", &path])?;
        ensure!(said.code == Some(code), "{file} {tool}: {:?}\n{}{}", said.code, said.stdout, said.stderr);
        let line = said.stdout.lines().last().unwrap_or_default();
        ensure!(line.starts_with(last), "{file} {tool}: {}", said.stdout);
    }
    // Which definition is meant, rules with a hash go by.
    let (known, other) = ("a".repeat(64), "b".repeat(64));
    fs::write(
        &path,
        format!(
            "policy: {{ tool_policy: allowlist, allowed_tools: [{{ tool: read, content_hash: '{known}' }}] }}"
        ),
    )?;
    for (hash, code, last) in [
        (&["--hash", &known][..], 0, "allowed"),
        (&["--hash", &format!("sha256:{known}")], 0, "allowed"),
        (&["--hash", &other], 1, "denied by tool_access (tool_hash_mismatch): "),
        (&[], 1, "denied by tool_access (tool_hash_mismatch): "),
        (&["--hash", "abc"], 2, ""),
    ] {
        let asked = ["decide", "--server", "files", "--tool", "read", "--config", &path];
        let said = ask(&[&asked[..], hash].concat())?;
        ensure!(said.code == Some(code), "{hash:?}: {:?}\n{}{}", said.code, said.stdout, said.stderr);
        ensure!(
            said.stdout.lines().last().unwrap_or_default().starts_with(last),
            "{hash:?}: {}",
            said.stdout
        );
    }
    // Whoever lets it through says why.
    fs::write(
        &path,
        "policy: { allowed_tools: [{ tool: 'read*' }], denied_tools: [{ tool: '*' }] }\nguards: [{ kind: mode }]\n",
    )?;
    let said = ask(&["decide", "--server", "files", "--tool", "read", "--config", &path])?;
    for line in [
        "tool_shadowing   tool_invoke  allow       no other server of the session had its name first",
        "server_access    request      allow       no rule denies its server, and server_policy is no allowlist",
        "tool_access      tool_invoke  allow       '*:read*' of allowed_tools allows it",
        "rug_pull         tool_invoke  allow       its definition is the pinned one",
        "tool_poisoning   tool_invoke  allow       its definition has nothing at or above high",
        "mode             tool_invoke  allow       the client does not plan",
    ] {
        ensure!(said.stdout.lines().any(|said| said == line), "no {line:?} in\n{}", said.stdout);
    }
    let silent = said.stdout.lines().filter(|line| line.trim_end().ends_with(" allow")).count();
    ensure!(silent == 0, "{}", said.stdout);
    let asked = ["decide", "--server", "files", "--tool", "read"];
    let secret = ask(&[&asked[..], &["--arguments", r#"{"path": "/root/.ssh/id_rsa"}"#]].concat())?;
    let found = "\nfound in the arguments: high sensitive-path /path\n";
    ensure!(secret.code == Some(0) && secret.stdout.contains(found), "{}", secret.stdout);
    Ok(())
}

/// Arguments, and what is said: a question that cannot be answered is no answer, which 1 would be.
#[test]
fn failed_command_exits_with_code_two() -> Result<()> {
    let cases: [(&[&str], &str); 15] = [
        (&["decide", "--server", "a", "--tool", "b", "--config", "/nowhere.yaml"], "No such file"),
        (&["decide", "--server", "a", "--tool", "b", "--arguments", "{"], "--arguments is not JSON: "),
        (&["decide", "--server", "a", "--tool", "b", "--arguments", "[1]"], "write {\"name\": value}"),
        (&["decide", "--server", "a", "--tool", "b", "--profile", "x"], "there is no profile \"x\""),
        (&["match", "--config", "/nowhere.yaml", "--", "x"], "No such file"),
        (&["replay", "/nowhere.jsonl"], "cannot open /nowhere.jsonl"),
        (&["inspect", "/nowhere.json"], "cannot open /nowhere.json"),
        (&["check-config", "/nowhere.yaml"], "No such file"),
        (&["learn", "/nowhere.jsonl"], "cannot open /nowhere.jsonl"),
        (&["learn", "/dev/null", "--since", "yesterday"], "expected how long ago (7d, 12h), a date"),
        (&["blocks", "--socket", "/nowhere.sock"], "no agent runs that listens at /nowhere.sock"),
        (&["block", "192.0.2.1", "--socket", "/nowhere.sock"], "start one (`mcpwarden run`)"),
        (&["block", "192.0.2.1", "--for", "10"], "--for"),
        (&["block", "192.0.2.1", "--port", "70000"], "--port"),
        (&["unblock", "192.0.2.1", "--socket", "/dev/null"], "no agent runs that listens at /dev/null"),
    ];
    for (args, part) in cases {
        let said = ask(args)?;
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
fn unwritable_output_ends_every_command_cleanly() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (tool, recording) = (path("tool.json"), path("calls.jsonl"));
    fs::write(&tool, r#"{"name":"a"}"#)?;
    fs::write(&recording, "{\"t\":1,\"server\":\"a\",\"event\":\"exec\"}\n")?;
    let commands: [&[&str]; 10] = [
        &["inspect", &tool],
        &["inspect", "--json", &tool],
        &["replay", &recording],
        &["decide", "--server", "a", "--tool", "b"],
        &["match", "--", "x"],
        &["schema"],
        &["check-config", "--effective", "/dev/null"],
        &["learn", "/dev/null"],
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
            let output = mcpwarden(args).stdout(stdout).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(code), "{args:?}: {:?} {said}", output.status);
            ensure!(said.contains(part) && !said.contains("panicked"), "{args:?}: {said}");
        }
    }
    Ok(())
}

/// Profile, tool, exit code, the last line of standard output or what standard error holds.
#[test]
fn decide_reports_the_decision_for_a_profile() -> Result<()> {
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
        // The last entry fits everybody.
        (None, "write_file", 0, "allowed"),
        (None, "read_users", 1, "denied by admin_token (admin_token_required): "),
        (Some("plan"), "write_file", 1, "denied by mode (planning_mode): "),
        (Some("plan"), "read_file", 0, "allowed"),
        (Some("0"), "write_file", 1, "denied by mode (planning_mode): "),
        (Some("1"), "write_file", 0, "allowed"),
        // The token is not there.
        (Some("1"), "read_users", 1, "denied by admin_token (admin_token_required): "),
        (Some("2"), "read_file", 2, "there is no profile \"2\"; the entries of `sessions` are plan, 1"),
    ];
    for (profile, tool, code, part) in cases {
        let mut args = vec!["decide", "--server", "files", "--tool", tool, "--config", &path];
        args.extend(profile.into_iter().flat_map(|profile| ["--profile", profile]));
        let said = ask(&args)?;
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

/// Command, whether it counts, its id, the pattern.
#[test]
fn match_reports_whether_a_command_is_a_server() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("config.yaml");
    fs::write(
        &config,
        "discovery: { custom_servers: [\"weather\"] }\nservers: [ { id: files, command: /opt/files, args: [\"--all\"] }, { id: notes, command: notes } ]\n",
    )?;
    let config = config.display().to_string();
    let cases: [(&[&str], bool, &str, Value, bool); 11] = [
        (
            &["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"],
            true,
            "server-filesystem",
            json!("@modelcontextprotocol/*"),
            false,
        ),
        (&["uvx", "mcp-server-git"], true, "mcp-server-git", json!("mcp-server-*"), false),
        (&["python3", "-m", "mcp_server_sqlite"], true, "mcp_server_sqlite", json!("mcp_server_*"), false),
        (&["sh", "-c", "exec mcp-server-git"], true, "mcp-server-git", json!("mcp-server-*"), false),
        (&["weather"], true, "weather", json!("weather"), false),
        (&["/opt/files", "--all"], true, "files", Value::Null, true),
        (&["python3", "/opt/files", "--all"], true, "files", Value::Null, true),
        (&["/usr/local/bin/notes"], true, "notes", Value::Null, true),
        (&["notes", "--more"], false, "notes", Value::Null, false),
        (&["/opt/files"], false, "files", Value::Null, false),
        (&["vim", "mcp-server-git"], false, "", Value::Null, false),
    ];
    for (command, counts, id, pattern, declared) in cases {
        let args = [&["match", "--config", &config, "--json", "--"], command].concat();
        let said = ask(&args)?;
        ensure!(said.code == Some(i32::from(!counts)), "{command:?}: {:?} {}", said.code, said.stderr);
        let answer: Value = serde_json::from_str(&said.stdout).with_context(|| said.stdout.clone())?;
        ensure!(answer["server"] == counts && answer["declared"] == declared, "{command:?}: {answer}");
        ensure!(answer["pattern"] == pattern, "{command:?}: {answer}");
        ensure!(id.is_empty() || answer["server_id"] == id, "{command:?}: {answer}");
        let args = [&["match", "--config", &config, "--"], command].concat();
        let said = ask(&args)?;
        ensure!(said.code == Some(i32::from(!counts)), "{command:?}: {:?}", said.code);
        ensure!(said.stdout.starts_with(if counts { "yes" } else { "no" }), "{command:?}: {}", said.stdout);
    }
    Ok(())
}

/// Arguments, what their output holds. That each command is listed, and has a page, is generated from the commands themselves
/// (`refusals.rs`, `agent/src/commands/man.rs`).
#[test]
fn help_lists_all_expected_entries() -> Result<()> {
    let commands = [
        "run",
        "doctor",
        "match",
        "inspect",
        "decide",
        "replay",
        "block",
        "unblock",
        "blocks",
        "detach",
        "learn",
        "status",
        "top",
        "reload",
        "approve",
        "approvals",
        "events",
        "servers",
        "sessions",
        "tools",
        "registry",
        "calls",
        "detections",
        "connections",
        "report",
        "pins",
        "audit",
        "check-config",
        "schema",
        "completions",
        "man",
    ];
    let listed = commands.map(|command| format!("\n  {command} "));
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    let pages = commands.map(|command| format!("mcpwarden\\-{}(1)", command.replace('-', "\\-")));
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let cases: [(&[&str], &[&str]); 11] = [
        (&["--help"], &listed),
        (
            &["run", "--help"],
            &["--config", "--output", "--show-payloads", "--ring-bytes", "--runtime-dir", "--state-dir"],
        ),
        (&["block", "--help"], &["--for", "--port", "--reason", "--yes", "/run/mcpwarden/control.sock"]),
        (&["completions", "bash"], &["_mcpwarden()", "--ring-bytes", "doctor"]),
        (&["completions", "zsh"], &["#compdef mcpwarden", "--ring-bytes", "doctor"]),
        (&["completions", "fish"], &["complete -c mcpwarden", "ring-bytes", "doctor"]),
        (&["man"], &[".TH mcpwarden 1", "Watches every MCP server"]),
        (&["man"], &pages),
        (&["man", "events"], &[".TH mcpwarden-events 1", "\\-\\-follow", "mcpwarden events \\-\\-since 2h"]),
        (&["man", "pins", "diff"], &[".TH mcpwarden-pins-diff 1", "SERVER:TOOL"]),
        (&["--version"], &["mcpwarden "]),
    ];
    for (args, parts) in cases {
        let said = ask(args)?;
        ensure!(said.code == Some(0) && said.stderr.is_empty(), "{args:?}: {:?} {}", said.code, said.stderr);
        for part in parts {
            ensure!(said.stdout.contains(part), "{args:?}: no {part:?} in\n{}", said.stdout);
        }
    }
    Ok(())
}

/// Arguments, exit code, and what its JSON, or its error, has in it.
#[test]
fn doctor_reports_the_tls_of_programs() -> Result<()> {
    let agent = places::agent().display().to_string();
    let directory = tempfile::tempdir()?;
    let text = directory.path().join("text").display().to_string();
    fs::write(&text, "no program")?;
    let mut sleeping = Command::new("sleep").arg("60").spawn()?;
    let pid = sleeping.id().to_string();
    let cases = [
        // The agent has TLS of its own: rustls with ring.
        (vec!["--tls", &agent], 0, "\"library\":\"rustls_ring\""),
        (vec!["--tls", &pid], 0, "\"stacks\":[]"),
        (vec!["--tls", &text], 1, "\"error\":"),
        (vec!["--tls", "/none"], 2, "mcpwarden: cannot read /none"),
        (vec!["--tls", "4194305"], 2, "mcpwarden: no process 4194305"),
        (vec!["--tls", "/dev/zero"], 1, "not a regular file"),
    ];
    let mut wrong = Vec::new();
    for (arguments, code, expected) in &cases {
        let said = ask(&[&["doctor", "--json"], arguments.as_slice()].concat())?;
        if said.code != Some(*code) || !(said.stdout.contains(expected) || said.stderr.contains(expected)) {
            wrong.push(format!("{arguments:?}: {:?} {} {}", said.code, said.stdout, said.stderr));
        }
    }
    sleeping.kill()?;
    sleeping.wait()?;
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
