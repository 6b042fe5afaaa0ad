//! The files of a package, as they lie on a host.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::util::{command_line, root, run};

const PROGRAM: &str = "usr/bin/mcpwarden";

/// What is copied as it is, from the checkout.
const FILES: [(&str, &str); 9] = [
    ("deploy/systemd/mcpwarden.service", "usr/lib/systemd/system/mcpwarden.service"),
    ("deploy/systemd/mcpwarden.sysusers", "usr/lib/sysusers.d/mcpwarden.conf"),
    ("deploy/systemd/mcpwarden.tmpfiles", "usr/lib/tmpfiles.d/mcpwarden.conf"),
    ("deploy/config.yaml", "etc/mcpwarden/config.yaml"),
    ("deploy/prometheus/mcpwarden.rules.yaml", "usr/share/mcpwarden/prometheus/mcpwarden.rules.yaml"),
    ("deploy/grafana/mcpwarden.json", "usr/share/mcpwarden/grafana/mcpwarden.json"),
    ("docs/reference/config.schema.json", "usr/share/mcpwarden/config.schema.json"),
    ("docs/reference/events.schema.json", "usr/share/mcpwarden/events.schema.json"),
    ("deploy/debian/copyright", "usr/share/doc/mcpwarden/copyright"),
];

/// What the program says of itself: arguments, and the file.
const SAID: [(&[&str], &str); 3] = [
    (&["completions", "bash"], "usr/share/bash-completion/completions/mcpwarden"),
    (&["completions", "zsh"], "usr/share/zsh/vendor-completions/_mcpwarden"),
    (&["completions", "fish"], "usr/share/fish/vendor_completions.d/mcpwarden.fish"),
];

/// What is copied as it is, whatever is in it: ends of names, and directories.
const DIRECTORIES: [(&str, &str, &str); 5] = [
    ("md", "docs", "usr/share/doc/mcpwarden"),
    ("md", "docs/guide", "usr/share/doc/mcpwarden/guide"),
    ("md", "docs/reference", "usr/share/doc/mcpwarden/reference"),
    ("md", "docs/internals", "usr/share/doc/mcpwarden/internals"),
    ("conf", "deploy/systemd/drop-ins", "usr/share/mcpwarden/systemd"),
];

/// Where manual pages are.
const PAGES: &str = "usr/share/man/man1";

/// A directory that is a host's root.
pub struct Tree(PathBuf);

impl Tree {
    /// An empty one in place of what was there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(path: &Path) -> Result<Self> {
        if path.exists() {
            fs::remove_dir_all(path).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        let tree = Self(path.to_owned());
        tree.directory(path)?;
        Ok(tree)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts everything there that both packages hold. `epoch`: the time of the change that is packed.
    ///
    /// # Errors
    /// A file is missing, or the program does not run here.
    pub fn fill(&self, binary: &Path, version: &str, epoch: &str) -> Result<()> {
        self.write(PROGRAM, &fs::read(binary).with_context(|| format!("no {}", binary.display()))?, 0o755)?;
        let program = self.0.join(PROGRAM);
        run(
            Command::new("strip").arg("--strip-unneeded").arg(&program),
            "is it a program for this machine?",
        )?;
        for (from, to) in FILES {
            self.write(to, &fs::read(root().join(from)).with_context(|| format!("no {from}"))?, 0o644)?;
        }
        for (arguments, to) in SAID {
            let text = output(Command::new(&program).args(arguments))?;
            self.write(to, &text, 0o644)?;
        }
        self.manual(&program)?;
        let date = output(
            Command::new("date").args(["-u", "-R", "-d"]).arg(format!("@{epoch}")).env("LC_ALL", "C"),
        )?;
        let [name, mail] = super::MAINTAINER;
        let changelog = format!(
            "mcpwarden ({version}) unstable; urgency=medium\n\n  * This version.\n\n -- {name} <{mail}>  {}",
            String::from_utf8_lossy(&date)
        );
        self.write("usr/share/doc/mcpwarden/changelog.gz", &gzip(changelog.as_bytes())?, 0o644)?;
        for (end, from, to) in DIRECTORIES {
            for file in fs::read_dir(root().join(from)).with_context(|| format!("no {from}"))? {
                let file = file?.path();
                let to = Path::new(to).join(file.file_name().unwrap_or_default());
                if file.extension().is_some_and(|found| found == end) {
                    self.write(&to.to_string_lossy(), &fs::read(&file)?, 0o644)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a page for each command there.
    fn manual(&self, program: &Path) -> Result<()> {
        let pages = self.0.join(PAGES);
        self.directory(&pages)?;
        output(Command::new(program).args(["man", "--to"]).arg(&pages))?;
        let plain: Vec<_> = fs::read_dir(&pages)?.collect::<Result<_, _>>()?;
        ensure!(!plain.is_empty(), "the program has written no manual page");
        for page in plain {
            let name = format!("{PAGES}/{}.gz", page.file_name().to_string_lossy());
            self.write(&name, &gzip(&fs::read(page.path())?)?, 0o644)?;
            fs::remove_file(page.path())?;
        }
        Ok(())
    }

    /// Puts there what only Debian's package holds.
    ///
    /// # Errors
    /// A file is missing.
    pub fn control(&self, version: &str, maintainer: &str) -> Result<()> {
        let deploy = root().join("deploy/debian");
        let program = fs::read(self.0.join(PROGRAM))?;
        let control = fs::read_to_string(deploy.join("control"))?
            .replace("@VERSION@", version)
            .replace("@MAINTAINER@", maintainer)
            .replace("@SIZE@", &(self.bytes(&self.0)? / 1024).to_string())
            .replace("@GLIBC@", &glibc(&program));
        let sums = self.sums()?;
        self.write("DEBIAN/control", control.as_bytes(), 0o644)?;
        self.write("DEBIAN/md5sums", &sums, 0o644)?;
        self.write("DEBIAN/conffiles", b"/etc/mcpwarden/config.yaml\n", 0o644)?;
        for script in ["postinst", "prerm", "postrm"] {
            self.write(&format!("DEBIAN/{script}"), &fs::read(deploy.join(script))?, 0o755)?;
        }
        Ok(())
    }

    /// Sums of all files, by which `dpkg --verify` finds what was changed.
    fn sums(&self) -> Result<Vec<u8>> {
        let script = "find . -type f ! -path './etc/*' -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum";
        output(Command::new("sh").args(["-c", script]).current_dir(&self.0))
    }

    fn bytes(&self, directory: &Path) -> Result<u64> {
        fs::read_dir(directory)?.try_fold(0, |sum, entry| {
            let entry = entry?;
            let is_directory = entry.file_type()?.is_dir();
            Ok(sum + if is_directory { self.bytes(&entry.path())? } else { entry.metadata()?.len() })
        })
    }

    fn write(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.0.join(path);
        self.directory(path.parent().unwrap_or(&self.0))?;
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    }

    /// Makes a directory that everybody may read, whatever the umask.
    fn directory(&self, path: &Path) -> Result<()> {
        if path.is_dir() && path != self.0 {
            return Ok(());
        }
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        for above in path.ancestors().take_while(|above| above.starts_with(&self.0)) {
            fs::set_permissions(above, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}

/// The latest version of the C library of which a program names something.
fn glibc(program: &[u8]) -> String {
    const MARK: &[u8] = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits = program[at + MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number: u32, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    };
    let places = program.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK);
    format!("2.{}", places.map(|(at, _)| minor(at)).max().unwrap_or(0))
}

/// Without name and time.
fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut child =
        Command::new("gzip").args(["-9nc"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    // From a thread: what gzip writes is not read until it has read everything.
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(content));
        let output = child.wait_with_output()?;
        let written = writer.join().map_err(|_| anyhow::anyhow!("gzip was not fed"))?;
        written.context("cannot feed gzip")?;
        ensure!(output.status.success(), "gzip failed");
        Ok(output.stdout)
    })
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let line = command_line(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(output.status.success(), "`{line}` failed ({})", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_glibc_version_is_detected() {
        for (program, version) in [
            (&b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0"[..], "2.34"),
            (b"GLIBC_2.", "2.0"),
            (b"GLIBC_PRIVATE", "2.0"),
            (b"", "2.0"),
        ] {
            assert_eq!(glibc(program), version);
        }
    }

    #[test]
    fn gzip_output_is_reproducible() -> Result<()> {
        let text = vec![b'x'; 1 << 20];
        assert_eq!(gzip(&text)?, gzip(&text)?);
        Ok(())
    }
}
