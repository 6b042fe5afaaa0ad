//! `mcpwarden check-config`: everything that is wrong with a configuration, as a compiler says it.

use std::{path::Path, process::ExitCode};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use mcpwarden_policy::config::{self, Config, Level, Problem};
use serde_json::json;

use crate::output::{escaped, write_json};

/// Characters of a line that are shown before and from the place that is meant.
const SHOWN: (usize, usize) = (60, 50);

/// How many problems there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    errors: usize,
    warnings: usize,
}

impl Found {
    /// 2 for errors, 1 for warnings if they count, else 0.
    pub fn exit_code(self, strict: bool) -> ExitCode {
        match self {
            Self { errors: 1.., .. } => ExitCode::from(2),
            Self { warnings: 1.., .. } if strict => ExitCode::from(1),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Checks a file. Problems are printed on standard error, the effective configuration and JSON on standard output.
pub fn run(path: &Path, effective: bool, json: bool) -> Result<Found> {
    let name = escaped(&path.display().to_string());
    let bytes = match crate::config::bytes(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            anstream::eprintln!("mcpwarden: {error}");
            return Ok(Found { errors: 1, warnings: 0 });
        }
    };
    let (config, problems) = match config::parse(&bytes) {
        Ok((config, warnings)) => (Some(config), warnings),
        Err(problems) => (None, problems),
    };
    let errors = problems.iter().filter(|problem| problem.level == Level::Error).count();
    let found = Found { errors, warnings: problems.len() - errors };
    let config = config.filter(|_| effective);
    if json {
        print_json(&name, &problems, config.as_ref());
        return Ok(found);
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    for problem in &problems {
        let line = lines.get(problem.at.line.saturating_sub(1)).copied().unwrap_or_default();
        anstream::eprintln!("{}", shown(&name, problem, line));
    }
    let count = |count, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match found {
        Found { errors: 0, warnings: 0 } => anstream::eprintln!("{name}: nothing is wrong"),
        Found { errors, warnings } => {
            anstream::eprintln!("{name}: {}, {}", count(errors, "error"), count(warnings, "warning"))
        }
    }
    if let Some(config) = config {
        anstream::print!("{}", config.to_yaml()?);
    }
    Ok(found)
}

fn print_json(name: &str, problems: &[Problem], config: Option<&Config>) {
    let mut answer = json!({ "file": name, "problems": problems });
    if let Some(config) = config {
        answer["effective"] = json!(config);
    }
    let mut line = Vec::new();
    write_json(&answer, &mut line);
    anstream::println!("{}", String::from_utf8_lossy(&line));
}

/// `file:line:column: level: what`, the line, and a mark under what is meant.
fn shown(name: &str, problem: &Problem, line: &str) -> String {
    let colour = if problem.level == Level::Error { AnsiColor::Red } else { AnsiColor::Yellow };
    let (style, plain) = (Style::new().bold().fg_color(Some(colour.into())), Style::new());
    let bold = plain.bold();
    let (at, what) = (problem.at, escaped(&problem.to_string()));
    let skipped = (at.column - 1).saturating_sub(SHOWN.0);
    let part = |from: usize, count: usize| {
        let text: String = line.chars().skip(from).take(count).collect();
        escaped(&text)
    };
    let (before, meant) =
        (part(skipped, at.column - 1 - skipped), part(at.column - 1, at.width.min(SHOWN.1)));
    let after = part(at.column - 1 + at.width.min(SHOWN.1), SHOWN.1.saturating_sub(at.width));
    let (indent, marks) = (" ".repeat(before.chars().count()), "^".repeat(meant.chars().count().max(1)));
    format!(
        "{bold}{name}:{}:{}:{bold:#} {style}{}:{style:#} {what}\n{:>5} | {before}{meant}{after}\n      | {indent}{style}{marks}{style:#}",
        at.line, at.column, problem.level, at.line
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File, what is shown of its first problem, without colours.
    #[test]
    fn problems_are_shown_under_their_line() {
        let long = format!("capture: {{ {}backend: magic }}", " ".repeat(100));
        for (file, expected) in [
            (
                "capture:\n  backend: magic # why\n",
                "f:2:12: error: capture.backend: expected one of `auto`, `tracepoints`, found \"magic\"\n    2 |   backend: magic # why\n      |            ^^^^^",
            ),
            ("capture: [", "\n    1 | capture: ["),
            ("\"\\u202e\": 1\n", "\n    1 | \"\\u202e\": 1\n      | ^^^^^^^^"),
            (
                &long,
                "backend: magic }\n      |                                                             ^^^^^",
            ),
            ("\u{2028}x: 1", "    1 | "),
        ] {
            let problems = config::parse(file.as_bytes()).unwrap_err();
            let line = file.lines().nth(problems[0].at.line - 1).unwrap_or_default();
            let text = anstream::adapter::strip_str(&shown("f", &problems[0], line)).to_string();
            assert!(text.contains(expected), "{file:?}\n{text}\n{expected}");
        }
    }

    #[test]
    fn what_counts() {
        let code = |errors, warnings, strict| format!("{:?}", Found { errors, warnings }.exit_code(strict));
        let number = |number: u8| format!("{:?}", ExitCode::from(number));
        for (errors, warnings, strict, expected) in
            [(0, 0, true, 0), (0, 3, false, 0), (0, 3, true, 1), (1, 0, false, 2), (1, 3, true, 2)]
        {
            assert_eq!(code(errors, warnings, strict), number(expected), "{errors} {warnings} {strict}");
        }
    }
}
