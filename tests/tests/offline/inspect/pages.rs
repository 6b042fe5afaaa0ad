//! Servers that list their tools in pages, and those that a client would not start.

use std::fs;

use anyhow::{Result, ensure};
use mcpwarden_tests::places;
use serde_json::json;

use super::inspect;

/// Pages as `servers/pages.py` takes them, the exit status, and what standard output holds.
type Paged<'a> = (&'a [&'a str], i32, &'a str);

/// What was listed is inspected, whatever the cursors are.
#[test]
fn pages_are_inspected_whatever_their_cursors() -> Result<()> {
    let cases: [Paged<'_>; 11] = [
        (&["a:", "bad:"], 0, "1 tool, nothing found"),
        (&["a:\"1\"", "bad:"], 1, "2 tools, something found in 1"),
        (&["a:null", "bad:"], 0, "1 tool, nothing found"),
        // Many mean the end by it; a client asks for what is behind it.
        (&["a:\"\"", "bad:"], 1, "2 tools, something found in 1"),
        (&["a:\"1\"", "b:\"\"", "bad:"], 1, "3 tools, something found in 1"),
        (&["a:\"1\"", ":\"2\"", "bad:"], 1, "2 tools, something found in 1"),
        // It comes again: what was found before counts, and the list is incomplete.
        (&["bad:\"1\""], 2, "something found in "),
        (&["bad:\"1\"", "a:\"2\"", "b:\"1\""], 2, "something found in 1"),
        (&["a:\"A\"", "bad:\"B\"", "a:\"A\""], 2, "something found in 1"),
        (&["bad:\"\"", "a:\"\""], 1, "something found in 1"),
        (&["a,bad:\"x\"", "bad:"], 1, "something found in "),
    ];
    let server = places::sources().join("servers/pages.py").display().to_string();
    for (pages, code, part) in cases {
        let mut args = vec!["--as-root", "--quiet", "--", "python3", &server];
        args.extend(pages);
        inspect(&args)?.expect(&format!("{pages:?}"), code, part)?;
    }
    Ok(())
}

/// Members of an entry that switch it off, and members of the file that do.
#[test]
fn servers_that_are_switched_off_are_not_started() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (path, mark) = (directory.path().join("mcp.json"), directory.path().join("started"));
    let in_entry = [
        r#""disabled": true"#,
        r#""disabled": 1"#,
        r#""disabled": "true""#,
        r#""isDisabled": true"#,
        r#""enabled": false"#,
        r#""enabled": 0"#,
        r#""enabled": "no""#,
        r#""isEnabled": false"#,
        r#""isActive": false"#,
        r#""active": false"#,
        r#""Active": "off""#,
    ];
    let in_file = [
        r#""disabledMcpServers": ["s"]"#,
        r#""disabledMcpjsonServers": ["s"]"#,
        r#""excludeMCPServers": ["s"]"#,
        r#""mcp": {"excluded": ["s"]}"#,
        r#""mcp": {"allowed": ["other"]}"#,
    ];
    let of_entry = in_entry.iter().map(|member| (*member, ""));
    for (of_entry, of_file) in of_entry.chain(in_file.iter().map(|member| ("", *member))).chain([("", "")]) {
        let args = json!(["-c", format!("echo > '{}'", mark.display())]);
        let member = |member: &str| if member.is_empty() { String::new() } else { format!(", {member}") };
        let file = format!(
            r#"{{"mcpServers": {{"s": {{"command": "sh", "args": {args}{}}}}}{}}}"#,
            member(of_entry),
            member(of_file)
        );
        fs::write(&path, &file)?;
        let said = inspect(&["--start", "--as-root", "--quiet", &path.display().to_string()])?;
        // The last is not switched off.
        let is_off = !of_entry.is_empty() || !of_file.is_empty();
        ensure!(mark.exists() != is_off, "{file}: {}", said.stdout);
        ensure!(said.stdout.contains("it is disabled in this file") == is_off, "{file}: {}", said.stdout);
    }
    Ok(())
}
