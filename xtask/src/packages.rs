//! Packages of the distribution: only Debian's tools are known here; elsewhere the error says what to install.

use std::cell::Cell;
use std::process::Command;

use anyhow::{Result, bail};

use crate::util::{as_root, exists, output_of, run};

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

    /// Installs `names`; `otherwise` says what to do where a package does not exist.
    ///
    /// # Errors
    /// No apt-get, no root, no network, or no such package.
    pub fn install(&self, names: &[&str], otherwise: &str) -> Result<()> {
        let list = names.join(" ");
        if !exists("apt-get") {
            bail!("{list} cannot be installed: there is no apt-get here; install what corresponds by hand");
        }
        if !self.lists_are_fresh.replace(true) {
            run(
                as_root("apt-get")?.args(["update", "-q"]),
                "check the network and the package sources, then try again",
            )?;
        }
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

fn is_installed(name: &str) -> bool {
    output_of(Command::new("dpkg-query").args(["-W", "-f=${Status}", name]))
        .is_some_and(|status| status == "install ok installed")
}

fn is_known(name: &str) -> bool {
    // `show` also answers for names that other packages merely mention; a version stands only with real ones.
    output_of(Command::new("apt-cache").args(["show", "--no-all-versions", name]))
        .is_some_and(|text| text.lines().any(|line| line.starts_with("Version:")))
}
