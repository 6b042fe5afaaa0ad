//! The unit and its drop-ins, as systemd reads them: nothing is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use mcpwarden_tests::places;

/// The version in which `security --offline` came.
const OFFLINE: u32 = 250;
/// That in which `Type=notify-reload` came.
const NOTIFY_RELOAD: u32 = 253;
/// That by which docs/guide/install.md says how exposed the service is, and how exposed it may be by any. Tenths are written
/// without a point.
const DOCUMENTED: u32 = 252;
const MOST: &str = "--threshold=35";

fn root() -> PathBuf {
    places::sources().join("..")
}

fn analyze(args: &[&str], unit: &Path) -> Result<Output> {
    let mut command = Command::new("systemd-analyze");
    let command = command.args(args).arg(unit).env("LC_ALL", "C.UTF-8").env("SYSTEMD_COLORS", "0");
    command.output().context("cannot start systemd-analyze")
}

/// Which systemd is here, if it can do what is asked of it.
fn version(test: &str) -> Option<u32> {
    let output = Command::new("systemd-analyze").arg("--version").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = text.as_deref().and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
    match version {
        Some(version) if version >= OFFLINE => return Some(version),
        Some(version) => places::skipped(test, &format!("systemd {version} cannot analyze units offline")),
        None => places::skipped(test, "there is no systemd-analyze (apt install systemd)"),
    }
    None
}

/// Name and text of each drop-in.
fn drop_ins() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("deploy/systemd/drop-ins"))? {
        let entry = entry?;
        found.push((entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?));
    }
    ensure!(found.len() > 4, "{found:?}");
    Ok(found)
}

#[test]
fn service_exposure_level_matches_the_documentation() -> Result<()> {
    let Some(version) = version("service_exposure_level_matches_the_documentation") else { return Ok(()) };
    let unit = root().join("deploy/systemd/mcpwarden.service");
    let output = analyze(&["security", "--offline=yes", "--no-pager", MOST], &unit)?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let level = said.lines().find_map(|line| line.split_once("mcpwarden.service: ")).map(|(_, rest)| rest);
    let level = level.and_then(|rest| rest.split(' ').next()).with_context(|| said.to_string())?;
    let page = fs::read_to_string(root().join("docs/guide/install.md"))?;
    let documented = format!("**{level}** (systemd {DOCUMENTED};");
    ensure!(
        version != DOCUMENTED || page.contains(&documented),
        "docs/guide/install.md does not say {documented}"
    );
    Ok(())
}

#[test]
fn systemd_accepts_the_unit_with_each_drop_in() -> Result<()> {
    let Some(version) = version("systemd_accepts_the_unit_with_each_drop_in") else { return Ok(()) };
    let unit = fs::read_to_string(root().join("deploy/systemd/mcpwarden.service"))?;
    // What is started must be there.
    let unit = unit.replace("/usr/bin/mcpwarden", &places::agent().canonicalize()?.display().to_string());
    let unchanged = ("none".to_owned(), String::new());
    for (name, text) in drop_ins()?.into_iter().chain([unchanged]) {
        if text.contains("Type=notify-reload") && version < NOTIFY_RELOAD {
            places::skipped(&name, &format!("systemd {version} does not know notify-reload"));
            continue;
        }
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("mcpwarden.service");
        let beside = directory.path().join("mcpwarden.service.d");
        fs::create_dir(&beside)?;
        fs::write(&path, &unit)?;
        fs::write(beside.join("feature.conf"), &text)?;
        let output = analyze(&["verify", "--man=no"], &path)?;
        // It warns, and ends with 0, of lines that it does not understand.
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && said.is_empty(), "{name}: {:?} {said}", output.status);
    }
    Ok(())
}

/// Each has its row in docs/guide/install.md, which has the lines of it.
#[test]
fn each_drop_in_is_documented() -> Result<()> {
    let page = fs::read_to_string(root().join("docs/guide/install.md"))?;
    for (name, text) in drop_ins()? {
        let row = page.lines().find(|line| line.contains(&format!("| `{name}` |")));
        let row = row.with_context(|| format!("{name} is not in docs/guide/install.md"))?;
        let lines = text.lines().filter(|line| !line.starts_with(['#', '[']) && !line.is_empty());
        for line in lines {
            let (key, value) = line.split_once('=').with_context(|| format!("{name}: {line}"))?;
            // A path that need not be there.
            let said = format!("`{key}={}`", value.trim_start_matches('-'));
            ensure!(row.contains(&said), "{name}: {said} is not in: {row}");
        }
    }
    Ok(())
}
