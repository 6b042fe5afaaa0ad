//! Packages of the distribution: only Debian's tools are known here; elsewhere the error says what to install.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::util::{as_root, done, exists, output_of, run, run_silent};

/// Installs Debian packages, and refreshes their lists at most once.
#[derive(Default)]
pub struct Packages {
    lists_are_fresh: Cell<bool>,
}

impl Packages {
    /// The ones among `names` that are not installed.
    pub fn missing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        names.iter().copied().filter(|name| !is_installed(name)).collect()
    }

    /// Unpacks `names` below a directory without installing them; those that do not exist here are left out.
    ///
    /// # Errors
    /// No network, or the disk is full.
    pub fn unpack(&self, names: &[&str], into: &Path) -> Result<()> {
        if !exists("apt-get") || !exists("dpkg") {
            done("nothing to unpack: there is no apt-get here");
            return Ok(());
        }
        self.refresh()?;
        names.iter().filter(|name| is_known(name)).try_for_each(|name| fetch(name, into))
    }

    fn refresh(&self) -> Result<()> {
        if self.lists_are_fresh.replace(true) {
            return Ok(());
        }
        run(
            as_root("apt-get")?.args(["update", "-q"]),
            "check the network and the package sources, then try again",
        )
    }

    /// Installs `names`; `otherwise` says what to do where a package does not exist.
    ///
    /// # Errors
    /// No apt-get, no root, no network, or no such package.
    pub fn install(&self, names: &[&str], otherwise: &str) -> Result<()> {
        let list = names.join(" ");
        if !exists("apt-get") {
            bail!("{list} cannot be installed: there is no apt-get here; install what corresponds by hand");
        }
        self.refresh()?;
        let unknown: Vec<&str> = names.iter().copied().filter(|name| !is_known(name)).collect();
        if !unknown.is_empty() {
            bail!("the package sources of this machine have no {}; {otherwise}", unknown.join(" "));
        }
        run(
            as_root("env")?
                .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-q", "-y"])
                .arg("--no-install-recommends")
                .args(names),
            "read what apt says above, mend it, then try again",
        )
    }
}

/// Downloads a package into a directory and unpacks it there.
fn fetch(name: &str, into: &Path) -> Result<()> {
    run_silent(
        Command::new("apt-get")
            .args(["-o", "APT::Sandbox::User=root", "-qq", "download", name])
            .current_dir(into),
        "check the network and the package sources, then try again",
    )?;
    for entry in fs::read_dir(into)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            run_silent(Command::new("dpkg").arg("-x").arg(&path).arg(into), "is the disk full?")?;
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn is_installed(name: &str) -> bool {
    output_of(Command::new("dpkg-query").args(["-W", "-f=${Status}", name]))
        .is_some_and(|status| status == "install ok installed")
}

fn is_known(name: &str) -> bool {
    // `show` also answers for names that other packages merely mention; a version stands only with real ones.
    output_of(Command::new("apt-cache").args(["show", "--no-all-versions", name]))
        .is_some_and(|text| text.lines().any(|line| line.starts_with("Version:")))
}
