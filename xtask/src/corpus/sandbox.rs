//! Runs an untrusted server: as nobody, without network, without this machine's files and environment, and with limits.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::table::{Package, Registry};
use crate::util::as_root;

/// What a process of the server may use: bytes of data, bytes of one file, seconds of processor time, processes, open files.
const LIMITS: &str = "--data=3221225472 --fsize=67108864 --cpu=120 --nproc=256 --nofile=512 --core=0";
/// The namespaces that are its own. It has the loopback interface of its own network, and no other.
const NAMESPACES: &str = "--unshare-net --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try";
/// Its files besides its package: the system's programs and libraries, and 64 MiB of its own in memory.
const FILES: &str = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --perms 0755 --dir /etc --ro-bind-try /etc/passwd /etc/passwd --ro-bind-try /etc/alternatives /etc/alternatives \
    --proc /proc --dev /dev --perms 1777 --size 67108864 --tmpfs /tmp --chdir /tmp";
/// Where the server finds its package.
const SERVER: &str = "/server";
/// root makes the namespaces, then becomes nobody and gives up all rights.
const NOBODY: &str = "/usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \
    --no-new-privs --";
const PLACEHOLDER: &str = "placeholder";

/// The command that starts the server of a package. The server dies with the command.
///
/// # Errors
/// This process is not root, and there is no sudo.
pub fn command(package: &Package, directory: &Path) -> Result<Command> {
    let mut command = as_root("prlimit")?;
    command.args(arguments(package, directory));
    Ok(command)
}

fn arguments(package: &Package, directory: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |words: &str| arguments.extend(words.split_whitespace().map(OsString::from));
    add(LIMITS);
    add("nice -n 15 bwrap --die-with-parent --new-session --cap-add ALL");
    add(NAMESPACES);
    add(FILES);
    add("--clearenv");
    for (name, value) in [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("TZ", "UTC")] {
        add(&format!("--setenv {name} {value}"));
    }
    for name in &package.environment {
        add(&format!("--setenv {name} {PLACEHOLDER}"));
    }
    arguments.extend(["--ro-bind".into(), directory.into(), SERVER.into(), "--".into()]);
    let mut add = |words: &str| arguments.extend(words.split_whitespace().map(OsString::from));
    add(NOBODY);
    let mut words = package.command.iter();
    let program = words.next().map(String::as_str).unwrap_or_default();
    match package.registry {
        Registry::Npm => add(&format!("{SERVER}/node_modules/.bin/{program}")),
        // The script itself names the interpreter where it was installed.
        Registry::PyPi => add(&format!("{SERVER}/bin/python3 {SERVER}/bin/{program}")),
    }
    arguments.extend(words.map(OsString::from));
    arguments
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::corpus::table::parse;

    #[test]
    fn server_has_no_rights_network_or_environment() {
        let digest = "sha512-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==";
        let package = parse(&format!("npm\ta\t1.0.0\tMIT\t{digest}\ta --flag\tA_KEY")).unwrap().remove(0);
        let words = arguments(&package, Path::new("/cache/with blank"));
        let line = words.join(OsStr::new(" ")).into_string().unwrap();
        for part in [
            "--unshare-net",
            "--unshare-pid",
            "--die-with-parent",
            "--clearenv",
            "--setenv A_KEY placeholder",
            "--ro-bind /cache/with blank /server",
            "--tmpfs /tmp",
            "--data=",
            "--cpu=",
            "-- /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups",
            "--bounding-set=-all",
            "--no-new-privs -- /server/node_modules/.bin/a --flag",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        // Besides the package and what the system ships, nothing of this machine is there; nothing can be written but /tmp.
        let shown = words.windows(2).filter(|pair| pair[0].to_string_lossy().starts_with("--ro-bind"));
        let shown: Vec<String> = shown.map(|pair| pair[1].to_string_lossy().into_owned()).collect();
        assert_eq!(shown, ["/usr", "/etc/passwd", "/etc/alternatives", "/cache/with blank"]);
        assert!(!line.contains(" --bind "), "{line}");
    }
}
