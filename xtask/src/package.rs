//! `cargo xtask package`: what is installed on hosts, as a package of Debian's and as a tarball.
//!
//! Both hold the same files, and the same sources give the same bytes: names are sorted, owners are numbers, and no time
//! is later than that of the last commit (or `SOURCE_DATE_EPOCH`). `dpkg-deb` is on every Debian; with it nothing has to be
//! built first.

mod life;
mod tree;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};

use crate::harness::SKIPPED;
use crate::util::{cargo, doing, exists, output_of, root, run, target_dir};
use tree::Tree;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where neither DEBFULLNAME nor DEBEMAIL says who packs.
const MAINTAINER: [&str; 2] = ["mcpwarden developers", "mcpwarden@mcpwarden.invalid"];

/// Packs the agent for installation: a .deb and a tarball.
#[derive(clap::Args)]
pub struct Args {
    /// Pack this program in place of a release build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the packages are put; target/package if this is not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Then pack once more and compare; install, upgrade, remove and purge it over a throwaway copy of this machine; lintian
    #[arg(long)]
    check: bool,
}

/// # Errors
/// A program is missing or failed, or a check did not hold.
pub fn package(args: &Args) -> Result<ExitCode> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let out = args.out.clone().unwrap_or_else(|| target_dir().join("package"));
    if args.check {
        check(&binary, &out)?.iter().for_each(|why| println!("{SKIPPED}packages: {why}"));
    } else {
        pack(&binary, &out, VERSION)?.iter().for_each(|path| println!("{}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Packs, and sees that both are the same when they are made again, that the package can be installed and removed, and that
/// lintian finds no error in it. Says what of that could not be looked at here.
///
/// # Errors
/// One of them is not so.
pub fn check(binary: &Path, out: &Path) -> Result<Vec<&'static str>> {
    let packed = pack(binary, out, VERSION)?;
    for (one, other) in packed.iter().zip(pack(binary, &out.join("again"), VERSION)?) {
        ensure!(
            fs::read(one)? == fs::read(&other)?,
            "{} and {} differ: `diffoscope` says where",
            one.display(),
            other.display()
        );
        println!("{}: the same when it is made again", one.display());
    }
    let [earlier, _] = pack(binary, &out.join("earlier"), "0.0.1")?;
    let [package, _] = &packed;
    life::check(&earlier, package)?;
    unpack(&packed, &out.join("unpacked"))?;
    lint(package)
}

/// Unpacks the tarball as docs/guide/install.md says: it holds what the package does, and its program runs.
fn unpack([package, tarball]: &[PathBuf; 2], into: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(into);
    fs::create_dir_all(into)?;
    let mut command = Command::new("tar");
    command
        .arg("-xzf")
        .arg(tarball)
        .arg("-C")
        .arg(into)
        .args(["--strip-components=1", "--keep-directory-symlink"]);
    run(&mut command, "see what tar says above")?;
    let listed =
        output_of(Command::new("dpkg-deb").arg("--contents").arg(package)).context("dpkg-deb failed")?;
    // `-rw-r--r-- 0/0 12 2026-11-24 10:00 ./usr/…`, for a link with ` -> ` and where to.
    let files =
        listed.lines().filter(|line| line.starts_with('-')).filter_map(|line| line.split(" ./").nth(1));
    let mut count = 0;
    for file in files {
        ensure!(into.join(file).is_file(), "{} lacks {file}", tarball.display());
        count += 1;
    }
    let said = output_of(Command::new(into.join("usr/bin/mcpwarden")).arg("--version")).unwrap_or_default();
    ensure!(said.trim() == format!("mcpwarden {VERSION}"), "the program of the tarball says {said:?}");
    println!("{}: holds the {count} files of the package, and its program runs", tarball.display());
    Ok(())
}

/// Holds the package against Debian's policy.
fn lint(package: &Path) -> Result<Vec<&'static str>> {
    if !exists("lintian") {
        return Ok(vec!["there is no lintian (apt install lintian)"]);
    }
    doing("looking for what Debian's policy has against it");
    // Nothing that this user has configured counts; all else that it says is advice.
    let mut command = Command::new("lintian");
    command.args(["--no-cfg", "--allow-root", "--fail-on", "error"]).arg(package);
    run(&mut command, "mend what lintian marks with E: above")?;
    Ok(Vec::new())
}

/// A release build in which no path of this machine stands.
fn build() -> Result<PathBuf> {
    let home = |variable, name| {
        let home = env::var_os(variable).map(PathBuf::from);
        home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(name))).context("HOME is not set")
    };
    let sources = home("CARGO_HOME", ".cargo")?.join("registry/src");
    let toolchains = home("RUSTUP_HOME", ".rustup")?.join("toolchains");
    let mut flags = vec![remap(&root(), "."), remap(&target_dir(), "target"), remap(&toolchains, "rust")];
    // Each registry has a directory of its own, which is named after its host.
    for registry in fs::read_dir(&sources).into_iter().flatten() {
        flags.push(remap(&registry?.path(), "registry"));
    }
    let target = target_dir().join("packaged");
    run(
        cargo()
            .args(["build", "--profile", "dist", "--locked", "-p", "mcpwarden", "--target-dir"])
            .arg(&target)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")),
        "mend what the compiler says above",
    )?;
    Ok(target.join("dist/mcpwarden"))
}

fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}

/// Makes the package and the tarball of a program in `out`.
fn pack(binary: &Path, out: &Path, version: &str) -> Result<[PathBuf; 2]> {
    for program in ["dpkg-deb", "strip", "gzip", "tar"] {
        ensure!(exists(program), "there is no {program}; on Debian: apt install binutils dpkg gzip tar");
    }
    let epoch = epoch();
    let tree = Tree::new(&out.join("tree"))?;
    tree.fill(binary, version, &epoch)?;

    let tarball = out.join(format!("mcpwarden-{version}-x86_64.tar.gz"));
    run(
        Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"])
            .arg(format!("--mtime=@{epoch}"))
            .arg(format!("--transform=s,^\\.,mcpwarden-{version},"))
            .args(["--use-compress-program=gzip -9n", "-cf"])
            .arg(&tarball)
            .arg("-C")
            .arg(tree.path())
            .arg("."),
        "is the disk full?",
    )?;

    let name = env::var("DEBFULLNAME").unwrap_or_else(|_| MAINTAINER[0].into());
    let mail = env::var("DEBEMAIL").unwrap_or_else(|_| MAINTAINER[1].into());
    tree.control(version, &format!("{name} <{mail}>"))?;
    let package = out.join(format!("mcpwarden_{version}_amd64.deb"));
    run(
        Command::new("dpkg-deb")
            // One thread: with several, the compressed bytes depend on how many.
            .args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"])
            .arg(tree.path())
            .arg(&package)
            .env("SOURCE_DATE_EPOCH", &epoch)
            .stdout(std::process::Stdio::null()),
        "see what dpkg-deb says above",
    )?;
    Ok([package, tarball])
}

/// Seconds since 1970 that files say at most.
fn epoch() -> String {
    let commit = || output_of(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()));
    env::var("SOURCE_DATE_EPOCH").ok().or_else(commit).unwrap_or_else(|| "0".to_owned())
}

/// The same for what is built for it. Gives what could not be looked at here.
///
/// # Errors
/// As [`check`].
pub fn check_built() -> Result<Vec<&'static str>> {
    if !exists("dpkg-deb") {
        return Ok(vec!["there is no dpkg-deb"]);
    }
    check(&build()?, &target_dir().join("package"))
}
