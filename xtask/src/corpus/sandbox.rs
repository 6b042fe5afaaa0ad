//! Runs an untrusted server: as nobody, without network, without this machine's files and environment, and with limits.

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
    command.args(LIMITS.split_whitespace());
    command.args(["nice", "-n", "15", "bwrap", "--die-with-parent", "--new-session", "--cap-add", "ALL"]);
    command.args(NAMESPACES.split_whitespace()).args(FILES.split_whitespace());
    command.arg("--ro-bind").arg(directory).args([SERVER, "--clearenv"]);
    for (name, value) in [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("TZ", "UTC")] {
        command.args(["--setenv", name, value]);
    }
    for name in &package.environment {
        command.args(["--setenv", name, PLACEHOLDER]);
    }
    command.arg("--").args(NOBODY.split_whitespace());
    let mut words = package.command.iter();
    let program = words.next().map(String::as_str).unwrap_or_default();
    match package.registry {
        Registry::Npm => command.arg(format!("{SERVER}/node_modules/.bin/{program}")),
        // The script itself names the interpreter where it was installed.
        Registry::PyPi => command.args([format!("{SERVER}/bin/python3"), format!("{SERVER}/bin/{program}")]),
    };
    command.args(words);
    Ok(command)
}
