//! Kernels of the distribution: its cloud images, unpacked below the target directory and never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::packages::{Packages, Suite};
use crate::util::{doing, done, exists};

/// Where kernels are that are newer than any of this machine's release.
const LATER: &str = "trixie-backports";

/// An unpacked kernel.
pub struct Kernel {
    /// As `uname -r` says it.
    pub version: String,
    directory: PathBuf,
}

impl Kernel {
    /// The newest cloud kernel of a series (`6.12`) that the distribution has; unpacked below `cache` if it is not yet. Without
    /// package lists, the newest that is unpacked already; of a series that this release has none of, one of [`LATER`].
    /// `None` where the distribution has none.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub fn newest(series: &str, packages: &Packages, cache: &Path) -> Result<Option<Self>> {
        let pattern = format!(r"^linux-image-{}\.[0-9].*-cloud-amd64$", series.replace('.', r"\."));
        let listed = Suite::own().names(&pattern);
        let unpacked = fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let prefix = format!("linux-image-{series}.");
        let unpacked =
            unpacked.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(&prefix));
        let newest = |names: &mut dyn Iterator<Item = String>| names.max_by_key(|name| numbers(name));
        let mut name = newest(&mut listed.into_iter().chain(unpacked));
        let later = if name.is_none() { Suite::of_archive(LATER, &cache.join("later"))? } else { None };
        if let Some(later) = &later {
            name = newest(&mut later.names(&pattern).into_iter());
        }
        let Some(name) = name else { return Ok(None) };
        let directory = cache.join(&name);
        if !directory.join("boot").is_dir() {
            doing(&format!("unpacking {name} below the target directory (30 to 50 MB)"));
            fs::create_dir_all(&directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
            // From 7.0 on the kernel and its modules are packages of their own.
            let parts = ["linux-binary", "linux-modules"].map(|part| name.replace("linux-image", part));
            let parts = [&name, &parts[0], &parts[1]].map(String::as_str);
            match later {
                Some(later) => later.unpack(&parts, &directory)?,
                None => packages.unpack(&parts, &directory)?,
            }
        } else {
            done(&name);
        }
        let version = name.trim_start_matches("linux-image-").to_owned();
        let kernel = Self { version, directory };
        if !kernel.image().is_file() {
            bail!(
                "{name} holds no {}; remove {} and try again",
                kernel.image().display(),
                kernel.directory.display()
            );
        }
        Ok(Some(kernel))
    }

    /// What QEMU boots.
    pub fn image(&self) -> PathBuf {
        self.directory.join("boot").join(format!("vmlinuz-{}", self.version))
    }

    /// The bytes of a module; `None` where it is built in. `name`: below `kernel/`, without an ending.
    ///
    /// # Errors
    /// It is there and cannot be read or unpacked.
    pub fn module(&self, name: &str) -> Result<Option<Vec<u8>>> {
        // Below /usr from Debian 13 on.
        let at = |root: &str| self.directory.join(root).join(&self.version).join("kernel");
        let [old, new] = ["lib/modules", "usr/lib/modules"].map(at);
        let path = if new.is_dir() { new } else { old }.join(name);
        let plain = path.with_extension("ko");
        if plain.is_file() {
            return fs::read(&plain).map(Some).with_context(|| format!("cannot read {}", plain.display()));
        }
        let packed = path.with_extension("ko.xz");
        if !packed.is_file() {
            return Ok(None);
        }
        if !exists("xz") {
            bail!("{} has to be unpacked and there is no xz; install xz-utils", packed.display());
        }
        let output = Command::new("xz").arg("-dc").arg(&packed).output().context("cannot run xz")?;
        if !output.status.success() {
            bail!("`xz -dc {}` failed ({})", packed.display(), output.status);
        }
        Ok(Some(output.stdout))
    }
}

/// The numbers in a name, by which versions are in order.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|character: char| !character.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_kernel_is_chosen_by_numeric_version() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-47-cloud-amd64",
        ];
        assert_eq!(names.iter().max_by_key(|name| numbers(name)), Some(&names[1]));
    }
}
