//! A container engine of the test's own: Docker, from packages that are unpacked and not installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::peer::wait_until;
use crate::places;

/// Where `cargo xtask setup --tests` unpacks the packages.
fn unpacked() -> PathBuf {
    places::real_servers().join("docker/root")
}

/// A running daemon, with all that it keeps below a directory that goes with it.
pub struct Docker {
    daemon: Child,
    directory: TempDir,
}

impl Docker {
    /// Starts the daemon, without networks; `None` where it was not unpacked.
    ///
    /// # Errors
    /// It does not start; the error ends with what it logged.
    pub fn start() -> Result<Option<Self>> {
        if !unpacked().join("usr/sbin/dockerd").exists() {
            return Ok(None);
        }
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let place = |name: &str| directory.path().join(name);
        let log = fs::File::create(place("log")).context("cannot create a log")?;
        let daemon = Self::command("usr/sbin/dockerd")
            .args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs"])
            .arg("--data-root")
            .arg(place("data"))
            .arg("--exec-root")
            .arg(place("exec"))
            .arg("--pidfile")
            .arg(place("pid"))
            .arg("-H")
            .arg(format!("unix://{}", place("socket").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start dockerd")?;
        let docker = Self { daemon, directory };
        let answers = || docker.docker().arg("version").output().is_ok_and(|output| output.status.success());
        wait_until("the Docker daemon", answers)
            .with_context(|| fs::read_to_string(docker.directory.path().join("log")).unwrap_or_default())?;
        Ok(Some(docker))
    }

    /// A program of the packages, which finds the others and its libraries.
    fn command(program: &str) -> Command {
        let root = unpacked();
        let below = |places: &[&str]| {
            places.iter().map(|place| root.join(place).display().to_string()).collect::<Vec<_>>().join(":")
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(root.join(program));
        let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
        command
            .env("PATH", format!("{}:{path}", below(&["usr/bin", "usr/sbin"])))
            .env("LD_LIBRARY_PATH", below(&libraries));
        command
    }

    fn client(&self) -> [String; 3] {
        let socket = self.directory.path().join("socket");
        let program = unpacked().join("usr/bin/docker");
        [program.display().to_string(), "--host".to_owned(), format!("unix://{}", socket.display())]
    }

    fn docker(&self) -> Command {
        let [program, option, socket] = self.client();
        let mut command = Command::new(program);
        command.args([option, socket]);
        command
    }

    /// Makes an image with nothing in it but this program and the libraries that it needs.
    ///
    /// # Errors
    /// A file cannot be copied, or the import fails.
    pub fn image(&self, name: &str, program: &Path) -> Result<()> {
        let root = self.directory.path().join("image");
        let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
        fs::create_dir_all(root.join("usr/lib"))?;
        fs::create_dir_all(root.join("usr/lib64"))?;
        symlink("usr/lib", root.join("lib"))?;
        symlink("usr/lib64", root.join("lib64"))?;
        for file in libraries.chain([program]) {
            let place = if file == program { Path::new("weather") } else { file.strip_prefix("/")? };
            let place = root.join(place);
            place.parent().map(fs::create_dir_all).transpose()?;
            fs::copy(file, &place).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        let tar = Command::new("tar").arg("-C").arg(&root).args(["-c", "."]).stdout(Stdio::piped()).spawn();
        let mut tar = tar.context("cannot run tar")?;
        let archive = tar.stdout.take().context("tar has no output")?;
        let imported = self.docker().args(["import", "-", name]).stdin(archive).output()?;
        tar.wait()?;
        ensure!(imported.status.success(), "docker import: {}", String::from_utf8_lossy(&imported.stderr));
        Ok(())
    }

    /// The command that runs the program of such an image as a stdio server.
    ///
    /// # Errors
    /// The limits of this process cannot be read.
    pub fn run(&self, image: &str) -> Result<Vec<String>> {
        // By default more is asked for than this machine may allow.
        let (_, files) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let limit = format!("nofile={files}:{files}");
        let words = ["run", "--rm", "-i", "--network", "none", "--ulimit", &limit, image, "/weather"];
        Ok(self.client().into_iter().chain(words.map(str::to_owned)).collect())
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.daemon.id() as i32), Signal::SIGTERM);
        let _ = self.daemon.wait();
    }
}
