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
/// that follows can gain privileges, nor inherits open files.
///
/// # Errors
/// This is root, not through sudo, and `programs` are to be started without `as_root`; or the change failed.
pub fn become_caller(programs: bool, as_root: bool) -> Result<Environment> {
    prctl::set_no_new_privs().context("cannot set no_new_privs")?;
    close_on_exec()?;
    let environment = || env::vars_os().collect();
    if !geteuid().is_root() || as_root {
        return Ok(environment());
    }
    let Some((uid, gid)) = caller()? else {
        if programs {
            bail!(
                "`inspect` runs as root, and the inspected server would run with all privileges. \
                 Run `inspect` as the user whose client starts the server (root is never required), or pass --as-root"
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
        let number = text.to_str().and_then(|text| text.parse().ok());
        number.map(Some).with_context(|| format!("{name} is no number: {text:?}"))
    };
    Ok(match (number("SUDO_UID")?, number("SUDO_GID")?) {
        (Some(uid), Some(gid)) if uid != 0 => Some((Uid::from_raw(uid), Gid::from_raw(gid))),
        _ => None,
    })
}

/// What this process was started with beyond standard input, output and error stays with it.
fn close_on_exec() -> Result<()> {
    // SAFETY: close_range(2) with this flag closes nothing now; it takes three numbers.
    let outcome =
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
    nix::errno::Errno::result(outcome).map(drop).context("cannot close open files before servers start")
}
