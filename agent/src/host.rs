//! What of a configuration only this host knows: the ids of users, what paths lead to, and whether files are there and
//! safe to go by.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use mcpwarden_policy::config::{AbsolutePath, Config, Finding, Session, Step, User};
use mcpwarden_policy::detect::{RuleError, RuleSet};
use mcpwarden_policy::guards::SessionRule;
use mcpwarden_policy::{Declared, glob::GlobError};
use nix::libc;

use crate::output::escaped;

/// Longest rule file. Bytes.
const MAX_RULE_BYTES: u64 = 1 << 20;

/// What of a configuration cannot be used on this host.
#[derive(Debug, Default)]
pub struct Unusable {
    /// At paths in the configuration.
    pub findings: Vec<Finding>,
    /// In rule files that it names.
    pub rule_files: Vec<BadRules>,
}

/// What is wrong with a rule file.
#[derive(Debug)]
pub struct BadRules {
    /// Its path.
    pub path: String,
    /// What stands in it.
    pub text: String,
    /// What is wrong with that.
    pub errors: Vec<RuleError>,
}

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    /// All of it in one line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.findings.iter().map(|finding| escaped(&finding.to_string()));
        let errors = self
            .rule_files
            .iter()
            .flat_map(|file| file.errors.iter().map(|error| escaped(&format!("{}:{error}", file.path))));
        formatter.write_str(&findings.chain(errors).collect::<Vec<_>>().join("; "))
    }
}

impl Unusable {
    fn add(&mut self, path: Vec<Step>, message: String) {
        self.findings.push(Finding { path, message });
    }
}

/// The declared servers; the program that one demands may be named by a link to it.
pub fn declared(config: &Config) -> Vec<Declared> {
    let mut declared = config.declared();
    for server in &mut declared {
        let resolved = |path: &String| fs::canonicalize(path).ok()?.to_str().map(str::to_owned);
        let resolved: Vec<String> = server.executables.iter().filter_map(resolved).collect();
        server.executables.extend(resolved);
    }
    declared
}

/// The entries of `sessions:`, in order.
///
/// # Errors
/// There is no such user.
pub fn sessions(config: &Config) -> Result<Vec<SessionRule>, Unusable> {
    let mut unusable = Unusable::default();
    let mut rule = |(index, entry): (usize, &Session)| {
        let uid = entry.matches.uid.as_ref().map(uid).transpose().unwrap_or_else(|problem| {
            unusable.add(session_key(index, &["match", "uid"]), problem);
            None
        });
        let token = entry.admin_token_file.as_ref().is_some_and(|path| admin_token(path).is_ok());
        SessionRule::new(entry, uid, token)
    };
    let rules: Result<Vec<_>, GlobError> = config.sessions.iter().enumerate().map(&mut rule).collect();
    match rules {
        Ok(rules) if unusable.findings.is_empty() => Ok(rules),
        Ok(_) => Err(unusable),
        Err(error) => {
            unusable.add(vec![Step::from("sessions")], error.to_string());
            Err(unusable)
        }
    }
}

/// Which files of `sessions:` hold no token, and why.
pub fn missing_tokens(config: &Config) -> Vec<Finding> {
    let missing = |(index, entry): (usize, &Session)| {
        let path = entry.admin_token_file.as_ref()?;
        let problem = admin_token(path).err()?;
        let message = format!("{} holds no token: {problem}", path.as_str());
        Some(Finding { path: session_key(index, &["admin_token_file"]), message })
    };
    config.sessions.iter().enumerate().filter_map(missing).collect()
}

fn session_key(index: usize, keys: &[&str]) -> Vec<Step> {
    let keys = keys.iter().map(|key| Step::from(*key));
    [Step::from("sessions"), Step::from(index)].into_iter().chain(keys).collect()
}

fn uid(user: &User) -> Result<u32, String> {
    match user {
        User::Id(uid) => Ok(*uid),
        User::Name(name) => match nix::unistd::User::from_name(name) {
            Ok(Some(user)) => Ok(user.uid.as_raw()),
            Ok(None) => Err(format!("there is no user {name:?} on this host; give the id, or make the user")),
            Err(error) => Err(format!("users cannot be looked up: {error}")),
        },
    }
}

/// Whether a file holds a token of an administrator: only an administrator can have put it there.
fn admin_token(path: &AbsolutePath) -> Result<(), String> {
    let file = fs::symlink_metadata(path.as_str()).map_err(|error| error.to_string())?;
    if !file.is_file() {
        return Err("it is no regular file".into());
    }
    if file.len() == 0 {
        return Err("it is empty".into());
    }
    owned_by(&file, &[0])
}

/// Whether a file belongs to one of these, and nobody else may write to it.
fn owned_by(file: &Metadata, owners: &[u32]) -> Result<(), String> {
    if !owners.contains(&file.uid()) {
        return Err(format!("it belongs to user {}, not to root", file.uid()));
    }
    if file.mode() & 0o022 != 0 {
        return Err(format!("others may write to it (mode {:04o}); chmod go-w it", file.mode() & 0o7777));
    }
    Ok(())
}

/// The built-in rules and those of `inspection.rule_files`; none where inspection is off.
///
/// # Errors
/// Everything that is wrong with the files.
pub fn rules(config: &Config) -> Result<RuleSet, Unusable> {
    let mut unusable = Unusable::default();
    let section = &config.inspection;
    let built_in = if section.enabled { RuleSet::built_in() } else { Ok(RuleSet::default()) };
    let mut rules = built_in.unwrap_or_else(|errors| {
        let (path, text) = ("the built-in rules".to_owned(), String::new());
        unusable.rule_files.push(BadRules { path, text, errors });
        RuleSet::default()
    });
    let files = section.rule_files.iter().enumerate().filter(|_| section.enabled);
    for (index, path) in files {
        match read_rules(path) {
            Ok(text) => {
                match RuleSet::parse(path.as_str(), &text).and_then(|more| rules.clone().with(more)) {
                    Ok(more) => rules = more,
                    Err(errors) => {
                        unusable.rule_files.push(BadRules { path: path.to_string(), text, errors });
                    }
                }
            }
            Err(problem) => {
                let steps = vec![Step::from("inspection"), Step::from("rule_files"), Step::from(index)];
                unusable.add(steps, format!("{path} cannot be used: {problem}"));
            }
        }
    }
    let good = unusable.findings.is_empty() && unusable.rule_files.is_empty();
    if good { Ok(rules) } else { Err(unusable) }
}

/// A rule file's text. Who can write to it decides what is found, so it must be root's or of whom this runs as.
fn read_rules(path: &AbsolutePath) -> Result<String, String> {
    // Not blocking, so that a named pipe cannot keep the agent from starting.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path.as_str());
    let file = file.map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".into());
    }
    owned_by(&metadata, &[0, nix::unistd::geteuid().as_raw()])?;
    let mut bytes = Vec::new();
    file.take(MAX_RULE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_RULE_BYTES {
        return Err(format!("it is longer than {MAX_RULE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// What is put there, and what is said of it where root does so.
    #[test]
    fn a_token_is_a_file_that_only_root_can_have_written() {
        let directory = tempfile::tempdir().unwrap();
        let root = nix::unistd::geteuid().is_root();
        for (name, contents, mode, expected) in [
            ("good", "secret", 0o600, None),
            ("public", "secret", 0o644, None),
            ("empty", "", 0o600, Some("it is empty")),
            ("group", "secret", 0o620, Some("others may write to it (mode 0620); chmod go-w it")),
            ("everybody", "secret", 0o602, Some("others may write to it (mode 0602); chmod go-w it")),
        ] {
            let path = directory.path().join(name);
            fs::write(&path, contents).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let said = admin_token(&path.display().to_string().parse().unwrap()).err();
            match expected {
                _ if !root && !contents.is_empty() => {
                    assert!(said.unwrap().contains("not to root"), "{name}")
                }
                expected => assert_eq!(said.as_deref(), expected, "{name}"),
            }
        }
        let link = directory.path().join("link");
        symlink("good", &link).unwrap();
        for path in [link, directory.path().to_owned()] {
            let said = admin_token(&path.display().to_string().parse().unwrap()).unwrap_err();
            assert_eq!(said, "it is no regular file", "{}", path.display());
        }
        assert!(admin_token(&"/nowhere/x".parse().unwrap()).unwrap_err().contains("No such file"));
    }

    #[test]
    fn users_are_known_by_id_or_name() {
        let found = |user: &str| uid(&User::Name(user.to_owned()));
        assert_eq!(found("root"), Ok(0));
        assert_eq!(uid(&User::Id(4_000_000_000)).unwrap(), 4_000_000_000);
        assert!(found("no such user").unwrap_err().contains("there is no user"));
    }

    const RULE: &str =
        "rules: [{id: own, title: t, why: w, category: exfiltration, severity: high, patterns: ['xyzzy']}]";

    /// What stands in the file and its mode, and what is said.
    #[test]
    fn rule_files_are_read_or_refused_with_a_place() {
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
            ("a built-in id", &twice, 0o644, Some("second rule")),
        ] {
            let text = text.replace("pseudo-tag", &RuleSet::built_in().unwrap().rules()[0].id);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let mut config = Config::default();
            config.inspection.rule_files = vec![path.display().to_string().parse().unwrap()];
            let said =
                rules(&config).map(|rules| rules.rules().iter().filter(|rule| rule.id == "own").count());
            match (said, expected) {
                (Ok(count), None) => assert_eq!(count, usize::from(name == "good"), "{name}"),
                (Err(error), Some(part)) => {
                    let error = error.to_string();
                    assert!(error.contains(part) && !error.contains('\n'), "{name}: {error}");
                }
                (said, _) => panic!("{name}: {said:?}"),
            }
            config.inspection.enabled = false;
            assert!(rules(&config).unwrap().rules().is_empty(), "{name}");
        }
    }

    #[test]
    fn a_demanded_program_may_be_named_by_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (program, link) = (directory.path().join("program"), directory.path().join("link"));
        fs::write(&program, "").unwrap();
        symlink("program", &link).unwrap();
        let file = format!("servers: [{{ id: a, command: a, executable: '{}' }}]", link.display());
        let (config, _) = mcpwarden_policy::config::parse(file.as_bytes()).unwrap();
        let resolved = fs::canonicalize(&program).unwrap();
        assert_eq!(declared(&config)[0].executables, [link, resolved].map(|path| path.display().to_string()));
    }
}
