//! `mcpwarden check-config`: everything that is wrong with a configuration and the rule files that it names, as a
//! compiler says it.

use std::{path::Path, process::ExitCode};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use mcpwarden_policy::config::{Config, Finding, KeyPath, Level, Position, Problem, without_passwords};
use mcpwarden_policy::lint;
use mcpwarden_system::secret_file;
use serde_json::json;

use crate::config::pattern_errors;
use crate::external;
use crate::host::{self, Checked};
use crate::output::{escaped, print_error, print_json_line, print_line};

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

/// Checks a file, or standard input for `-`. Problems are printed on standard error, the effective configuration and JSON
/// on standard output.
pub fn run(path: &Path, effective: bool, json: bool) -> Result<Found> {
    let name = escaped(&path.display().to_string());
    let (bytes, exposed) = match crate::config::bytes(path) {
        Ok(read) => read,
        Err(error) => {
            print_error(format!("mcpwarden: {error}"));
            return Ok(Found { errors: 1, warnings: 0 });
        }
    };
    let mut files = Vec::new();
    let (config, mut problems) = lint::check(&bytes, |config| on_this_host(config, &mut files));
    let exposed = exposed.map(|message| Problem {
        level: Level::Warning,
        at: Position::default(),
        path: KeyPath::default(),
        message,
        nearest: None,
    });
    problems.splice(0..0, exposed);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    files.insert(0, Checked { path: path.display().to_string(), text, problems });
    let all = || files.iter().flat_map(|file| &file.problems);
    let errors = all().filter(|problem| problem.level == Level::Error).count();
    let found = Found { errors, warnings: all().count() - errors };
    let config = config.filter(|_| effective && errors == 0).map(|config| lint::effective(&config));
    if json {
        let (rule_files, own) = (files.split_off(1), files);
        print_json(&name, &own, &rule_files, config.as_ref());
        return Ok(found);
    }
    for file in &files {
        let lines: Vec<&str> = file.text.lines().collect();
        for problem in &file.problems {
            let line = lines.get(problem.at.line.saturating_sub(1)).copied().unwrap_or_default();
            print_error(shown(&escaped(&file.path), problem, line));
        }
    }
    let count = |count, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match found {
        Found { errors: 0, warnings: 0 } => print_error(format!("{name}: nothing is wrong")),
        Found { errors, warnings } => {
            print_error(format!("{name}: {}, {}", count(errors, "error"), count(warnings, "warning")))
        }
    }
    if let Some(config) = config {
        print_line(config.to_yaml()?.trim_end());
    }
    Ok(found)
}

/// What only this host knows of a configuration; rule files that are wrong are added to `rule_files`.
fn on_this_host(config: &Config, rule_files: &mut Vec<Checked>) -> Vec<(Level, Finding)> {
    let mut errors: Vec<Finding> = host::sessions(config).err().unwrap_or_default().findings;
    let (rules, unusable) = host::rules(config);
    errors.extend(unusable.findings);
    rule_files.extend(unusable.rule_files);
    errors.extend(host::scorer(config).err());
    errors.extend(pattern_errors(config, rules));
    errors.extend(external::load(config, None, external::Secrets::ForEachRequest).err().unwrap_or_default());
    errors.extend(host::needed(config, secret_file::directory().as_deref()));
    let errors = errors.into_iter().map(|finding| (Level::Error, finding));
    errors.chain(host::idle(config).into_iter().map(|finding| (Level::Warning, finding))).collect()
}

fn print_json(name: &str, own: &[Checked], rule_files: &[Checked], config: Option<&Config>) {
    let problems: Vec<&Problem> = own.iter().flat_map(|file| &file.problems).collect();
    let mut answer = json!({ "file": name, "problems": problems });
    if !rule_files.is_empty() {
        let each = |file: &Checked| json!({ "file": escaped(&file.path), "problems": file.problems });
        answer["rule_files"] = rule_files.iter().map(each).collect();
    }
    if let Some(config) = config {
        answer["effective"] = json!(config);
    }
    print_json_line(&answer);
}

/// `file:line:column: level: what`, the line, and a mark under what is meant.
fn shown(name: &str, problem: &Problem, line: &str) -> String {
    let colour = if problem.level == Level::Error { AnsiColor::Red } else { AnsiColor::Yellow };
    let (style, plain) = (Style::new().bold().fg_color(Some(colour.into())), Style::new());
    let bold = plain.bold();
    let (at, what) = (problem.at, escaped(&problem.to_string()));
    let skipped = (at.column - 1).saturating_sub(SHOWN.0);
    let line = without_passwords(line);
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
    fn problems_are_shown_below_their_source_line() {
        let long = format!("capture: {{ {}backend: magic }}", " ".repeat(100));
        for (file, expected) in [
            (
                "capture:\n  backend: magic # why\n",
                "f:2:12: error: capture.backend: expected one of `auto`, `trampolines`, `tracepoints`, found \"magic\"\n    2 |   backend: magic # why\n      |            ^^^^^",
            ),
            ("capture: [", "\n    1 | capture: ["),
            ("\"\\u202e\": 1\n", "\n    1 | \"\\u202e\": 1\n      | ^^^^^^^^"),
            (
                &long,
                "backend: magic }\n      |                                                             ^^^^^",
            ),
            ("\u{2028}x: 1", "    1 | "),
        ] {
            let problems = lint::parse(file.as_bytes()).unwrap_err();
            let line = file.lines().nth(problems[0].at.line - 1).unwrap_or_default();
            let text = anstream::adapter::strip_str(&shown("f", &problems[0], line)).to_string();
            assert!(text.contains(expected), "{file:?}\n{text}\n{expected}");
        }
    }

    /// A name that is given twice is wrong once, where it stands the second time; a built-in rule's is, too.
    #[test]
    fn duplicate_pattern_name_is_reported_once() {
        for (names, line, part) in [
            (["a", "a"], 3, "\"a\" is taken"),
            (["a", "pseudo-tag"], 3, "this name is the id of another rule"),
        ] {
            let [first, second] = names;
            let file = format!(
                "inspection: {{ custom_patterns: [\n  {{ name: {first}, pattern: x }},\n  {{ name: {second}, pattern: y }}] }}"
            );
            let (_, problems) = lint::check(file.as_bytes(), |config| on_this_host(config, &mut Vec::new()));
            let [problem] = problems.as_slice() else { panic!("{problems:#?}") };
            assert_eq!(problem.at.line, line, "{problem}");
            assert!(problem.message.contains(part), "{problem}");
        }
    }

    #[test]
    fn check_exit_code_follows_findings() {
        let code = |errors, warnings, strict| format!("{:?}", Found { errors, warnings }.exit_code(strict));
        let number = |number: u8| format!("{:?}", ExitCode::from(number));
        for (errors, warnings, strict, expected) in
            [(0, 0, true, 0), (0, 3, false, 0), (0, 3, true, 1), (1, 0, false, 2), (1, 3, true, 2)]
        {
            assert_eq!(code(errors, warnings, strict), number(expected), "{errors} {warnings} {strict}");
        }
    }
}
