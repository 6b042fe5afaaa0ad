//! Packages of the distribution: only Debian's tools are known here; elsewhere the error says what to install.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::util::{as_root, done, exists, output_of, run, run_silent};

/// What the packages of Debian's archive are signed with.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

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
        Suite::own().unpack(names, into)
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
        let own = Suite::own();
        let unknown: Vec<&str> = names.iter().copied().filter(|name| !own.has(name)).collect();
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

/// What packages there are to be unpacked: those of this machine's lists, or of another suite of the archive that they come from.
pub struct Suite {
    /// What apt is told besides.
    options: Vec<String>,
}

impl Suite {
    /// Of this machine's own lists.
    pub fn own() -> Self {
        Self { options: vec!["-oAPT::Sandbox::User=root".to_owned()] }
    }

    /// Another suite, with lists of its own below `directory`: this machine's stay as they are. `None` where this machine has no
    /// packages of Debian's.
    ///
    /// # Errors
    /// The archive has no such suite, or cannot be reached.
    pub fn of_archive(name: &str, directory: &Path) -> Result<Option<Self>> {
        let format = ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"];
        let known = output_of(Command::new("apt-get").args(format)).unwrap_or_default();
        let Some(archive) = known.lines().find_map(|line| line.strip_prefix("Debian ")) else {
            return Ok(None);
        };
        let fail = || format!("cannot keep lists of packages in {}", directory.display());
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(directory.join(part)).with_context(fail)?;
        }
        let directory = directory.canonicalize().with_context(fail)?;
        let sources = directory.join("sources.list");
        fs::write(&sources, format!("deb [signed-by={KEYS}] {archive} {name} main\n")).with_context(fail)?;
        let mut suite = Self::own();
        let at = |option: &str, path: &Path| format!("-oDir::{option}={}", path.display());
        suite.options.extend([
            at("Etc::SourceList", &sources),
            at("Etc::SourceParts", Path::new("/dev/null")),
            at("State::Lists", &directory.join("lists")),
            at("Cache", &directory.join("cache")),
        ]);
        run_silent(
            suite.apt("apt-get").args(["-qq", "update"]),
            "check the network and whether the archive still has this suite, then try again",
        )?;
        Ok(Some(suite))
    }

    /// The names of packages that a regular expression matches.
    pub fn names(&self, pattern: &str) -> Vec<String> {
        let listed = output_of(self.apt("apt-cache").args(["search", "--names-only", pattern]));
        let names = listed.as_deref().unwrap_or_default().lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    }

    /// Unpacks packages below a directory; those that do not exist are left out.
    ///
    /// # Errors
    /// No network, or the disk is full.
    pub fn unpack(&self, names: &[&str], into: &Path) -> Result<()> {
        names.iter().filter(|name| self.has(name)).try_for_each(|name| self.fetch(name, into))
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options);
        command
    }

    fn has(&self, name: &str) -> bool {
        // `show` also answers for names that other packages merely mention; a version stands only with real ones.
        output_of(self.apt("apt-cache").args(["show", "--no-all-versions", name]))
            .is_some_and(|text| text.lines().any(|line| line.starts_with("Version:")))
    }

    /// Downloads a package into a directory and unpacks it there.
    fn fetch(&self, name: &str, into: &Path) -> Result<()> {
        run_silent(
            self.apt("apt-get").args(["-qq", "download", name]).current_dir(into),
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
}

fn is_installed(name: &str) -> bool {
    output_of(Command::new("dpkg-query").args(["-W", "-f=${Status}", name]))
        .is_some_and(|status| status == "install ok installed")
}
