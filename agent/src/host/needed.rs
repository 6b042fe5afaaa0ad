//! Files and directories that a configuration names, that the agent needs later, and that are not there or not safe to use.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

use mcpwarden_policy::config::{AbsolutePath, Config, Finding, SecretFile, Step, steps};
use mcpwarden_system::secret_file;

use super::configured::with_neighbour;

/// What of these cannot be used, at the key that names it. `credentials`: the directory with the credentials of the unit; without one,
/// credentials are not looked for.
pub fn needed(config: &Config, credentials: Option<&Path>) -> Vec<Finding> {
    let mut found = Vec::new();
    let headers = config.servers.iter().enumerate().filter(|(_, server)| server.enabled);
    for (index, server) in headers {
        let file = server.headers_from.as_ref();
        found.extend(
            file.and_then(|file| secret(file, credentials, steps!["servers", index, "headers_from"])),
        );
    }
    for (index, sink) in config.sinks.iter().enumerate() {
        let file = sink.secret_file.as_ref();
        found.extend(file.and_then(|file| secret(file, credentials, steps!["sinks", index, "secret_file"])));
        found.extend(sink.path.as_ref().and_then(|path| writable(path, steps!["sinks", index, "path"])));
    }
    found.extend(
        config.network.cgroup_path.as_ref().and_then(|path| cgroup(path, steps!["network", "cgroup_path"])),
    );
    found
}

/// A secret that the agent is to read.
fn secret(file: &SecretFile, credentials: Option<&Path>, at: Vec<Step>) -> Option<Finding> {
    let path: Result<AbsolutePath, _> = file.as_str().parse();
    if path.is_err() && credentials.is_none() {
        return None;
    }
    let error = secret_file::read(file, credentials).err()?;
    if error.downcast_ref().is_some_and(is_hidden) {
        return None;
    }
    let message =
        format!("{} cannot be used: {error:#}; expected a file that only root can read", file.as_str());
    let finding = Finding::new(at, message);
    Some(match path {
        Ok(path) => with_neighbour(finding, &path),
        Err(_) => finding,
    })
}

/// Whether whoever checks the file may not see what the agent may.
fn is_hidden(error: &Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && !nix::unistd::geteuid().is_root()
}

/// A file that the agent is to write, and makes in a directory that is there.
fn writable(path: &AbsolutePath, at: Vec<Step>) -> Option<Finding> {
    let directory = Path::new(path.as_str()).parent()?;
    let problem = match fs::metadata(directory) {
        Err(error) if is_hidden(&error) => return None,
        Err(error) => error.to_string(),
        Ok(found) if !found.is_dir() => "it is no directory".to_owned(),
        Ok(_) if Path::new(path.as_str()).is_dir() => {
            return Some(Finding::new(at, format!("{path} is a directory; expected a file in one")));
        }
        Ok(_) => return None,
    };
    let message =
        format!("{} cannot be used: {problem}; expected a directory for the file", directory.display());
    let finding = Finding::new(at, message);
    // (The nearest name is that of the directory.)
    match directory.display().to_string().parse() {
        Ok(directory) => Some(with_neighbour(finding, &directory)),
        Err(_) => Some(finding),
    }
}

/// A directory of the cgroup hierarchy.
fn cgroup(path: &AbsolutePath, at: Vec<Step>) -> Option<Finding> {
    let problem = match fs::metadata(Path::new(path.as_str()).join("cgroup.controllers")) {
        Ok(_) => return None,
        Err(error) if is_hidden(&error) => return None,
        Err(_) if Path::new(path.as_str()).exists() => "it is no directory of cgroup v2".to_owned(),
        Err(error) => error.to_string(),
    };
    let message = format!("{path} cannot be used: {problem}; expected a directory below /sys/fs/cgroup");
    Some(with_neighbour(Finding::new(at, message), path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A configuration with `DIR` for a directory, and where it is wrong.
    #[test]
    fn missing_files_are_reported_at_their_key() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().display().to_string();
        for (name, mode) in [("secret", 0o600), ("open", 0o644)] {
            let path = directory.path().join(name);
            fs::write(&path, "Authorization: x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let server = |file: &str| {
            format!(
                "servers: [{{ id: a, type: http, url: 'https://a.example/mcp', headers_from: '{file}' }}]"
            )
        };
        let hook = |file: &str| {
            format!("sinks: [{{ kind: webhook, url: 'https://a.example/', secret_file: '{file}' }}]")
        };
        let file = |path: &str| format!("sinks: [{{ kind: file, path: '{path}' }}]");
        let cases = [
            (server("DIR/secret"), None),
            (server("DIR/secre"), Some("servers[0].headers_from: DIR/secre cannot be used: No such file")),
            (server("DIR/open"), Some("others may read it (mode 0644)")),
            (server("DIR"), Some("it is no regular file")),
            (server("credential:a"), None),
            (hook("DIR/secret"), None),
            (hook("DIR/none"), Some("sinks[0].secret_file: DIR/none cannot be used")),
            (file("DIR/events.jsonl"), None),
            (file("DIR/none/events.jsonl"), Some("sinks[0].path: DIR/none cannot be used: No such file")),
            (file("DIR/open/events.jsonl"), Some("sinks[0].path: DIR/open cannot be used")),
            (file("DIR"), Some("sinks[0].path: DIR is a directory")),
            (
                "network: { cgroup_path: DIR/none }".to_owned(),
                Some("network.cgroup_path: DIR/none cannot be used"),
            ),
            ("network: { cgroup_path: DIR }".to_owned(), Some("it is no directory of cgroup v2")),
            ("{}".to_owned(), None),
        ];
        for (text, expected) in cases {
            let text = text.replace("DIR", &place);
            let (config, _) = mcpwarden_policy::config::parse(text.as_bytes()).unwrap();
            let found: Vec<String> = needed(&config, None).iter().map(ToString::to_string).collect();
            match expected.map(|expected| expected.replace("DIR", &place)) {
                None => assert!(found.is_empty(), "{text}: {found:?}"),
                Some(expected) => {
                    assert!(found.len() == 1 && found[0].contains(&expected), "{text}: {found:?}");
                }
            }
        }
        let (config, _) = mcpwarden_policy::config::parse(server("credential:a").as_bytes()).unwrap();
        assert_eq!(needed(&config, Some(directory.path())).len(), 1);
        let near = server("DIR/secre").replace("DIR", &place);
        let (config, _) = mcpwarden_policy::config::parse(near.as_bytes()).unwrap();
        assert_eq!(needed(&config, None)[0].nearest.as_deref(), Some("secret"));
    }
}
