//! Detection rules of this host: those that are built in, and the files that a configuration names.

use std::path::Path;
use std::sync::Arc;

use mcpwarden_policy::config::{
    self, AbsolutePath, Config, Finding, KeyPath, Level, Position, Problem, Step,
};
use mcpwarden_policy::detect::{RuleError, RulePlace, RuleSet};

use super::configured::{Checked, Unusable, read_own, with_neighbour};

/// Longest rule file. Bytes.
const MAX_RULE_BYTES: u64 = 1 << 20;

/// A rule file in YARA: its place in the configuration, its path, its text.
type YaraFile = (String, String);

/// The built-in rules and those of `inspection.rule_files`, none where inspection is off; and everything that is wrong
/// with the files.
pub fn rules(config: &Config) -> (RuleSet, Unusable) {
    let (mut rules, mut unusable) = (RuleSet::default(), Unusable::default());
    let section = &config.inspection;
    if !section.enabled {
        return (rules, unusable);
    }
    match RuleSet::built_in() {
        Ok(built_in) => rules = built_in,
        Err(errors) => {
            let (path, problems) = ("the built-in rules".to_owned(), errors.iter().map(problem).collect());
            unusable.rule_files.push(Checked { path, text: String::new(), problems });
        }
    }
    let mut yara: Vec<YaraFile> = Vec::new();
    for (index, path) in section.rule_files.iter().enumerate() {
        match read_rules(path) {
            Ok(text) if is_yara(path) => yara.push((path.to_string(), text)),
            Ok(text) => {
                // Of another shape, all of that is said; else what only rules know.
                let mut problems = config::misshapen(&RuleSet::schema(), text.as_bytes());
                if problems.is_empty() {
                    problems = rules.add(path.as_str(), &text).iter().map(problem).collect();
                }
                if !problems.is_empty() {
                    unusable.rule_files.push(Checked { path: path.to_string(), text, problems });
                }
            }
            Err(problem) => {
                let steps = vec![Step::from("inspection"), Step::from("rule_files"), Step::from(index)];
                let message = format!("{path} cannot be used: {problem}; expected a rule file");
                unusable.findings.push(with_neighbour(Finding::new(steps, message), path));
            }
        }
    }
    unusable.rule_files.extend(add_yara(&mut rules, &yara));
    (rules, unusable)
}

/// Whether a file has rules in YARA, by the end of its name.
fn is_yara(path: &AbsolutePath) -> bool {
    let end = Path::new(path.as_str()).extension().map(|end| end.to_ascii_lowercase());
    end.is_some_and(|end| end == "yar" || end == "yara")
}

/// Adds the rules of files in YARA, which are compiled together; or what is wrong with them.
fn add_yara(rules: &mut RuleSet, files: &[YaraFile]) -> Vec<Checked> {
    if files.is_empty() {
        return Vec::new();
    }
    let texts = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let errors = match mcpwarden_yara::compile(texts) {
        Ok((yara, scanned)) => rules.add_scanned(scanned, Arc::new(yara)),
        Err(errors) => errors,
    };
    let of = |path: &String| {
        let is_of = |error: &&RuleError| matches!(&error.at, RulePlace::File { name, .. } if name == path);
        errors.iter().filter(is_of).map(problem).collect::<Vec<Problem>>()
    };
    let checked = files.iter().map(|(path, text)| Checked {
        path: path.clone(),
        text: text.clone(),
        problems: of(path),
    });
    checked.filter(|file| !file.problems.is_empty()).collect()
}

/// What is wrong with a rule file; where the place is not known, it is its first character.
fn problem(error: &RuleError) -> Problem {
    let (line, column) = error.at.position();
    let known = |number: u64| usize::try_from(number).unwrap_or(1).max(1);
    Problem {
        level: Level::Error,
        at: Position { line: known(line), column: known(column), width: 1 },
        path: KeyPath::default(),
        message: format!("{}; expected {}", error.what, error.expected),
        nearest: None,
    }
}

/// A rule file's text. Who can write to it decides what is found, so it must be root's or of whom this runs as.
fn read_rules(path: &AbsolutePath) -> Result<String, String> {
    let bytes = read_own(path, MAX_RULE_BYTES + 1)?;
    if bytes.len() as u64 > MAX_RULE_BYTES {
        return Err(format!("it is longer than {MAX_RULE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const RULE: &str =
        "rules: [{id: own, title: t, why: w, category: exfiltration, severity: high, patterns: ['xyzzy']}]";

    /// What stands in the file and its mode, and what is said.
    #[test]
    fn rule_files_are_read_or_refused_with_position() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.yaml");
        let twice = format!("{}\n", RULE.replace("id: own", "id: pseudo-tag"));
        let long = "#".repeat(MAX_RULE_BYTES as usize + 1);
        for (name, text, mode, expected) in [
            ("good", RULE, 0o644, None),
            ("no rules", "rules: []", 0o600, None),
            ("no YAML", "rules: [", 0o644, Some("x.yaml:1:")),
            ("an unknown key", "rules:\n- {id: a, titel: b}", 0o644, Some("x.yaml:2:")),
            ("no pattern", &RULE.replace("xyzzy", "("), 0o644, Some("x.yaml:1:")),
            ("of others", RULE, 0o666, Some("inspection.rule_files[0]: ")),
            ("long", &long, 0o644, Some("it is longer than 1048576 bytes")),
            ("a built-in id", &twice, 0o644, Some("x.yaml:1:14: second rule")),
        ] {
            let text = text.replace("pseudo-tag", &RuleSet::built_in().unwrap().rules()[0].id);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let mut config = Config::default();
            config.inspection.rule_files = vec![path.display().to_string().parse().unwrap()];
            let (usable, unusable) = rules(&config);
            let own = usable.rules().iter().filter(|rule| rule.id == "own").count();
            let reported = unusable.check().map(|()| own);
            match (reported, expected) {
                (Ok(count), None) => assert_eq!(count, usize::from(name == "good"), "{name}"),
                (Err(error), Some(part)) => {
                    let error = error.to_string();
                    assert!(error.contains(part) && !error.contains('\n'), "{name}: {error}");
                }
                (reported, _) => panic!("{name}: {reported:?}"),
            }
            config.inspection.enabled = false;
            assert!(rules(&config).0.rules().is_empty(), "{name}");
        }
    }

    #[test]
    fn yara_files_are_read_or_refused_with_position() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a.yar", "b.YARA"].map(|name| directory.path().join(name));
        let good = "rule own { strings: $a = \"xyzzy\" condition: $a }";
        for (second, expected) in [
            ("rule other { condition: false }", None),
            ("\nrule other { condition: $x }", Some("b.YARA:2:25: ")),
            (good, Some("b.YARA:1:1: second rule")),
            (
                "rule other { meta: severity = \"worst\" condition: false }",
                Some("b.YARA:1:1: rule other: severity"),
            ),
        ] {
            fs::write(&paths[0], good).unwrap();
            fs::write(&paths[1], second).unwrap();
            let mut config = Config::default();
            config.inspection.rule_files =
                paths.iter().map(|path| path.display().to_string().parse().unwrap()).collect();
            let (usable, unusable) = rules(&config);
            match (unusable.check(), expected) {
                (Ok(()), None) => assert!(usable.rules().iter().any(|rule| rule.id == "own")),
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (checked, _) => panic!("{second}: {checked:?}"),
            }
        }
    }
}
