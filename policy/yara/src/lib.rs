//! Detection rules in YARA. Rule files are compiled by yara-x, whose conditions run in the interpreter that guards run in: no page is
//! executable and writable. All texts of a message are one document to a rule; what it matches are detections like those of other
//! rules, in the field that it stands in.
//!
//! | module | job |
//! |---|---|
//! | `meta` | what the metadata of a rule says: severity, category, scope |
//!
//! Includes are refused, and so are modules but `hash`, `math` and `string`, and loops whose length the text decides. A scan ends after
//! a second or two ([`Scanned::complete`]).

mod meta;

use std::ops::Range;
use std::time::Duration;

use mcpwarden_detect::{RuleError, RuleMatch, Scanned, ScannedRule, Scanner};
use yara_x::errors::CompileError;
use yara_x::{Compiler, Rules, SourceCode};

/// Longest a scan may take. yara-x counts whole seconds.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Most matches of a pattern.
const MAX_MATCHES: usize = 64;

/// Compiled rules.
pub struct Yara(Rules);

impl std::fmt::Debug for Yara {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Yara({} rules)", self.0.iter().len())
    }
}

/// Compiles rule files, names and texts: what runs them, and each rule that is reported. Each file is a namespace; ids are unique in all.
///
/// # Errors
/// Everything that is wrong with them.
pub fn compile<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(Yara, Vec<ScannedRule>), Vec<RuleError>> {
    let files: Vec<(&str, &str)> = files.into_iter().collect();
    let mut compiler = Compiler::new();
    // Published rules were written for the engine before this one.
    compiler.relaxed_re_syntax(true).enable_includes(false).error_on_slow_loop(true);
    let mut errors = Vec::new();
    for (name, text) in &files {
        let before = compiler.errors().len();
        compiler.new_namespace(name);
        let failed = compiler.add_source(SourceCode::from(*text).with_origin(*name)).is_err();
        let found = compiler.errors().get(before..).unwrap_or_default();
        errors.extend(found.iter().map(|error| refused(name, text, error)));
        if failed && found.is_empty() {
            errors.push(RuleError::in_file(name, (0, 0), "it does not compile", "YARA rules"));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let yara = Yara(compiler.build());
    let mut rules = Vec::new();
    for rule in yara.0.iter().filter(|rule| !rule.is_private()) {
        let (id, file) = (rule.identifier(), rule.namespace());
        let text = files.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| *text);
        let line = line_of_rule(text, id);
        match meta::read(rule.metadata()) {
            Ok(meta) => rules.push(ScannedRule {
                id: id.to_owned(),
                file: file.to_owned(),
                line,
                title: meta.title,
                category: meta.category,
                severity: meta.severity,
                scopes: meta.scopes,
            }),
            Err((what, expected)) => {
                errors.push(RuleError::in_file(file, (line, 1), format!("rule {id}: {what}"), expected));
            }
        }
    }
    if errors.is_empty() { Ok((yara, rules)) } else { Err(errors) }
}

impl Scanner for Yara {
    fn scan(&self, document: &str) -> Scanned {
        let mut scanner = yara_x::Scanner::new(&self.0);
        scanner.set_timeout(TIMEOUT).max_matches_per_pattern(MAX_MATCHES);
        let Ok(results) = scanner.scan(document.as_bytes()) else { return Scanned::default() };
        let ranges = |rule: &yara_x::Rule<'_, '_>| -> Vec<Range<usize>> {
            rule.patterns()
                .flat_map(|pattern| pattern.matches().map(|found| found.range()).collect::<Vec<_>>())
                .collect()
        };
        let matches = results.matching_rules();
        let matches =
            matches.map(|rule| RuleMatch { id: rule.identifier().to_owned(), ranges: ranges(&rule) });
        Scanned { matches: matches.collect(), complete: true }
    }
}

/// An error of the compiler, with its place.
fn refused(name: &str, text: &str, error: &CompileError) -> RuleError {
    let label = error.labels().next();
    let start = label.as_ref().map(|label| label.span().start());
    let detail = label.map(|label| label.text().to_owned()).filter(|text| !text.is_empty());
    let what =
        detail.map_or_else(|| error.title().to_owned(), |detail| format!("{}: {detail}", error.title()));
    let place = start.map_or((0, 0), |start| place(text, start));
    RuleError::in_file(name, place, what, "rules that yara-x compiles; modules: hash, math, string")
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> (u64, u64) {
    let before = text.get(..text.floor_char_boundary(at)).unwrap_or(text);
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
    (line, column)
}

/// The line on which a rule begins; 0: it is not found.
fn line_of_rule(text: &str, id: &str) -> u64 {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let names = |line: &str| {
        let mut words = line.split(|character: char| !is_word(character)).filter(|word| !word.is_empty());
        words.by_ref().any(|word| word == "rule") && words.next() == Some(id)
    };
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.zip(1..).find(|(line, _)| names(line)).map_or(0, |(_, number)| number)
}

#[cfg(test)]
mod tests;
