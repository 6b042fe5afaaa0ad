//! The real MCP servers and the official clients that the end-to-end tests drive, in versions that
//! `tests/requirements.txt` and `tests/package-lock.json` pin, installed below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::packages::Packages;
use crate::util::{cargo, doing, done, exists, output_of, root, run_silent, target_dir};

/// The oldest Node.js that the TypeScript SDK supports.
const NODE_MAJOR_MIN: u32 = 18;

/// Where the servers and clients are: `venv/` and `node/`.
pub fn directory() -> PathBuf {
    target_dir().join("e2e")
}

/// Installs what is missing.
///
/// # Errors
/// A step failed; the error shows its command and says what to do.
pub fn install(packages: &Packages) -> Result<()> {
    interpreters(packages)?;
    let directory = directory();
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    python_servers(&directory.join("venv"))?;
    node_servers(&directory.join("node"))?;
    promtool(packages, &directory.join("prometheus"))
}

/// Installs what only some of all tests need: a container engine, the Rust SDK, and what looks at packages.
///
/// # Errors
/// As [`install`].
pub fn install_more(packages: &Packages) -> Result<()> {
    lintian(packages)?;
    rust_sdk(&directory().join("rust"))?;
    go_client(&directory().join("go"))?;
    docker(packages, &directory().join("docker"))
}

/// A client and a server of the official Rust SDK, which `tests/clients/rust/Cargo.lock` pins.
fn rust_sdk(directory: &Path) -> Result<()> {
    let sources = root().join("tests/clients/rust");
    let all = ["Cargo.toml", "Cargo.lock", "src/main.rs"].map(|name| sources.join(name));
    let stamp = Stamp::new(directory, &[&all[0], &all[1], &all[2]])?;
    if stamp.is_current() {
        done("Rust MCP SDK");
        return Ok(());
    }
    doing("building a client and a server of the Rust MCP SDK (a minute): the tests drive them");
    run_silent(
        cargo()
            .args(["build", "--quiet", "--locked", "--manifest-path"])
            .arg(&all[0])
            .arg("--target-dir")
            .arg(directory)
            .env_remove("CARGO_TARGET_DIR"),
        "check the network, then try again",
    )?;
    stamp.write()
}

/// A client in Go, with the compiler of `tests/clients/go/requirements.txt`, which is not kept.
fn go_client(directory: &Path) -> Result<()> {
    let sources = root().join("tests/clients/go");
    let all = ["requirements.txt", "go.mod", "main.go"].map(|name| sources.join(name));
    let stamp = Stamp::new(directory, &[&all[0], &all[1], &all[2]])?;
    if stamp.is_current() {
        done("client in Go");
        return Ok(());
    }
    doing("building a client in Go (70 MB to download, half a minute): the tests drive it");
    remove(directory)?;
    let compiler = directory.join("compiler");
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    run_silent(
        Command::new("python3").args(["-m", "venv"]).arg(&compiler),
        "install python3-venv, then try again",
    )?;
    let advice = "check the network, then try again";
    run_silent(
        Command::new(compiler.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"])
            .arg(&all[0]),
        advice,
    )?;
    run_silent(
        Command::new(compiler.join("bin/go"))
            // As it is published: without symbols.
            .args(["build", "-ldflags=-s -w", "-o"])
            .arg(directory.join("over_tls"))
            .arg(".")
            .current_dir(&sources)
            .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", "-buildvcs=false")])
            .env("GOCACHE", compiler.join("cache"))
            .env("GOPATH", compiler.join("path")),
        advice,
    )?;
    remove(&compiler)?;
    stamp.write()
}

/// One program of the package, without the server that it would start.
fn promtool(packages: &Packages, directory: &Path) -> Result<()> {
    let tool = directory.join("promtool");
    if exists("promtool") || tool.exists() {
        done("promtool");
        return Ok(());
    }
    doing("unpacking promtool (25 MB to download): the tests have it look at metrics and alerts");
    remove(directory)?;
    let root = directory.join("root");
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    packages.unpack(&["prometheus"], &root)?;
    let unpacked = root.join("usr/bin/promtool");
    if unpacked.exists() {
        fs::rename(&unpacked, &tool).with_context(|| format!("cannot move {}", unpacked.display()))?;
    }
    remove(&root)
}

/// Where the package is built that it looks at; elsewhere nothing is missing.
fn lintian(packages: &Packages) -> Result<()> {
    if exists("lintian") {
        done("lintian");
        return Ok(());
    }
    if !exists("apt-get") || !exists("dpkg-deb") {
        done("nothing for lintian to look at: there is no dpkg here");
        return Ok(());
    }
    doing("installing lintian: the tests have it look at the package");
    packages.install(&["lintian"], "install lintian by hand, then try again")
}

/// Unpacked, not installed: nobody gets a daemon for having run the tests.
fn docker(packages: &Packages, directory: &Path) -> Result<()> {
    let root = directory.join("root");
    if root.join("usr/sbin/dockerd").exists() {
        done("Docker, unpacked");
        return Ok(());
    }
    doing("unpacking Docker below the target directory (60 MB): a test runs a server in a container");
    remove(directory)?;
    fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
    // The last two are one package on Debian 12; what is looked for above is in the very last.
    let names = ["libdevmapper1.02.1", "libseccomp2", "runc", "containerd", "docker-cli", "docker.io"];
    packages.unpack(&names, &root)
}

fn interpreters(packages: &Packages) -> Result<()> {
    let has_venv = output_of(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_some();
    let has_node = exists("node") && exists("npm");
    // The Git server starts git and the tests make a repository for it.
    let wanted: Vec<&str> = [
        (has_venv, &["python3", "python3-venv"][..]),
        (has_node, &["nodejs", "npm"][..]),
        (exists("git"), &["git"][..]),
    ]
    .into_iter()
    .filter(|(present, _)| !present)
    .flat_map(|(_, names)| names.iter().copied())
    .collect();
    if wanted.is_empty() {
        done("Python with venv, Node.js with npm, git");
    } else {
        doing(&format!(
            "installing {}: the real servers of the end-to-end tests need them",
            wanted.join(" ")
        ));
        packages.install(&wanted, "install Python 3, Node.js and git by hand, then try again")?;
    }
    let version = output_of(Command::new("node").arg("--version")).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MAJOR_MIN) {
        bail!(
            "Node.js {version} is too old: the MCP SDK needs {NODE_MAJOR_MIN}; install a newer one from nodejs.org"
        );
    }
    Ok(())
}

fn python_servers(venv: &Path) -> Result<()> {
    let requirements = root().join("tests/requirements.txt");
    let stamp = Stamp::new(venv, &[&requirements])?;
    if stamp.is_current() {
        done("Python MCP SDK and servers");
        return Ok(());
    }
    doing("installing the Python MCP SDK and servers (half a minute): the tests drive real ones");
    remove(venv)?;
    run_silent(
        Command::new("python3").args(["-m", "venv"]).arg(venv),
        "install python3-venv, then try again",
    )?;
    run_silent(
        Command::new(venv.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"])
            .arg(&requirements),
        "check the network, then try again",
    )?;
    stamp.write()
}

fn node_servers(directory: &Path) -> Result<()> {
    let sources = ["package.json", "package-lock.json"].map(|name| root().join("tests").join(name));
    let stamp = Stamp::new(directory, &[&sources[0], &sources[1]])?;
    if stamp.is_current() {
        done("TypeScript MCP SDK and servers");
        return Ok(());
    }
    doing("installing the TypeScript MCP SDK and servers (some seconds): the tests drive real ones");
    remove(directory)?;
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for source in &sources {
        let name = source.file_name().context("a source file has a name")?;
        fs::copy(source, directory.join(name))
            .with_context(|| format!("cannot copy {} to {}", source.display(), directory.display()))?;
    }
    run_silent(
        // No package here needs its install scripts, and what is not run cannot do harm.
        Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(directory),
        "check the network, then try again",
    )?;
    stamp.write()
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}; remove it by hand", directory.display()))
        }
        _ => Ok(()),
    }
}

/// A file that tells what a directory was made from.
struct Stamp {
    path: PathBuf,
    digest: String,
}

impl Stamp {
    fn new(directory: &Path, sources: &[&Path]) -> Result<Self> {
        let mut hasher = Sha256::new();
        for source in sources {
            let bytes = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
            hasher.update(bytes);
        }
        // A directory of another path is another one: a venv carries its path in every script.
        hasher.update(directory.as_os_str().as_encoded_bytes());
        let digest = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path: directory.join(".made-from"), digest })
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text == self.digest)
    }

    fn write(&self) -> Result<()> {
        fs::write(&self.path, &self.digest).with_context(|| format!("cannot write {}", self.path.display()))
    }
}
