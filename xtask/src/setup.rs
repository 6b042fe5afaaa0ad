//! What building needs beyond a stable Rust: a nightly with its sources for the kernel half (`build-std`), and
//! a linker for BPF that is built on the same LLVM as that nightly.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::e2e;
use crate::packages::Packages;
use crate::util::{cargo, doing, done, output_of, run};

const BPF_LINKER_VERSION: &str = "0.13.0";

/// Runs every step that is not done yet.
///
/// # Errors
/// A step failed; the error shows its command and says what to do.
pub fn setup(tests: bool) -> Result<ExitCode> {
    let packages = Packages::default();
    build_tools(&packages)?;
    if tests {
        e2e::install(&packages)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn build_tools(packages: &Packages) -> Result<()> {
    nightly()?;
    nightly_sources()?;
    let llvm_major = nightly_llvm_major()?;
    llvm(packages, llvm_major)?;
    bpf_linker(llvm_major)
}

fn nightly() -> Result<()> {
    if output_of(Command::new("rustc").args(["+nightly", "--version"])).is_some() {
        done("nightly Rust");
        return Ok(());
    }
    doing("installing nightly Rust: the kernel half needs `-Z build-std`, which stable lacks");
    run(
        Command::new("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal"]),
        "rustup comes from https://rustup.rs; check the network, then try again",
    )
}

fn nightly_sources() -> Result<()> {
    let present = output_of(Command::new("rustc").args(["+nightly", "--print", "sysroot"]))
        .is_some_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/core").is_dir());
    if present {
        done("rust-src for nightly");
        return Ok(());
    }
    doing("adding rust-src to nightly: `core` is compiled from it for the BPF target");
    run(
        Command::new("rustup").args(["component", "add", "rust-src", "--toolchain", "nightly"]),
        "check the network, then try again",
    )
}

/// The nightly's LLVM: bpf-linker reads the bitcode that it writes, so both must be of one major version.
fn nightly_llvm_major() -> Result<u32> {
    let text = output_of(Command::new("rustc").args(["+nightly", "-vV"]))
        .context("`rustc +nightly -vV` failed; try `rustup toolchain install nightly`")?;
    text.lines()
        .find_map(|line| line.strip_prefix("LLVM version: ")?.split('.').next()?.parse().ok())
        .with_context(|| format!("`rustc +nightly -vV` names no LLVM version; it printed:\n{text}"))
}

fn llvm(packages: &Packages, major: u32) -> Result<()> {
    if has_bpf_linker() {
        // It is linked statically: LLVM's headers and archives were needed to build it only.
        done(&format!("LLVM {major} for bpf-linker"));
        return Ok(());
    }
    let (llvm, polly) = (format!("llvm-{major}-dev"), format!("libpolly-{major}-dev"));
    let wanted = packages.missing(&[&llvm, &polly, "libzstd-dev", "zlib1g-dev"]);
    if wanted.is_empty() {
        done(&format!("LLVM {major} for bpf-linker"));
        return Ok(());
    }
    doing(&format!(
        "installing {}: bpf-linker is built on the LLVM of the nightly, {major}",
        wanted.join(" ")
    ));
    packages.install(
        &wanted,
        &format!(
            "add the LLVM project's packages as https://apt.llvm.org says (`sudo bash llvm.sh {major}`), then try again"
        ),
    )
}

fn has_bpf_linker() -> bool {
    output_of(Command::new("bpf-linker").arg("--version"))
        .is_some_and(|text| text.split_whitespace().any(|word| word == BPF_LINKER_VERSION))
}

fn bpf_linker(llvm_major: u32) -> Result<()> {
    if has_bpf_linker() {
        done(&format!("bpf-linker {BPF_LINKER_VERSION}"));
        return Ok(());
    }
    doing(&format!("building bpf-linker {BPF_LINKER_VERSION} (a minute): it links the kernel half"));
    let prefix = format!("/usr/lib/llvm-{llvm_major}");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut with_llvm = std::ffi::OsString::from(format!("{prefix}/bin:"));
    with_llvm.push(&path);
    run(
        cargo()
            .args([
                "install",
                "bpf-linker",
                "--version",
                BPF_LINKER_VERSION,
                "--locked",
                "--no-default-features",
            ])
            .args(["--features", &format!("llvm-{llvm_major}"), "--force"])
            // The checkout's own target directory is not the place for somebody else's build.
            .env_remove("CARGO_TARGET_DIR")
            .env("LLVM_PREFIX", &prefix)
            .env("PATH", with_llvm),
        "check the network; if the linker cannot find LLVM, see that its packages above are installed",
    )
}
