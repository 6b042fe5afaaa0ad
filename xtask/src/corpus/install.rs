//! Installs a pinned package without running anything of it, and compares its archive with the table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::table::{Package, Registry};
use crate::util::run;

const CHECK_NETWORK: &str = "check the network, and whether the registry still has this version";
/// The interpreter of the system: the sandbox contains `/usr`, and nobody's home.
const PYTHON: &str = "/usr/bin/python3";

/// Installs a package below `all`, and returns its directory. One that is there already stays as it is.
///
/// # Errors
/// The registry lacks the package, or has another archive than the table.
pub fn install(package: &Package, all: &Path) -> Result<PathBuf> {
    fs::create_dir_all(all).with_context(|| format!("cannot create {}", all.display()))?;
    let all = all.canonicalize().with_context(|| format!("cannot find {}", all.display()))?;
    let directory = all.join(package.slug());
    let stamp = directory.join(".made-from");
    let made_from = format!("{} {}", package.version, package.integrity);
    if fs::read_to_string(&stamp).is_ok_and(|text| text == made_from) {
        return Ok(directory);
    }
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let found = match package.registry {
        Registry::Npm => npm(package, &directory)?,
        Registry::PyPi => pypi(package, &directory)?,
    };
    ensure!(
        found == package.integrity,
        "the registry has another archive of {} {}: {found}, in the table {}",
        package.name,
        package.version,
        package.integrity
    );
    fs::write(&stamp, made_from).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(directory)
}

fn npm(package: &Package, directory: &Path) -> Result<String> {
    fs::write(directory.join("package.json"), r#"{"private": true}"#)?;
    run(
        Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--silent"])
            .arg(format!("{}@{}", package.name, package.version))
            .current_dir(directory),
        CHECK_NETWORK,
    )?;
    let lock = read(&directory.join("package-lock.json"))?;
    let of = format!("node_modules/{}", package.name);
    Ok(lock["packages"][of]["integrity"].as_str().unwrap_or_default().to_owned())
}

fn pypi(package: &Package, directory: &Path) -> Result<String> {
    run(Command::new(PYTHON).args(["-m", "venv"]).arg(directory), "install python3-venv, then try again")?;
    let report = directory.join("report.json");
    run(
        Command::new(directory.join("bin/pip"))
            // A source archive would run its own code.
            .args(["install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--report"])
            .arg(&report)
            .arg(format!("{}=={}", package.name, package.version)),
        CHECK_NETWORK,
    )?;
    let report = read(&report)?;
    let installed = report["install"].as_array().into_iter().flatten();
    let requested = installed.filter(|entry| entry["requested"] == true);
    let hash = requested
        .filter_map(|entry| entry["download_info"]["archive_info"]["hashes"]["sha256"].as_str())
        .next()
        .unwrap_or_default();
    Ok(format!("sha256={hash}"))
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
}
