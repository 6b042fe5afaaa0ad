//! Variables in a client's configuration, filled in as clients do: `${NAME}` and `${NAME:-DEFAULT}` (Claude Code),
//! `${env:NAME}`, `${userHome}` and `${/}` (VS Code, Cursor), `{env:NAME}` (opencode).

use std::ffi::OsStr;

use anyhow::{Context as _, Result, ensure};

use super::user::Environment;

/// `text` with the values of its variables. A value is not looked through again, and no error shows one.
///
/// # Errors
/// A variable is not set, is no text, or is something that only the client knows, such as `${input:token}`.
pub fn fill(text: &str, environment: &Environment) -> Result<String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, behind)) = variable_in(rest) {
        let Some((variable, after)) = behind.split_once('}') else { break };
        let value = value(variable, environment);
        filled.push_str(before);
        filled.push_str(&value.with_context(|| format!("`${{{}}}`", mcpwarden_text::clean(variable)))?);
        rest = after;
    }
    Ok(filled + rest)
}

/// What stands before the next variable, and behind its opening brace.
fn variable_in(text: &str) -> Option<(&str, &str)> {
    let shell = text.find("${").map(|at| (at, at + 2));
    // The name, with its prefix, is left.
    let plain = text.find("{env:").map(|at| (at, at + 1));
    let (at, behind) = shell.into_iter().chain(plain).min()?;
    Some((&text[..at], &text[behind..]))
}

fn value(variable: &str, environment: &Environment) -> Result<String> {
    // The separator of paths: VS Code's `${pathSeparator}`, and `${/}` of it and of Gemini CLI.
    if matches!(variable, "/" | "pathSeparator") {
        return Ok("/".to_owned());
    }
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    let name = if name == "userHome" { "HOME" } else { name.strip_prefix("env:").unwrap_or(name) };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    ensure!(
        !name.is_empty() && name.bytes().all(plain),
        "only the client can fill this in; put a variable of the environment in its place (`${{NAME}}`) or the value itself"
    );
    match (environment.get(OsStr::new(name)), default) {
        (Some(value), _) => value.to_str().map(str::to_owned).context("its value is no text"),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => anyhow::bail!("{name} is not set; set it to what the client would put there"),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn config_variables_are_expanded() {
        let mut environment = Environment::new();
        for (name, value) in [("KEY", "s3cret"), ("HOME", "/home/x"), ("EMPTY", ""), ("NESTED", "${KEY}")] {
            environment.insert(name.into(), value.into());
        }
        environment.insert("BYTES".into(), OsString::from_vec(vec![0xff]));
        let cases = [
            ("plain $KEY %KEY% }", Ok("plain $KEY %KEY% }")),
            ("${KEY}", Ok("s3cret")),
            ("a${env:KEY}b${KEY}c", Ok("as3cretbs3cretc")),
            ("{env:KEY}/{env:EMPTY}{x}", Ok("s3cret/{x}")),
            ("{env:NONE}", Err("`${env:NONE}`: NONE is not set")),
            ("${env:KEY}{env:KEY}", Ok("s3crets3cret")),
            ("${userHome}/x", Ok("/home/x/x")),
            ("${userHome}${/}x${pathSeparator}y", Ok("/home/x/x/y")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-d}", Ok("")),
            ("${NONE:-a:-b}", Ok("a:-b")),
            ("${NONE:-}", Ok("")),
            ("${NESTED}", Ok("${KEY}")),
            ("${KEY} ${KEY", Ok("s3cret ${KEY")),
            ("${NONE}", Err("`${NONE}`: NONE is not set")),
            ("${env:NONE}", Err("`${env:NONE}`: NONE is not set")),
            ("${KEY} ${workspaceFolder}", Err("`${workspaceFolder}`: workspaceFolder is not set")),
            ("${input:token}", Err("`${input:token}`: only the client can fill this in")),
            ("${}", Err("`${}`: only the client")),
            ("${a\u{1b}b}", Err(r"`${a\u{1b}b}`: only the client")),
            ("${BYTES}", Err("`${BYTES}`: its value is no text")),
        ];
        for (text, expected) in cases {
            match (fill(text, &environment).map_err(|error| format!("{error:#}")), expected) {
                (Ok(filled), Ok(expected)) => assert_eq!(filled, expected, "{text}"),
                (Err(error), Err(part)) => {
                    assert!(error.starts_with(part) && !error.contains("s3"), "{text}: {error}");
                }
                (filled, _) => panic!("{text}: {filled:?}"),
            }
        }
    }
}
