//! What building needs beyond a stable Rust: a nightly with its sources for the kernel half (`build-std`), and
//! a linker for BPF that is built on the same LLVM as that nightly.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::e2e;
use crate::packages::Packages;
use crate::util::{cargo, doing, done, exists, output_of, run};

#[path = "../../agent/kernel/toolchain.rs"]
pub mod toolchain;

use toolchain::{LLVM_MAJOR, PINNED};

const BPF_LINKER_VERSION: &str = "0.13.0";
/// Installed where there is none; others will do.
const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// What a command needs on this machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// What building takes.
    Build,
    /// And what the tests of every commit take.
    Tests,
    /// And what all tests take.
    AllTests,
}

/// Runs every step that is not done yet.
///
/// # Errors
/// A step failed; the error shows its command and says what to do.
pub fn setup(needs: Needs) -> Result<ExitCode> {
    let packages = Packages::default();
    build_tools(&packages)?;
    if needs >= Needs::Tests {
        e2e::install(&packages)?;
    }
    if needs >= Needs::AllTests {
        cargo_fuzz()?;
        e2e::install_more(&packages)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn build_tools(packages: &Packages) -> Result<()> {
    let nightly = nightly()?;
    nightly_sources(nightly)?;
    llvm(packages)?;
    bpf_linker()
}

/// Gives the name of the nightly.
fn nightly() -> Result<&'static str> {
    if let Some(name) = toolchain::installed() {
        done(&format!("nightly Rust with LLVM {LLVM_MAJOR} ({name})"));
        return Ok(name);
    }
    doing(&format!("installing {PINNED}: the kernel half needs `-Z build-std`, which stable Rust lacks"));
    run(
        Command::new("rustup").args(["toolchain", "install", PINNED, "--profile", "minimal"]),
        "rustup comes from https://rustup.rs; check the network, then try again",
    )?;
    Ok(PINNED)
}

fn nightly_sources(nightly: &str) -> Result<()> {
    let present = output_of(Command::new("rustup").args(["run", nightly, "rustc", "--print", "sysroot"]))
        .is_some_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/core").is_dir());
    if present {
        done(&format!("rust-src for {nightly}"));
        return Ok(());
    }
    doing(&format!("adding rust-src to {nightly}: `core` is compiled from it for the BPF target"));
    run(
        Command::new("rustup").args(["component", "add", "rust-src", "--toolchain", nightly]),
        "check the network, then try again",
    )
}

fn llvm(packages: &Packages) -> Result<()> {
    if has_bpf_linker() {
        // It is linked statically: LLVM's headers and archives were needed to build it only.
        done(&format!("LLVM {LLVM_MAJOR} for bpf-linker"));
        return Ok(());
    }
    let (llvm, polly) = (format!("llvm-{LLVM_MAJOR}-dev"), format!("libpolly-{LLVM_MAJOR}-dev"));
    let wanted = packages.missing(&[&llvm, &polly, "libzstd-dev", "zlib1g-dev"]);
    if wanted.is_empty() {
        done(&format!("LLVM {LLVM_MAJOR} for bpf-linker"));
        return Ok(());
    }
    doing(&format!(
        "installing {}: bpf-linker is built on the LLVM of the nightly, {LLVM_MAJOR}",
        wanted.join(" ")
    ));
    packages.install(
        &wanted,
        &format!(
            "add the LLVM project's packages as https://apt.llvm.org says (`sudo bash llvm.sh {LLVM_MAJOR}`), then try again"
        ),
    )
}

fn has_bpf_linker() -> bool {
    output_of(Command::new("bpf-linker").arg("--version"))
        .is_some_and(|text| text.split_whitespace().any(|word| word == BPF_LINKER_VERSION))
}

fn bpf_linker() -> Result<()> {
    if has_bpf_linker() {
        done(&format!("bpf-linker {BPF_LINKER_VERSION}"));
        return Ok(());
    }
    doing(&format!("building bpf-linker {BPF_LINKER_VERSION} (a minute): it links the kernel half"));
    let prefix = format!("/usr/lib/llvm-{LLVM_MAJOR}");
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
            .args(["--features", &format!("llvm-{LLVM_MAJOR}"), "--force"])
            // The checkout's own target directory is not the place for somebody else's build.
            .env_remove("CARGO_TARGET_DIR")
            .env("LLVM_PREFIX", &prefix)
            .env("PATH", with_llvm),
        "check the network; if the linker cannot find LLVM, see that its packages above are installed",
    )
}

fn cargo_fuzz() -> Result<()> {
    if exists("cargo-fuzz") {
        done("cargo-fuzz");
        return Ok(());
    }
    doing(&format!(
        "building cargo-fuzz {CARGO_FUZZ_VERSION} (2 to 3 minutes): the tests put any input through what reads input"
    ));
    run(
        cargo()
            .args(["install", "cargo-fuzz", "--version", CARGO_FUZZ_VERSION, "--locked"])
            .env_remove("CARGO_TARGET_DIR"),
        "check the network, then try again",
    )
}
