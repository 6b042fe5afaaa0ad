//! Who inspects: what a server runs as must not be more than the person who asked for it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;

use anyhow::{Context as _, Result, bail};
use nix::libc;
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist, setgroups, setresgid, setresuid};

/// What of root's environment a user's server may see.
const KEPT: [&str; 7] = ["PATH", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// The environment for servers.
pub type Environment = BTreeMap<OsString, OsString>;

/// Makes this process the user who called sudo, for good, and gives the environment that servers are to have. Nothing
/// that follows can gain privileges, nor inherits open files. `command`: the one that does so, for errors.
///
/// # Errors
/// This is root, not through sudo, and `programs` are to be started without `as_root`; or the change failed.
pub fn become_caller(command: &str, programs: bool, as_root: bool) -> Result<Environment> {
    prctl::set_no_new_privs().context("cannot set no_new_privs")?;
    close_on_exec()?;
    let environment = || env::vars_os().collect();
    if !geteuid().is_root() || as_root {
        return Ok(environment());
    }
    let Some((uid, gid)) = caller()? else {
        if programs {
            bail!(
                "`{command}` runs as root, and the server that it starts would run with all privileges. \
                 Run `{command}` as the user whose client starts the server (root is never required), or pass --as-root"
            );
        }
        return Ok(environment());
    };
    let user = User::from_uid(uid).context("cannot look up the user who called sudo")?;
    let groups = match &user {
        Some(user) => {
            let name =
                std::ffi::CString::new(user.name.as_str()).context("a user's name with a NUL in it")?;
            getgrouplist(&name, gid).context("cannot read the groups of the user who called sudo")?
        }
        None => vec![gid],
    };
    // In this order: the later ones take the right to the earlier ones away.
    setgroups(&groups).context("cannot adopt the groups of the user who called sudo")?;
    setresgid(gid, gid, gid).context("cannot adopt the group of the user who called sudo")?;
    setresuid(uid, uid, uid).context("cannot become the user who called sudo")?;
    let kept = KEPT.iter().filter_map(|name| env::var_os(name).map(|value| (OsString::from(name), value)));
    let mut environment: Environment = kept.collect();
    if let Some(user) = user {
        environment.insert("HOME".into(), user.dir.into());
        environment.insert("SHELL".into(), user.shell.into());
        environment.insert("USER".into(), user.name.clone().into());
        environment.insert("LOGNAME".into(), user.name.into());
    }
    Ok(environment)
}

/// Who called sudo, where somebody but root did.
fn caller() -> Result<Option<(Uid, Gid)>> {
    let number = |name: &str| -> Result<Option<u32>> {
        let Some(text) = env::var_os(name) else { return Ok(None) };
        let number = text.to_str().and_then(id);
        number.map(Some).with_context(|| {
            format!(
                "{name} is no id of a user or group: {text:?}. It is set by sudo: nothing is started as root"
            )
        })
    };
    Ok(match (number("SUDO_UID")?, number("SUDO_GID")?) {
        (Some(uid), Some(gid)) if uid != 0 => Some((Uid::from_raw(uid), Gid::from_raw(gid))),
        _ => None,
    })
}

/// The id of a user or a group, as sudo writes it. The last number is none: setresuid(2) takes it for "as it is".
fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id: &u32| *id != u32::MAX && id.to_string() == text)
}

/// What this process was started with beyond standard input, output and error stays with it.
fn close_on_exec() -> Result<()> {
    // SAFETY: close_range(2) with this flag closes nothing now; it takes three numbers.
    let outcome =
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
    nix::errno::Errno::result(outcome).map(drop).context("cannot close open files before servers start")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_sudo_writes() {
        for (text, expected) in [
            ("1000", Some(1000)),
            ("0", Some(0)),
            ("4294967294", Some(u32::MAX - 1)),
            ("4294967295", None),
            ("4294967296", None),
            ("18446744073709551615", None),
            ("-1", None),
            ("+1000", None),
            ("01000", None),
            ("00", None),
            ("0x3e8", None),
            (" 1000", None),
            ("1000\n", None),
            ("lena", None),
            ("", None),
        ] {
            assert_eq!(id(text), expected, "{text:?}");
        }
    }
}
