//! What of a configuration only this host knows: the ids of users, what paths lead to, and whether files are there and
//! safe to go by.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use mcpwarden_policy::config::{
    AbsolutePath, Config, Control, Finding, MutedDetections, Problem, Server, Session, Step, User,
};
use mcpwarden_policy::detect::ScorerModel;
use mcpwarden_policy::detect::learned::{MODEL_BYTES, Model};
use mcpwarden_policy::guards::SessionRule;
use mcpwarden_policy::{Declared, glob::GlobError, settings};
use mcpwarden_system::owner::{ours_alone, owned_by};
use nix::libc;

use super::clock::Clock;
use crate::output::escaped;

/// How much of the list of users is searched for a name that was meant.
const MAX_PASSWD_BYTES: u64 = 1 << 20;
/// Files of a directory among which one is searched that was meant.
const MAX_NEIGHBOURS: usize = 1_000;

/// What of a configuration cannot be used on this host.
#[derive(Debug, Default)]
pub struct Unusable {
    /// At paths in the configuration.
    pub findings: Vec<Finding>,
    /// In rule files that it names.
    pub rule_files: Vec<Checked>,
}

/// A file, and what is wrong with it.
#[derive(Debug)]
pub struct Checked {
    /// Its path.
    pub path: String,
    /// What stands in it.
    pub text: String,
    /// What is wrong with that.
    pub problems: Vec<Problem>,
}

impl std::error::Error for Unusable {}

impl fmt::Display for Unusable {
    /// All of it in one line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.findings.iter().map(|finding| escaped(&finding.to_string()));
        let errors = self.rule_files.iter().flat_map(|file| {
            file.problems.iter().map(|problem| {
                let (path, at) = (&file.path, problem.at);
                escaped(&format!("{path}:{}:{}: {problem}", at.line, at.column))
            })
        });
        formatter.write_str(&findings.chain(errors).collect::<Vec<_>>().join("; "))
    }
}

impl Unusable {
    /// Whether there is nothing that is not usable.
    ///
    /// # Errors
    /// There is: all of it.
    pub fn check(self) -> Result<(), Self> {
        if self.findings.is_empty() && self.rule_files.is_empty() { Ok(()) } else { Err(self) }
    }
}

/// The declared servers; the program that one demands may be named by a link to it.
pub fn declared(config: &Config) -> Vec<Declared> {
    let mut declared = settings::declared(config);
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
        let uid = entry.matches.uid.as_ref().and_then(|user| {
            let path = session_key(index, &["match", "uid"]);
            uid(user, path).map_err(|finding| unusable.findings.push(finding)).ok()
        });
        let token = entry.admin_token_file.as_ref().is_some_and(|path| admin_token(path).is_ok());
        SessionRule::new(entry, config.policy.case_sensitive, uid, token)
    };
    let rules: Result<Vec<_>, GlobError> = config.sessions.iter().enumerate().map(&mut rule).collect();
    let rules = rules.unwrap_or_else(|error| {
        unusable.findings.push(Finding::new(vec![Step::from("sessions")], error.to_string()));
        Vec::new()
    });
    unusable.check().map(|()| rules)
}

/// What of a configuration does not do on this host what it seems to: files without a token, and programs that are not
/// there.
pub fn idle(config: &Config) -> Vec<Finding> {
    let token = |(index, entry): (usize, &Session)| {
        let path = entry.admin_token_file.as_ref()?;
        let problem = admin_token(path).err()?;
        let message =
            format!("{path} holds no token: {problem}; expected a file that only root can write to");
        Some(with_neighbour(Finding::new(session_key(index, &["admin_token_file"]), message), path))
    };
    let program = |(index, server): (usize, &Server)| {
        let path = server.executable.as_ref()?;
        let problem = match fs::metadata(path.as_str()) {
            Ok(file) if file.is_file() => return None,
            Ok(_) => "it is no regular file".to_owned(),
            Err(error) => error.to_string(),
        };
        let message =
            format!("nothing can be this server here: {path}: {problem}; expected a program or a script");
        let steps = vec![Step::from("servers"), Step::from(index), Step::from("executable")];
        Some(with_neighbour(Finding::new(steps, message), path))
    };
    let now = Clock::new().now();
    let muted = |(index, muted): (usize, &MutedDetections)| {
        let until = muted.until.filter(|until| until.0 <= now)?;
        let message = format!("it ended at {until}: it mutes nothing, and can be removed");
        let steps = ["inspection", "muted"].map(Step::from).into_iter().chain([Step::from(index)]);
        Some(Finding::new(steps.collect(), message))
    };
    let muted = config.inspection.muted.iter().enumerate().filter_map(muted);
    let tokens = config.sessions.iter().enumerate().filter_map(token);
    let programs = config.servers.iter().enumerate().filter_map(program);
    muted.chain(programs).chain(tokens).chain(groups(&config.control)).collect()
}

/// The groups of the control socket that are named and not there.
fn groups(control: &Control) -> impl Iterator<Item = Finding> {
    let own = Some(&control.group).filter(|group| **group != Control::default().group);
    let named = [("group", own), ("admin_group", control.admin_group.as_ref())];
    named.into_iter().filter_map(|(key, name)| {
        let name = name?;
        if matches!(nix::unistd::Group::from_name(name), Ok(Some(_))) {
            return None;
        }
        let message =
            format!("there is no group {name:?} on this host: only root may; expected one of its groups");
        let file = bounded("/etc/group", MAX_PASSWD_BYTES).unwrap_or_default();
        let file = String::from_utf8_lossy(&file);
        let names = file.lines().filter_map(|line| line.split(':').next());
        Some(Finding::new(vec![Step::from("control"), Step::from(key)], message).nearest_of(name, names))
    })
}

fn session_key(index: usize, keys: &[&str]) -> Vec<Step> {
    let keys = keys.iter().map(|key| Step::from(*key));
    [Step::from("sessions"), Step::from(index)].into_iter().chain(keys).collect()
}

fn uid(user: &User, path: Vec<Step>) -> Result<u32, Finding> {
    let name = match user {
        User::Id(uid) => return Ok(*uid),
        User::Name(name) => name,
    };
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => {
            let message =
                format!("there is no user {name:?} on this host; expected one of its users, or an id");
            let file = bounded("/etc/passwd", MAX_PASSWD_BYTES).unwrap_or_default();
            let file = String::from_utf8_lossy(&file);
            let names = file.lines().filter_map(|line| line.split(':').next());
            Err(Finding::new(path, message).nearest_of(name, names))
        }
        Err(error) => Err(Finding::new(path, format!("users cannot be looked up: {error}"))),
    }
}

/// The first bytes of a file.
fn bounded(path: &str, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
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

/// The model of the learned scorer.
///
/// # Errors
/// The file that it is to be read from cannot be used.
pub fn scorer(config: &Config) -> Result<ScorerModel, Finding> {
    let section = &config.inspection.learned_scorer;
    if !config.inspection.enabled || !section.enabled {
        return Ok(ScorerModel::Off);
    }
    let Some(path) = &section.model_file else { return Ok(ScorerModel::BuiltIn) };
    // Longer by one byte than a model: that it is too long shows.
    let model = read_own(path, MODEL_BYTES as u64 + 1)
        .and_then(|bytes| Model::parse(&bytes).map_err(|error| error.to_string()));
    match model {
        Ok(model) => Ok(ScorerModel::Given(Arc::new(model))),
        Err(problem) => {
            let steps = ["inspection", "learned_scorer", "model_file"].map(Step::from).to_vec();
            let message = format!("{path} cannot be used: {problem}; expected a model of the learned scorer");
            Err(with_neighbour(Finding::new(steps, message), path))
        }
    }
}

/// With the file of the same directory whose name is nearest, where there is none of that name.
pub(super) fn with_neighbour(finding: Finding, path: &AbsolutePath) -> Finding {
    let path = Path::new(path.as_str());
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return finding;
    };
    if path.exists() {
        return finding;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().take(MAX_NEIGHBOURS).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    finding.nearest_of(name, names.iter().map(String::as_str))
}

/// At most so many bytes of a file that nobody else may write to.
pub fn read_own(path: &AbsolutePath, most: u64) -> Result<Vec<u8>, String> {
    // Not blocking, so that a named pipe cannot keep the agent from starting.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path.as_str());
    let file = file.map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".into());
    }
    ours_alone(Path::new(path.as_str()), &metadata)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// What is put there, and what is said of it where root does so.
    #[test]
    fn admin_token_must_be_writable_by_root_only() {
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
            let reported = admin_token(&path.display().to_string().parse().unwrap()).err();
            match expected {
                _ if !root && !contents.is_empty() => {
                    assert!(reported.unwrap().contains("not to root"), "{name}")
                }
                expected => assert_eq!(reported.as_deref(), expected, "{name}"),
            }
        }
        let link = directory.path().join("link");
        symlink("good", &link).unwrap();
        for path in [link, directory.path().to_owned()] {
            let reported = admin_token(&path.display().to_string().parse().unwrap()).unwrap_err();
            assert_eq!(reported, "it is no regular file", "{}", path.display());
        }
        assert!(admin_token(&"/nowhere/x".parse().unwrap()).unwrap_err().contains("No such file"));
    }

    #[test]
    fn missing_groups_are_reported_at_their_key() {
        let control = |group: &str, admin: Option<&str>| Control {
            group: group.into(),
            admin_group: admin.map(str::to_owned),
            ..Control::default()
        };
        let default = Control::default().group;
        for (control, expected) in [
            (Control::default(), &[][..]),
            (control("root", Some("root")), &[]),
            (
                control("rooot", None),
                &["control.group: there is no group \"rooot\" on this host: only root may"],
            ),
            (control(&default, Some("no such group")), &["control.admin_group: there is no group"]),
            (control("x y", Some("y x")), &["control.group: ", "control.admin_group: "]),
        ] {
            let found: Vec<String> = groups(&control).map(|finding| finding.to_string()).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, part) in found.iter().zip(expected) {
                assert!(found.starts_with(part), "{found}");
            }
        }
        let found = groups(&control("rooot", None)).next().unwrap();
        assert_eq!(found.nearest.as_deref(), Some("root"));
    }

    #[test]
    fn users_resolve_by_id_or_name() {
        let found = |user: &str| uid(&User::Name(user.to_owned()), Vec::new());
        assert_eq!(found("root"), Ok(0));
        assert_eq!(uid(&User::Id(4_000_000_000), Vec::new()), Ok(4_000_000_000));
        for (user, nearest) in [("no such user", None), ("rooot", Some("root"))] {
            let finding = found(user).unwrap_err();
            assert!(finding.message.contains("there is no user"), "{finding}");
            assert_eq!(finding.nearest.as_deref(), nearest, "{finding}");
        }
    }

    /// What stands in the file and its mode, and what is said.
    #[test]
    fn model_file_is_read_or_refused() {
        use mcpwarden_policy::detect::learned::Side;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scorer.bin");
        let good = Model::new(Side::empty(), Side::empty()).to_bytes();
        let (mut flipped, mut long) = (good.clone(), good.clone());
        flipped[100] ^= 1;
        long.push(0);
        let mut other = good.clone();
        other[7] = b'9';
        let swapped = Model::new(Side { review: 3, high: 2, ..Side::empty() }, Side::empty()).to_bytes();
        let unscaled = Model::new(Side::empty(), Side { scale: 0, ..Side::empty() }).to_bytes();
        for (name, bytes, mode, expected) in [
            ("good", &good[..], 0o644, None),
            ("flipped", &flipped, 0o644, Some("its digest is wrong")),
            ("long", &long, 0o644, Some("bytes; expected")),
            ("short", &good[..good.len() - 1], 0o644, Some("bytes; expected")),
            ("the beginning", &good[..8], 0o644, Some("it has 8 bytes")),
            ("empty", b"", 0o644, Some("no model of this version")),
            ("text", b"model", 0o644, Some("no model of this version")),
            ("another version", &other, 0o644, Some("no model of this version")),
            ("thresholds", &swapped, 0o644, Some("out of range")),
            ("scale", &unscaled, 0o644, Some("out of range")),
            ("of others", &good, 0o666, Some("others may write to it")),
        ] {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let mut config = Config::default();
            config.inspection.learned_scorer.model_file = Some(path.display().to_string().parse().unwrap());
            match (scorer(&config), expected) {
                (Ok(ScorerModel::Given(_)), None) => {}
                (Err(finding), Some(part)) => {
                    let text = finding.to_string();
                    assert!(text.starts_with("inspection.learned_scorer.model_file: "), "{name}: {text}");
                    assert!(text.contains(part) && text.contains("expected"), "{name}: {text}");
                }
                (other, _) => panic!("{name}: {other:?}"),
            }
            config.inspection.learned_scorer.enabled = false;
            assert_eq!(scorer(&config).unwrap(), ScorerModel::Off, "{name}");
        }
        assert_eq!(scorer(&Config::default()).unwrap(), ScorerModel::BuiltIn);
    }

    #[test]
    fn required_program_may_be_a_symlink() {
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
