//! What of a configuration only this host knows: the ids of users, and whether files are there and safe to go by.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, Result, bail};
use mcpwarden_policy::config::{AbsolutePath, Config, Session, User};
use mcpwarden_policy::guards::SessionRule;

use crate::output::escaped;

/// The entries of `sessions:`, in order. What keeps a token from counting is said on standard error.
///
/// # Errors
/// There is no such user.
pub fn sessions(config: &Config) -> Result<Vec<SessionRule>> {
    let rule = |(index, entry): (usize, &Session)| {
        let at = || format!("sessions[{index}]");
        let uid = entry.matches.uid.as_ref().map(uid).transpose().with_context(at)?;
        let token = entry.admin_token_file.as_ref().is_some_and(|path| match admin_token(path) {
            Ok(()) => true,
            Err(problem) => {
                let path = escaped(path.as_str());
                anstream::eprintln!("mcpwarden: warning: {}: {path} is no token: {problem}", at());
                false
            }
        });
        Ok(SessionRule::new(entry, uid, token)?)
    };
    config.sessions.iter().enumerate().map(rule).collect()
}

fn uid(user: &User) -> Result<u32> {
    match user {
        User::Id(uid) => Ok(*uid),
        User::Name(name) => match nix::unistd::User::from_name(name).context("cannot look users up")? {
            Some(user) => Ok(user.uid.as_raw()),
            None => bail!("there is no user {name:?} on this host; give the id, or make the user"),
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
    if file.uid() != 0 {
        return Err(format!("it belongs to user {}, not to root", file.uid()));
    }
    if file.mode() & 0o022 != 0 {
        return Err(format!("others may write to it (mode {:04o})", file.mode() & 0o7777));
    }
    Ok(())
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
            ("group", "secret", 0o620, Some("others may write to it (mode 0620)")),
            ("everybody", "secret", 0o602, Some("others may write to it (mode 0602)")),
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
        let found = |user: &str| uid(&User::Name(user.to_owned())).map_err(|error| error.to_string());
        assert_eq!(found("root"), Ok(0));
        assert_eq!(uid(&User::Id(4_000_000_000)).unwrap(), 4_000_000_000);
        assert!(found("no such user").unwrap_err().contains("there is no user"));
    }
}
