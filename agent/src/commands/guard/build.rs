//! `guard build`: a component of the files of a guard, with the tools of their language.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use mcpwarden_wasm::{Guard, Limits, Runtime, RuntimeOptions, WasmConfig};

use crate::{
    cli::GuardBuild,
    output::{escaped, print_error, print_line},
};

/// Builds the guard in a directory, and checks that it is one.
///
/// # Errors
/// The directory holds no guard, a tool is missing or fails, or what it builds is no guard.
pub fn run(options: &GuardBuild) -> Result<()> {
    let directory = fs::canonicalize(&options.directory)
        .with_context(|| format!("cannot read {}", options.directory.display()))?;
    let has = |file: &str| directory.join(file).is_file();
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or("guard").to_owned();
    let built = if has("Cargo.toml") {
        rust(&directory)?
    } else if has("package.json") {
        javascript(&directory)?
    } else if has("app.py") {
        python(&directory, &name)?
    } else {
        bail!(
            "{} holds no guard: no Cargo.toml, package.json or app.py; `mcpwarden guard new` makes one",
            escaped(&directory.display().to_string())
        );
    };
    let component = directory.join(format!("{name}.wasm"));
    if built != component {
        fs::copy(&built, &component).with_context(|| format!("cannot copy {}", built.display()))?;
    }
    let bytes = fs::read(&component).with_context(|| format!("cannot read {}", component.display()))?;
    let runtime = Runtime::new(RuntimeOptions::default())?;
    let guard = Guard::load(&runtime, &name, &bytes, WasmConfig::default(), Limits::default())?;
    print_line(format!(
        "{}: {} bytes, sha256:{}",
        escaped(&component.display().to_string()),
        bytes.len(),
        guard.sha256()
    ));
    Ok(())
}

fn rust(directory: &Path) -> Result<PathBuf> {
    const TARGET: &str = "wasm32-wasip2";
    let build = Command::new("cargo")
        .args(["build", "--release", "--target", TARGET])
        .current_dir(directory)
        .status();
    let hint = "install Rust with rustup, and `rustup target add wasm32-wasip2`";
    done("cargo", build, hint)?;
    let output = directory.join("target").join(TARGET).join("release");
    newest(&output).with_context(|| format!("cargo left no .wasm file in {}", output.display()))
}

fn javascript(directory: &Path) -> Result<PathBuf> {
    let hint = "install Node.js 20 or newer";
    if !directory.join("node_modules").is_dir() {
        let install =
            Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(directory).status();
        done("npm install", install, hint)?;
    }
    let build = Command::new("npm").args(["run", "--silent", "build"]).current_dir(directory).status();
    done("npm run build", build, hint)?;
    newest(directory).context("the build left no .wasm file")
}

fn python(directory: &Path, name: &str) -> Result<PathBuf> {
    let hint = "install Python 3.10 or newer with venv";
    let tools = directory.join(".venv");
    if !tools.join("bin/componentize-py").is_file() {
        done("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&tools).status(), hint)?;
        let install = Command::new(tools.join("bin/pip"))
            .args(["install", "--quiet", "--requirement", "requirements.txt"])
            .current_dir(directory)
            .status();
        done("pip install", install, hint)?;
    }
    let output = directory.join(format!("{name}.wasm"));
    let build = Command::new(tools.join("bin/componentize-py"))
        .args(["-d", "wit", "-w", "security-guard", "componentize", "app", "-o"])
        .arg(&output)
        .current_dir(directory)
        .status();
    done("componentize-py", build, hint)?;
    Ok(output)
}

/// That a tool did its work.
fn done(tool: &str, status: std::io::Result<std::process::ExitStatus>, hint: &str) -> Result<()> {
    let status = status.with_context(|| format!("cannot run {tool}: {hint}"))?;
    if !status.success() {
        print_error(format!("hint: {hint}"));
    }
    ensure!(status.success(), "{tool} failed");
    Ok(())
}

/// The newest component in a directory.
fn newest(directory: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(directory).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let components = files.filter(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    components.max_by_key(|path| fs::metadata(path).and_then(|file| file.modified()).ok())
}
