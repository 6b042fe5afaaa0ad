//! Cgroups (v2) of a test's own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The root of the hierarchy.
///
/// # Errors
/// It is not mounted.
pub fn root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let root = fields.find(|fields| fields.get(2) == Some(&"cgroup2"));
    root.and_then(|fields| fields.get(1).map(PathBuf::from)).context("cgroup v2 is not mounted")
}

/// A cgroup that is gone with the test. It must be empty by then.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// One right below the root, with a name of this process's own.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Self> {
        Self::make(root()?.join(format!("mcpwarden-test-{}", std::process::id())))
    }

    /// One below this.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn below(&self, name: &str) -> Result<Self> {
        Self::make(self.0.join(name))
    }

    fn make(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
